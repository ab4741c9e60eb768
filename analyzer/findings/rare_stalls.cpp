#include "analyzer/findings/rare_stalls.h"

#include <algorithm>
#include <map>

namespace ddl {

std::optional<RareStalls> find_rare_stalls(const StragglerInput& input) {
  if (!input.annotated || input.bounded || input.ranks < 2 || input.step_ns <= 0) return std::nullopt;
  const double others = static_cast<double>(input.ranks - 1);
  std::map<int64_t, std::map<int64_t, double>> waited_ns;  // by rank and step
  input.each_late([&](const LateRow& late) { waited_ns[late.rank][late.step] += late.wait_ns / others; });
  const double least_ns = std::max(kLeastStallNs, kStallOfStep * static_cast<double>(input.step_ns));
  RareStalls found;
  found.others = input.ranks - 1;
  found.all_steps = input.steps.size();
  for (const auto& [rank, steps] : waited_ns) {
    RareStalls one = found;
    one.rank = rank;
    one.steps.clear();
    one.stalled_ns = one.longest_ns = 0;
    for (const auto& [step, ns] : steps) {
      if (ns < least_ns || !std::binary_search(input.steps.begin(), input.steps.end(), step)) continue;
      one.steps.push_back(step);
      one.stalled_ns += ns;
      one.longest_ns = std::max(one.longest_ns, ns);
    }
    if (one.stalled_ns > found.stalled_ns) found = std::move(one);
  }
  if (found.steps.empty()) return std::nullopt;

  std::map<int64_t, double> longest_ns;  // by step
  input.each_step([&](const StepOfRank& row) {
    longest_ns[row.step] = std::max(longest_ns[row.step], row.duration_ns);
    if (row.rank != found.rank || !std::binary_search(found.steps.begin(), found.steps.end(), row.step)) return;
    const double count = static_cast<double>(found.steps.size());
    found.compute_ns += row.compute_ns / count;
    found.blocked_ns += std::max(0.0, row.duration_ns - row.compute_ns - row.exposed_ns) / count;
  });
  double all_ns = 0;
  for (const auto& [step, ns] : longest_ns) all_ns += ns;
  found.share = all_ns > 0 ? found.stalled_ns / all_ns : 0;
  return found.share >= kStallsOfRun ? std::optional(found) : std::nullopt;
}

}  // namespace ddl
