// Micro-batching (mu-cuDNN, Oyama et al., 1804.04806): a batch is cut into micro-batches, for each of which the fastest
// kernel is taken whose workspace fits. One layer: T(b) = min over kernels and micro-batches m of t(m) + T(b - m), by
// dynamic programming. Several layers that share one workspace budget in parts: one choice per layer such that the sum
// fits, a multiple-choice knapsack.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddl::models {

struct Kernel {
  int64_t micro_batch = 1;
  double time = 0;  ///< any unit
  int64_t workspace_bytes = 0;
  std::string name;
};

struct MicroBatching {
  double time = 0;
  int64_t workspace_bytes = 0;        ///< the largest of its kernels: they run one after the other
  std::map<size_t, int64_t> kernels;  ///< index of a kernel -> how often
};

/// The fastest way to do `batch` with kernels of at most `workspace_limit`; nothing if none adds up to it. Ties go to
/// fewer micro-batches.
std::optional<MicroBatching> best_micro_batching(const std::vector<Kernel>& kernels, int64_t batch,
                                                 int64_t workspace_limit);

/// All that are not beaten in both time and workspace: fastest and hungriest first.
std::vector<MicroBatching> micro_batching_front(const std::vector<Kernel>& kernels, int64_t batch);

/// One member of each layer's front such that the workspaces sum to at most the limit and the times to the least;
/// exact. Indices into the fronts, nothing if even the smallest do not fit.
std::optional<std::vector<size_t>> choose_fronts(const std::vector<std::vector<MicroBatching>>& layers,
                                                 int64_t workspace_limit);

}  // namespace ddl::models
