// Ranks stand still while one of them, or all, write a checkpoint.
//
// Ranges that are called so (python/ddl_hooks marks torch.save; people mark their own), replayed without them: what would be saved if the writing went on
// beside training. A copy to host memory would remain, which is not known and not counted. Where the job does so already
// (torch.distributed.checkpoint.async_save), that copy is what it stands still for.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/pauses.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr double kWriterShare = 0.1;  // of the longest writing: who does less takes no part

/// Does most of the time go into async_save, before it writes?
bool is_mostly_staging(const FindingInput& input) {
  Query row(input.db,
            fmt::format("SELECT 2 * total(g.time_ns) FILTER (WHERE lower(q.name) = 'async_save') > total(g.time_ns) FROM range_profile g"
                        " JOIN process p ON p.id = g.process JOIN (SELECT id, name FROM region WHERE {}) q ON q.id = g.region"
                        " WHERE p.world = ? AND p.rank IS NOT NULL",
                        kCheckpointRanges));
  row.bind(input.world);
  return row.next() && row.integer(0) != 0;
}

/// "all ranks stand still while they write a checkpoint"
std::string who_stands_still(const std::vector<int64_t>& writers, size_t ranks, bool staging) {
  const bool one = writers.size() == 1;
  if (ranks == 1)
    return staging ? "training stands still while async_save copies the state" : "training stands still while a checkpoint is written";
  if (writers.size() == ranks)
    return staging ? "all ranks stand still while async_save copies their state" : "all ranks stand still while they write a checkpoint";
  if (staging) return fmt::format("the others wait for {} while async_save copies {} state", ranks_text(writers), one ? "its" : "their");
  return fmt::format("the others wait for {} while {} a checkpoint", ranks_text(writers), one ? "it writes" : "they write");
}

}  // namespace

DDL_FINDING(checkpoint_stall, kSpeed, "where", "ranks stand still while one of them, or all, write a checkpoint",
            "ranges that are called so (torch.save, hooked by ddl record; async_save before it writes): the longest busy rank of each "
            "step with and without them") {
  const std::optional<CostlyPauses> costly = costly_pauses(input, kCheckpointRanges);
  if (!costly) return {};
  const std::vector<StepPauses>& steps = costly->steps;
  std::map<int64_t, double> by_rank;
  double written_ns = 0, longest_ns = 0;
  size_t checkpoints = 0;
  for (const StepPauses& step : steps) {
    for (const RankPause& rank : step.ranks) by_rank[rank.rank] += rank.pause_ns;
    const double pause_ns = step.longest_pause_ns();
    if (pause_ns < costly->least_ns) continue;
    ++checkpoints;
    written_ns += pause_ns;
    longest_ns = std::max(longest_ns, pause_ns);
  }
  if (checkpoints == 0) return {};
  double most_ns = 0;
  for (const auto& [rank, ns] : by_rank) most_ns = std::max(most_ns, ns);
  std::vector<int64_t> writers;
  for (const auto& [rank, ns] : by_rank)
    if (ns >= kWriterShare * most_ns) writers.push_back(rank);

  Finding finding = finding_of_pauses(input, kCheckpointRanges, *costly);
  const bool all = writers.size() == by_rank.size();
  const std::string times =
      fmt::format("in {} of {} steps, {} each", checkpoints, steps.size(), duration_text(written_ns / static_cast<double>(checkpoints)));
  const bool staging = is_mostly_staging(input);
  finding.sentence = fmt::format("{}: {}", who_stands_still(writers, by_rank.size(), staging), times);
  if (writers.size() == 1 && !all) finding.rank = writers.front();
  finding.evidence = fmt::format("The longest took {}; without them a step would take {} less on average.", duration_text(longest_ns),
                                 duration_text(costly->saving_ns));
  Query bytes(
      input.db,
      "SELECT count(*), sum(v.value) FROM value v JOIN process p ON p.id = v.process WHERE p.world = ? AND v.name = 'checkpoint_bytes'");
  bytes.bind(input.world);
  if (bytes.next() && bytes.integer(0) > 0)
    finding.evidence +=
        fmt::format(" {} files of {} on average were written.", bytes.integer(0), bytes_text(bytes.real(1) / bytes.real(0)));
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
      all ? "" : " instead of all by one rank");
  return {finding};
}

}  // namespace ddl
