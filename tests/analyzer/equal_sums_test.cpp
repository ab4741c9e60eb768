// Steps of runtimes that fuse what is ready: other batches in each step, the same bytes.
#include "analyzer/passes/equal_sums.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace ddl::test {
namespace {

constexpr int64_t kMs = 1'000'000;

/// Steps of 50 ms: `tensors` are reduced in order, in batches that are drawn anew in each step, after a pause of 40 ms.
std::vector<Batch> equal_batches(size_t steps, const std::vector<int64_t>& tensors, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Batch> batches;
  for (size_t s = 0; s < steps; ++s) {
    int64_t now_ns = static_cast<int64_t>(s) * 50 * kMs + 40 * kMs;
    for (size_t next = 0; next < tensors.size();) {
      Batch batch{0, now_ns, now_ns + kMs / 2};
      do batch.bytes += tensors[next++];
      while (next < tensors.size() && random() % 2 == 0);
      batches.push_back(batch);
      now_ns += kMs;
    }
  }
  return batches;
}

TEST(EqualSums, BatchesDifferAndTheirBytesDoNot) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<Batch> batches = equal_batches(30, {40, 1'536, 589'824, 1'536, 589'824, 15'360}, seed);
    const auto found = find_equal_sums(batches);
    ASSERT_TRUE(found) << seed;
    EXPECT_EQ(found->steps.size(), 29u) << seed;  // of the first nobody knows when it began
    EXPECT_EQ(found->agreement, 1.0);
    for (const auto& [first, last] : found->steps) {
      int64_t bytes = 0;
      for (size_t i = first; i < last; ++i) bytes += batches[i].bytes;
      EXPECT_EQ(bytes, 40 + 2 * 1'536 + 2 * 589'824 + 15'360);
      EXPECT_EQ(batches[first].enter_ns % (50 * kMs), 40 * kMs) << seed;
    }
  }
}

TEST(EqualSums, WhatComesBeforeTheStepsIsNone) {
  std::vector<Batch> batches = equal_batches(20, {7'000, 300, 2'000}, 1);
  for (Batch& batch : batches) batch.enter_ns += kMs, batch.leave_ns += kMs;
  batches.insert(batches.begin(), {{123, 0, kMs / 10}, {45, kMs / 10, kMs / 5}});
  const auto found = find_equal_sums(batches);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->steps.size(), 20u);
  EXPECT_EQ(found->steps.front().first, 2u);
}

TEST(EqualSums, EqualBatchesAreAsManyToAStepAsThePausesSay) {
  std::vector<Batch> batches;
  for (int64_t s = 0; s < 20; ++s)
    for (int64_t b = 0; b < 4; ++b)
      batches.push_back({1'000'000, s * 50 * kMs + b * kMs, s * 50 * kMs + b * kMs + kMs / 2});
  const auto found = find_equal_sums(batches);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->period, 4u);
  for (const auto& [first, last] : found->steps) {
    EXPECT_EQ(first % 4, 0u);
    EXPECT_EQ(last, first + 4);
  }
}

// Layers of 8, 12, 16 and 20, each reduced by itself: 12 + 16 and 20 + 8 are half of a step each.
TEST(EqualSums, PartsThatAddUpByAccidentAreNoSteps) {
  std::vector<Batch> batches;
  for (int64_t s = 0; s < 20; ++s)
    for (int64_t b = 0; b < 4; ++b) {
      const int64_t now_ns = s * 50 * kMs + 30 * kMs + b * 5 * kMs;
      batches.push_back({8'000 + 4'000 * b, now_ns, now_ns + kMs / 2});
    }
  const auto found = find_equal_sums(batches);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->period, 4u);
  EXPECT_EQ(found->steps.size(), 19u);
  for (const auto& [first, last] : found->steps) {
    EXPECT_EQ(first % 4, 0u);
    EXPECT_EQ(last, first + 4);
  }
}

// Two buckets to a step, in one step fused into one: that step alone is lost, wherever it comes.
TEST(EqualSums, OneFusedStepCostsItself) {
  for (int64_t odd = 1; odd < 39; ++odd) {
    std::vector<Batch> batches;
    for (int64_t s = 0; s < 40; ++s) {
      const int64_t now_ns = s * 100 * kMs + 60 * kMs;
      batches.push_back({s == odd ? 524'288 : 262'144, now_ns, now_ns + kMs});
      if (s != odd) batches.push_back({262'144, now_ns + 6 * kMs, now_ns + 7 * kMs});
    }
    const auto found = find_equal_sums(batches);
    ASSERT_TRUE(found) << odd;
    EXPECT_EQ(found->period, 2u) << odd;
    EXPECT_EQ(found->steps.size(), 38u) << odd;  // of the first nobody knows when it began
    for (const auto& [first, last] : found->steps) EXPECT_EQ(batches[first].enter_ns % (100 * kMs), 60 * kMs) << odd;
  }
}

/// Behind a broadcast of a hundred parameters, none of which ends where a step would begin.
TEST(EqualSums, FusedStepsNowAndThenCostThemselves) {
  std::vector<Batch> batches;
  for (int64_t i = 0; i < 100; ++i) batches.push_back({200'001, i * kMs / 2, i * kMs / 2 + kMs / 4});
  for (int64_t s = 0; s < 2000; ++s) {
    const bool fused = s % 50 == 49;
    const int64_t now_ns = s * 100 * kMs + 60 * kMs;
    batches.push_back({fused ? 524'288 : 262'144, now_ns, now_ns + kMs});
    if (!fused) batches.push_back({262'144, now_ns + 6 * kMs, now_ns + 7 * kMs});
  }
  const auto found = find_equal_sums(batches);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->steps.size(), 2000u - 2000 / 50)
      << "all but the fused ones: the broadcast says when the first one began";
}

// An evaluation's counter after every tenth step: no step is lost for it, and what is one step before it is one behind
// it.
TEST(EqualSums, AReductionBetweenStepsMovesNothing) {
  std::vector<Batch> batches = equal_batches(40, {40, 1'536, 589'824, 15'360}, 7);
  for (size_t i = 0, steps = 0; i < batches.size(); ++i) {
    const bool last =
        i + 1 == batches.size() || batches[i + 1].enter_ns / (50 * kMs) != batches[i].enter_ns / (50 * kMs);
    if (last && ++steps % 10 == 0)
      batches.insert(batches.begin() + static_cast<ptrdiff_t>(++i),
                     {16, batches[i].leave_ns + kMs, batches[i].leave_ns + 2 * kMs});
  }
  const auto found = find_equal_sums(batches);
  ASSERT_TRUE(found);
  EXPECT_GE(found->steps.size(), 36u);
  for (const auto& [first, last] : found->steps) {
    int64_t bytes = 0;
    for (size_t i = first; i < last; ++i) bytes += batches[i].bytes;
    EXPECT_EQ(bytes, 40 + 1'536 + 589'824 + 15'360);
  }
}

TEST(EqualSums, NoneWhereNothingComesAgain) {
  std::mt19937_64 random(5);
  std::vector<Batch> batches;
  for (int64_t i = 0; i < 300; ++i)
    batches.push_back({static_cast<int64_t>(1 + random() % 100'000'000), i * kMs, i * kMs + kMs / 2});
  EXPECT_FALSE(find_equal_sums(batches));
  EXPECT_FALSE(find_equal_sums({}));
  EXPECT_FALSE(find_equal_sums(std::vector<Batch>(3, Batch{1, 0, 1})));
}

}  // namespace
}  // namespace ddl::test
