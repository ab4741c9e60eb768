#include "analyzer/statistics.h"

#include <algorithm>
#include <boost/math/distributions/fisher_f.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>
#include <random>

namespace ddl {
namespace {

constexpr double kBucketsPerOctave = 128;
constexpr int kZeroBucket = -1'000'000;

// Doubles are exact enough. By default Boost computes in long double, whose tables it checks before main() and, under
// valgrind, which has doubles only, ends the program for.
using InDoubles = boost::math::policies::policy<boost::math::policies::promote_double<false>>;
using StudentsT = boost::math::students_t_distribution<double, InDoubles>;
using FisherF = boost::math::fisher_f_distribution<double, InDoubles>;

int bucket_of(double value) {
  return value <= 0 ? kZeroBucket : static_cast<int>(std::floor(std::log2(value) * kBucketsPerOctave));
}

double middle_of_bucket(int bucket) {
  return bucket == kZeroBucket ? 0 : std::exp2((bucket + 0.5) / kBucketsPerOctave);
}

}  // namespace

double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  const double below = *std::max_element(values.begin(), middle);
  return below == *middle ? below : below + (*middle - below) / 2;  // also of two infinite ones
}

int64_t upper_median_of(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double percentile_of(const std::vector<double>& sorted, double fraction) {
  const double rank = std::ceil(fraction * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

// The median of a resample of n values drawn with replacement is an order statistic of n uniform indices, and order
// statistics of uniform numbers are ratios of gamma variables. Drawing those gives the same distribution as drawing n
// indices, in constant time per resample.
std::optional<Range> bootstrap_median(const std::vector<double>& sorted) {
  const size_t n = sorted.size();
  if (n < kBootstrapMinValues) return std::nullopt;
  std::mt19937_64 random(20260101);
  const size_t middle = (n + 1) / 2;
  const auto below = static_cast<double>(middle);  // the (lower) middle value is the below-th smallest
  std::gamma_distribution<double> gamma_below(below);
  std::gamma_distribution<double> gamma_above(n % 2 == 1 ? static_cast<double>(n) + 1 - below
                                                         : static_cast<double>(n) - below);
  std::exponential_distribution<double> gap(1);
  const auto at = [&](double uniform) {
    return sorted[std::min(n - 1, static_cast<size_t>(uniform * static_cast<double>(n)))];
  };

  std::vector<double> medians(kBootstrapResamples);
  for (double& median : medians) {
    const double first = gamma_below(random);
    const double between = n % 2 == 1 ? 0 : gap(random);
    const double total = first + between + gamma_above(random);
    const double low = at(first / total), high = at((first + between) / total);
    median = low == high ? low : low + (high - low) / 2;  // also of two infinite ones
  }
  std::sort(medians.begin(), medians.end());
  return Range{percentile_of(medians, 0.025), percentile_of(medians, 0.975)};
}

std::optional<Range> interval_of_ratio(const std::vector<double>& parts, const std::vector<double>& wholes) {
  constexpr double kNormal95 = 1.959964;
  const size_t n = parts.size();
  const double whole = std::accumulate(wholes.begin(), wholes.end(), 0.0);
  if (n < kBootstrapMinValues || whole <= 0) return std::nullopt;
  const double ratio = std::accumulate(parts.begin(), parts.end(), 0.0) / whole;
  double squares = 0;
  for (size_t i = 0; i < n; ++i) squares += (parts[i] - ratio * wholes[i]) * (parts[i] - ratio * wholes[i]);
  const double arm = kNormal95 * std::sqrt(squares * static_cast<double>(n) / static_cast<double>(n - 1)) / whole;
  return Range{ratio - arm, ratio + arm};
}

double student_t(double degrees, double confidence) {
  return boost::math::quantile(StudentsT(degrees), (1 + confidence) / 2);
}

double fisher_f(double numerator_degrees, double denominator_degrees, double by_chance) {
  return boost::math::quantile(boost::math::complement(FisherF(numerator_degrees, denominator_degrees), by_chance));
}

std::vector<int64_t> stand_apart(const std::map<int64_t, double>& values, size_t all) {
  std::vector<std::pair<double, int64_t>> order;
  for (const auto& [id, value] : values) order.emplace_back(-value, id);
  std::sort(order.begin(), order.end());
  size_t apart = 0;
  double widest = 0;
  for (size_t i = 1; 2 * i <= order.size() && 2 * i < std::max(all, order.size()); ++i) {
    const double gap = order[i].first - order[i - 1].first;
    if (gap <= widest) continue;
    widest = gap;
    apart = i;
  }
  std::vector<int64_t> ids;
  for (size_t i = 0; apart > 1 && i < apart; ++i) ids.push_back(order[i].second);
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<double> round_shares(const std::vector<double>& shares) {
  std::vector<long> tenths;
  std::vector<size_t> order(shares.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto remainder = [&](size_t i) { return shares[i] * 1000 - std::floor(shares[i] * 1000); };
  for (const double share : shares) tenths.push_back(static_cast<long>(std::floor(share * 1000)));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return remainder(a) > remainder(b); });
  long left = 1000 - std::accumulate(tenths.begin(), tenths.end(), 0L);
  for (size_t i = 0; left > 0 && i < order.size(); ++i, --left) ++tenths[order[i]];
  std::vector<double> rounded;
  for (const long t : tenths) rounded.push_back(static_cast<double>(t) / 1000);
  return rounded;
}

void MedianSketch::add(double value) {
  ++count_;
  if (buckets_.empty()) {
    exact_.push_back(value);
    if (exact_.size() <= kExact) return;
    for (double kept : exact_) ++buckets_[bucket_of(kept)];
    exact_ = {};
    return;
  }
  ++buckets_[bucket_of(value)];
}

std::optional<double> MedianSketch::median() const {
  if (count_ == 0) return std::nullopt;
  if (buckets_.empty()) {
    std::vector<double> copy = exact_;
    return median_of(copy);
  }
  const double low = histogram_rank((count_ + 1) / 2);
  const double high = histogram_rank(count_ / 2 + 1);
  return low + (high - low) / 2;
}

double MedianSketch::histogram_rank(uint64_t rank) const {
  uint64_t seen = 0;
  for (const auto& [bucket, count] : buckets_) {
    seen += count;
    if (seen >= rank) return middle_of_bucket(bucket);
  }
  return middle_of_bucket(buckets_.rbegin()->first);
}

}  // namespace ddl
