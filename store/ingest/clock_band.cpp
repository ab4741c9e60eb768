#include "store/ingest/clock_band.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <tuple>

namespace ddl::store {

namespace {

constexpr uint32_t kNobody = UINT32_MAX;     // the limit on the drift, which belongs to no instance
constexpr size_t kMinHalf = 8;               // bounds per side that a half or a piece must have
constexpr size_t kInstancesPerOutlier = 20;  // at most one in so many is set aside
constexpr size_t kMostOutlierRounds = 16;    // each sets aside up to three and costs a pass over the bounds
constexpr size_t kBadInARow = 3;
constexpr double kMinInterval = 1e6;

using Bounds = std::span<const ClockBound>;  // by time, then offset
using Excluded = std::set<uint32_t>;

double cross(const ClockBound& o, const ClockBound& a, const ClockBound& b) {
  return (a.at_ns - o.at_ns) * (b.offset_ns - o.offset_ns) - (a.offset_ns - o.offset_ns) * (b.at_ns - o.at_ns);
}

/// The bounds that can touch a line: the upper hull of lower bounds (sign 1), the lower hull of upper ones (sign -1).
class Hull {
 public:
  Hull(Bounds bounds, double sign, const Excluded& excluded)
      : bounds_(bounds), sign_(sign), below_(bounds.size(), kNone) {
    std::vector<uint32_t> hull;
    for (uint32_t i = 0; i < bounds.size(); ++i)
      if (excluded.empty() || excluded.count(bounds[i].instance) == 0) add(i, hull, &below_);
    top_ = hull.empty() ? kNone : hull.back();
  }

  std::vector<ClockBound> points() const { return points_of(up_to(top_)); }
  /// The hull without one more instance: up to its first bound it is what it was there.
  std::vector<ClockBound> without(uint32_t instance) const {
    uint32_t i = 0, top = kNone;
    for (; i < bounds_.size() && bounds_[i].instance != instance; ++i)
      if (below_[i] != kNone) top = i;
    std::vector<uint32_t> hull = up_to(top);
    for (; i < bounds_.size(); ++i)
      if (below_[i] != kNone && bounds_[i].instance != instance) add(i, hull, nullptr);
    return points_of(hull);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX, kBottom = UINT32_MAX - 1;

  /// `below`: gets what lies below the bound when it has been added.
  void add(uint32_t bound, std::vector<uint32_t>& hull, std::vector<uint32_t>* below) const {
    while (hull.size() >= 2 && sign_ * cross(bounds_[hull[hull.size() - 2]], bounds_[hull.back()], bounds_[bound]) >= 0)
      hull.pop_back();
    if (below != nullptr) (*below)[bound] = hull.empty() ? kBottom : hull.back();
    hull.push_back(bound);
  }
  /// The hull when `top` had been added.
  std::vector<uint32_t> up_to(uint32_t top) const {
    std::vector<uint32_t> hull;
    for (; top < kBottom; top = below_[top]) hull.push_back(top);
    std::reverse(hull.begin(), hull.end());
    return hull;
  }
  std::vector<ClockBound> points_of(const std::vector<uint32_t>& hull) const {
    std::vector<ClockBound> points;
    points.reserve(hull.size());
    for (const uint32_t i : hull) points.push_back(bounds_[i]);
    return points;
  }

  Bounds bounds_;
  double sign_;
  /// by bound: the one below it when it had been added; kBottom: none; kNone: it is excluded
  std::vector<uint32_t> below_;
  uint32_t top_ = kNone;  ///< the last one
};

/// An interval on which the offset is a line, and what bounds it there.
struct Piece {
  double first_ns, last_ns;
  Bounds lower, upper;
};

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();

  void include(double low_ns, double high_ns) { low = std::min(low, low_ns), high = std::max(high, high_ns); }
  double middle() const { return low + (high - low) / 2; }
};

/// The lines that all bounds leave.
struct Region {
  bool bounded = true;  ///< false: one side has no bound at all
  bool empty = false;
  Range first, last;                ///< of the offset at the ends of the piece
  std::vector<uint32_t> instances;  ///< that shape the region, or, if it is empty, contradict each other
};

struct Vertex {
  double first, last;  ///< offset at the ends of the piece
  uint32_t edge;       ///< whose bound is the edge to the next vertex
};

class Polygon {
 public:
  /// A box, cut by the limit on the drift.
  Polygon(const Range& first, uint32_t first_low, uint32_t first_high, const Range& last, uint32_t last_low,
          uint32_t last_high, double most_change) {
    vertices_ = {{first.low, last.low, last_low},
                 {first.high, last.low, first_high},
                 {first.high, last.high, last_high},
                 {first.low, last.high, first_low}};
    cut(-1, 1, most_change, kNobody);
    cut(1, -1, most_change, kNobody);
  }

