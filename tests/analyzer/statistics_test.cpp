#include "analyzer/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace ddl {
namespace {

TEST(Statistics, MedianByHand) {
  std::vector<double> odd = {5, 1, 3};
  std::vector<double> even = {4, 1, 3, 2};
  EXPECT_EQ(median_of(odd), 3);
  EXPECT_EQ(median_of(even), 2.5);
}

TEST(Statistics, NearestRankPercentile) {
  const std::vector<double> ten = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(percentile_of(ten, 0.1), 1);
  EXPECT_EQ(percentile_of(ten, 0.9), 9);
  EXPECT_EQ(percentile_of(ten, 0.91), 10);
  EXPECT_EQ(percentile_of({7}, 0.1), 7);
}

TEST(Statistics, NoIntervalFromFewValues) {
  EXPECT_FALSE(bootstrap_median({1, 2, 3, 4}));
  EXPECT_TRUE(bootstrap_median({1, 2, 3, 4, 5}));
}

/// The textbook bootstrap: draw n indices, take the median, many times.
Range naive_bootstrap(const std::vector<double>& sorted) {
  std::mt19937 random(7);
  std::uniform_int_distribution<size_t> pick(0, sorted.size() - 1);
  std::vector<double> medians;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<double> sample(sorted.size());
    for (double& value : sample) value = sorted[pick(random)];
    medians.push_back(median_of(sample));
  }
  std::sort(medians.begin(), medians.end());
  return {percentile_of(medians, 0.025), percentile_of(medians, 0.975)};
}

TEST(Statistics, BootstrapMatchesTheTextbook) {
  std::mt19937 random(3);
  std::lognormal_distribution<double> times(0, 0.5);
  for (size_t n : {5u, 8u, 31u, 100u}) {
    std::vector<double> values(n);
    for (double& value : values) value = times(random);
    std::sort(values.begin(), values.end());
    const Range naive = naive_bootstrap(values);
    const Range ours = *bootstrap_median(values);
    // Ends fall on order statistics: allow one of them to either side of the textbook's.
    const auto near = [&](double a, double b) {
      const auto position = [&](double v) { return std::lower_bound(values.begin(), values.end(), v) - values.begin(); };
      return std::abs(position(a) - position(b)) <= (n < 20 ? 1 : 2);
    };
    EXPECT_TRUE(near(ours.lo, naive.lo)) << n << ": " << ours.lo << " " << naive.lo;
    EXPECT_TRUE(near(ours.hi, naive.hi)) << n << ": " << ours.hi << " " << naive.hi;
  }
}

TEST(Statistics, BootstrapIsReproducible) {
  const std::vector<double> values = {1, 2, 4, 8, 16, 32};
  EXPECT_EQ(bootstrap_median(values)->lo, bootstrap_median(values)->lo);
  EXPECT_EQ(bootstrap_median(values)->hi, bootstrap_median(values)->hi);
}

TEST(Statistics, SketchIsExactForFewAndCloseForMany) {
  std::mt19937 random(4);
  std::lognormal_distribution<double> times(10, 2);
  MedianSketch sketch;
  EXPECT_FALSE(sketch.median());
  std::vector<double> values;
  for (int i = 0; i < 50'000; ++i) {
    values.push_back(i % 10 == 0 ? 0 : times(random));
    sketch.add(values.back());
    if (i != 99 && i != 254 && i != 49'999) continue;
    std::vector<double> copy = values;
    const double exact = median_of(copy);
    EXPECT_NEAR(*sketch.median(), exact, values.size() <= MedianSketch::kExact ? 0 : exact * 0.004);
  }
  EXPECT_EQ(sketch.count(), 50'000u);
}

}  // namespace
}  // namespace ddl
