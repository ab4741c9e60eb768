// Paired ratios: values by hand, and how often the interval holds the truth.
#include "autotuner/paired.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace ddl::tune {
namespace {

// Logarithms of the ratios are 0.1, 0.2, 0.3: mean 0.2, standard error 0.1 / sqrt(3), t 4.303.
TEST(Paired, ARatioByHand) {
  const std::vector<double> first = {std::exp(0.1) * 5, std::exp(0.2) * 70, std::exp(0.3) * 2}, second = {5, 70, 2};
  const PairedRatio ratio = compare(first, second);
  EXPECT_NEAR(ratio.ratio, std::exp(0.2), 1e-12);
  EXPECT_NEAR(ratio.lo, std::exp(0.2 - 4.3027 * 0.1 / std::sqrt(3)), 1e-4);
  EXPECT_NEAR(ratio.hi, std::exp(0.2 + 4.3027 * 0.1 / std::sqrt(3)), 1e-4);
  EXPECT_FALSE(ratio.excludes_one());
}

TEST(Paired, WhatHitsAWholeRoundStaysOutOfTheRatio) {
  const std::vector<double> first = {1.1, 11.0, 110.0}, second = {1, 10, 100};
  const PairedRatio ratio = compare(first, second);
  EXPECT_NEAR(ratio.lo, 1.1, 1e-9);
  EXPECT_NEAR(ratio.hi, 1.1, 1e-9);
  EXPECT_TRUE(ratio.excludes_one());
}

// Rounds that differ by far more than noise, all of them gains: their spread does not make it doubtful that there is
// one.
TEST(Paired, GainsFarAboveTheNoiseAreGainsHoweverTheyDiffer) {
  const std::vector<double> first = {1.02, 0.98, 1.01}, second = {0.98, 1.01, 1.03};
  std::vector<double> base;
  for (size_t i = 0; i < first.size(); ++i) base.push_back(std::sqrt(first[i] * second[i]));
  const auto over = [&](std::vector<double> gains) {
    std::vector<double> tuned;
    for (size_t i = 0; i < base.size(); ++i) tuned.push_back(base[i] / gains[i]);
    return compare_beside_noise(base, tuned, first, second);
  };
  const PairedRatio wild = over({18.99, 6.65, 2.37});
  EXPECT_TRUE(wild.of_rounds);
  EXPECT_NEAR(wild.lo, 2.37, 1e-9);
  EXPECT_NEAR(wild.hi, 18.99, 1e-9);
  EXPECT_FALSE(over({18.99, 6.65, 1.1}).of_rounds) << "one of them might be noise";
  EXPECT_LT(over({18.99, 6.65, 1.1}).lo, 1);
  EXPECT_FALSE(over({0.05, 0.2, 0.9}).of_rounds) << "losses are told by Student's interval alone";
  EXPECT_FALSE(over({1.5, 1.5, 1.51}).of_rounds) << "that interval says it already";
}

// No gain: how often it is claimed in spite of it, at five times the noise that most machines have, with few
// rounds and with many.
TEST(Paired, NoiseIsSeldomCalledAGain) {
  std::mt19937_64 random(20261124);
  std::normal_distribution<double> noise(0, 0.1), burst(0, 0.5);
  for (const int rounds : {3, 6, 12}) {
    const int cases = 4000;
    int called = 0;
    for (int i = 0; i < cases; ++i) {
      std::vector<double> base, tuned, first, second;
      for (int round = 0; round < rounds; ++round) {
        const double common = std::exp(burst(random));
        first.push_back(common * std::exp(noise(random)));
        second.push_back(common * std::exp(noise(random)));
        base.push_back(std::sqrt(first.back() * second.back()));
        tuned.push_back(common * std::exp(noise(random)));
      }
      const PairedRatio ratio = compare_beside_noise(base, tuned, first, second);
      called += ratio.lo > 1;
      EXPECT_FALSE(ratio.of_rounds);
    }
    EXPECT_NEAR(static_cast<double>(called) / cases, 0.025, 4 * std::sqrt(0.025 * 0.975 / cases)) << rounds;
  }
}

TEST(Paired, TwoRoundsSayNothing) {
  const std::vector<double> first = {2, 2}, second = {1, 1};
  EXPECT_NEAR(compare(first, second).ratio, 2, 1e-12);
  EXPECT_FALSE(compare(first, second).excludes_one());
  EXPECT_FALSE(compare({}, {}).excludes_one());
}

TEST(Paired, TheIntervalHoldsTheTruthAsOftenAsItSays) {
  std::mt19937_64 random(20261121);
  std::normal_distribution<double> noise(0, 0.02), burst(0, 0.5);
  const int cases = 4000;
  int held = 0;
  for (int i = 0; i < cases; ++i) {
    std::vector<double> first, second;
    for (int round = 0; round < 5; ++round) {
      const double common = std::exp(burst(random));
      first.push_back(1.05 * common * std::exp(noise(random)));
      second.push_back(common * std::exp(noise(random)));
    }
    const PairedRatio ratio = compare(first, second);
    held += ratio.lo <= 1.05 && 1.05 <= ratio.hi;
  }
  EXPECT_NEAR(static_cast<double>(held) / cases, 0.95, 4 * std::sqrt(0.95 * 0.05 / cases));
}

}  // namespace
}  // namespace ddl::tune