  const std::vector<Vertex>& vertices() const { return vertices_; }

  /// Keeps what has a * first + b * last + c >= 0. False: nothing is left; `conflict` gets who did it.
  bool cut(double a, double b, double c, uint32_t instance, std::vector<uint32_t>* conflict = nullptr) {
    std::vector<double>& side = side_;
    side.clear();
    bool all_in = true, all_out = true;
    for (const Vertex& v : vertices_) {
      side.push_back(a * v.first + b * v.last + c);
      all_in &= side.back() >= 0;
      all_out &= side.back() < 0;
    }
    if (all_in) return true;
    const size_t n = vertices_.size();
    if (all_out) {  // what holds the polygon back at the vertex that is nearest contradicts the cut
      const size_t nearest = static_cast<size_t>(std::max_element(side.begin(), side.end()) - side.begin());
      if (conflict) *conflict = {instance, vertices_[nearest].edge, vertices_[(nearest + n - 1) % n].edge};
      return false;
    }
    std::vector<Vertex>& kept = kept_;
    kept.clear();
    for (size_t i = 0; i < n; ++i) {
      const size_t next = (i + 1) % n;
      if (side[i] >= 0) kept.push_back(vertices_[i]);
      if ((side[i] >= 0) == (side[next] >= 0)) continue;
      const double share = side[i] / (side[i] - side[next]);
      const Vertex& from = vertices_[i];
      const Vertex& to = vertices_[next];
      kept.push_back({from.first + share * (to.first - from.first), from.last + share * (to.last - from.last),
                      side[i] >= 0 ? instance : from.edge});
    }
    vertices_.swap(kept);
    return true;
  }

