#include <gtest/gtest.h>

#include "core/error.h"
#include "tui/filter.h"
#include "tui/snapshot.h"

namespace ddl::tui {
namespace {

RankRow row(int rank, double late_ms, const char* node) {
  RankRow r;
  r.rank = rank;
  r.late_ns = late_ms * 1e6;
  r.node = node;
  return r;
}

TEST(Filter, TermsAreJoined) {
  const Filter filter("late>5 & node~nid004");
  EXPECT_TRUE(filter.matches(row(1, 5.1, "nid0042")));
  EXPECT_FALSE(filter.matches(row(1, 5.0, "nid0042")));
  EXPECT_FALSE(filter.matches(row(1, 9, "nid0052")));
}

TEST(Filter, RanksAndRanges) {
  const Filter filter("rank=8..15,3");
  for (const int in : {3, 8, 12, 15}) EXPECT_TRUE(filter.matches(row(in, 0, "")));
  for (const int out : {2, 7, 16}) EXPECT_FALSE(filter.matches(row(out, 0, "")));
  EXPECT_TRUE(Filter("rank!=3").matches(row(4, 0, "")));
  EXPECT_FALSE(Filter("rank!=3").matches(row(3, 0, "")));
}

TEST(Filter, WhatIsNotKnownDoesNotPass) {
  RankRow unknown;
  EXPECT_FALSE(Filter("late<100").matches(unknown));
  EXPECT_TRUE(Filter("").matches(unknown));
}

TEST(Filter, BadTextShowsWhere) {
  const std::pair<const char*, const char*> kBad[] = {
      {"lat>5", "column 1"},  {"late>", "column 6"},  {"late 5", "column 6"},   {"late>5 &", "column 9"},
      {"node>3", "column 5"}, {"late~5", "column 5"}, {"rank=1..", "column 9"}, {"late>5 node~x", "column 8"}};
  for (const auto& [text, where] : kBad) {
    try {
      const Filter filter(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(where), std::string::npos) << text << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace ddl::tui
