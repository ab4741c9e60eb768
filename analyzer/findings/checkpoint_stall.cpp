// Ranges that are called so (python/ddl_hooks marks torch.save; people mark their own), replayed without them:
// what would be saved if the writing went on beside training. A copy to host memory would remain, which is not
// known and not counted. Where the job does so already (torch.distributed.checkpoint.async_save), that copy is
// what it stands still for.
#include "analyzer/findings/checkpoint_stall.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/pauses.h"
#include "analyzer/findings/shared.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr double kWriterShare = 0.1;  // of the longest writing: who does less takes no part

std::optional<CheckpointStall> look_for_checkpoints(const FindingInput& input) {
  const std::optional<CostlyPauses> costly = costly_pauses(input, kCheckpointRanges);
  if (!costly) return std::nullopt;
  CheckpointStall found;
  found.steps = costly->steps.size();
  found.saving_ns = costly->saving_ns;
  std::map<int64_t, double> by_rank;
  for (const StepPauses& step : costly->steps) {
    for (const RankPause& rank : step.ranks) by_rank[rank.rank] += rank.pause_ns;
    const double pause_ns = step.longest_pause_ns();
    if (pause_ns < costly->least_ns) continue;
    ++found.checkpoints;
    found.written_ns += pause_ns;
    found.longest_ns = std::max(found.longest_ns, pause_ns);
  }
  if (found.checkpoints == 0) return std::nullopt;
  double most_ns = 0;
  for (const auto& [rank, ns] : by_rank) most_ns = std::max(most_ns, ns);
  for (const auto& [rank, ns] : by_rank)
    if (ns >= kWriterShare * most_ns) found.writers.push_back(rank);
  found.all = found.writers.size() == by_rank.size();
  return found;
}

/// Does most of the time go into async_save, before it writes?
bool is_mostly_staging(const FindingInput& input) {
  Query row(
      input.db,
      fmt::format(
          "SELECT 2 * total(g.time_ns) FILTER (WHERE lower(q.name) = 'async_save') > total(g.time_ns) FROM range_profile g"
          " JOIN process p ON p.id = g.process JOIN (SELECT id, name FROM region WHERE {}) q ON q.id = g.region"
          " WHERE p.world = ? AND p.rank IS NOT NULL",
          kCheckpointRanges));
  row.bind(input.world);
  return row.next() && row.integer(0) != 0;
}

/// "all ranks stand still while they write a checkpoint"
std::string who_stands_still(const std::vector<int64_t>& writers, bool all, bool staging) {
  const bool one = writers.size() == 1;
  if (all && one)
    return staging ? "training stands still while async_save copies the state"
                   : "training stands still while a checkpoint is written";
  if (all)
    return staging ? "all ranks stand still while async_save copies their state"
                   : "all ranks stand still while they write a checkpoint";
  if (staging)
    return fmt::format("the others wait for {} while async_save copies {} state", ranks_text(writers),
                       one ? "its" : "their");
  return fmt::format("the others wait for {} while {} a checkpoint", ranks_text(writers),
                     one ? "it writes" : "they write");
}

}  // namespace

std::optional<CheckpointStall> known_checkpoint_stall(const FindingInput& input) {
  return input.shared.checkpoint_stall.get([&] { return look_for_checkpoints(input); });
}

DDL_FINDING(
    checkpoint_stall, kSpeed, "where", "ranks stand still while one of them, or all, write a checkpoint",
    "ranges that are called so (torch.save, hooked by ddl record; async_save before it writes): the longest busy rank of each "
    "step with and without them") {
  const std::optional<CheckpointStall> found = known_checkpoint_stall(input);
  if (!found) return {};
  const std::vector<int64_t>& writers = found->writers;
  Finding finding;
  finding.saving_ns = static_cast<int64_t>(found->saving_ns);
  finding.confidence = "likely";
  finding.evidence_sql = pauses_sql(input.world, kCheckpointRanges);
  const bool staging = is_mostly_staging(input);
  finding.sentence =
      fmt::format("{}: in {} of {} steps, {} each", who_stands_still(writers, found->all, staging), found->checkpoints,
                  found->steps, duration_text(found->written_ns / static_cast<double>(found->checkpoints)));
  if (writers.size() == 1 && !found->all) finding.rank = writers.front();
  finding.evidence = fmt::format("The longest took {}; without them a step would take {} less on average.",
                                 duration_text(found->longest_ns), duration_text(found->saving_ns));
  Query bytes(
      input.db,
      "SELECT count(*), sum(v.value) FROM value v JOIN process p ON p.id = v.process WHERE p.world = ? AND v.name = 'checkpoint_bytes'");
  bytes.bind(input.world);
  if (bytes.next() && bytes.integer(0) > 0)
    finding.evidence += fmt::format(" {} files of {} on average were written.", bytes.integer(0),
                                    bytes_text(bytes.real(1) / bytes.real(0)));
  if (staging) {
    finding.advice =
        "let it copy into host memory that is pinned or shared and kept from save to save: one stager for all of them, "
        "BlockingAsyncStager(cache_staged_state_dict=True) or a later torch's DefaultStager, which can copy beside training too; rarer, if the "
        "time between failures allows";
    return {finding};
  }
  finding.advice = fmt::format(
      "write it beside training: torch.distributed.checkpoint.async_save, or a copy to host memory and a thread that saves it; each rank its own "
      "shard{}; rarer, if the time between failures allows",
      found->all ? "" : " instead of all by one rank");
  return {finding};
}

}  // namespace ddl
