// Interval algebra against a bitmap: one bit per ns is too naive to be wrong in the same way.
#include "analyzer/intervals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bitset>
#include <random>

namespace ddl {
namespace {

constexpr int kRange = 64;
using Bits = std::bitset<kRange>;

Bits bits_of(const std::vector<Interval>& intervals) {
  Bits bits;
  for (const Interval& i : intervals) {
    for (int64_t t = i.begin_ns; t < i.end_ns; ++t) bits.set(static_cast<size_t>(t));
  }
  return bits;
}

std::vector<Interval> random_intervals(std::mt19937& random) {
  std::uniform_int_distribution<int> count(0, 8);
  std::uniform_int_distribution<int64_t> time(0, kRange);
  std::vector<Interval> intervals(static_cast<size_t>(count(random)));
  for (Interval& i : intervals) i = {time(random), time(random)};
  return intervals;
}

/// Sorted, not empty, with a gap between any two.
void expect_canonical(const IntervalSet& set) {
  for (size_t i = 0; i < set.parts().size(); ++i) {
    EXPECT_LT(set.parts()[i].begin_ns, set.parts()[i].end_ns);
    EXPECT_TRUE(i == 0 || set.parts()[i].begin_ns > set.parts()[i - 1].end_ns);
  }
}

TEST(Intervals, OperationsMatchABitmap) {
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    const std::vector<Interval> x = random_intervals(random);
    const std::vector<Interval> y = random_intervals(random);
    const IntervalSet a(x);
    const IntervalSet b(y);
    ASSERT_EQ(bits_of(a.parts()), bits_of(x));
    ASSERT_EQ(bits_of(unite(a, b).parts()), bits_of(x) | bits_of(y));
    ASSERT_EQ(bits_of(intersect(a, b).parts()), bits_of(x) & bits_of(y));
    ASSERT_EQ(bits_of(subtract(a, b).parts()), bits_of(x) & ~bits_of(y));
    ASSERT_EQ(a.length_ns(), static_cast<int64_t>(bits_of(x).count()));
    for (const IntervalSet& set : {a, unite(a, b), intersect(a, b), subtract(a, b)}) expect_canonical(set);
  }
}

TEST(Intervals, BadOnesAreDropped) {
  const IntervalSet set({{5, 5}, {9, 3}, {1, 2}});
  EXPECT_EQ(set.length_ns(), 1);
}

TEST(Intervals, TouchingOnesMerge) {
  EXPECT_EQ(IntervalSet({{0, 5}, {5, 9}}), IntervalSet({{0, 9}}));
  EXPECT_EQ(unite(IntervalSet({{0, 5}}), IntervalSet({{5, 9}})), IntervalSet({{0, 9}}));
}

TEST(Intervals, OrderDoesNotMatter) {
  std::mt19937 random(2);
  for (int round = 0; round < 500; ++round) {
    std::vector<Interval> intervals = random_intervals(random);
    const IntervalSet before(intervals);
    std::shuffle(intervals.begin(), intervals.end(), random);
    ASSERT_EQ(IntervalSet(intervals), before);
  }
}

TEST(Intervals, EmptySetIsNeutral) {
  const IntervalSet a({{2, 7}});
  const IntervalSet none;
  EXPECT_EQ(unite(a, none), a);
  EXPECT_EQ(intersect(a, none), none);
  EXPECT_EQ(subtract(a, none), a);
  EXPECT_EQ(subtract(a, a), none);
}

}  // namespace
}  // namespace ddl