 private:
  std::vector<Vertex> vertices_;
  std::vector<double> side_;  ///< of each vertex; here and below memory that the next cut uses again
  std::vector<Vertex> kept_;
};

void unique_instances(std::vector<uint32_t>& instances) {
  std::sort(instances.begin(), instances.end());
  instances.erase(std::unique(instances.begin(), instances.end()), instances.end());
  if (!instances.empty() && instances.back() == kNobody) instances.pop_back();
}

/// Range of the offset at `at_ns` that single bounds leave with any drift that can be; who limits it.
void reach(const std::vector<ClockBound>& lower, const std::vector<ClockBound>& upper, double at_ns, Range& range,
           uint32_t& low, uint32_t& high) {
  range = {-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  for (const ClockBound& bound : lower) {
    if (const double offset_ns = bound.offset_ns - kMaxDrift * std::abs(at_ns - bound.at_ns); offset_ns > range.low)
      range.low = offset_ns, low = bound.instance;
  }
  for (const ClockBound& bound : upper) {
    if (const double offset_ns = bound.offset_ns + kMaxDrift * std::abs(at_ns - bound.at_ns); offset_ns < range.high)
      range.high = offset_ns, high = bound.instance;
  }
}

/// Both hulls of a piece.
struct Hulls {
  Hulls(const Piece& piece, const Excluded& excluded)
      : lower(piece.lower, 1, excluded), upper(piece.upper, -1, excluded) {}
  Hull lower, upper;
};

Region solve(const Piece& piece, const std::vector<ClockBound>& lower, const std::vector<ClockBound>& upper) {
  Region region;
  region.bounded = !lower.empty() && !upper.empty();
  if (!region.bounded) return region;
  Range first, last;
  uint32_t first_low = kNobody, first_high = kNobody, last_low = kNobody, last_high = kNobody;
  reach(lower, upper, piece.first_ns, first, first_low, first_high);
  reach(lower, upper, piece.last_ns, last, last_low, last_high);
  const double length = piece.last_ns - piece.first_ns;
  if (first.low > first.high || last.low > last.high) {
    region.empty = true;
    region.instances = first.low > first.high ? std::vector{first_low, first_high} : std::vector{last_low, last_high};
    unique_instances(region.instances);
    return region;
  }
  Polygon polygon(first, first_low, first_high, last, last_low, last_high, kMaxDrift * length);
  const auto cut = [&](const std::vector<ClockBound>& bounds, double sign) {
    for (const ClockBound& bound : bounds) {
      const double share = (bound.at_ns - piece.first_ns) / length;
      if (!polygon.cut(sign * (1 - share), sign * share, -sign * bound.offset_ns, bound.instance, &region.instances))
        return false;
    }
    return true;
  };
  region.empty = !cut(lower, 1) || !cut(upper, -1);
  if (!region.empty) {
    for (const Vertex& v : polygon.vertices()) {
      region.first.include(v.first, v.first);
      region.last.include(v.last, v.last);
      region.instances.push_back(v.edge);
    }
  }
  unique_instances(region.instances);
  return region;
}

Region solve(const Piece& piece, const Hulls& hulls) {
  return solve(piece, hulls.lower.points(), hulls.upper.points());
}

Region solve(const Piece& piece, const Excluded& excluded) { return solve(piece, Hulls(piece, excluded)); }

/// The piece's instances in the order of time.
std::vector<uint32_t> in_order(const Piece& piece) {
  std::vector<ClockBound> all(piece.lower.begin(), piece.lower.end());
  all.insert(all.end(), piece.upper.begin(), piece.upper.end());
  std::stable_sort(all.begin(), all.end(), [](const ClockBound& a, const ClockBound& b) { return a.at_ns < b.at_ns; });
  std::vector<uint32_t> instances;
  std::set<uint32_t> seen;
  for (const ClockBound& bound : all) {
    if (seen.insert(bound.instance).second) instances.push_back(bound.instance);
  }
  return instances;
}

/// Few, and never several in a row or at an end: those are records gone wrong, not a clock.
bool are_outliers(const Piece& piece, const Excluded& bad) {
  const std::vector<uint32_t> instances = in_order(piece);
  if (bad.size() * kInstancesPerOutlier > instances.size()) return false;
  size_t row = 1;  // as if what lies before the first were bad too
  for (const uint32_t instance : instances) {
    row = bad.count(instance) ? row + 1 : 0;
    if (row == kBadInARow) return false;
  }
  return row + 1 < kBadInARow;
}

/// Sets aside what contradicts the rest. False: the rest would not be the rest any more.
bool set_outliers_aside(const Piece& piece, Region& region, Excluded& excluded) {
  const size_t most =
      std::min(std::max(piece.lower.size(), piece.upper.size()) / kInstancesPerOutlier, kMostOutlierRounds);
  for (size_t round = 0; region.empty; ++round) {
    if (round == most) return false;
    excluded.insert(region.instances.begin(), region.instances.end());  // at least one of them is wrong
    region = solve(piece, excluded);
    if (!region.bounded) return false;
  }
  for (const uint32_t instance : std::vector<uint32_t>(excluded.begin(), excluded.end())) {
    excluded.erase(instance);
    Region with = solve(piece, excluded);
    if (with.empty) {
      excluded.insert(instance);
    } else {
      region = std::move(with);
    }
  }
  return excluded.empty() || are_outliers(piece, excluded);
}

/// What is left open when any one instance may be wrong. False: everything.
bool without_any_one(const Piece& piece, const Region& region, const Hulls& hulls, Range& first, Range& last) {
  first = region.first;
  last = region.last;
  for (const uint32_t instance : region.instances) {
    const Region wider = solve(piece, hulls.lower.without(instance), hulls.upper.without(instance));
    if (!wider.bounded) return false;
    first.include(wider.first.low, wider.first.high);
    last.include(wider.last.low, wider.last.high);
  }
  return true;
}

double half_width(const Range& range, double around) { return std::max(range.high - around, around - range.low); }

/// Bounds of `piece` before (or from) `at_ns`.
Piece part_of(const Piece& piece, double at_ns, bool before) {
  const auto split = [&](Bounds bounds) {
    const auto middle = std::lower_bound(bounds.begin(), bounds.end(), at_ns,
                                         [](const ClockBound& b, double at) { return b.at_ns < at; });
    const size_t count = static_cast<size_t>(middle - bounds.begin());
    return before ? bounds.first(count) : bounds.subspan(count);
  };
  return {before ? piece.first_ns : at_ns, before ? at_ns : piece.last_ns, split(piece.lower), split(piece.upper)};
}

double middle_of(const Piece& piece) {
  const Bounds more = piece.lower.size() > piece.upper.size() ? piece.lower : piece.upper;
  return more[more.size() / 2].at_ns;
}

bool is_large_enough(const Piece& piece) {
  return piece.lower.size() >= kMinHalf && piece.upper.size() >= kMinHalf &&
         piece.last_ns - piece.first_ns >= kMinInterval;
}

using Verdict = ClockBand::Verdict;

struct Ends {
  Verdict verdict = Verdict::kTooFew;
  ClockKnot first = {}, last = {};
};

Ends fit_line(const Piece& piece, double most_bend, Excluded& excluded) {
  Ends ends;
  Hulls hulls(piece, excluded);
  Region region = solve(piece, hulls);
  if (!region.bounded) return ends;
  if (region.empty) {
    if (!set_outliers_aside(piece, region, excluded)) {
      ends.verdict = Verdict::kContradiction;
      return ends;
    }
    hulls = Hulls(piece, excluded);
  }
  Range first, last;
  if (!without_any_one(piece, region, hulls, first, last)) return ends;
  ends.verdict = Verdict::kFound;
  ends.first = {piece.first_ns, region.first.middle(), 0};
  ends.last = {piece.last_ns, region.last.middle(), 0};
  ends.first.error_ns = half_width(first, ends.first.offset_ns);
  ends.last.error_ns = half_width(last, ends.last.offset_ns);
  const double middle_ns = middle_of(piece);
  const Piece before = part_of(piece, middle_ns, true), after = part_of(piece, middle_ns, false);
  if (is_large_enough(before) && is_large_enough(after)) {
    const Region early = solve(before, excluded), late = solve(after, excluded);
    const double share = (middle_ns - piece.first_ns) / (piece.last_ns - piece.first_ns);
    const double offset_ns = ends.first.offset_ns + share * (ends.last.offset_ns - ends.first.offset_ns);
    // A line with one bend leaves the straight one between its ends by a quarter of the bend times its length at most.
    const double bend_error_ns =
        std::max(ends.first.error_ns, ends.last.error_ns) + most_bend * (piece.last_ns - piece.first_ns) / 4;
    const double middle_error_ns =
        std::min(std::max(half_width(early.last, offset_ns), half_width(late.first, offset_ns)), bend_error_ns);
    ends.first.error_ns =
        std::max({ends.first.error_ns, half_width(early.first, ends.first.offset_ns), middle_error_ns});
    ends.last.error_ns = std::max({ends.last.error_ns, half_width(late.last, ends.last.offset_ns), middle_error_ns});
  }
  return ends;
}

/// Appends the knots of `piece`, cut until it fits.
Verdict fit(const Piece& piece, double most_bend, std::vector<ClockKnot>& knots, Excluded& excluded) {
  Excluded bad;
  const Ends ends = fit_line(piece, most_bend, bad);
  if (ends.verdict == Verdict::kContradiction) {
    const double middle_ns = middle_of(piece);
    const Piece before = part_of(piece, middle_ns, true), after = part_of(piece, middle_ns, false);
    if (!is_large_enough(before) || !is_large_enough(after)) return ends.verdict;
    const Verdict verdict = fit(before, most_bend, knots, excluded);
    return verdict == Verdict::kFound ? fit(after, most_bend, knots, excluded) : verdict;
  }
  if (ends.verdict != Verdict::kFound) return ends.verdict;
  excluded.merge(bad);
  if (knots.empty()) {
    knots.push_back(ends.first);
  } else {  // the moment belongs to both pieces
    ClockKnot& joint = knots.back();
    const double low = std::max(joint.offset_ns - joint.error_ns, ends.first.offset_ns - ends.first.error_ns);
    const double high = std::min(joint.offset_ns + joint.error_ns, ends.first.offset_ns + ends.first.error_ns);
    if (low > high) return Verdict::kContradiction;
    joint = {joint.at_ns, low + (high - low) / 2, std::min(joint.error_ns, ends.first.error_ns)};
  }
  knots.push_back(ends.last);
  return Verdict::kFound;
}

}  // namespace

double ClockBand::error_ns() const {
  double error_ns = 0;
  for (const ClockKnot& knot : knots) error_ns = std::max(error_ns, knot.error_ns);
  return error_ns;
}

ClockBand find_clock_band(ClockBounds bounds, double first_ns, double last_ns, double most_bend) {
  for (std::vector<ClockBound>* side : {&bounds.lower, &bounds.upper}) {
    std::sort(side->begin(), side->end(), [](const ClockBound& a, const ClockBound& b) {
      return std::tie(a.at_ns, a.offset_ns, a.instance) < std::tie(b.at_ns, b.offset_ns, b.instance);
    });
    if (side->empty()) return {};
    first_ns = std::min(first_ns, side->front().at_ns);
    last_ns = std::max(last_ns, side->back().at_ns);
  }
  last_ns = std::max(last_ns, first_ns + kMinInterval);
  ClockBand band;
  Excluded excluded;
  band.verdict = fit({first_ns, last_ns, bounds.lower, bounds.upper}, most_bend, band.knots, excluded);
  if (band.verdict != Verdict::kFound) band.knots.clear();
  band.set_aside = static_cast<uint32_t>(excluded.size());
  return band;
}

}  // namespace ddl::store
