// Python collects garbage, on other ranks in other steps: each time all wait for one, and nobody stands out.
//
// Ranges of full collections, as python/ddl_hooks marks them, replayed without them.
#include <fmt/format.h>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/pauses.h"

namespace ddl {

DDL_FINDING(garbage_collection, kSpeed, "late",
            "Python collects garbage, on other ranks in other steps, and all ranks wait each time",
            "ranges of full collections (hooked by ddl record): the longest busy rank of each step with and without "
            "them") {
  const std::optional<CostlyPauses> costly = costly_pauses(input, kCollectionRanges);
  if (!costly) return {};
  const std::vector<StepPauses>& steps = costly->steps;
  const PauseCount pauses = count_pauses(*costly);
  if (pauses.count == 0) return {};
  const bool scattered = 2 * pauses.steps_of_few > pauses.steps && pauses.ranks.size() > 1;
  const std::vector<int64_t> ranks(pauses.ranks.begin(), pauses.ranks.end());

  Finding finding = finding_of_pauses(input, kCollectionRanges, *costly);
  finding.sentence =
      fmt::format("garbage collections of {} stop {} of {} steps{}: {} each", ranks_text(ranks), pauses.steps,
                  steps.size(), scattered ? ", each rank at other times" : "", duration_text(pauses.mean_ns()));
  if (ranks.size() == 1 && steps.front().ranks.size() > 1) finding.rank = ranks.front();
  finding.evidence = fmt::format(
      "{} full collections in {} rank-steps, up to {}; in {} of the {} steps at most half of the ranks collected.",
      pauses.count, steps.size() * steps.front().ranks.size(), duration_text(pauses.longest_ns), pauses.steps_of_few,
      pauses.steps);
  finding.advice =
      "gc.freeze() after the first steps, so that what stays is not searched again; gc.disable() and gc.collect() on all ranks in the same steps, e.g. "
      "before a checkpoint or an evaluation";
  return {finding};
}

}  // namespace ddl
