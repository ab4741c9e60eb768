#include "analyzer/intervals.h"

#include <algorithm>
#include <utility>

namespace ddl {
namespace {

/// Appends to sorted parts, merging what overlaps or touches the last one.
void append(std::vector<Interval>& parts, const Interval& next) {
  if (!parts.empty() && next.begin_ns <= parts.back().end_ns) {
    parts.back().end_ns = std::max(parts.back().end_ns, next.end_ns);
  } else {
    parts.push_back(next);
  }
}

}  // namespace

IntervalSet::IntervalSet(std::vector<Interval> intervals) {
  std::erase_if(intervals, [](const Interval& i) { return i.end_ns <= i.begin_ns; });
  const auto by_begin = [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; };
  if (!std::is_sorted(intervals.begin(), intervals.end(), by_begin))
    std::sort(intervals.begin(), intervals.end(), by_begin);
  size_t merged = 0;  // in the place of those before
  for (const Interval& interval : intervals) {
    if (merged > 0 && interval.begin_ns <= intervals[merged - 1].end_ns) {
      intervals[merged - 1].end_ns = std::max(intervals[merged - 1].end_ns, interval.end_ns);
    } else {
      intervals[merged++] = interval;
    }
  }
  intervals.resize(merged);
  parts_ = std::move(intervals);
}

int64_t IntervalSet::length_ns() const {
  int64_t sum = 0;
  for (const Interval& part : parts_) sum += part.length_ns();
  return sum;
}

IntervalSet unite(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet result;
  result.parts_.reserve(std::max(a.parts_.size(), b.parts_.size()));
  auto i = a.parts_.begin();
  auto j = b.parts_.begin();
  while (i != a.parts_.end() || j != b.parts_.end()) {
    const bool from_a = j == b.parts_.end() || (i != a.parts_.end() && i->begin_ns <= j->begin_ns);
    append(result.parts_, from_a ? *i++ : *j++);
  }
  return result;
}

IntervalSet intersect(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet result;
  result.parts_.reserve(std::min(a.parts_.size(), b.parts_.size()));
  auto i = a.parts_.begin();
  auto j = b.parts_.begin();
  while (i != a.parts_.end() && j != b.parts_.end()) {
    const Interval common{std::max(i->begin_ns, j->begin_ns), std::min(i->end_ns, j->end_ns)};
    if (common.begin_ns < common.end_ns) result.parts_.push_back(common);
    if (i->end_ns < j->end_ns) {
      ++i;
    } else {
      ++j;
    }
  }
  return result;
}

IntervalSet subtract(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet result;
  auto j = b.parts_.begin();
  for (Interval rest : a.parts_) {
    while (j != b.parts_.end() && j->end_ns <= rest.begin_ns) ++j;
    for (auto k = j; k != b.parts_.end() && k->begin_ns < rest.end_ns; ++k) {
      if (k->begin_ns > rest.begin_ns) result.parts_.push_back({rest.begin_ns, k->begin_ns});
      rest.begin_ns = k->end_ns;
    }
    if (rest.begin_ns < rest.end_ns) result.parts_.push_back(rest);
  }
  return result;
}

}  // namespace ddl
