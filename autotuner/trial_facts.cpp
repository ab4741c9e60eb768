#include "autotuner/trial_facts.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "analyzer/models/run_facts.h"
#include "analyzer/models/step_gradients.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"
#include "core/error.h"

namespace ddl::tune {
namespace {

// From the begin of the first step to the end of the one at which the mean of the losses of its last kLossWindow steps
// is at the target: of fewer losses where not every step reports one. Losses as the lowest rank that has any reports
// them: the last stage of a pipeline.
std::optional<double> seconds_to_loss(SQLite::Database& db, int64_t world, double target) {
  Query reporting(
      db,
      "SELECT p.id FROM value v JOIN process p ON p.id = v.process WHERE p.world = ? AND p.rank IS NOT NULL AND v.name = 'loss' "
      "ORDER BY p.rank LIMIT 1");
  if (!reporting.bind(world).next()) return std::nullopt;
  Query steps(
      db,
      "SELECT start_ns, start_ns + duration_ns FROM step WHERE process = ? AND duration_ns IS NOT NULL ORDER BY start_ns");
  Query losses(db, "SELECT value, time_ns FROM value WHERE process = ? AND name = 'loss' ORDER BY time_ns");
  steps.bind(reporting.integer(0));
  losses.bind(reporting.integer(0));
  if (!steps.next()) return std::nullopt;
  const double begin_ns = steps.real(0);
  struct Loss {
    size_t step;
    double value;
  };
  std::deque<Loss> last;
  size_t step = 1;
  // Met by their times: each epoch may use the same numbers again.
  while (losses.next()) {
    while (steps.integer(1) <= losses.integer(1)) {
      if (!steps.next()) return std::nullopt;
      ++step;
    }
    if (steps.integer(0) > losses.integer(1)) continue;  // between steps
    if (losses.is_null(0)) return std::nullopt;          // NaN: it diverged
    last.push_back({step, losses.real(0)});
    while (last.front().step + kLossWindow <= step) last.pop_front();
    if (step < kLossWindow) continue;
    const double sum =
        std::accumulate(last.begin(), last.end(), 0.0, [](double all, const Loss& loss) { return all + loss.value; });
    if (sum / static_cast<double>(last.size()) <= target) return (steps.real(1) - begin_ns) * 1e-9;
  }
  return std::nullopt;
}

}  // namespace

TrialFacts read_trial(SQLite::Database& db, std::optional<double> target_loss, bool needs_steps) {
  TrialFacts facts;
  Query job(
      db,
      "SELECT world, count(*), count(DISTINCT host) FROM process WHERE rank IS NOT NULL GROUP BY world ORDER BY count(*) DESC, world "
      "LIMIT 1");
  if (!job.next())
    throw Error("none of its ranks was recorded", "does the command start an MPI or NCCL job?", ExitCode::kDataMissing);
  const int64_t world = job.integer(0);
  facts.ranks = job.integer(1);
  facts.nodes = job.integer(2);
  Query span(
      db,
      "SELECT max(coalesce(finalize_ns, end_ns)) - max(coalesce(init_ns, start_ns)) FROM process WHERE world = ? AND rank IS NOT NULL");
  span.bind(world);
  if (span.next()) facts.elapsed_s = span.real(0) * 1e-9;

  Query basis(db, "SELECT warmup FROM steady_world WHERE world = ?");
  basis.bind(world);
  if (basis.next()) facts.warmup_steps = basis.integer(0);
  std::vector<double> longest;
  Query steps(db, "SELECT longest_ns FROM steady_step WHERE world = ?1 AND annotated");
  for (steps.bind(world); steps.next();) longest.push_back(steps.real(0) * 1e-9);
  if (longest.empty() && needs_steps)
    throw Error(
        "it has no complete steps",
        "let it run longer; mark steps (ddl/annotate.h, ddl_annotate.py, NVTX); or tune by what it prints (--metric 'images/sec: "
        "([0-9.]+)') or by its elapsed time (--goal elapsed)",
        ExitCode::kDataMissing);
  facts.steps = static_cast<int64_t>(longest.size());
  if (facts.steps > 0) {
    facts.step_s = median_of(longest);
    for (const models::RankStep& rank : models::rank_steps(db, world))
      facts.compute_s = std::max(facts.compute_s, rank.compute_s);
    const models::MeanStep mean = models::mean_step(db, world);
    if (mean.split) {
      facts.wait_s = mean.parts.wait_s;
      facts.transfer_s = mean.parts.transfer_s;
    }
    facts.parts = mean.parts;
    facts.parts->transfer_s -= mean.unsplit_s;
    facts.unsplit_s = mean.unsplit_s;
    facts.samples = models::samples_per_step(db, world);
    facts.noise_scale = models::metric_of(db, world, "noise_scale");
  }
  if (target_loss) {
    facts.target_s = seconds_to_loss(db, world, *target_loss);
    Query losses(
        db, "SELECT 1 FROM value v JOIN process p ON p.id = v.process WHERE p.world = ? AND v.name = 'loss' LIMIT 1");
    facts.reports_no_loss = !losses.bind(world).next();
  }

  Query calls(
      db,
      "SELECT coalesce(max(o.name IN ('MPI_Allreduce', 'ncclAllReduce')), 0), coalesce(max(o.name = 'MPI_Iallreduce'), 0) FROM event e "
      "JOIN op o ON o.id = e.op JOIN process p ON p.id = e.process "
      "JOIN steady_step s ON s.world = p.world AND s.step = e.step AND s.annotated WHERE p.world = ?1");
  calls.bind(world);
  if (calls.next()) facts.blocking = calls.integer(0) != 0, facts.nonblocking = calls.integer(1) != 0;
  Query sizes(
      db,
      "SELECT DISTINCT f.size_class FROM profile f JOIN op o ON o.id = f.op JOIN process p ON p.id = f.process JOIN communicator c "
      "ON c.id = f.comm WHERE p.world = ?1 AND o.name = 'MPI_Allreduce' AND c.size = ?2");
  for (sizes.bind(world, facts.ranks); sizes.next();) facts.allreduce_size_classes.insert(sizes.integer(0));
  try {
    facts.gradients = models::step_gradients(db, world).gradients;
  } catch (const Error& error) {
    if (error.code() != ExitCode::kDataMissing) throw;  // then nothing is known of its buckets
  }
  Query stages(
      db,
      "SELECT max(micro_batches), max(chunks), sum(mean_ns) - max(mean_ns) FROM (SELECT max(l.micro_batches) AS micro_batches, "
      "max(l.chunks) AS chunks, avg(t.compute_ns) AS mean_ns FROM pipeline l JOIN process p ON p.id = l.process "
      "JOIN step_part t ON t.process = p.id JOIN steady_step s ON s.world = p.world AND s.step = t.step AND s.annotated "
      "WHERE p.world = ?1 GROUP BY l.stage)");
  stages.bind(world);
  if (stages.next() && !stages.is_null(0))
    facts.pipeline = {stages.integer(0), stages.integer(1), stages.real(2) * 1e-9};
  Query memory(
      db,
      "SELECT (SELECT max(value) FROM node_sample WHERE name = 'memory_used_bytes'), (SELECT max(CAST(f.value AS REAL)) FROM "
      "process_fact f JOIN process p ON p.id = f.process WHERE p.world = ?1 AND f.key = 'peak_memory_bytes')");
  memory.bind(world);
  if (memory.next()) {
    facts.memory_of_gpu = !memory.is_null(0);
    facts.memory_bytes = memory.maybe_real(facts.memory_of_gpu ? 0 : 1);
  }
  Query library(db, "SELECT value FROM process_fact WHERE key = 'mpi' LIMIT 1");
  if (library.next()) facts.mpi_library = library.text(0);
  return facts;
}

}  // namespace ddl::tune
