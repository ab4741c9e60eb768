#include "analyzer/models/run_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/facts.h"
#include "analyzer/models/run_facts.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"
#include "core/error.h"

namespace ddl::models {
namespace {

constexpr double kSecondsPerNs = 1e-9;

/// Places of ranks in their pipelines.
std::map<int64_t, int64_t> read_shape(SQLite::Database& db, int64_t world, RunPipeline& pipeline) {
  std::map<int64_t, int64_t> stage_of;
  int64_t stages = 0;
  Query row(
      db,
      "SELECT rank, stage, stages, micro_batches, chunks FROM v_pipeline WHERE world = ?1 AND rank IS NOT NULL ORDER BY rank");
  for (row.bind(world); row.next();) {
    const bool first = stage_of.empty();
    if (!first &&
        (row.integer(2) != stages || row.integer(3) != pipeline.micro_batches || row.integer(4) != pipeline.chunks))
      throw Error("the pipelines of this job differ in stages or micro-batches",
                  "give the numbers of one of them, without RUN", ExitCode::kDataMissing);
    stages = row.integer(2), pipeline.micro_batches = row.integer(3), pipeline.chunks = row.integer(4);
    stage_of[row.integer(0)] = row.integer(1);
  }
  pipeline.stages.resize(static_cast<size_t>(stages));
  return stage_of;
}

/// Phases that are open in phases are not counted twice: only the outermost are asked for. Medians over steps: on a
/// machine that others use a mean computing may be longer than the median step that it is compared with.
void read_phases(SQLite::Database& db, int64_t world, const std::map<int64_t, int64_t>& stage_of,
                 RunPipeline& pipeline) {
  Query row(
      db,
      "SELECT p.rank, g.name, e.step, sum(e.duration_ns - e.mpi_ns) FROM range_event e JOIN process p ON p.id = e.process JOIN region g ON "
      "g.id = e.region JOIN region u ON u.id = g.parent JOIN steady_step s ON s.world = p.world AND s.step = e.step AND s.annotated "
      "WHERE p.world = ?1 AND g.kind = 'phase' AND g.name IN ('forward', 'backward') AND u.kind = 'step' GROUP BY 1, 2, 3");
  std::map<std::pair<int64_t, bool>, std::vector<double>> seconds;  // by rank and whether it is forward
  for (row.bind(world); row.next();)
    if (stage_of.contains(row.integer(0)))
      seconds[{row.integer(0), row.text(1) == "forward"}].push_back(row.real(3) * kSecondsPerNs);
  for (auto& [phase, steps] : seconds) {
    RecordedStage& stage = pipeline.stages[static_cast<size_t>(stage_of.at(phase.first))];
    (phase.second ? stage.forward_s : stage.backward_s) += median_of(steps) / static_cast<double>(pipeline.replicas);
  }
  pipeline.phases = seconds.size() == 2 * stage_of.size();
}

/// All computing of a step, by rank: medians as well.
std::map<int64_t, double> read_computing(SQLite::Database& db, int64_t world) {
  Query row(
      db,
      "SELECT p.rank, t.compute_ns FROM step_part t JOIN process p ON p.id = t.process JOIN steady_step s ON s.world = p.world AND s.step "
      "= t.step AND s.annotated WHERE p.world = ?1 AND p.rank IS NOT NULL");
  std::map<int64_t, std::vector<double>> seconds;
  for (row.bind(world); row.next();) seconds[row.integer(0)].push_back(row.real(1) * kSecondsPerNs);
  std::map<int64_t, double> computing;
  for (auto& [rank, steps] : seconds) computing[rank] = median_of(steps);
  return computing;
}

/// All forward passes first, or a backward one before the last forward one, on the first rank of the first stage.
void read_order(SQLite::Database& db, int64_t world, const std::map<int64_t, int64_t>& stage_of,
                RunPipeline& pipeline) {
  const auto first = std::find_if(stage_of.begin(), stage_of.end(), [](const auto& rank) { return rank.second == 0; });
  if (!pipeline.phases || first == stage_of.end() ||
      pipeline.micro_batches < static_cast<int64_t>(pipeline.stages.size()) + 1)
    return;
  Query row(
      db,
      "SELECT min(iif(g.name = 'backward', e.start_ns, NULL)), max(iif(g.name = 'forward', e.start_ns, NULL)) FROM range_event e "
      "JOIN process p ON p.id = e.process JOIN region g ON g.id = e.region "
      "WHERE p.world = ?1 AND p.rank = ?2 AND g.kind = 'phase' AND e.step = (SELECT max(step) FROM steady_step WHERE world = ?1 AND "
      "annotated)");
  row.bind(world, first->first);
  if (row.next() && !row.is_null(0) && !row.is_null(1))
    pipeline.order = row.integer(0) < row.integer(1) ? PassOrder::k1F1B : PassOrder::kGpipe;
}

void read_hops(SQLite::Database& db, int64_t world, RunPipeline& pipeline) {
  Query row(
      db,
      "SELECT m.receive_end_ns - m.send_ns FROM v_message m JOIN v_pipeline a ON a.world = m.world AND a.rank = m.source JOIN "
      "v_pipeline b ON b.world = m.world AND b.rank = m.destination JOIN steady_step s ON s.world = m.world AND s.step = m.step AND "
      "s.annotated WHERE m.world = ?1 AND a.pipeline = b.pipeline AND m.late_sender_wait_ns > 0 AND m.send_ns IS NOT NULL AND "
      "m.receive_end_ns > m.send_ns");
  std::vector<double> hops;
  for (row.bind(world); row.next();) hops.push_back(row.real(0) * kSecondsPerNs);
  pipeline.messages = static_cast<int64_t>(hops.size());
  if (!hops.empty()) pipeline.hop_s = median_of(hops);
}

}  // namespace

double RunPipeline::slowest_stage_s() const {
  double slowest_s = 0;
  for (const RecordedStage& stage : stages) slowest_s = std::max(slowest_s, stage.compute_s());
  return slowest_s;
}

double RunPipeline::schedule_s(PassOrder which, int64_t count) const {
  const auto m = static_cast<double>(count);
  std::vector<double> forward, backward;
  for (const RecordedStage& stage : stages)
    forward.push_back(stage.forward_s / m), backward.push_back(stage.backward_s / m);
  if (chunks == 1) return pipeline_seconds(which, forward, backward, count, hop_s);
  // Interleaved (specification.md B3): a chunk fills and drains the pipeline in 1/chunks of the time.
  double all_s = 0, slowest_s = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    const double one_s = forward[i] + backward[i];
    all_s += one_s + (i > 0 ? 2 * hop_s * static_cast<double>(chunks) : 0);
    slowest_s = std::max(slowest_s, one_s);
  }
  return m * slowest_s + (all_s - slowest_s) / static_cast<double>(chunks);
}

