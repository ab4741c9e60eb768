// What is read of the words by which background threads agree. Known truth: the words.
#include "interpose/agreement.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

namespace ddl {
namespace {

constexpr uint64_t kStatus = 7;

uint32_t bits_of(const std::vector<uint64_t>& words) {
  return count_bits(words.data(), bytes_of_bits(words.data(), 8 * words.size()));
}

/// As Horovod does while it writes a timeline: status bits are not inverted.
std::vector<uint64_t> with_inverse(std::vector<uint64_t> words) {
  const size_t n = words.size();
  for (size_t i = 0; i < n; ++i) words.push_back(~words[i] | (i == 0 ? kStatus : 0));
  return words;
}

TEST(Agreement, BitsAreCountedOnceWhereTheirInverseFollows) {
  EXPECT_EQ(bits_of({kStatus}), 3u);
  EXPECT_EQ(bits_of({kStatus, 0xff}), 11u);
  EXPECT_EQ(bits_of(with_inverse({kStatus})), 3u);
  EXPECT_EQ(bits_of(with_inverse({5})), 2u) << "a status bit is clear";
  EXPECT_EQ(bits_of(with_inverse({kStatus | 0xff00})), 11u);
  std::vector<uint64_t> many(100, 0);  // more than is read at a time
  many[0] = kStatus;
  EXPECT_EQ(bits_of(with_inverse(many)), 3u);
  many[99] = 0xf0f0;
  EXPECT_EQ(bits_of(with_inverse(many)), 11u);
}

TEST(Agreement, HalvesThatDifferOtherwiseAreBothCounted) {
  std::vector<uint64_t> words = with_inverse(std::vector<uint64_t>(100, 0xaaaa));
  words[199] ^= 1;
  EXPECT_EQ(bits_of(words), 100u * 64) << "one status bit is there twice, the bit that differs not at all";
  EXPECT_EQ(bits_of({kStatus, ~kStatus}), 64u) << "status bits are never clear in the second half";
}

TEST(Agreement, MemoryThatCannotBeReadIsNotCounted) {
  void* page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  EXPECT_EQ(bytes_of_bits(page, 64), 64u);
  EXPECT_EQ(count_bits(page, 64), kNotRead);
  munmap(page, 4096);
}

}  // namespace
}  // namespace ddl
