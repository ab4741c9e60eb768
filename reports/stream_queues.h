// Queue lengths of streams: kernels, copies and memsets launched but not begun. One pass over all GPU events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "reports/document.h"
#include "reports/run_view.h"
#include "reports/time_bins.h"

namespace ddl::reports {

/// CUDA's launch queue holds this many; the call that launches one more waits.
constexpr int64_t kFullQueue = 1024;

/// A stream from its first launch to the begin of its last operation. An operation counts from its launch to its begin.
struct StreamQueue {
  int64_t rank = 0;
  std::optional<int64_t> device, stream;
  int64_t changes = 0;  ///< launches and begins
  int64_t most = 0;
  int64_t time_ns = 0, empty_ns = 0, full_ns = 0;
  double length_ns = 0;  ///< sum of length * ns
  TimeBins bins;         ///< length over time, if requested

  std::optional<double> mean() const {
    return time_ns == 0 ? std::nullopt : std::optional(length_ns / static_cast<double>(time_ns));
  }
};

/// By rank, GPU and stream; with bins for the `drawn` with most changes.
std::vector<StreamQueue> read_queues(const RunView& run, size_t drawn);

/// Section *queue*.
Table table_of_queues(const RunView& run, const std::vector<StreamQueue>& queues);

}  // namespace ddl::reports