RunPipeline run_pipeline(SQLite::Database& db, int64_t world, const std::optional<StatedPipeline>& stated) {
  RunPipeline pipeline;
  std::map<int64_t, int64_t> stage_of;
  const std::vector<RankStep> ranks = rank_steps(db, world);
  if (stated) {
    for (const RankStep& rank : ranks) stage_of[rank.rank] = rank.rank % stated->stages;
    pipeline.micro_batches = stated->micro_batches;
    pipeline.stages.resize(static_cast<size_t>(stated->stages));
  } else {
    stage_of = read_shape(db, world, pipeline);
    if (stage_of.empty())
      throw Error("no pipeline was recognised in this run: no rank passes micro-batches on",
                  "describe it: --stages K --now M (rank r is stage r modulo K, M micro-batches)",
                  ExitCode::kDataMissing);
  }
  const auto stages = static_cast<int64_t>(pipeline.stages.size());
  std::vector<int64_t> members(pipeline.stages.size(), 0);
  for (const auto& [rank, stage] : stage_of) ++members[static_cast<size_t>(stage)];
  if (static_cast<int64_t>(stage_of.size()) % stages != 0 ||
      std::any_of(members.begin(), members.end(), [&](int64_t count) { return count != members[0]; }))
    throw Error(fmt::format("{} ranks are not a multiple of {} stages", stage_of.size(), stages),
                "give another --stages", ExitCode::kDataMissing);
  pipeline.replicas = members[0];

  read_phases(db, world, stage_of, pipeline);
  if (!pipeline.phases)
    for (RecordedStage& stage : pipeline.stages) stage = {};
  // The steps of GPU ranks are their devices', which have means only.
  std::map<int64_t, double> computing;
  if (read_facts(db, world).resource == Resource::kThread) computing = read_computing(db, world);
  for (const RankStep& rank : ranks) {
    const auto at = stage_of.find(rank.rank);
    const auto median = computing.find(rank.rank);
    if (at != stage_of.end())
      pipeline.stages[static_cast<size_t>(at->second)].other_s +=
          (median == computing.end() ? rank.compute_s : median->second) / static_cast<double>(pipeline.replicas);
  }
  for (RecordedStage& stage : pipeline.stages) {
    if (!pipeline.phases)
      std::swap(stage.forward_s, stage.other_s);
    else
      stage.other_s = std::max(0.0, stage.other_s - stage.forward_s - stage.backward_s);
  }
  if (!(pipeline.slowest_stage_s() > 0))
    throw Error("the ranks of this run do not compute",
                "give the times as numbers, without RUN: --forward-ms, --backward-ms", ExitCode::kDataMissing);
  read_order(db, world, stage_of, pipeline);
  if (!stated) read_hops(db, world, pipeline);
  return pipeline;
}

}  // namespace ddl::models
