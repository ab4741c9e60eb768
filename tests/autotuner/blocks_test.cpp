// Rounds of an in-run tuning: what is laid over the steps, and that what drifts evenly is in no comparison.
#include "autotuner/blocks.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ddl::tune {
namespace {

/// Times of the steps of each point's blocks, where a step of the point takes so long at first, and more with
/// each step of the job.
std::vector<std::vector<std::vector<double>>> run(const std::vector<uint64_t>& half_steps,
                                                  const std::vector<double>& step_s, double drift) {
  std::vector<std::vector<std::vector<double>>> times(half_steps.size());
  double step = 0;
  for (const PlannedBlock& block : plan_round(half_steps)) {
    times[block.index].emplace_back();
    for (uint64_t i = 0; i < block.steps; ++i, ++step) {
      const double left_over = i < kWarmUpSteps ? 7 : 1;
      times[block.index].back().push_back(step_s[block.index] * left_over * std::exp(drift * step));
    }
  }
  return times;
}

TEST(Blocks, ARoundGoesThereAndBack) {
  const std::vector<PlannedBlock> blocks = plan_round({3, 4, 2});
  std::vector<size_t> order;
  std::vector<uint64_t> steps;
  for (const PlannedBlock& block : blocks) order.push_back(block.index), steps.push_back(block.steps);
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 1, 0}));
  EXPECT_EQ(steps, (std::vector<uint64_t>{5, 6, 6, 6, 5}));
  ASSERT_EQ(plan_round({5}).size(), 1u);
  EXPECT_EQ(plan_round({5})[0].steps, 12u);
}

TEST(Blocks, WhatDriftsIsInNoRatio) {
  // 40 % over the round: without the way back the last point would look a third slower than the first.
  const std::vector<double> step_s = {0.010, 0.008, 0.010, 0.020};
  for (const std::vector<uint64_t>& half_steps : {std::vector<uint64_t>{5, 5, 5, 5}, {3, 11, 7, 4}}) {
    const auto times = run(half_steps, step_s, 0.007);
    const double first = *step_s_of(times[0]);
    for (size_t i = 0; i < step_s.size(); ++i)
      EXPECT_NEAR(*step_s_of(times[i]) / first, step_s[i] / step_s[0], 2e-3) << i;
  }
}

TEST(Blocks, AStepThatIsFarOffCountsForLittle) {
  auto times = run({5, 5}, {0.010, 0.008}, 0);
  times[0][0][4] = 3;
  EXPECT_NEAR(*step_s_of(times[0]), 0.010, 1e-9);
}

TEST(Blocks, WithoutAStepThatCountsNothingIsKnown) {
  EXPECT_FALSE(step_s_of({}));
  EXPECT_FALSE(step_s_of({{0.1, 0.1}, {}}));
  EXPECT_NEAR(*step_s_of({{0.1, 0.1}, {9, 9, 0.2}}), 0.2, 1e-12);
}

TEST(Blocks, AsManyStepsAsTakeTheTime) {
  EXPECT_EQ(steps_for(0.5, 0.1, 2, 60), 5u);
  EXPECT_EQ(steps_for(0.5, 0.4, 2, 60), 2u);
  EXPECT_EQ(steps_for(0.5, 3, 2, 60), 2u);
  EXPECT_EQ(steps_for(0.5, 1e-6, 2, 60), 60u);
  EXPECT_EQ(steps_for(0.5, 0, 2, 60), 60u);
}

TEST(Blocks, LongStepsNeedLongPatience) {
  EXPECT_EQ(patience_s_for(4, 0.005), 60u);
  EXPECT_EQ(patience_s_for(1, 11), 66u);
  EXPECT_EQ(patience_s_for(1, 70), 420u);
}

}  // namespace
}  // namespace ddl::tune
