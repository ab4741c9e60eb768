// How much memory a rank needs at a batch, from what it needed at two others: a part that is always there (weights, optimiser, libraries)
// and a part for each sample (activations).
#pragma once

#include <optional>

namespace ddl::tune {

struct MemoryUse {
  double batch = 0;  ///< samples per rank
  double peak_bytes = 0;
};

struct MemoryModel {
  double fixed_bytes = 0, bytes_per_sample = 0;
  double peak_bytes(double batch) const { return fixed_bytes + bytes_per_sample * batch; }
};

/// Nothing: both have the same batch. Where the larger batch did not need more, all batches are taken to need what the more hungry one did.
std::optional<MemoryModel> memory_model(const MemoryUse& one, const MemoryUse& other);

}  // namespace ddl::tune
