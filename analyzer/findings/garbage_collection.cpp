// Python collects garbage, on other ranks in other steps: each time all wait for one, and nobody stands out.
//
// Ranges of full collections, as python/ddl_hooks marks them, replayed without them.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/pauses.h"

namespace ddl {
namespace {

constexpr double kMinCollectedShare = 0.01;  // of the step, on average
constexpr double kPauseShare = 0.01;         // of the step: shorter ones are noise

}  // namespace

DDL_FINDING(garbage_collection, kSpeed, "late", "Python collects garbage, on other ranks in other steps, and everybody waits each time",
            "ranges of full collections (hooked by ddl record): the longest busy rank of each step with and without "
            "them") {
  const std::vector<StepPauses> steps = pauses_in(input, kCollectionRanges);
  const double saving_ns = saving_without(steps, [](const StepPauses&, const RankPause& rank) { return rank.pause_ns; });
  const auto step_ns = static_cast<double>(input.step_ns);
  if (steps.empty() || saving_ns < kMinCollectedShare * step_ns) return {};
  std::map<int64_t, int64_t> collections;
  size_t paused = 0, alone = 0;
  double longest_ns = 0, sum_ns = 0;
  int64_t count = 0;
  for (const StepPauses& step : steps) {
    size_t here = 0;
    for (const RankPause& rank : step.ranks) {
      if (rank.pause_ns < kPauseShare * step_ns) continue;
      ++here;
      ++collections[rank.rank];
      ++count;
      sum_ns += rank.pause_ns;
      longest_ns = std::max(longest_ns, rank.pause_ns);
    }
    paused += here > 0;
    alone += here > 0 && 2 * here <= step.ranks.size();
  }
  if (count == 0) return {};
  const bool scattered = 2 * alone > paused && collections.size() > 1;
  std::vector<int64_t> ranks;
  for (const auto& [rank, n] : collections) ranks.push_back(rank);

  Finding finding;
  finding.sentence = fmt::format("garbage collections of {} stop {} of {} steps{}: {} each", ranks_text(ranks), paused, steps.size(),
                                 scattered ? ", each rank at other times" : "", duration_text(sum_ns / static_cast<double>(count)));
  if (ranks.size() == 1 && steps.front().ranks.size() > 1) finding.rank = ranks.front();
  finding.saving_ns = static_cast<int64_t>(saving_ns);
  finding.confidence = "likely";
  finding.evidence =
      fmt::format("{} full collections in {} rank-steps, up to {}; in {} of the {} steps at most half of the ranks collected.", count,
                  steps.size() * steps.front().ranks.size(), duration_text(longest_ns), alone, paused);
  finding.evidence_sql = pauses_sql(input.world, kCollectionRanges);
  finding.advice =
      "gc.freeze() after the first steps, so that what stays is not searched again; gc.disable() and gc.collect() on all ranks in the same steps, e.g. "
      "before a checkpoint or an evaluation";
  return {finding};
}

}  // namespace ddl
