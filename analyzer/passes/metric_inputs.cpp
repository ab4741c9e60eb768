#include "analyzer/passes/passes.h"

#include <cstdint>
#include <map>
#include <utility>

#include "analyzer/each_row.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr const char* kReported = R"(
  INSERT INTO reported (world, name, step, total, ranks)
  SELECT p.world, v.name, v.step, total(v.value), count(DISTINCT p.rank)
  FROM value v
  JOIN process p ON p.id = v.process
  WHERE v.name IN ('samples', 'model_flops') AND v.value IS NOT NULL AND v.step IS NOT NULL AND p.rank IS NOT NULL
  GROUP BY p.world, v.name, v.step)";

// A job may have several regions of kind step: one for each place in the tree of ranges where it opens steps.
constexpr const char* kCounted = R"(
  WITH grown AS (
    SELECT f.process,
           sum(iif(c.name = 'PAPI_TOT_INS', f.value * 1.0, NULL)) AS instructions,
           sum(iif(c.name = 'PAPI_TOT_INS', f.calls, NULL)) AS instruction_steps,
           sum(iif(c.name = 'PAPI_TOT_CYC', f.value * 1.0, NULL)) AS cycles,
           sum(iif(c.name = 'PAPI_FP_OPS', f.value * 1.0, NULL)) AS flops
    FROM counter_profile f
    JOIN counter c ON c.process = f.process AND c.number = f.counter AND c.source IS NOT NULL
    JOIN region r ON r.id = f.region AND r.kind = 'step'
    GROUP BY f.process
  ), lasted AS (
    SELECT f.process, total(f.time_ns) AS time_ns
    FROM range_profile f
    JOIN region r ON r.id = f.region AND r.kind = 'step'
    GROUP BY f.process
  ), said AS (
    SELECT process, max(value) AS peak
    FROM value
    WHERE name = 'peak_flops_per_second'
    GROUP BY process
  )
  INSERT INTO counted (world, rank, world_size, instructions, instruction_steps, cycles, flops, time_ns, peak)
  SELECT p.world, p.rank, p.world_size, grown.instructions, grown.instruction_steps, grown.cycles, grown.flops, lasted.time_ns, said.peak
  FROM process p
  LEFT JOIN grown ON grown.process = p.id
  LEFT JOIN lasted ON lasted.process = p.id
  LEFT JOIN said ON said.process = p.id
  WHERE p.rank IS NOT NULL)";

constexpr const char* kPipelineModel = R"(
  INSERT INTO pipeline_model (world, of_total, of_ideal)
  SELECT p.world,
         avg((l.stages - 1) * 1.0 / (l.chunks * l.micro_batches + l.stages - 1)),
         avg((l.stages - 1) * 1.0 / (l.chunks * l.micro_batches))
  FROM pipeline l
  JOIN process p ON p.id = l.process
  GROUP BY p.world)";

constexpr const char* kBatchFit = R"(
  WITH said AS (
    SELECT process, step, sum(value) AS samples
    FROM value
    WHERE name = 'samples' AND step IS NOT NULL
    GROUP BY process, step
  ), computed AS (
    SELECT process, step, max(compute_ns) AS compute_ns
    FROM gpu_part
    WHERE step IS NOT NULL
    GROUP BY process, step
  ), point AS (
    SELECT s.world, s.rank, b.samples, coalesce(g.compute_ns, min(s.compute_ns, s.duration_ns - s.exposed_ns - coalesce(s.input_ns, 0))) AS compute_ns
    FROM steady_part s
    JOIN process p ON p.world = s.world AND p.rank = s.rank
    JOIN said b ON b.process = p.id AND b.step = s.step
    LEFT JOIN computed g ON g.process = p.id AND g.step = s.step
    WHERE s.annotated
  ), mean AS (
    SELECT world, rank, avg(samples) AS samples, avg(compute_ns) AS compute_ns
    FROM point
    GROUP BY world, rank
  ), slope AS (
    SELECT p.world,
           total((p.samples - m.samples) * (p.compute_ns - m.compute_ns)) / total((p.samples - m.samples) * (p.samples - m.samples)) AS per_sample_ns,
           avg(p.samples) AS samples,
           avg(p.compute_ns) AS compute_ns
    FROM point p
    JOIN mean m ON m.world = p.world AND m.rank = p.rank
    GROUP BY p.world
    HAVING total((p.samples - m.samples) * (p.samples - m.samples)) > 0
  )
  INSERT INTO batch_fit (world, per_sample_ns, fixed_ns)
  SELECT world, per_sample_ns, compute_ns - per_sample_ns * samples
  FROM slope)";

constexpr const char* kMeanTransfer = R"(
  WITH device AS (
    SELECT world,
           iif(count(exposed_wait_ns) = count(*), (total(exposed_comm_ns) - total(exposed_wait_ns)) / total(windows), NULL) AS xfer_ns,
           max(why) AS why
    FROM steady_gpu
    GROUP BY world
  )
  INSERT INTO mean_transfer (world, xfer_ns, why)
  SELECT s.world,
         max(iif(count(s.xfer_ns) = count(*), total(s.xfer_ns) / total(s.ranks), NULL), iif(g.world IS NULL, 0, g.xfer_ns)),
         coalesce(max(s.why), g.why)
  FROM steady_step s
  LEFT JOIN device g ON g.world = s.world
  GROUP BY s.world)";

/// Table `caused`. Rows of `blame` lie by who was late; there are as many as pairs of ranks.
void sum_blame(SQLite::Database& db) {
  struct Sum {
    int64_t wait_ns = 0;
    double sigma_ns = 0;
  };
  std::map<std::pair<int64_t, int64_t>, Sum> sums;  // by world and rank
  auto at = sums.end();
  EachRow(db, "world, late, wait_ns, sigma_ns", "blame").run([&](const RowValues& row) {
    const std::pair late(row.integer(0), row.integer(1));
    if (at == sums.end() || at->first != late) at = sums.try_emplace(late).first;
    at->second.wait_ns += row.integer(2);
    at->second.sigma_ns += row.real(3);
  });
  Query insert(db, "INSERT INTO caused (world, late, wait_ns, sigma_ns) VALUES (?, ?, ?, ?)");
  for (const auto& [late, sum] : sums) insert.run(late.first, late.second, sum.wait_ns, sum.sigma_ns);
}

}  // namespace

void gather_metric_inputs(SQLite::Database& db) {
  for (const char* sql : {kReported, kCounted, kPipelineModel, kBatchFit, kMeanTransfer}) db.exec(sql);
  sum_blame(db);
}

}  // namespace ddl
