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
