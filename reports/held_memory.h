// Memory held by allocators over time, as view v_memory has at each change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/run_view.h"
#include "reports/time_bins.h"

namespace ddl::reports {

/// One number of a rank: its device, and the kind (allocated, reserved, since begin).
struct HeldMemory {
  int64_t rank = 0, process = 0;
  std::string device, what;
  int64_t changes = 0;
  int64_t most_bytes = 0, last_bytes = 0;
  int64_t most_ns = 0;               ///< when it first peaked
  std::optional<int64_t> most_step;  ///< the step of the peak
  TimeBins bins;                     ///< bytes over time
};

/// By rank, device and kind; with bins for the `drawn` that held most.
std::vector<HeldMemory> read_held_memory(const RunView& run, size_t drawn);

}  // namespace ddl::reports
