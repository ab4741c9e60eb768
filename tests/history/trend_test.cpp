#include "history/trend.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/history/generated.h"

namespace ddl::history {
namespace {

using test::generate;

bool all_cases() { return std::getenv("DDL_TEST_ALL") != nullptr; }

std::vector<double> step_times(const std::vector<RunRow>& rows) {
  std::vector<double> times;
  for (const RunRow& row : rows) times.push_back(static_cast<double>(*row.step_time_ns));
  return times;
}

TEST(Trend, DriftOfThreePercentIsFoundWithinTwentyRuns) {
  const uint64_t histories = all_cases() ? 100 : 2;
  for (uint64_t seed = 1; seed <= histories; ++seed) {
    const std::vector<double> times = step_times(generate({.drift = 0.03, .seed = seed}));
    // By run 620, and where it was, with what came later.
    for (const size_t runs : {size_t{620}, size_t{1000}}) {
      const std::vector<size_t> cuts =
          level_changes({times.begin(), times.begin() + static_cast<std::ptrdiff_t>(runs)});
      ASSERT_EQ(cuts.size(), 1u) << "seed " << seed << ", " << runs << " runs";
      EXPECT_NEAR(static_cast<double>(cuts[0]), 600, 20) << "seed " << seed << ", " << runs << " runs";
    }
  }
}

TEST(Trend, NoneIsFoundInAHundredHistoriesWithout) {
  for (uint64_t seed = 1; seed <= 100; ++seed)
    EXPECT_TRUE(level_changes(step_times(generate({.seed = 1000 + seed}))).empty()) << seed;
}

// The rate that is promised, where it is easiest to get wrong: short histories, and values that are equal.
TEST(Trend, FalseAlarmsAreAsRareAsSaid) {
  const int histories = all_cases() ? 40000 : 2000;
  std::mt19937_64 random(9);
  std::normal_distribution<double> normal(100, 5);
  int found = 0;
  for (int i = 0; i < histories; ++i) {
    std::vector<double> values;
    for (int k = 0; k < 30; ++k) values.push_back(i % 2 == 0 ? normal(random) : std::round(normal(random)));
    found += level_changes(values).empty() ? 0 : 1;
  }
  const double expected = kFalseAlarm * histories;
  EXPECT_LE(found, expected + 4 * std::sqrt(expected));
  std::printf("%d of %d histories\n", found, histories);
}

// Each new run is a look at the history, and each look may raise a false alarm.
TEST(Trend, LooksAfterEveryRun) {
  if (!all_cases()) GTEST_SKIP() << "long: DDL_TEST_ALL=1";
  int alarmed = 0;
  double delays = 0;
  constexpr int kHistories = 100;
  for (uint64_t seed = 1; seed <= kHistories; ++seed) {
    const std::vector<double> still = step_times(generate({.seed = 2000 + seed})),
                              drift = step_times(generate({.drift = 0.03, .seed = seed}));
    bool alarm = false;
    for (size_t runs = kLeastRuns; runs <= still.size(); ++runs)
      alarm |= !level_changes({still.begin(), still.begin() + static_cast<std::ptrdiff_t>(runs)}).empty();
    alarmed += alarm ? 1 : 0;
    size_t runs = 600;
    while (level_changes({drift.begin(), drift.begin() + static_cast<std::ptrdiff_t>(runs)}).empty()) ++runs;
    delays += static_cast<double>(runs - 600);
  }
  std::printf(
      "looked at after every run: %d of %d histories of 1000 runs without a change ever showed one; a drift of 3 %% shows after %.1f runs in the mean\n",
      alarmed, kHistories, delays / kHistories);
}

TEST(Trend, UpAndDownAgain) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(0, 1);
  std::vector<double> values;
  for (const auto& [level, count] : {std::pair(100, 40), {107, 30}, {100, 50}, {90, 40}})
    for (int i = 0; i < count; ++i) values.push_back(level + noise(random));
  const std::vector<size_t> cuts = level_changes(values);
  ASSERT_EQ(cuts.size(), 3u);
  EXPECT_NEAR(static_cast<double>(cuts[0]), 40, 1);
  EXPECT_NEAR(static_cast<double>(cuts[1]), 70, 1);
  EXPECT_NEAR(static_cast<double>(cuts[2]), 120, 1);
}

TEST(Trend, WhatIsTooFewTooSmallOrAlone) {
  std::vector<double> few(kLeastRuns - 1, 100);
  std::fill(few.begin() + 7, few.end(), 200);
  EXPECT_TRUE(level_changes(few).empty()) << "13 runs";
  few.push_back(200);
  EXPECT_EQ(level_changes(few), std::vector<size_t>{7}) << "14 runs";
  EXPECT_TRUE(level_changes(std::vector<double>(100, 5)).empty()) << "all alike";
  EXPECT_TRUE(level_changes({}).empty());
  std::vector<double> small(100, 1000);
  for (size_t i = 0; i < small.size(); ++i) small[i] += (i >= 50 ? 5 : 0) + static_cast<double>(i % 3);
  EXPECT_TRUE(level_changes(small).empty()) << "half a percent";
  std::vector<double> outlier(60, 100);
  for (size_t i = 0; i < outlier.size(); ++i) outlier[i] += static_cast<double>(i * 7 % 10) / 10;
  outlier[55] = 100000;
  EXPECT_TRUE(level_changes(outlier).empty()) << "one run";
}

TEST(Trend, SaysWhichPartGrewOnWhichAxis) {
  std::vector<RunRow> rows = generate({.runs = 120, .outliers = 0, .drift_from = 80, .drift = 0.07});
  RunRow other = rows.back();  // another size of the same job, and one without a step time
  other.run = "other", other.expected_ranks = 8, other.started_ns += 1;
  rows.push_back(other);
  other.run = "silent", other.step_time_ns.reset(), other.started_ns += 1;
  rows.push_back(other);
  const std::vector<JobSeries> all = job_series(rows);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].ranks, 8);
  EXPECT_EQ(all[0].runs.size(), 1u);
  EXPECT_EQ(all[0].unknown, 1u);
  const JobSeries& job = all[1];
  ASSERT_EQ(job.changes.size(), 1u);
  const RunChange& change = job.changes[0];
  EXPECT_EQ(*job.runs[change.first]->job_id, "4191");  // 4111 + 80
  EXPECT_EQ(change.before_runs, 80u);
  EXPECT_EQ(change.after_runs, 40u);
  EXPECT_NEAR(change.ratio(), 0.07, 0.005);
  ASSERT_NE(change.part, nullptr);
  EXPECT_STREQ(change.part->id, "transfer");
  EXPECT_NEAR(change.part_ns, 0.07 * 14.9e6, 0.1e6);
  EXPECT_EQ(change.axis, "data");
  EXPECT_NEAR(*slower_lately(job, 50), 0.07, 0.005);
  EXPECT_FALSE(slower_lately(job, 39)) << "40 runs ago";
}

