// The search space: every combination of the values of some tunables. A point is a number; point 0 is the default.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddl::tune {

struct Tunable {
  std::string name;
  std::vector<std::string> values;  ///< distinct; the first is what the job runs with today
  bool modelled = false;            ///< the predictor knows what it does
  bool added = false;               ///< by ddl: nobody asked for it
};

/// Larger spaces take longer to predict point by point than a trial takes.
constexpr size_t kMostPoints = 100'000;

class Space {
 public:
  /// Throws ddl::Error (kUsage): no tunable, one without values, a value twice, or more than kMostPoints points.
  explicit Space(std::vector<Tunable> tunables);

  const std::vector<Tunable>& tunables() const { return tunables_; }
  size_t size() const { return size_; }

  /// Index of the value of a tunable at a point.
  size_t value_index(size_t point, size_t tunable) const {
    return point / strides_[tunable] % tunables_[tunable].values.size();
  }
  const std::string& value(size_t point, size_t tunable) const {
    return tunables_[tunable].values[value_index(point, tunable)];
  }
  /// By name; throws std::out_of_range if there is no such tunable.
  const std::string& value(size_t point, const std::string& name) const;
  bool has(const std::string& name) const;
  /// The same point with one tunable changed.
  size_t with(size_t point, size_t tunable, size_t value_index) const;

  /// The distance between two values: by size where all values are numbers; 0 or 1 for words.
  double distance(size_t tunable, size_t value_a, size_t value_b) const;
  bool is_ordered(size_t tunable) const { return !ranks_[tunable].empty(); }

  /// "batch=32 bucket_mb=4"
  std::string words(size_t point) const;

 private:
  std::vector<Tunable> tunables_;
  std::vector<size_t> strides_;
  std::vector<std::vector<size_t>> ranks_;  ///< place of each value in ascending order; empty: words
  size_t size_ = 1;
};

}  // namespace ddl::tune
