#include "store/sorted_records.h"

#include <gtest/gtest.h>

#include <random>

namespace ddl::store {
namespace {

struct Numbered {
  uint32_t key, place;
  char rest[1016];  // few of them fill a block
};
struct ByKey {
  bool operator()(const Numbered& a, const Numbered& b) const { return a.key < b.key; }
};

/// Keys of `count` records, sorted by std::stable_sort, and by files.
void compare(size_t count, uint32_t keys, bool nearly_sorted) {
  std::mt19937 random(static_cast<uint32_t>(count));
  std::vector<std::pair<uint32_t, uint32_t>> expected;
  SortedRecords<Numbered, ByKey> records;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t key =
        nearly_sorted ? i / 10 + static_cast<uint32_t>(random() % 5) : static_cast<uint32_t>(random() % keys);
    Numbered record{key, i, {}};
    record.rest[1015] = static_cast<char>(i % 100);
    records.add(record);
    expected.emplace_back(key, i);
  }
  std::stable_sort(expected.begin(), expected.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  records.sort();
  for (const auto& [key, place] : expected) {
    const Numbered* const record = records.next();
    ASSERT_NE(record, nullptr);
    ASSERT_EQ(record->key, key);
    ASSERT_EQ(record->place, place);
    ASSERT_EQ(record->rest[1015], static_cast<char>(place % 100));
  }
  EXPECT_EQ(records.next(), nullptr);
  EXPECT_EQ(records.next(), nullptr);
}

TEST(SortedRecords, AreInOrderAndThoseOfOneRankAsTheyCame) {
  constexpr size_t kBlock = (4 << 20) / sizeof(Numbered);
  for (const size_t count :
       {size_t{0}, size_t{1}, size_t{2}, kBlock - 1, kBlock, kBlock + 1, 3 * kBlock, 5 * kBlock + 77}) {
    compare(count, 1'000'000, false);
    compare(count, 7, false);
    compare(count, 0, true);
  }
}

}  // namespace
}  // namespace ddl::store
