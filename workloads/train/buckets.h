#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ddl::train {

/** A run of neighbouring parameters whose gradients are reduced together. */
struct Bucket {
  std::size_t first_parameter;
  std::size_t parameters;
  std::size_t offset;  ///< in floats, from the start of the arena
  std::size_t count;   ///< floats

  std::size_t end_parameter() const { return first_parameter + parameters; }
};

/**
 * Cuts parameters, given by their floats in backward order, into buckets. A bucket is closed as soon as it holds
 * `cap_bytes`; parameters are not split. This is the rule of PyTorch DDP's bucket_cap_mb, so that a value tuned here
 * means the same there: every bucket but the last holds at least the cap, and a cap of 0 makes one bucket per
 * parameter. (Closing before the cap is exceeded, as a fusion buffer has to, would leave each bias that follows a large
 * weight in a bucket of its own.) */
std::vector<Bucket> assign_buckets(std::span<const std::size_t> parameter_counts, std::size_t cap_bytes);

}  // namespace ddl::train
