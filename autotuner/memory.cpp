#include "autotuner/memory.h"

#include <algorithm>

namespace ddl::tune {

std::optional<MemoryModel> memory_model(const MemoryUse& one, const MemoryUse& other) {
  if (one.batch == other.batch) return std::nullopt;
  const double per_sample = (other.peak_bytes - one.peak_bytes) / (other.batch - one.batch);
  if (per_sample <= 0) return MemoryModel{std::max(one.peak_bytes, other.peak_bytes), 0};
  return MemoryModel{one.peak_bytes - per_sample * one.batch, per_sample};
}

}  // namespace ddl::tune