TEST(Trend, FasterIsAChangeToo) {
  const std::vector<RunRow> rows = generate({.runs = 60, .outliers = 0, .drift_from = 30, .drift = -0.1});
  const std::vector<JobSeries> all = job_series(rows);
  ASSERT_EQ(all[0].changes.size(), 1u);
  EXPECT_STREQ(all[0].changes[0].part->id, "transfer");
  EXPECT_LT(all[0].changes[0].part_ns, 0);
  EXPECT_FALSE(slower_lately(all[0], 50));
}

TEST(Trend, PartsThatAreNotKnownExplainNothing) {
  std::vector<RunRow> rows = generate({.runs = 60, .outliers = 0, .drift_from = 30, .drift = 0.1});
  for (RunRow& row : rows)
    for (auto part : {&RunRow::compute_ns, &RunRow::overlap_ns, &RunRow::transfer_ns, &RunRow::wait_ns,
                      &RunRow::unsplit_ns, &RunRow::copy_ns, &RunRow::idle_ns})
      (row.*part).reset();
  const std::vector<JobSeries> all = job_series(rows);
  ASSERT_EQ(all[0].changes.size(), 1u);
  EXPECT_EQ(all[0].changes[0].part, nullptr);
  EXPECT_EQ(all[0].changes[0].why, "NO_DATA");
}

}  // namespace
}  // namespace ddl::history
