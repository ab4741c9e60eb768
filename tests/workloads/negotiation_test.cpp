#include "workloads/train/negotiation.h"

#include <gtest/gtest.h>

namespace ddl::train {
namespace {

using Batches = std::vector<std::vector<std::size_t>>;

TEST(Negotiation, FusesInOrderUpToTheBuffer) {
  const std::vector<NamedTensor> tensors{{"a", 10}, {"b", 5}, {"c", 20}, {"d", 1}};
  const std::vector<std::size_t> order{2, 0, 1, 3};
  EXPECT_EQ(fuse(order, tensors, 36), (Batches{{2, 0, 1, 3}}));
  EXPECT_EQ(fuse(order, tensors, 35), (Batches{{2, 0, 1}, {3}}));
  EXPECT_EQ(fuse(order, tensors, 16), (Batches{{2}, {0, 1, 3}})) << "what is larger than the buffer goes alone";
  EXPECT_EQ(fuse(order, tensors, 0), (Batches{{2}, {0}, {1}, {3}}));
  EXPECT_TRUE(fuse({}, tensors, 36).empty());
}

TEST(Negotiation, BitsGoOnInFurtherWords) {
  Bits bits(130);
  EXPECT_EQ(bits.words().size(), 3U);
  EXPECT_EQ(Bits(64).words().size(), 1U);
  for (const std::size_t i : {0U, 63U, 64U, 129U}) bits.set(i, true);
  bits.set(63, false);
  for (std::size_t i = 0; i < 130; ++i) EXPECT_EQ(bits.get(i), i == 0 || i == 64 || i == 129) << i;
  EXPECT_EQ(bits.words()[0], 1);
  EXPECT_EQ(bits.words()[1], 1);
  EXPECT_EQ(bits.words()[2], 2);
}

}  // namespace
}  // namespace ddl::train
