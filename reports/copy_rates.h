// How fast GPUs copied over time: what copies and memsets of a kind moved together, as view v_copy_rate tells at each change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/run_view.h"
#include "reports/time_bins.h"

namespace ddl::reports {

/// What a rank copies of one kind (HtoD, ..., memset).
struct CopyRate {
  int64_t rank = 0;
  std::string kind;
  int64_t copies = 0;
  int64_t bytes = 0, busy_ns = 0;  ///< moved, and how long any ran
  int64_t unknown = 0;             ///< copies whose bytes are not known, or that took no time: in nothing but this
  double most = 0;                 ///< bytes a second, at any time
  std::optional<double> peak;      ///< of the link in that direction, where it is known
  TimeBins bins;                   ///< bytes a second over time
};

/// By rank and kind. Of the `drawn` that moved most bytes, the bins as well.
std::vector<CopyRate> read_copy_rates(const RunView& run, size_t drawn);

}  // namespace ddl::reports
