// Beliefs: what was measured is believed, rounds drop out, neighbours resemble each other; predictions by hand.
#include "autotuner/surrogate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autotuner/predict.h"

namespace ddl::tune {
namespace {

const Space& line() {
  static const Space space({{"n", {"1", "2", "4", "8", "16", "32"}, false}});
  return space;
}

TEST(Surrogate, WithoutMeasurementsItBelievesThePrediction) {
  const Surrogate surrogate(line(), {0, 1, 2, 3, 4, 5});
  const std::vector<Belief> beliefs = surrogate.beliefs({0, 3, 5}, 3);
  EXPECT_NEAR(beliefs[0].mean, -3, 1e-12);
  EXPECT_NEAR(beliefs[1].mean, 0, 1e-12);
  EXPECT_EQ(beliefs[1].sd, 0);
  EXPECT_NEAR(beliefs[2].mean, 2, 1e-12);
  EXPECT_GT(beliefs[2].sd, 0);
}

TEST(Surrogate, DifferencesWithinRoundsAreBelievedWhateverTheRound) {
  Surrogate surrogate(line(), std::vector<double>(6, 0.0));
  for (size_t round = 0; round < 6; ++round) {
    const double burst = round % 2 == 0 ? 0 : 1.2;
    surrogate.add({0, round, burst});
    surrogate.add({5, round, burst - 0.3});
  }
  surrogate.fit();
  const std::vector<Belief> beliefs = surrogate.beliefs({5, 4, 1}, 0);
  EXPECT_NEAR(beliefs[0].mean, -0.3, 0.01);
  EXPECT_LT(beliefs[0].sd, 0.02);
  EXPECT_LT(beliefs[1].mean, beliefs[2].mean) << "4 is the neighbour of the cheap one";
  EXPECT_GT(beliefs[1].sd, beliefs[0].sd);
}

TEST(Surrogate, ATrialThatIsFarOffMovesLittle) {
  Surrogate surrogate(line(), std::vector<double>(6, 0.0));
  for (size_t round = 0; round < 8; ++round) {
    surrogate.add({0, round, 0.01 * static_cast<double>(round % 3)});
    surrogate.add({5, round, (round == 3 ? 1.5 : -0.3) + 0.01 * static_cast<double>(round % 2)});
  }
  surrogate.fit();
  EXPECT_NEAR(surrogate.beliefs({5}, 0)[0].mean, -0.3, 0.03);  // the mean of them is -0.08
  EXPECT_GT(surrogate.noise(), 0.2) << "it is noise all the same";
}

TEST(Surrogate, RoundsThatTurnOutToBeAlikeAreCompared) {
  // 2 and 16 are never measured in one round; 1, which is in all of them, says that the rounds are alike,
  // give or take 1 %.
  Surrogate surrogate(line(), std::vector<double>(6, 0.0), Scale::kMeasured);
  for (size_t round = 0; round < 8; ++round) {
    const double noise = 0.01 * static_cast<double>(round % 3);
    surrogate.add({0, round, -7 + noise});
    surrogate.add(round % 2 == 0 ? Observation{1, round, -6.95 - noise} : Observation{4, round, -7.05 + noise});
  }
  surrogate.fit();
  const Belief belief = surrogate.beliefs({1}, 4)[0];
  EXPECT_NEAR(belief.mean, 0.08, 0.02);  // the means of both, 0.01 of noise more and less
  EXPECT_LT(belief.sd, 0.01) << "with rounds of any level it is what 1 is known by in four of them, twice";
  EXPECT_NEAR(surrogate.level(0), -6.99, 0.01);
}

TEST(Surrogate, WhatIsFarAboveTheBestCountsByItsLogarithmAndIsSaidInFull) {
  Surrogate surrogate(line(), std::vector<double>(6, 0.0), Scale::kMeasured);
  for (size_t round = 0; round < 6; ++round) {
    const double noise = 0.002 * static_cast<double>(round % 2);
    surrogate.add({0, round, noise});
    surrogate.add({5, round, 3 + noise});
    surrogate.add({4, round, 0.05 - noise});
  }
  surrogate.fit();
  EXPECT_NEAR(surrogate.beliefs({5}, 0)[0].mean, 0.1 * (1 + std::log(3 / 0.1)), 0.02);
  EXPECT_NEAR(surrogate.beliefs({4}, 0)[0].mean, 0.049, 0.005) << "what is near is as it was";
  EXPECT_NEAR(surrogate.loss(5, 0).mean, 3, 0.3);
  EXPECT_NEAR(surrogate.loss(4, 0).mean, 0.049, 0.005);
}

TEST(Curve, IsAPowerLawBetweenWhatWasMeasured) {
  Curve curve;
  curve.add(1000, 1e-3);
  curve.add(100'000, 1e-1);
  EXPECT_NEAR(curve.seconds(10'000), 1e-2, 1e-12);
  EXPECT_NEAR(curve.seconds(10), 1e-3, 1e-15);
  EXPECT_NEAR(curve.seconds(1e6), 1, 1e-9);
}

// Two tensors of 1 MiB, ready after 6 and 10 ms of 10 ms computing; an allreduce takes 1 ms a MiB and 1 ms more.
Calibration two_tensors() {
  Calibration calibration;
  calibration.ranks = 4;
  calibration.compute_s = 0.010;
  calibration.compute_fixed_s = 0.002;
  calibration.batch = 8;
  calibration.gradients = {{1 << 20, 0.006}, {1 << 20, 0.010}};
  calibration.allreduce["default"].add(1 << 20, 0.002);
  calibration.allreduce["default"].add(2 << 20, 0.003);
  calibration.allreduce["ring"].add(1 << 20, 0.001);
  calibration.allreduce["ring"].add(2 << 20, 0.0025);
  return calibration;
}

TEST(Predict, StepsByHand) {
  const Space space({{kBucketMb, {"0", "2"}, true}, {kAlgorithm, {"default", "ring"}, true}, {"x", {"1", "2"}, false}});
  Calibration calibration = two_tensors();
  const auto step_s = [&](size_t point) { return std::exp(predict(space, calibration)[point]) * 4 * 8; };
  EXPECT_NEAR(step_s(0), 0.014, 1e-9);   // 10 + 2 + 2 ms
  EXPECT_NEAR(step_s(1), 0.013, 1e-9);   // 10 + 3: one bucket
  EXPECT_NEAR(step_s(2), 0.012, 1e-9);   // 10 + 1 + 1: ring
  EXPECT_NEAR(step_s(3), 0.0125, 1e-9);  // 10 + 2.5
  EXPECT_NEAR(step_s(4), 0.014, 1e-9);   // x is not known: changes nothing
  calibration.overlap = true;
  EXPECT_NEAR(step_s(0), 0.012, 1e-9);  // the first is hidden, the second begins at 10
  EXPECT_NEAR(step_s(1), 0.013, 1e-9);
}

// The default's buckets tell which rule made them: 1.5 MiB is what a cap of 1 MiB leaves closed too late, or a fusion
// buffer never holds.
TEST(Predict, BucketsFollowTheRuleThatWasSeen) {
  constexpr int64_t kMiB = 1 << 20;
  const std::vector<models::Gradient> tensors = {{kMiB / 2, 1}, {kMiB, 2}, {kMiB / 2, 3}, {kMiB / 4, 4}, {3 * kMiB, 5}};
  const auto seen = [](std::initializer_list<int64_t> bytes) {
    std::vector<models::Gradient> buckets;
    for (const int64_t one : bytes) buckets.push_back({one, 0});
    return buckets;
  };
  EXPECT_EQ(bucket_rule(tensors, seen({kMiB / 2, kMiB, kMiB * 3 / 4, 3 * kMiB}), kMiB), BucketRule::kFuse);
  EXPECT_EQ(bucket_rule(tensors, seen({kMiB * 3 / 2, kMiB * 15 / 4}), kMiB), BucketRule::kFill);
  EXPECT_EQ(bucket_rule(tensors, seen({kMiB * 3 / 2, kMiB * 15 / 4}), 2 * kMiB), BucketRule::kFillAfterFirst);
  EXPECT_EQ(bucket_rule(tensors, seen({kMiB * 3 / 2, kMiB * 15 / 4 + 8}), kMiB), BucketRule::kFill)
      << "a few bytes more, of something else";
  EXPECT_EQ(buckets_of(BucketRule::kFillAfterFirst, tensors, kMiB / 4).size(), 4U);
}

// 2 stages of 6 and 4 ms: 4 micro-batches take 4 x 1.5 + 1 ms. A micro-batch more costs 0.1 ms by itself.
TEST(Predict, PipelinesByTheirBubble) {
  const Space space({{kMicroBatches, {"4", "1", "8"}, true}});
  Calibration calibration;
  calibration.batch = 8;
  calibration.compute_s = 0.006;
  calibration.pipeline = PipelineFacts{.micro_batches = 4, .chunks = 1, .others_s = 0.004};
  calibration.allreduce["default"].add(1, 1e-9);
  const auto step_s = [&](size_t point) { return std::exp(predict(space, calibration)[point]) * 8; };
  EXPECT_NEAR(step_s(0), 0.007, 1e-9);
  EXPECT_NEAR(step_s(1), 0.010, 1e-9);
  EXPECT_NEAR(step_s(2), 0.0065, 1e-9);
  calibration.micro_batch_s = 0.0001;
  EXPECT_NEAR(step_s(2), 0.0064 + 0.004 * 6.4 / 6 / 8, 1e-9);
  calibration.micro_batch_s = 0;
  calibration.pipeline->chunks = 2;
  EXPECT_NEAR(step_s(0), 0.0065, 1e-9);
  EXPECT_TRUE(is_modelled(kMicroBatches, {"4", "1"}, true));
  EXPECT_FALSE(is_modelled(kMicroBatches, {"4", "1"}, false)) << "without a pipeline it is any number";
}

// 1 MiB of weights travels as half of it, 32 KiB of biases as they are; computing 1 MiB / (4 GB/s) more.
TEST(Predict, SmallTensorsAreNotCompressed) {
  const Space space({{kCompression, {"none", "bf16"}, true}});
  Calibration calibration;
  calibration.batch = 8;
  calibration.compute_s = 0.010;
  calibration.gradients = {{1 << 20, 0.005}, {32 << 10, 0.010}};
  for (const double bytes : {1e3, 1e7}) calibration.allreduce["default"].add(bytes, bytes * 1e-8);
  const auto step_s = [&](size_t point) { return std::exp(predict(space, calibration)[point]) * 8; };
  constexpr double kWeights = 1 << 20, kBiases = 32 << 10;
  EXPECT_NEAR(step_s(0), 0.010 + (kWeights + kBiases) * 1e-8, 1e-9);
  EXPECT_NEAR(step_s(1), 0.010 + (kWeights / 2 + kBiases) * 1e-8 + kWeights / 4e9, 1e-9);
  EXPECT_TRUE(is_modelled(kCompression, {"none", "bf16", "q4"}, false));
  EXPECT_FALSE(is_modelled(kCompression, {"none", "topk:0.01"}, false));
  EXPECT_FALSE(is_modelled(kCompression, {"bf16", "none"}, false)) << "what would be sent without a code was not seen";
}

TEST(Predict, BatchesCostTheirComputingAndTheirEfficiency) {
  const Space space({{kBatch, {"8", "16"}, true}});
  Calibration calibration = two_tensors();
  // 2 ms fixed and 16 ms for twice the samples, 4 ms of communication.
  EXPECT_NEAR(std::exp(predict(space, calibration)[1]), 0.022 / 64, 1e-9);
  calibration.noise_scale = 32;  // global batches 32 and 64: (32 + 32) / (32 + 64) of the samples count
  EXPECT_NEAR(std::exp(predict(space, calibration)[1]), 0.022 / (64 * 2.0 / 3), 1e-9);
  EXPECT_NEAR(std::exp(predict(space, calibration)[0]), 0.014 / 32, 1e-9);
}

}  // namespace
}  // namespace ddl::tune
