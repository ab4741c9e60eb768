#include "analyzer/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
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
      const auto position = [&](double v) {
        return std::lower_bound(values.begin(), values.end(), v) - values.begin();
      };
      return std::abs(position(a) - position(b)) <= (n < 20 ? 1 : 2);
    };
    EXPECT_TRUE(near(ours.lo, naive.lo)) << n << ": " << ours.lo << " " << naive.lo;
    EXPECT_TRUE(near(ours.hi, naive.hi)) << n << ": " << ours.hi << " " << naive.hi;
  }
}

TEST(Statistics, RoundedSharesAddUpToOneHundredPercent) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> part(0, 1);
  for (int round = 0; round < 1000; ++round) {
    std::vector<double> shares(4);
    for (double& share : shares) share = part(random);
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& share : shares) share /= sum;
    int tenths = 0;
    for (const double share : round_shares(shares)) tenths += static_cast<int>(std::lround(share * 1000));
    ASSERT_EQ(tenths, 1000);
  }
}

TEST(Statistics, IntervalOfARatioByHand) {
  // Ratio 15 / 50; residuals -2 -1 0 1 2, so the arm is 1.96 sqrt(10 * 5 / 4) / 50.
  const std::optional<Range> interval = interval_of_ratio({1, 2, 3, 4, 5}, {10, 10, 10, 10, 10});
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->lo, 0.3 - 0.138590, 1e-6);
  EXPECT_NEAR(interval->hi, 0.3 + 0.138590, 1e-6);
  // A part that is the same share of every whole has no spread, however the wholes differ.
  const std::optional<Range> exact = interval_of_ratio({1, 2, 3, 4, 5}, {4, 8, 12, 16, 20});
  ASSERT_TRUE(exact);
  EXPECT_NEAR(exact->lo, 0.25, 1e-12);
  EXPECT_NEAR(exact->hi, 0.25, 1e-12);
  EXPECT_FALSE(interval_of_ratio({1, 2, 3, 4}, {10, 10, 10, 10})) << "too few";
  EXPECT_FALSE(interval_of_ratio({0, 0, 0, 0, 0}, {0, 0, 0, 0, 0})) << "no whole";
}

/// For a thousand draws of 30 steps 95 % intervals hold the true ratio in nearly 950; with 30 steps a
/// little less is usual.
TEST(Statistics, IntervalOfARatioHoldsTheTruth) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> whole(5, 15), share(0.1, 0.5);
  int held = 0;
  for (int draw = 0; draw < 1000; ++draw) {
    std::vector<double> parts, wholes;
    for (int step = 0; step < 30; ++step) {
      wholes.push_back(whole(random));
      parts.push_back(wholes.back() * share(random));
    }
    const std::optional<Range> interval = interval_of_ratio(parts, wholes);
    held += interval && interval->lo <= 0.3 && 0.3 <= interval->hi;
  }
  EXPECT_GE(held, 920);
  EXPECT_LE(held, 970);
}

TEST(Statistics, QuantilesAreThoseOfTheTables) {
  EXPECT_NEAR(student_t(1, 0.95), 12.706, 5e-4);
  EXPECT_NEAR(student_t(2, 0.95), 4.303, 5e-4);
  EXPECT_NEAR(student_t(9, 0.95), 2.262, 5e-4);
  EXPECT_NEAR(student_t(30, 0.95), 2.042, 5e-4);
  EXPECT_NEAR(student_t(9, 0.99), 3.250, 5e-4);
  EXPECT_NEAR(fisher_f(1, 10, 0.05), 4.965, 5e-4);
  EXPECT_NEAR(fisher_f(3, 5, 0.01), 12.060, 5e-4);
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
