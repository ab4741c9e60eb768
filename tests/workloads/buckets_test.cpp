#include "workloads/train/buckets.h"

#include <gtest/gtest.h>

#include "workloads/train/models.h"
#include "workloads/train/parameters.h"
#include "workloads/train/random.h"

namespace ddl::train {
namespace {

std::vector<std::size_t> sizes(const std::vector<Bucket>& buckets) {
  std::vector<std::size_t> result;
  for (const Bucket& bucket : buckets) result.push_back(bucket.count);
  return result;
}

TEST(Buckets, AreClosedWhenTheyHoldTheCap) {
  // floats: 40, 20, 80, 4 bytes
  const std::vector<std::size_t> counts{10, 5, 20, 1};
  EXPECT_EQ(sizes(assign_buckets(counts, 60)), (std::vector<std::size_t>{15, 20, 1}));  // 40 + 20 reaches 60
  // one byte more does not
  EXPECT_EQ(sizes(assign_buckets(counts, 61)), (std::vector<std::size_t>{35, 1}));
  EXPECT_EQ(sizes(assign_buckets(counts, 0)), counts);                                             // one per parameter
  EXPECT_EQ(sizes(assign_buckets(counts, std::size_t{1} << 40)), (std::vector<std::size_t>{36}));  // all in one
  EXPECT_TRUE(assign_buckets({}, 60).empty());
}

TEST(Buckets, HoldEveryParameterExactlyOnceInOrder) {
  Random random(1, Draw::kWeights, 0);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::size_t> counts(1 + random.below(40));
    for (std::size_t& count : counts) count = 1 + random.below(1000);
    const std::size_t cap = random.below(8000);
    const std::vector<Bucket> buckets = assign_buckets(counts, cap);
    std::size_t parameter = 0;
    std::size_t offset = 0;
    for (const Bucket& bucket : buckets) {
      ASSERT_EQ(bucket.first_parameter, parameter);
      ASSERT_EQ(bucket.offset, offset);
      ASSERT_GT(bucket.parameters, 0U);
      std::size_t count = 0;
      for (; parameter < bucket.end_parameter(); ++parameter) {
        ASSERT_TRUE(count == 0 || count * sizeof(float) < cap) << "was full before its last parameter";
        count += counts[parameter];
      }
      ASSERT_EQ(bucket.count, count);
      ASSERT_TRUE(count * sizeof(float) >= cap || &bucket == &buckets.back()) << "closed too early";
      offset += count;
    }
    ASSERT_EQ(parameter, counts.size());
  }
}

TEST(ParameterArena, LiesInReverseLayerOrderWithoutGaps) {
  Model model = build_mlp(2, {1, 4, 4}, 8);
  ParameterArena arena(model);
  std::vector<std::string> names;
  float* expected_value = arena.values().data();
  float* expected_gradient = arena.gradients().data();
  for (const Parameter* parameter : model.parameters_in_backward_order()) {
    names.push_back(parameter->name);
    EXPECT_EQ(parameter->value, expected_value);
    EXPECT_EQ(parameter->gradient, expected_gradient);
    expected_value += parameter->count;
    expected_gradient += parameter->count;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"fc4.bias", "fc4.weight", "fc3.bias", "fc3.weight", "fc2.bias",
                                             "fc2.weight", "fc1.bias", "fc1.weight"}));
  EXPECT_EQ(arena.size(), 8U * 16 + 8 + 2 * (8 * 8 + 8) + 8 * 10 + 10);
  EXPECT_EQ(arena.extra().data(), expected_gradient) << "the extra floats travel with the last bucket";
}

TEST(ParameterArena, UpdateIsSgdWithMomentum) {
  Model model = build_mlp(2, {1, 2, 2}, 2);
  ParameterArena arena(model);
  arena.initialise(1);
  const float before = arena.values()[3];
  const float untouched = arena.values()[4];
  arena.gradients()[3] = 2.0F;
  arena.gradients()[4] = 2.0F;
  arena.update(3, 1, 0.5F, 0.25F);  // velocity 2
  arena.update(3, 1, 0.5F, 0.25F);  // velocity 0.25 * 2 + 2 = 2.5
  EXPECT_FLOAT_EQ(arena.values()[3], before - 0.5F * 2.0F - 0.5F * 2.5F);
  EXPECT_EQ(arena.values()[4], untouched);
}

TEST(ParameterArena, SameSeedSameWeights) {
  const auto weights = [](uint64_t seed) {
    Model model = build_cnn(1, {1, 8, 8}, 2);
    ParameterArena arena(model);
    arena.initialise(seed);
    return std::vector<float>(arena.values().begin(), arena.values().end());
  };
  EXPECT_EQ(weights(5), weights(5));
  EXPECT_NE(weights(5), weights(6));
}

}  // namespace
}  // namespace ddl::train
