// Bandwidth of GPU copies over time: copies and memsets of a kind together, as view v_copy_rate has at each change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/run_view.h"
#include "reports/time_bins.h"

namespace ddl::reports {

/// A rank's copies of one kind (HtoD, ..., memset).
struct CopyRate {
  int64_t rank = 0;
  std::string kind;
  int64_t copies = 0;
  int64_t bytes = 0, busy_ns = 0;  ///< moved, and how long any ran
  int64_t unknown = 0;             ///< copies of unknown size or without duration, counted here only
  double most = 0;                 ///< bytes a second, at any time
  std::optional<double> peak;      ///< of the link in that direction, if known
  TimeBins bins;                   ///< bytes a second over time
};

/// By rank and kind; with bins for the `drawn` that moved most bytes.
std::vector<CopyRate> read_copy_rates(const RunView& run, size_t drawn);

}  // namespace ddl::reports
