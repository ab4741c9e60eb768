// Medians, percentiles and their uncertainty (specification.md "Conventions").
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace ddl {

/// Middle value; mean of the two middle ones for an even count. `values` must not be empty and is reordered.
double median_of(std::vector<double>& values);

/// Middle value; of an even count the upper one. `values` must not be empty.
int64_t upper_median_of(std::vector<int64_t> values);

/// Nearest-rank percentile, `fraction` in (0, 1]. `sorted` must be ascending and not empty.
double percentile_of(const std::vector<double>& sorted, double fraction);

struct Range {
  double lo;
  double hi;
};

constexpr int kBootstrapResamples = 2000;
constexpr size_t kBootstrapMinValues = 5;

/// Bootstrap 95 % interval of the median of `sorted` (ascending); nothing below kBootstrapMinValues. The seed is fixed:
/// the same values give the same interval.
std::optional<Range> bootstrap_median(const std::vector<double>& sorted);

/// 95 % interval of sum(parts) / sum(wholes), whose values are of the same steps; nothing below
/// kBootstrapMinValues, or where the wholes are 0. By linearisation: the variance of a ratio estimator (Cochran,
/// Sampling Techniques, 1977, section 6.4).
std::optional<Range> interval_of_ratio(const std::vector<double>& parts, const std::vector<double>& wholes);

/// How many standard errors to either side of a mean hold `confidence` of Student's t distribution: 2.78 for 4 degrees
/// of freedom and 0.95.
double student_t(double degrees, double confidence);
/// The value that an F statistic exceeds by chance with probability `by_chance`.
double fisher_f(double numerator_degrees, double denominator_degrees, double by_chance);

/// Rounds shares that add up to 1 to tenths of a percent such that they still do (largest remainder).
std::vector<double> round_shares(const std::vector<double>& shares);

/// Outliers: in the half with the largest values, those beyond its widest gap, ascending. Empty if that is a single
/// one. `all`: how many there are, with those that have no value. Half of the others are fewer than half of all.
std::vector<int64_t> stand_apart(const std::map<int64_t, double>& values, size_t all);

/// The median of a stream in bounded memory: exact up to kExact values, then from a histogram with 128 buckets per
/// power of two, which is off by at most 0.4 %. Values are not negative.
class MedianSketch {
 public:
  static constexpr size_t kExact = 256;

  void add(double value);
  uint64_t count() const { return count_; }
  /// Nothing without values.
  std::optional<double> median() const;

 private:
  double histogram_rank(uint64_t rank) const;

  uint64_t count_ = 0;
  std::vector<double> exact_;
  std::map<int, uint64_t> buckets_;
};

}  // namespace ddl
