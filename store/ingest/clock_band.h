// How far one clock is from another, from nothing but "this happened before that".
//
// What is known. Nobody leaves an allreduce before everybody has entered it. So for a member on host B and one on host
// A, the moment at which B's left is not before the moment at which A's entered, and the other way round. Let x be time
// on B's clock and x + offset(x) the same moment on A's. Each instance then says two things, whatever the network did:
//
//     offset(leave_B) >= enter_A - leave_B         offset(enter_B) <= leave_A - enter_B
//
// Over an interval in which both clocks run evenly the offset is a straight line, o + d x: it must pass above all lower
// bounds and below all upper ones. The lines that do are a convex region; the truth is one of them. This is the convex
// hull method (Duda, Harrus, Haddad, Bernard: Estimating global time in distributed systems, ICDCS 1987; Jezequel, Jard
// 1996; Poirier, Roy, Dagenais: Accurate offline synchronization of distributed traces, ACM SIGOPS OSR 44(3), 2010). A
// line is written here as its values at both ends of the interval; then the region is a polygon whose bounding box says
// at once how far the offset can be wrong at either end, and, because a line errs most at an end, anywhere between. The
// estimate is the middle of the box. It lies in the region, as for every convex region in a plane.
//
// What the width is worth. Within the region no line is likelier than another, so the error is taken as uniform over
// the box's side: sigma = half width / sqrt(3) = width / sqrt(12) (GUM, JCGM 100:2008, 4.3.7). Three sigma are 1.7 half
// widths: more than can be. Two things would make the width a lie, and both widen it:
//
//   one wrong instance     (a damaged stamp, a mispaired call) may lie inside the slack of the others and narrow the
//                          band unnoticed. So the width is that of all lines that violate at most one instance: what a
//                          single witness says is not believed.
//                          the width is that of all lines that violate at most one instance: what a single witness
//                          says is not believed.
//   a clock that bends     squeezes the band of a straight line to nothing long before it contradicts it. So the width
//                          at each end is no smaller than what the nearer half of the instances alone leaves open; in
//                          the middle, where messages of our own at both ends of a run may be all there is, not more
//                          than the clocks' pace can have changed by.
//                          smaller than what the nearer half of the instances alone leaves open; in the middle, where
//                          messages of our own at both ends of a run may be all there is, not more than the clocks'
//                          pace can have changed by.
//
// When no line is left, the instances in conflict are set aside, a few per hundred at most and never three in a row:
// one record is damaged, ten records are a clock that changed its pace. Then the interval is cut in two, down to pieces
// of some dozen bounds, and the pieces are joined where their ranges overlap. Where they do not overlap the clock
// jumped, and there is no answer rather than a wrong one.
//
// Both clocks may differ by at most kMaxDrift (NTP slews by 500 ppm, crystals are off by 100): that bounds what lies
// outside the first and the last instance, and lets a few instances close together say something at all.
//
// Rejected: least squares through the middles (no bound, biased by whoever is late more often), a message of our own
// (opt-in, see interpose/clock_sync.cpp; its exchanges come here as bounds like any other).
//
// Units: ns; x is relative to a moment of B, offsets to a difference of moments, so that doubles hold them
// to well below a ns.
#pragma once

#include <cstdint>
#include <vector>

namespace ddl::store {

constexpr double kMaxDrift = 1e-3;

/// How much the pace of one clock against the other may change within a run. Counters of CPU cycles follow their
/// crystals, whose frequency changes by a few ppm with temperature; CLOCK_MONOTONIC is slewed at any time.
constexpr double kMaxBendOfTsc = 1e-5, kMaxBend = 2 * kMaxDrift;

/// offset(at_ns) is at least, or at most, offset_ns.
struct ClockBound {
  double at_ns;
  double offset_ns;
  uint32_t instance;  ///< which instance said so: bounds of one instance are right or wrong together
};

struct ClockBounds {
  std::vector<ClockBound> lower, upper;
};

struct ClockKnot {
  double at_ns;
  double offset_ns;
  double error_ns;  ///< half width
};

struct ClockBand {
  enum class Verdict {
    kFound,
    kTooFew,        ///< fewer than two instances on either side
    kContradiction  ///< no even pace, and no joined pieces, explain the bounds
  };
  Verdict verdict = Verdict::kTooFew;
  std::vector<ClockKnot> knots;  ///< ascending; the offset is linear in between
  uint32_t set_aside = 0;        ///< instances that contradict all others

  /// The largest half width.
  double error_ns() const;
};

/// `first_ns`, `last_ns`: the interval for which the answer must hold; it is widened to contain all bounds.
/// `most_bend`: see kMaxBend.
ClockBand find_clock_band(ClockBounds bounds, double first_ns, double last_ns, double most_bend);

}  // namespace ddl::store
