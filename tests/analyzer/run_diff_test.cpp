#include "analyzer/run_diff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "analyzer/metrics/metrics.h"
#include "tests/analyzer/analyzed.h"

namespace ddl {
namespace {

using namespace test::literals;
using test::Analyzed;

/// A metric over steps that are normal around `mean`.
MetricValue measured(double mean, double sigma, size_t steps, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> step(mean, sigma);
  std::vector<double> values(steps);
  for (double& value : values) value = step(random);
  std::sort(values.begin(), values.end());
  const auto interval = bootstrap_median(values);
  return {.value = median_of(values), .why = {}, .interval = interval};
}

TEST(RunDiff, IntervalOfADifferenceIsTheirHypotenuse) {
  const Range range = difference_interval(10, {7, 11}, 20, {16, 28});
  EXPECT_NEAR(range.lo, 10 - std::hypot(4, 1), 1e-12);
  EXPECT_NEAR(range.hi, 10 + std::hypot(8, 3), 1e-12);
}

TEST(RunDiff, TheSameJobTwiceShowsNoChange) {
  int seen = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const MetricChange change = compare_metric(measured(100, 5, 30, 2 * seed), measured(100, 5, 30, 2 * seed + 1), "lower");
    seen += change.change != Change::kNotSeen;
  }
  EXPECT_LE(seen, 60);  // 5 % are expected
}

TEST(RunDiff, ARealChangeIsSeenAndItsSizeIsInTheInterval) {
  int seen = 0, covered = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const MetricChange change = compare_metric(measured(100, 5, 30, 2 * seed), measured(108, 5, 30, 2 * seed + 1), "lower");
    seen += change.change == Change::kWorse;
    const double low = change.interval->lo * *change.before.value, high = change.interval->hi * *change.before.value;
    covered += low <= 8 && 8 <= high;
  }
  EXPECT_GE(seen, 990);
  EXPECT_GE(covered, 930);
}

TEST(RunDiff, WhatIsBetterSaysTheMetric) {
  const MetricValue low{.value = 10, .why = {}, .interval = Range{9, 11}}, high{.value = 20, .why = {}, .interval = Range{19, 21}};
  EXPECT_EQ(compare_metric(low, high, "lower").change, Change::kWorse);
  EXPECT_EQ(compare_metric(low, high, "higher").change, Change::kBetter);
  EXPECT_EQ(compare_metric(high, low, "higher").change, Change::kWorse);
  EXPECT_EQ(compare_metric(low, high, "none").change, Change::kChanged);
  EXPECT_NEAR(*compare_metric(low, high, "lower").ratio, 1, 1e-12);
}

TEST(RunDiff, AbsentIsNotZero) {
  const MetricValue absent{.value = {}, .why = "NO_DATA", .interval = {}}, value{.value = 3, .why = {}, .interval = Range{2, 4}},
      zero{.value = 0, .why = {}, .interval = Range{0, 0}}, whole{.value = 3, .why = {}, .interval = {}};
  EXPECT_EQ(compare_metric(absent, value, "lower").change, Change::kAppeared);
  EXPECT_EQ(compare_metric(value, absent, "lower").change, Change::kGone);
  EXPECT_EQ(compare_metric(absent, absent, "lower").change, Change::kAbsent);
  EXPECT_EQ(compare_metric(whole, value, "lower").change, Change::kNoInterval);
  const MetricChange from_zero = compare_metric(zero, value, "lower");
  EXPECT_EQ(from_zero.change, Change::kWorse);
  EXPECT_FALSE(from_zero.ratio);  // no percentage of 0
}

test::SyntheticRun job(int slow_rank) {
  auto job = test::run().ranks(4).steps(30).compute(10_ms).allreduce(1_MiB, 1_ms).jitter(200_us, static_cast<uint64_t>(slow_rank + 2));
  if (slow_rank >= 0) job.slow(slow_rank, 8_ms);
  return job;
}

TEST(RunDiff, FindingsAreNewGoneOrStillThere) {
  using State = FindingChange::State;
  Analyzed one(job(1)), two(job(2)), none(job(-1));
  const auto states = [](Analyzed& a, Analyzed& b) {
    std::vector<std::pair<State, int64_t>> found;
    for (const FindingChange& change : compare_findings(a.db, 0, b.db, 0))
      if (change.id == "straggler") found.emplace_back(change.state, change.rank.value_or(-1));
    return found;
  };
  using States = std::vector<std::pair<State, int64_t>>;
  EXPECT_EQ(states(none, one), (States{{State::kNew, 1}}));
  EXPECT_EQ(states(one, none), (States{{State::kGone, 1}}));
  EXPECT_EQ(states(one, one), (States{{State::kStill, 1}}));
  EXPECT_EQ(states(one, two), (States{{State::kNew, 2}, {State::kGone, 1}}));
}

TEST(RunDiff, EveryMetricIsThereAndTheGateFollowsTheStep) {
  Analyzed slow(job(1)), good(job(-1));
  const std::vector<MetricChange> changes = compare_metrics(good.db, 0, slow.db, 0);
  EXPECT_EQ(changes.size(), all_metrics().size());
  EXPECT_EQ(changes[0].change, Change::kWorse);
  const SlowdownGate gate = slowdown_gate(changes);
  ASSERT_TRUE(gate.known && gate.seen);
  EXPECT_EQ(gate.by->id, "step_time");
  EXPECT_NEAR(*gate.slower, 8.0 / 11, 0.05);
  const std::vector<MetricChange> back = compare_metrics(slow.db, 0, good.db, 0);
  EXPECT_LT(*slowdown_gate(back).slower, 0);
}

}  // namespace
}  // namespace ddl
