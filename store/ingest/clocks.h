// From the ticks of processes to one time axis for the run.
//
// Processes that share a boot id share their TSC and their CLOCK_MONOTONIC (containers included), so all their (ticks,
// CLOCK_MONOTONIC) pairs go into one fit: a process that lived for a millisecond is placed with the rate that its
// neighbours measured for an hour. The slope is first taken as the median over pairs far apart, because a single pair
// that was interrupted between its two reads, or damaged, would bend a least-squares line; what is far from that line
// is dropped, the rest is fitted by least squares.
//
// Hosts of different boots are joined by their dates at first: CLOCK_REALTIME - CLOCK_MONOTONIC, the median per boot.
// How far that is off is unknown here; align_clocks.h finds out. That one boot means one clock is an assumption too
// (virtual machines resumed from one snapshot, time namespaces): align_clocks.h tests it, and asks for hosts of such a
// boot to be fitted apart.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/format.h"
#include "store/archive.h"

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
  /// The last tick that is not after `monotonic_ns`.
  uint64_t ticks_at(int64_t monotonic_ns) const;
  void archive(Archive& a) { a(base_ticks, base_ns, ns_per_tick, residual_ns, rate_known); }
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
  std::string host;
  std::string boot;               ///< empty: unknown
  std::vector<TickPoint> points;  ///< all pairs
  std::vector<int64_t> realtime_minus_monotonic_ns;
  TickPoint begin;
};

constexpr int64_t kFarthestNs = int64_t{1} << 61;  ///< 73 years

/// Places the moments of one process on the run's axis.
struct ProcessClock {
  /// From some moment on, ticks go straight to the axis (less `offset_ns`).
  struct Piece {
    uint64_t from_ticks;
    ClockLine line;
    void archive(Archive& a) { a(from_ticks, line); }
  };
  ClockLine line;             ///< to CLOCK_MONOTONIC of the host
  int64_t offset_ns = 0;      ///< added to `line`, or to the pieces
  std::vector<Piece> pieces;  ///< ascending; none: the axis runs at the pace of this host's clock
  double pace = 1;            ///< ns of the axis per ns of this host's clock, over all pieces
  size_t domain = 0;          ///< in Clocks::domains

  /// At most kFarthestNs from 0, whatever a damaged spool says: the difference of two times, or of one and
  /// now, is an int64_t.
  int64_t time_ns(uint64_t ticks) const;
  /// Distance of two moments on the axis, so that start + duration is exactly where another process sees the same
  /// moment.
  int64_t duration_ns(uint64_t start_ticks, uint64_t duration_ticks) const;
  /// The same by one who knows time_ns(start_ticks) already.
  int64_t duration_ns(int64_t start_ns, uint64_t start_ticks, uint64_t duration_ticks) const;
  /// For sums of durations.
  int64_t span_ns(uint64_t ticks) const;
  /// What to add to this host's CLOCK_MONOTONIC to reach the axis where the axis is zero.
  int64_t offset_at_zero_ns() const;
  void archive(Archive& a) { a(line, offset_ns, pieces, pace, domain); }
};

/// How a host came to its place on the axis.
enum class ClockMethod { kSingleHost, kReference, kCollectives, kClockSync, kRealtime };
const char* name_of(ClockMethod method);

/// Hosts that share their clocks.
struct ClockDomain {
  ClockMethod method = ClockMethod::kSingleHost;
  std::optional<double> sigma_ns;  ///< of its place against the reference; nothing: unknown
};

struct Clocks {
  std::vector<ProcessClock> processes;  ///< in the order of the evidence
  std::vector<ClockDomain> domains;     ///< in the order of first appearance
  int64_t epoch_realtime_ns = 0;        ///< Unix time of the axis's zero: the earliest begin
};

/// All hosts by date. Hosts of one boot share a clock, except where the boot is in `apart`.
Clocks fit_clocks(const std::vector<ClockEvidence>& evidence, const std::set<std::string>& apart = {});

/// Moves the axis so that it begins with the earliest process.
void begin_with_earliest(Clocks& clocks, const std::vector<ClockEvidence>& evidence);

/// Sum and difference that stop at the ends of int64: damaged stamps must not overflow.
int64_t saturating_add(int64_t a, int64_t b);
int64_t saturating_subtract(int64_t a, int64_t b);

}  // namespace ddl::store
