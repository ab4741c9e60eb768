#include "analyzer/models/parallel_limits.h"

#include <gtest/gtest.h>

namespace ddl::models {
namespace {

std::vector<Limit> limits(const ParallelJob& job) {
  std::vector<Limit> found;
  for (const LimitReached& reached : limits_reached(job)) found.push_back(reached.limit);
  return found;
}

using Limits = std::vector<Limit>;

// Each rule has a case that breaks it and one that does not.

TEST(ParallelLimits, NothingKnownIsNoLimit) { EXPECT_EQ(limits({.ranks = 1e6}), Limits{}); }

TEST(ParallelLimits, Communication) {
  EXPECT_EQ(limits({.ranks = 8, .transfer_share = 0.51}), Limits{Limit::kCommunication});
  EXPECT_EQ(limits({.ranks = 8, .transfer_share = 0.49}), Limits{});
}

TEST(ParallelLimits, MoreRanksThanSamples) {
  EXPECT_EQ(limits({.ranks = 512, .global_batch = 256}), Limits{Limit::kSamples});
  EXPECT_EQ(limits({.ranks = 256, .global_batch = 256}), Limits{});
}

TEST(ParallelLimits, MemoryPerSample) {
  EXPECT_EQ(limits({.ranks = 4, .global_batch = 128, .memory_bytes = 16e9, .sample_bytes = 1e9, .fixed_bytes = 1e9}),
            Limits{Limit::kMemory});
  EXPECT_EQ(limits({.ranks = 16, .global_batch = 128, .memory_bytes = 16e9, .sample_bytes = 1e9, .fixed_bytes = 1e9}),
            Limits{});
  const auto split = limits_reached({.ranks = 16, .global_batch = 16, .memory_bytes = 16e9, .sample_bytes = 20e9});
  ASSERT_EQ(split.size(), 1u);
  EXPECT_NE(split[0].sentence.find("split the model"), std::string::npos);
}

TEST(ParallelLimits, RecipeBeyondTheSafeBatch) {  // Goyal: 8192 is safe, 16k loses 1.2 points, 64k 10.4
  EXPECT_EQ(limits({.ranks = 256, .global_batch = 16384, .safe_batch = 8192}), Limits{Limit::kRecipe});
  EXPECT_EQ(limits({.ranks = 256, .global_batch = 65536, .safe_batch = 8192}), Limits{Limit::kRecipe});
  EXPECT_EQ(limits({.ranks = 256, .global_batch = 8192, .safe_batch = 8192}), Limits{});
}

}  // namespace
}  // namespace ddl::models
