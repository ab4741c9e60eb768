#include "reports/format.h"

#include <gtest/gtest.h>

namespace ddl::reports {
namespace {

TEST(Format, TableDurationsKeepFiveDigits) {
  EXPECT_EQ(table_duration(0), "0ns");
  EXPECT_EQ(table_duration(960), "960ns");
  EXPECT_EQ(table_duration(41'200), "41.200us");
  EXPECT_EQ(table_duration(4'933'300), "4.9333ms");
  EXPECT_EQ(table_duration(118'400'000), "118.40ms");
  EXPECT_EQ(table_duration(12'345'678'901), "12.346s");
  EXPECT_EQ(table_duration(123'456'000'000'000), "123456s");
  EXPECT_EQ(table_duration(-1'400'000), "-1.4000ms");
}

TEST(Format, RoundingNeverShowsAThousand) {
  EXPECT_EQ(table_duration(999'999), "1.0000ms");
  EXPECT_EQ(table_duration(999'994), "999.99us");
  EXPECT_EQ(table_duration(99'999'600), "100.00ms");
  EXPECT_EQ(short_duration(999'600), "1.00 ms");
  EXPECT_EQ(size_text(1'048'575), "1MiB");
  EXPECT_EQ(bandwidth_text(999'700'000), "1.00GB/s");
}

TEST(Format, ShortDurations) {
  EXPECT_EQ(short_duration(34'100'000), "34.1 ms");
  EXPECT_EQ(short_duration(59'940'000'000), "59.9 s");
  EXPECT_EQ(short_duration(704'000'000'000), "11m 44s");
  EXPECT_EQ(short_duration(7'500'000'000'000), "2h 05m");
}

TEST(Format, Sizes) {
  EXPECT_EQ(size_text(0), "0B");
  EXPECT_EQ(size_text(1000), "1000B");
  EXPECT_EQ(size_text(1536), "1.5KiB");
  EXPECT_EQ(size_text(104 << 20), "104MiB");
  EXPECT_EQ(bandwidth_text(58.2e9), "58.2GB/s");
  EXPECT_EQ(count_text(-1'234'567), "-1,234,567");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(plural(1, "rank"), "1 rank");
  EXPECT_EQ(plural(0, "rank"), "0 ranks");
}

TEST(Format, AbsentSaysWhyAndIsNeverZero) {
  EXPECT_EQ(table_text(Value::absent(Unit::kDuration, "PARTIAL_RANKS")), "n/a(PARTIAL_RANKS)");
  EXPECT_EQ(line_text(Value::absent(Unit::kRatio, "")), "n/a(NO_DATA)");
  EXPECT_EQ(table_text(Value::absent(Unit::kBandwidth, "NOT_APPLICABLE")), "-");
  EXPECT_EQ(table_text(Value::null(Unit::kCount)), "");
}

TEST(Format, RankLists) {
  EXPECT_EQ(rank_list({3, 1, 0, 2, 7}), "0-3, 7");
  EXPECT_EQ(rank_list({4, 5}), "4, 5");
  EXPECT_EQ(rank_list({0, 2, 4, 6}, 2), "0, 2, ... (4 in all)");
}

}  // namespace
}  // namespace ddl::reports
