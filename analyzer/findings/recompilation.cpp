// torch.compile compiles again after the first steps: batches of another shape, say. Whoever compiles keeps the others waiting.
//
// Ranges of compilations, as python/ddl_hooks marks them, replayed without them.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/pauses.h"

namespace ddl {
namespace {

constexpr double kMinCompilingShare = 0.01;  // of the step, on average
constexpr double kCompilingShare = 0.01;     // of the step: shorter ones are noise

}  // namespace

DDL_FINDING(recompilation, kSpeed, "late", "torch.compile compiles again after the first steps, and everybody waits",
            "ranges of compilations (hooked by ddl record, torch 2.5 and later): the longest busy rank of each step with and "
            "without them") {
  const std::vector<StepPauses> steps = pauses_in(input, kCompilationRanges);
  const double saving_ns = saving_without(steps, [](const StepPauses&, const RankPause& rank) { return rank.pause_ns; });
  const auto step_ns = static_cast<double>(input.step_ns);
  if (steps.empty() || saving_ns < kMinCompilingShare * step_ns) return {};
  std::set<int64_t> ranks;
  size_t paused = 0;
  int64_t count = 0, last_step = 0;
  double sum_ns = 0, longest_ns = 0;
  for (const StepPauses& step : steps) {
    bool here = false;
    for (const RankPause& rank : step.ranks) {
      if (rank.pause_ns < kCompilingShare * step_ns) continue;
      here = true;
      ranks.insert(rank.rank);
      ++count;
      sum_ns += rank.pause_ns;
      longest_ns = std::max(longest_ns, rank.pause_ns);
    }
    paused += here;
    if (here) last_step = std::max(last_step, step.step);
  }
  if (count == 0) return {};

  Finding finding;
  const bool all = ranks.size() == steps.front().ranks.size();
  if (ranks.size() == 1 && !all) finding.rank = *ranks.begin();
  finding.sentence = fmt::format("{} again in {} of {} steps behind the first ones: {} each",
                                 all            ? std::string("all ranks compile")
                                 : finding.rank ? ranks_text({*finding.rank}) + " compiles"
                                                : ranks_text({ranks.begin(), ranks.end()}) + " compile",
                                 paused, steps.size(), duration_text(sum_ns / static_cast<double>(count)));
  finding.saving_ns = static_cast<int64_t>(saving_ns);
  finding.confidence = "likely";
  finding.evidence = fmt::format("{} steps of a rank in which it compiled, up to {} long, the last in step {}.", count,
                                 duration_text(longest_ns), last_step);
  finding.evidence_sql = pauses_sql(input.world, kCompilationRanges);
  finding.advice =
      "TORCH_LOGS=recompiles says why; drop_last=True for the last batch, batches padded to few shapes, torch.compile(dynamic=True), numbers that change handed "
      "over as tensors";
  return {finding};
}

}  // namespace ddl
