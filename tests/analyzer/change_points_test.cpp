#include "analyzer/change_points.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/analyzer/analyzed.h"

namespace ddl::test {
namespace {

/// Levels of so many values each, with noise.
std::vector<double> series(std::mt19937& random, const std::vector<std::pair<double, int>>& levels, double noise) {
  std::vector<double> values;
  std::normal_distribution<double> around(0, noise);
  for (const auto& [level, count] : levels)
    for (int i = 0; i < count; ++i) values.push_back(level + around(random));
  return values;
}

TEST(ChangePoints, FindsTheStep) {
  std::mt19937 random(2);
  int near = 0;
  for (int round = 0; round < 100; ++round) {
    const auto found = change_points(series(random, {{100, 60}, {125, 40}}, 4));
    ASSERT_EQ(found.size(), 1u) << round;
    near += found[0].first >= 58 && found[0].first <= 62 ? 1 : 0;
    EXPECT_NEAR(found[0].before, 100, 3);
    EXPECT_NEAR(found[0].after, 125, 3);
  }
  EXPECT_GE(near, 95);
}

TEST(ChangePoints, FindsSeveral) {
  std::mt19937 random(3);
  const auto found = change_points(series(random, {{100, 50}, {150, 50}, {100, 50}}, 3));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NEAR(static_cast<double>(found[0].first), 50, 1);
  EXPECT_NEAR(static_cast<double>(found[1].first), 100, 1);
}

TEST(ChangePoints, NoneInNoiseOutliersAndSmallChanges) {
  std::mt19937 random(4);
  int wrong = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<double> values = series(random, {{100, 80}}, 5);
    values[random() % 80] = 900;  // one hiccup
    wrong += change_points(values).empty() ? 0 : 1;
  }
  EXPECT_LE(wrong, 4);
  EXPECT_TRUE(change_points(series(random, {{100, 60}, {105, 60}}, 1)).empty());  // less than a tenth
  EXPECT_TRUE(change_points(std::vector<double>(100, 7)).empty());
  EXPECT_TRUE(change_points({1, 2, 3}).empty());
}

TEST(RiseAt, TheCutThatExplainsMost) {
  const std::vector<double> rising = {1, 1, 1, 1, 1, 2, 9, 9, 9, 9, 9}, falling(rising.rbegin(), rising.rend());
  EXPECT_EQ(rise_at(rising, 5, 4), 6u);
  EXPECT_EQ(rise_at(rising, 5, 9), 0u) << "not so many times as much";
  EXPECT_EQ(rise_at(rising, 6, 4), 0u) << "too few on both sides";
  EXPECT_EQ(rise_at(falling, 2, 1), 0u);
  EXPECT_EQ(rise_at({}, 1, 1), 0u);
}

TEST(ChangePoints, OfARun) {
  Analyzed slower(run()
                      .ranks(2)
                      .steps(60)
                      .compute(20_ms)
                      .jitter(200_us)
                      .slow(0, 10_ms, 40)
                      .slow(1, 10_ms, 40)
                      .allreduce(1_MiB, 1_ms));
  Analyzed same(run().ranks(2).steps(60).compute(20_ms).jitter(200_us).allreduce(1_MiB, 1_ms));
  Analyzed few(run().ranks(2).steps(10).compute(20_ms).allreduce(1_MiB, 1_ms));
  const char* value = "SELECT value FROM metric WHERE id = 'step_time_change'";
  EXPECT_NEAR(slower.db.execAndGet(value).getDouble(), 31.0 / 21, 0.02);
  EXPECT_EQ(slower.db.execAndGet("SELECT value FROM metric WHERE id = 'step_time_changes'").getInt(), 1);
  EXPECT_EQ(same.db.execAndGet(value).getDouble(), 1);
  EXPECT_EQ(few.text("SELECT why FROM metric WHERE id = 'step_time_change'"), "NO_DATA");
}

}  // namespace
}  // namespace ddl::test
