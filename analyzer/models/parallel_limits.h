// Where data parallelism ends (after Ben-Nun's and Dryden's lectures on parallelism in training): communication that
// eats what more ranks bring, more ranks than samples, samples that do not fit into memory, and batches that need
// another training recipe.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddl::models {

/// The known inputs; a rule that lacks one is silent.
struct ParallelJob {
  double ranks = 1;                           ///< that are asked for
  std::optional<double> global_batch = {};    ///< samples of a step on that many
  std::optional<double> transfer_share = {};  ///< of the step, exposed, on that many
  std::optional<double> memory_bytes = {};    ///< of a rank
  std::optional<double> sample_bytes = {};    ///< activations and their gradients of one sample
  std::optional<double> fixed_bytes = {};     ///< weights, gradients, optimiser: whatever the batch
  /// largest global batch that is known to converge, or the gradient noise scale
  std::optional<double> safe_batch = {};
};

enum class Limit { kCommunication, kSamples, kMemory, kRecipe };
struct LimitReached {
  Limit limit;
  std::string sentence;
};
const char* name_of(Limit limit);

/// From this share of the step on transfer costs more than all computing.
constexpr double kTransferLimit = 0.5;

std::vector<LimitReached> limits_reached(const ParallelJob& job);

}  // namespace ddl::models
