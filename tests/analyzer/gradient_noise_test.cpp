// The gradient noise scale: against gradients that are drawn with known mean and variance.
#include "analyzer/passes/gradient_noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

constexpr size_t kParameters = 200;

/// Norms of mean gradients over b samples of each rank and over all, samples being mean 0.3 +- deviation in every
/// parameter.
NoiseSample draw(std::mt19937& random, int ranks, int b, double deviation) {
  std::vector<double> all(kParameters, 0);
  NoiseSample sample{0, 0, static_cast<double>(b), static_cast<double>(b * ranks)};
  std::normal_distribution<double> mean_of_b(0.3, deviation / std::sqrt(b));
  for (int r = 0; r < ranks; ++r) {
    for (double& sum : all) {
      const double value = mean_of_b(random);
      sample.own_square += value * value / ranks;
      sum += value / ranks;
    }
  }
  for (const double value : all) sample.reduced_square += value * value;
  return sample;
}

TEST(GradientNoise, FindsMeanAndVarianceOfDrawnGradients) {
  std::mt19937 random(3);
  for (const double deviation : {1.0, 4.0}) {
    std::vector<NoiseSample> samples;
    for (int step = 0; step < 300; ++step) samples.push_back(draw(random, 4, 8, deviation));
    const auto noise = gradient_noise(samples);
    ASSERT_TRUE(noise && noise->scale && noise->interval);
    EXPECT_NEAR(noise->square, kParameters * 0.09, kParameters * 0.09 * 0.05);
    EXPECT_NEAR(noise->trace, kParameters * deviation * deviation, kParameters * deviation * deviation * 0.05);
    const double truth = deviation * deviation / 0.09;
    EXPECT_LT(noise->interval->lo, truth);
    EXPECT_GT(noise->interval->hi, truth);
    EXPECT_NEAR(*noise->scale, truth, truth * 0.08);
  }
}

TEST(GradientNoise, RatioOfAveragesAndNotAverageOfRatios) {
  // |G|^2 of single steps is 1 and 3, tr(Sigma) 8 and 0: 8/4, nearly, and not (8/1 + 0/3) / 2.
  std::vector<NoiseSample> samples;
  for (int i = 0; i < 6; ++i)
    samples.push_back(i % 2 == 0 ? NoiseSample{1 + 8.0 / 2, 1 + 8.0 / 8, 2, 8} : NoiseSample{3, 3, 2, 8});
  const auto noise = gradient_noise(samples);
  ASSERT_TRUE(noise && noise->scale);
  EXPECT_NEAR(*noise->scale, 2, 0.05);
}

TEST(GradientNoise, UndefinedIsNotZero) {
  const std::vector<NoiseSample> drowned(10, NoiseSample{10, 2, 2, 8});  // |G|^2 < 0
  ASSERT_TRUE(gradient_noise(drowned));
  EXPECT_FALSE(gradient_noise(drowned)->scale);
  const std::vector<NoiseSample> broken(10, NoiseSample{NAN, 2, 2, 8}), single(10, NoiseSample{2, 2, 8, 8});
  EXPECT_FALSE(gradient_noise(broken));
  EXPECT_FALSE(gradient_noise(single));
  EXPECT_FALSE(gradient_noise({}));
}

TEST(GradientNoise, MetricsOfARun) {
  // |G|^2 = 1, tr(Sigma) = 64, b = 32, B = 64: own 1 + 64/32, reduced 1 + 64/64.
  Tables run(2), partial(2), without(2);
  for (Tables* tables : {&run, &partial, &without}) {
    for (int64_t s = 0; s < 20; ++s) {
      for (int64_t rank : {0, 1}) {
        tables->step(rank, s, s * 100_ms, s * 100_ms + 100_ms, 10_ms);
        if (tables == &without || (tables == &partial && rank == 1)) continue;
        tables->value(rank, s, "samples", 32);
        tables->value(rank, s, "local_gradient_norm", std::sqrt(3));
        tables->value(rank, s, "gradient_norm", std::sqrt(2));
      }
    }
    tables->analyze();
  }
  const std::pair<const char*, double> expected[] = {{"gradient_square", 1},
                                                     {"gradient_variance", 64},
                                                     {"noise_scale", 64},
                                                     {"batch_to_noise", 1},
                                                     {"statistical_efficiency", 96.0 / 128},
                                                     {"goodput", 640 * 0.75},
                                                     {"throughput", 640}};
  for (const auto& [id, value] : expected) {
    ASSERT_TRUE(run.metric(id)) << id << " " << run.why(id);
    EXPECT_NEAR(*run.metric(id), value, 1e-9 * value) << id;
  }
  for (const char* id : {"noise_scale", "batch_to_noise", "statistical_efficiency", "goodput"}) {
    EXPECT_EQ(partial.why(id), "PARTIAL_RANKS") << id;
    EXPECT_EQ(without.why(id), "NO_DATA") << id;
  }
}

}  // namespace
}  // namespace ddl::test
