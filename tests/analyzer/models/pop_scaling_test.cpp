// Computation scaling, by hand.
#include "analyzer/models/pop_scaling.h"

#include <gtest/gtest.h>

namespace ddl::models {
namespace {

TEST(PopScaling, ByHand) {
  const PopFacts base{2, 20, 0.9}, run{8, 25, 0.7};
  const PopRow strong = pop_row(base, run, ScalingKind::kStrong), weak = pop_row(base, run, ScalingKind::kWeak);
  EXPECT_DOUBLE_EQ(*strong.computation, 20.0 / 25);
  EXPECT_DOUBLE_EQ(*weak.computation, (20.0 / 2) / (25.0 / 8));
  EXPECT_DOUBLE_EQ(*strong.global, 0.7 * 20 / 25);
  EXPECT_DOUBLE_EQ(*pop_row(base, base, ScalingKind::kStrong).global, 0.9);
}

TEST(PopScaling, NeverGuessed) {
  const PopFacts base{2, 20, 0.9}, run{4, 20, 0.8}, unknown{4, 20, {}};
  EXPECT_FALSE(pop_row(base, run, ScalingKind::kMixed).computation);
  EXPECT_FALSE(pop_row(base, run, ScalingKind::kUnknown).global);
  EXPECT_EQ(pop_row(base, run, ScalingKind::kMixed).parallel, 0.8);
  EXPECT_FALSE(pop_row(base, unknown, ScalingKind::kWeak).global);
}

}  // namespace
}  // namespace ddl::models
