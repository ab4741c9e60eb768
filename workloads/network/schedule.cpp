#include "workloads/network/schedule.h"

#include <algorithm>
#include <numeric>

namespace ddl::network {

namespace {

/** Fills stage after stage up to `most`, but leaves a layer for each stage to come. Fewer than all layers are covered
 * where `most` is too little. */
std::vector<Stage> fill(std::span<const uint64_t> costs, std::size_t stages, uint64_t most) {
  std::vector<Stage> result;
  std::size_t at = 0;
  for (std::size_t left = stages; left > 0; --left) {
    Stage stage{at, at};
    for (uint64_t cost = 0; at + left <= costs.size() && cost + costs[at] <= most; ++at) cost += costs[at];
    stage.end = at;
    result.push_back(stage);
  }
  return result;
}

}  // namespace

std::vector<Stage> split_stages(std::span<const uint64_t> costs, std::size_t stages) {
  uint64_t low = *std::max_element(costs.begin(), costs.end());  // below it a stage would be empty
  uint64_t high = std::accumulate(costs.begin(), costs.end(), uint64_t{0});
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (fill(costs, stages, middle).back().end == costs.size()) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return fill(costs, stages, low);
}

std::vector<Pass> passes(Schedule schedule, std::size_t stage, std::size_t stages, std::size_t micro_batches) {
  const std::size_t ahead = schedule == Schedule::kGpipe ? micro_batches : std::min(micro_batches, stages - 1 - stage);
  std::vector<Pass> result;
  for (std::size_t m = 0; m < ahead; ++m) result.push_back({false, m});
  for (std::size_t m = 0; m < micro_batches; ++m) {
    if (m + ahead < micro_batches) result.push_back({false, m + ahead});
    result.push_back({true, m});
  }
  return result;
}

}  // namespace ddl::network
