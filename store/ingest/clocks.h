// From the ticks of processes to one time axis for the run.
//
// Processes that share a boot id share their TSC and their CLOCK_MONOTONIC (containers included), so all their (ticks, CLOCK_MONOTONIC)
// pairs go into one fit: a process that lived for a millisecond is placed with the rate that its neighbours measured for an hour. The slope
// is first taken as the median over pairs far apart, because a single pair that was interrupted between its two reads, or damaged, would
// bend a least-squares line; what is far from that line is dropped, the rest is fitted by least squares.
//
// Between hosts there is only the date: CLOCK_REALTIME - CLOCK_MONOTONIC, the median per boot. How far that is off is unknown here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/format.h"

namespace ddl::store {

/// Process ticks -> CLOCK_MONOTONIC of its host.
struct ClockLine {
  uint64_t base_ticks = 0;
  int64_t base_ns = 0;
  double ns_per_tick = 1;
  std::optional<double> residual_ns;  ///< largest distance of a pair that was used; unset with fewer than three
  bool rate_known = true;             ///< false: no two pairs to measure with, 1 tick = 1 ns was assumed

  int64_t monotonic_ns(uint64_t ticks) const;
  int64_t span_ns(uint64_t ticks) const;
};

struct TickPoint {
  uint64_t ticks;
  int64_t monotonic_ns;
};

/// Points in any order, wild ones among them.
ClockLine fit_line(std::vector<TickPoint> points);

/// What one process knows about time.
struct ClockEvidence {
  ClockKind kind;
  std::string domain;             ///< processes of one domain share their clocks
  std::vector<TickPoint> points;  ///< all pairs
  std::vector<int64_t> realtime_minus_monotonic_ns;
  TickPoint begin;
};

/// Places the moments of one process on the run's axis.
struct ProcessClock {
  ClockLine line;
  int64_t offset_ns = 0;  ///< added to CLOCK_MONOTONIC

  int64_t time_ns(uint64_t ticks) const;
  /// Distance of two moments on the axis, so that start + duration is exactly where another process sees the same moment.
  int64_t duration_ns(uint64_t start_ticks, uint64_t duration_ticks) const;
  /// For sums of durations.
  int64_t span_ns(uint64_t ticks) const { return line.span_ns(ticks); }
};

struct Clocks {
  std::vector<ProcessClock> processes;  ///< in the order of the evidence
  int64_t epoch_realtime_ns = 0;        ///< Unix time of the axis's zero: the earliest begin
  size_t domains = 0;
};

Clocks fit_clocks(const std::vector<ClockEvidence>& evidence);

}  // namespace ddl::store
