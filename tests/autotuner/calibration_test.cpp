// What two trials say, by hand: 8 samples compute for 10 ms, 24 for 26: 2 ms do not grow.
#include "autotuner/calibration.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autotuner/goal.h"
#include "core/error.h"

namespace ddl::tune {
namespace {

TrialFacts facts(double compute_s, std::vector<models::Gradient> gradients) {
  TrialFacts result;
  result.ranks = 2;
  result.compute_s = compute_s;
  result.transfer_s = 0.004;
  result.blocking = true;
  result.gradients = std::move(gradients);
  return result;
}

TEST(Calibration, FixedComputingAndFinerGradientsOnTheFirstTrialsTime) {
  const TrialFacts base = facts(0.010, {{4000, 0.010}}), second = facts(0.026, {{1000, 0.013}, {3000, 0.026}});
  const Calibration calibration = calibration_of({base, 8}, {second, 24}, std::nullopt, {});
  EXPECT_NEAR(calibration.compute_fixed_s, 0.002, 1e-12);
  EXPECT_EQ(calibration.batch, 8);
  ASSERT_EQ(calibration.gradients.size(), 2U);
  EXPECT_NEAR(calibration.gradients[0].ready_s, 0.005, 1e-12);
  EXPECT_NEAR(calibration.gradients[1].ready_s, 0.010, 1e-12);
  EXPECT_FALSE(calibration.overlap);
}

TEST(Calibration, WithoutASweepBytesCostAlikeInBucketsOfAnySize) {
  const TrialFacts base = facts(0.010, {{1 << 20, 0.010}, {3 << 20, 0.010}});
  const Calibration calibration = calibration_of({base, 0}, {base, 0}, std::nullopt, {});
  const Space space({{kBucketMb, {"0", "4", "64"}, true}});
  const std::vector<double> prediction = predict(space, calibration);
  EXPECT_NEAR(prediction[1], prediction[0], 1e-9);
  EXPECT_NEAR(prediction[2], prediction[0], 1e-9);
  EXPECT_NEAR(std::exp(prediction[0]) * 2, 0.014, 1e-9)
      << "10 ms of computing and the 4 ms that the default transferred";
}

TEST(Calibration, WhatAMicroBatchCostsFollowsFromTwoCountsOfThem) {
  TrialFacts base = facts(0.010, {{4000, 0.010}}), second = facts(0.018, {{4000, 0.018}});
  base.pipeline = {.micro_batches = 4, .chunks = 1, .others_s = 0.009};
  const Calibration calibration = calibration_of({base, 8, {}, 4.0}, {second, 8, {}, 20.0}, std::nullopt, {});
  EXPECT_NEAR(calibration.micro_batch_s, 0.0005, 1e-12);
  EXPECT_EQ(calibration.pipeline->others_s, 0.009);
  EXPECT_EQ(calibration_of({base, 8, {}, 4.0}, {second, 16, {}, 20.0}, std::nullopt, {}).micro_batch_s, 0)
      << "or is it the batch?";
}

TEST(Calibration, TheDefaultsBucketsTellTheirRule) {
  const TrialFacts base = facts(0.010, {{6000, 0.005}, {2000, 0.010}}),
                   second = facts(0.010, {{3000, 0.001}, {3000, 0.005}, {2000, 0.010}});
  constexpr double kMib = 1 << 20;
  EXPECT_EQ(calibration_of({base, 8, 4096 / kMib}, {second, 8, 0.0}, std::nullopt, {}).bucket_rule, BucketRule::kFill);
  EXPECT_EQ(calibration_of({base, 8, 6000 / kMib}, {second, 8, 0.0}, std::nullopt, {}).bucket_rule, BucketRule::kFuse);
}

TEST(Calibration, OnlyNonBlockingReductionsHideBehindComputing) {
  TrialFacts base = facts(0.010, {{4000, 0.010}});
  base.blocking = false;
  base.nonblocking = true;
  EXPECT_TRUE(calibration_of({base, 0}, {base, 0}, std::nullopt, {}).overlap);
}

TEST(Goal, WhatChangesTheResultIsNotChosenBySpeedAlone) {
  TrialFacts base;
  const std::vector<JobTunable> batch = {{kBatch, How::kCommand, "", true, {"8", "16"}}};
  EXPECT_THROW(require_honest_goal({}, batch, base), Error) << "the job says nothing of its noise";
  base.noise_scale = 100;
  base.samples = 16;
  EXPECT_NO_THROW(require_honest_goal({}, batch, base));
  const std::vector<JobTunable> compression = {{"compression", How::kCommand, "", true, {"none", "q4"}}};
  EXPECT_THROW(require_honest_goal({}, compression, base), Error);
  Goal asked;
  asked.raw_throughput = true;
  EXPECT_NO_THROW(require_honest_goal(asked, compression, base));
  EXPECT_NO_THROW(require_honest_goal({}, {{"compression", How::kCommand, "", true, {"none"}}}, base))
      << "one value: nothing is chosen";
}

TEST(Memory, IsALineThroughTwoBatches) {
  const auto model = memory_model({32, 1000}, {8, 400});
  ASSERT_TRUE(model);
  EXPECT_EQ(model->fixed_bytes, 200);
  EXPECT_EQ(model->bytes_per_sample, 25);
  EXPECT_EQ(model->peak_bytes(64), 1800);
  EXPECT_EQ(memory_model({32, 1000}, {64, 990})->peak_bytes(1000), 1000) << "it does not grow";
  EXPECT_FALSE(memory_model({32, 1000}, {32, 990}));
}

}  // namespace
}  // namespace ddl::tune
