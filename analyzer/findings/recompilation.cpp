// torch.compile compiles again after the first steps: batches of another shape, say. Whoever compiles keeps
// the others waiting.
//
// Ranges of compilations, as python/ddl_hooks marks them, replayed without them.
#include <fmt/format.h>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/pauses.h"

namespace ddl {

DDL_FINDING(
    recompilation, kSpeed, "late", "torch.compile compiles again after the first steps, and all ranks wait",
    "ranges of compilations (hooked by ddl record, torch 2.5 and later): the longest busy rank of each step with and "
    "without them") {
  const std::optional<CostlyPauses> costly = costly_pauses(input, kCompilationRanges);
  if (!costly) return {};
  const std::vector<StepPauses>& steps = costly->steps;
  const PauseCount pauses = count_pauses(*costly);
  if (pauses.count == 0) return {};
  const std::vector<int64_t> ranks(pauses.ranks.begin(), pauses.ranks.end());

  Finding finding = finding_of_pauses(input, kCompilationRanges, *costly);
  const bool all = ranks.size() == steps.front().ranks.size();
  if (ranks.size() == 1 && !all) finding.rank = ranks.front();
  finding.sentence = fmt::format("{} again in {} of {} steps behind the first ones: {} each",
                                 all            ? std::string("all ranks compile")
                                 : finding.rank ? ranks_text(ranks) + " compiles"
                                                : ranks_text(ranks) + " compile",
                                 pauses.steps, steps.size(), duration_text(pauses.mean_ns()));
  finding.evidence = fmt::format("{} steps of a rank in which it compiled, up to {} long, the last in step {}.",
                                 pauses.count, duration_text(pauses.longest_ns), pauses.last_step);
  finding.advice =
      "TORCH_LOGS=recompiles says why; drop_last=True for the last batch, batches padded to few shapes, torch.compile(dynamic=True), "
      "numbers that change passed as tensors";
  return {finding};
}

}  // namespace ddl
