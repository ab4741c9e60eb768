#include "store/import/decimal.h"

#include <gtest/gtest.h>

#include <string>

namespace ddl::store {
namespace {

TEST(Decimal, KeepsEveryDigit) {
  EXPECT_EQ(scaled("1661938466265032.125", 3), 1661938466265032125);
  EXPECT_EQ(scaled("4458676522709.059", 3), 4458676522709059);
  EXPECT_EQ(scaled("0", 3), 0);
  EXPECT_EQ(scaled("-0.001", 3), -1);
  EXPECT_EQ(scaled("17", 0), 17);
  EXPECT_EQ(scaled("0007", 2), 700);
  EXPECT_EQ(scaled("0.8486716747283936", 9), 848671675);  // half away from zero
  EXPECT_EQ(scaled("0.0005", 3), 1);
  EXPECT_EQ(scaled("-0.0005", 3), -1);
  EXPECT_EQ(scaled("0.00049999", 3), 0);
}

TEST(Decimal, KnowsExponents) {
  EXPECT_EQ(scaled("1.5e3", 0), 1500);
  EXPECT_EQ(scaled("1.5E+3", 3), 1500000);
  EXPECT_EQ(scaled("25e-1", 0), 3);
  EXPECT_EQ(scaled("4e18", 0), 4'000'000'000'000'000'000);
  EXPECT_EQ(scaled("1e-300", 9), 0);
  EXPECT_EQ(scaled("0e99999999999", 0), 0);
}

TEST(Decimal, RefusesWhatDoesNotFitOrIsNoNumber) {
  for (const char* text : {"", "-", ".", "e5", "1e", "1e+", "1x", "0x10", "nan", "inf", " 1", "1 ", "1..2", "--1",
                           "4.1e18", "1e300", "9223372036854775807", "99999999999999999999999", "1e99999999999"})
    EXPECT_EQ(scaled(text, 0), std::nullopt) << text;
  EXPECT_EQ(scaled("4e18", 1), std::nullopt);
  EXPECT_EQ(scaled(std::string(1000, '9'), 3), std::nullopt);
  EXPECT_EQ(scaled(std::string(1000, '0') + "5", 0), 5);
}

TEST(Decimal, WholeNumbersAreWhole) {
  EXPECT_EQ(whole("12"), 12);
  EXPECT_EQ(whole("12.0"), 12);
  EXPECT_EQ(whole("1.2e1"), 12);
  EXPECT_EQ(whole("-3"), -3);
  EXPECT_EQ(whole("12.5"), std::nullopt);
  EXPECT_EQ(whole("1.25e1"), std::nullopt);
  EXPECT_EQ(whole("0.4"), std::nullopt);
  EXPECT_EQ(whole("stream 7"), std::nullopt);
}

}  // namespace
}  // namespace ddl::store
