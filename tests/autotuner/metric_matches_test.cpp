// What --metric takes for the number of a trial, by lines as jobs print them.
#include "autotuner/metric_matches.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "autotuner/goal.h"
#include "core/error.h"

namespace ddl::tune {
namespace {

std::vector<double> numbers(const std::string& text, const std::string& pattern = "images/sec: ([0-9.]+)") {
  std::istringstream stream(text);
  return numbers_of(matches_in(stream, pattern));
}

std::string refused(const std::string& text, const std::string& pattern = "images/sec: ([0-9.]+)") {
  try {
    numbers(text, pattern);
  } catch (const Error& error) {
    EXPECT_NE(error.hint(), "");
    return error.what();
  }
  return "";
}

TEST(MetricMatches, EveryUpdateOfAProgressBarIsALine) {
  std::string bar;
  for (int step = 0; step < 400; ++step)
    bar += "step " + std::to_string(step) + " images/sec: " + (step < 200 ? "100" : "200") + "   \r";
  const std::vector<double> found = numbers(bar + "\nimages/sec: 7\r\nimages/sec: 8");
  ASSERT_EQ(found.size(), 402u);
  EXPECT_EQ(found[199], 100);
  EXPECT_EQ(found[399], 200);
  EXPECT_EQ(found[400], 7);
  EXPECT_EQ(found[401], 8);
}

TEST(MetricMatches, APartOfANumberIsRefused) {
  EXPECT_EQ(refused("images/sec: 1,900.5"),
            "'1' of '1,900.5' is not the whole number: the number goes on behind the match");
  EXPECT_EQ(refused("images/sec: 1'900"),
            "'1' of '1'900' is not the whole number: the number goes on behind the match");
  EXPECT_EQ(refused("images/sec: 1.2e+06\n"),
            "'1.2' of '1.2e+06' is not the whole number: the number goes on behind the match");
  EXPECT_NE(refused("images/sec: 1.e6"), "");
  EXPECT_NE(refused("images/sec: 100.5", "sec: ([0-9]+)"), "");
  EXPECT_NE(refused("images/sec: 123", "sec: ([0-9])"), "");
  EXPECT_NE(refused("images/sec: 1,900.5", "sec: ([0-9.,]+)"), "") << "no number, though it begins as one";
  EXPECT_EQ(refused("1,900.5 images", "([0-9.]+) images"),
            "'900.5' of '1,900.5' is not the whole number: the number goes on before the match");
  EXPECT_EQ(refused("1.2e-06 s", "([0-9.]+) s"),
            "'06' of '1.2e-06' is not the whole number: the number goes on before the match");
}

TEST(MetricMatches, WhatEndsThereIsTaken) {
  EXPECT_EQ(numbers("images/sec: 100, loss 3"), std::vector<double>{100});
  EXPECT_EQ(numbers("images/sec: 100."), std::vector<double>{100});
  EXPECT_EQ(numbers("images/sec: 100examples"), std::vector<double>{100});
  EXPECT_EQ(numbers("images/sec: 12,5,7", "sec: ([0-9.]+),"), std::vector<double>{12})
      << "the pattern says that the comma is none of it";
  EXPECT_EQ(numbers("images/sec: 1.2e+06", "sec: ([0-9.e+-]+)"), std::vector<double>{1.2e6});
  EXPECT_EQ(numbers("images/sec: n/a\nimages/sec: 5", "sec: (\\S+)"), std::vector<double>{5});
  EXPECT_EQ(numbers("a 3-4 5 6", "([0-9]+)"), (std::vector<double>{3, 4, 5, 6}));
  EXPECT_EQ(numbers("\n\n\r\r"), std::vector<double>{});
}

TEST(MetricMatches, ANumberCutWithItsLineIsNone) {
  EXPECT_EQ(numbers("images/sec: 5 " + std::string(4096 - 14 - 14, '.') + "images/sec: 12345"), std::vector<double>{5});
}

TEST(MetricMatches, OnlyFiniteNumbersAboveZeroAreCosts) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Goal goal;
  goal.metric = Metric{.pattern = "x", .file = "", .lower_is_better = false};
  TrialFacts facts;
  for (const bool lower : {false, true}) {
    goal.metric->lower_is_better = lower;
    for (const double number : {kInfinity, -kInfinity, std::nan(""), 0.0, -1.0}) {
      facts.metric = number;
      const Outcome outcome = outcome_of(facts, goal, std::nullopt);
      EXPECT_FALSE(outcome.cost) << number;
      EXPECT_NE(outcome.why, "") << number;
    }
    facts.metric = 4;
    EXPECT_EQ(outcome_of(facts, goal, std::nullopt).cost, lower ? 4 : 0.25);
  }
  facts.metric = kInfinity;
  EXPECT_EQ(outcome_of(facts, goal, std::nullopt).why, "'x' gives inf: not a finite number");
}

}  // namespace
}  // namespace ddl::tune
