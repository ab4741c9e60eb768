#include "analyzer/findings/batch.h"

#include <fmt/format.h>

#include "analyzer/models/run_facts.h"
#include "analyzer/query.h"

namespace ddl {

std::optional<Batch> batch_of(const FindingInput& input) {
  if (!input.steps.annotated || input.step_ns <= 0) return {};
  Query unseen(input.db, "SELECT 1 FROM rank_resource WHERE world = ? AND resource = 'unseen'");
  unseen.bind(input.world);
  if (unseen.next()) return {};  // what they compute is not known
  Batch batch;
  // Ranks without a record are taken to be like the others. A step of which a rank tells none may be one of
  // a damaged record.
  Query samples(input.db, R"(
    SELECT avg(samples) FILTER (WHERE told = w.ranks) / w.ranks, max(w.ranks, w.world_size)
    FROM (SELECT sum(v.value) AS samples, count(DISTINCT p.rank) AS told
          FROM value v JOIN process p ON p.id = v.process
          JOIN steady_part s ON s.world = p.world AND s.step = v.step AND s.rank = p.rank AND s.annotated
          WHERE p.world = ?1 AND v.name = 'samples'
          GROUP BY v.step)
    JOIN steady_world w ON w.world = ?1
    GROUP BY w.world
    HAVING 2 * count(*) FILTER (WHERE told = w.ranks) > count(*))");
  samples.bind(input.world);
  if (!samples.next() || samples.real(0) <= 0) return {};
  batch.per_rank = samples.real(0);
  batch.samples = batch.per_rank * samples.real(1);
  // A rank with GPUs computes on them: its thread, which launches and waits, says nothing of that.
  Query gpus(
      input.db,
      "SELECT total(compute_ns) / total(windows) FROM steady_gpu WHERE world = ? AND active_ns > 0 HAVING count(*) > 0");
  gpus.bind(input.world);
  batch.compute_ns = gpus.next() ? gpus.real(0) : models::metric_of(input.db, input.world, "compute_time").value_or(0);
  Query noise(input.db, "SELECT value, hi FROM metric WHERE id = 'noise_scale' AND world = ? AND value IS NOT NULL");
  noise.bind(input.world);
  if (noise.next()) {
    batch.noise = noise.real(0);
    batch.noise_hi = noise.maybe_real(1);
  }
  return batch;
}

std::string batch_values_sql(const FindingInput& input) {
  return fmt::format(
      "SELECT s.step, s.rank, v.value AS samples, s.compute_ns, s.xfer_ns, s.duration_ns"
      " FROM v_step s JOIN process p ON p.world = s.world AND p.rank = s.rank"
      " JOIN value v ON v.process = p.id AND v.step = s.step AND v.name = 'samples'"
      " WHERE s.world = {} AND s.measured ORDER BY s.step, s.rank LIMIT 200",
      input.world);
}

}  // namespace ddl
