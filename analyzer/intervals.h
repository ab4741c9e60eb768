// Interval-set algebra (specification.md "Conventions"): half-open intervals [begin, end) in integer ns, so that
// lengths of disjoint sets add up exactly.
//
// A set is kept as its sorted, merged parts; touching intervals merge. Building one from n intervals takes O(n log n),
// every operation on two sets is one sweep. Thread-safe as any value type.
#pragma once

#include <cstdint>
#include <vector>

namespace ddl {

struct Interval {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;

  int64_t length_ns() const { return end_ns - begin_ns; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

class IntervalSet {
 public:
  IntervalSet() = default;
  /// The union of `intervals`, which may overlap and come in any order. Empty and reversed ones are dropped.
  explicit IntervalSet(std::vector<Interval> intervals);

  const std::vector<Interval>& parts() const { return parts_; }
  bool empty() const { return parts_.empty(); }
  int64_t length_ns() const;

  friend IntervalSet unite(const IntervalSet& a, const IntervalSet& b);
  friend IntervalSet intersect(const IntervalSet& a, const IntervalSet& b);
  friend IntervalSet subtract(const IntervalSet& a, const IntervalSet& b);

  friend bool operator==(const IntervalSet& a, const IntervalSet& b) { return a.parts_ == b.parts_; }

 private:
  std::vector<Interval> parts_;
};

IntervalSet unite(const IntervalSet& a, const IntervalSet& b);
IntervalSet intersect(const IntervalSet& a, const IntervalSet& b);
/// a without b.
IntervalSet subtract(const IntervalSet& a, const IntervalSet& b);

}  // namespace ddl
