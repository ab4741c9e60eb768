#include "autotuner/blocks.h"

#include <algorithm>
#include <cmath>

#include "analyzer/statistics.h"

namespace ddl::tune {

std::vector<PlannedBlock> plan_round(const std::vector<uint64_t>& half_steps) {
  std::vector<PlannedBlock> blocks;
  const size_t last = half_steps.size() - 1;
  for (size_t i = 0; i < last; ++i) blocks.push_back({i, kWarmUpSteps + half_steps[i]});
  blocks.push_back({last, kWarmUpSteps + 2 * half_steps[last]});
  for (size_t i = last; i-- > 0;) blocks.push_back({i, kWarmUpSteps + half_steps[i]});
  return blocks;
}

std::optional<double> step_s_of(const std::vector<std::vector<double>>& blocks) {
  double sum = 0;
  size_t parts = 0;
  for (const std::vector<double>& block : blocks) {
    if (block.size() <= kWarmUpSteps) continue;
    std::vector<double> counted(block.begin() + kWarmUpSteps, block.end());
    const double median = median_of(counted);
    if (!(median > 0)) continue;
    sum += std::log(median);
    ++parts;
  }
  return parts == 0 ? std::nullopt : std::optional(std::exp(sum / static_cast<double>(parts)));
}

uint64_t steps_for(double wanted_s, double step_s, uint64_t least, uint64_t most) {
  if (!(step_s > 0)) return most;
  return static_cast<uint64_t>(
      std::clamp(std::ceil(wanted_s / step_s), static_cast<double>(least), static_cast<double>(most)));
}

uint64_t patience_s_for(uint64_t filler_steps, double step_s) {
  constexpr double kLeast_s = 60, kMost_s = 1e9;
  return static_cast<uint64_t>(
      std::clamp(std::ceil(3 * static_cast<double>(filler_steps + 1) * step_s), kLeast_s, kMost_s));
}

}  // namespace ddl::tune
