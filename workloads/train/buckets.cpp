#include "workloads/train/buckets.h"

namespace ddl::train {

std::vector<Bucket> assign_buckets(std::span<const std::size_t> parameter_counts, std::size_t cap_bytes) {
  std::vector<Bucket> buckets;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < parameter_counts.size(); ++i) {
    const std::size_t count = parameter_counts[i];
    if (buckets.empty() || buckets.back().count * sizeof(float) >= cap_bytes) buckets.push_back({i, 0, offset, 0});
    buckets.back().parameters += 1;
    buckets.back().count += count;
    offset += count;
  }
  return buckets;
}

}  // namespace ddl::train
