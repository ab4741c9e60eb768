// A number over time in a bounded number of equal spans, with mean and maximum of each. A span is a power of two in
// nanoseconds, begins at a multiple of itself, and doubles as the run grows: the run's length need not be known
// beforehand, and spans of several numbers align.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <span>
#include <vector>

namespace ddl::reports {

class TimeBins {
 public:
  static constexpr size_t kMostBins = 256;

  struct Bin {
    double sum = 0;  ///< of value * ns
    double most = 0;
    int64_t ns = 0;  ///< for which it is known
    bool seen = false;
    double mean() const { return ns == 0 ? most : sum / static_cast<double>(ns); }
  };

  /// It was `value` in [begin_ns, end_ns), or for a moment; begins must not decrease.
  void hold(int64_t begin_ns, int64_t end_ns, double value);

  bool empty() const { return bins_.empty(); }
  int64_t begin_ns() const { return first_ * width_ns(); }
  int64_t end_ns() const { return begin_ns() + static_cast<int64_t>(bins_.size()) * width_ns(); }
  int64_t width_ns() const { return int64_t{1} << shift_; }
  const std::vector<Bin>& bins() const { return bins_; }

  /// Gives all the same spans, so wide that at most kMostBins cover all of them.
  static void align(std::span<TimeBins* const> all);

 private:
  void widen();

  int shift_ = 10;
  int64_t first_ = 0;  ///< the first bin begins at this multiple of the width
  std::vector<Bin> bins_;
};

/// The sum of the weights of open intervals, which come in order of their begins. Calls `held(from_ns, to_ns, sum)` at
/// each change; `ends_first` decides between an end and a begin at one time.
class OpenIntervals {
 public:
  explicit OpenIntervals(bool ends_first) : ends_first_(ends_first) {}

  template <class Held>
  void add(int64_t begin_ns, int64_t end_ns, double weight, const Held& held) {
    while (!ends_.empty() && (ends_.top().ns < begin_ns || (ends_first_ && ends_.top().ns == begin_ns))) close(held);
    go_to(begin_ns, held);
    sum_ += weight;
    ends_.push({end_ns, weight});
  }
  template <class Held>
  void finish(const Held& held) {
    while (!ends_.empty()) close(held);
  }
  size_t open() const { return ends_.size(); }

 private:
  struct End {
    int64_t ns;
    double weight;
    bool operator<(const End& other) const { return ns > other.ns; }  // the first one on top
  };
  template <class Held>
  void close(const Held& held) {
    const End end = ends_.top();
    go_to(end.ns, held);
    ends_.pop();
    sum_ = ends_.empty() ? 0 : sum_ - end.weight;  // rounding errors do not outlive it
  }
  template <class Held>
  void go_to(int64_t ns, const Held& held) {
    if (began_) held(now_ns_, ns, sum_);
    began_ = true;
    now_ns_ = ns;
  }

  std::priority_queue<End> ends_;
  double sum_ = 0;
  int64_t now_ns_ = 0;
  bool ends_first_, began_ = false;
};

/// Many numbers of which the `shown` most important keep their bins, so that memory is bounded. `is_less(a, b)`.
template <class Row, class IsLess>
void keep_most_important(std::vector<Row>& rows, size_t shown, const IsLess& is_less) {
  std::vector<Row*> drawn;
  for (Row& row : rows)
    if (!row.bins.empty()) drawn.push_back(&row);
  if (drawn.size() <= shown) return;
  std::stable_sort(drawn.begin(), drawn.end(), [&](const Row* a, const Row* b) { return is_less(*b, *a); });
  for (size_t i = shown; i < drawn.size(); ++i) drawn[i]->bins = {};
}

}  // namespace ddl::reports
