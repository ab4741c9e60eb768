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
  batch.samples = models::samples_per_step(input.db, input.world).value_or(0);
  if (batch.samples <= 0) return {};
  const std::vector<models::RankStep> ranks = models::rank_steps(input.db, input.world);
  batch.per_rank = batch.samples / static_cast<double>(ranks.size());
  batch.compute_ns = models::metric_of(input.db, input.world, "compute_time").value_or(0);
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
      " WHERE s.world = {} ORDER BY s.step, s.rank LIMIT 200",
      input.world);
}

}  // namespace ddl
