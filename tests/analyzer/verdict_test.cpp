#include "analyzer/verdict.h"

#include <gtest/gtest.h>

namespace ddl {
namespace {

TEST(Verdict, LargestAboveTheThreshold) {
  EXPECT_EQ(decide({{"wait", 0.31, {}, {}}, {"transfer", 0.12, {}, {}}}).name, "wait");
  EXPECT_EQ(decide({{"wait", 0.02, {}, {}}, {"transfer", 0.12, {}, {}}}).name, "transfer");
}

TEST(Verdict, NothingAboveMeansCompute) {
  EXPECT_EQ(decide({{"wait", 0.05, {}, {}}, {"transfer", 0.049, {}, {}}}).name, "compute");
  EXPECT_EQ(decide({{"wait", 0.0, {}, {}}}).name, "compute");
}

TEST(Verdict, OverlappingIntervalsAreUndecided) {
  EXPECT_EQ(decide({{"wait", 0.20, 0.15, 0.25}, {"transfer", 0.18, 0.14, 0.22}}).name, "undecided");
  EXPECT_EQ(decide({{"wait", 0.30, 0.28, 0.32}, {"transfer", 0.18, 0.14, 0.22}}).name, "wait");
  // the other is below the threshold
  EXPECT_EQ(decide({{"wait", 0.08, 0.01, 0.25}, {"transfer", 0.04, 0.01, 0.22}}).name, "wait");
}

TEST(Verdict, SaysItsNumbers) {
  const std::string text = decide({{"wait", 0.31, {}, {}}, {"transfer", 0.12, {}, {}}}).text;
  EXPECT_NE(text.find("wait 31.0%"), std::string::npos) << text;
  EXPECT_NE(text.find("transfer 12.0%"), std::string::npos) << text;
  EXPECT_NE(text.find("threshold 5%"), std::string::npos) << text;
}

TEST(Verdict, PollingMayBeWaiting) {
  // 30 % transfer of which 12 % are in MPI_Test and the like: 18 % are left for certain, more than the 10 % of waiting.
  EXPECT_EQ(decide({{"wait", 0.10, {}, {}}, {"transfer", 0.30, {}, {}, 0.12}}).name, "transfer");
  const Verdict open = decide({{"wait", 0.10, {}, {}}, {"transfer", 0.30, {}, {}, 0.25}});
  EXPECT_EQ(open.name, "undecided");
  EXPECT_NE(open.text.find("25.0% are calls that only test"), std::string::npos) << open.text;
  // more waiting changes nothing
  EXPECT_EQ(decide({{"wait", 0.35, {}, {}}, {"transfer", 0.30, {}, {}, 0.25}}).name, "wait");
}

TEST(Verdict, WaitingMayBeInLoopsThatTest) {
  const auto with_loops = [](double wait, double transfer, double polled) {
    std::vector<Share> shares{{"wait", wait}, {"transfer", transfer}};
    shares[0].polled = polled;
    return decide(shares);
  };
  EXPECT_EQ(with_loops(0.01, 0, 0.03).name, "compute");
  EXPECT_EQ(with_loops(0.01, 0, 0.3).name, "undecided");
  EXPECT_NE(with_loops(0.01, 0, 0.3).text.find("undecided between computing and wait"), std::string::npos);
  EXPECT_NE(with_loops(0.01, 0, 0.3).text.find("up to 30.0% more may be waiting"), std::string::npos);
  EXPECT_EQ(with_loops(0.01, 0.4, 0.3).name, "transfer");
  EXPECT_EQ(with_loops(0.2, 0.4, 0.3).name, "undecided");
  EXPECT_EQ(with_loops(0.4, 0.2, 0.3).name, "wait");
}

TEST(Verdict, WaitingMayBeForThreadsOfTheProcess) {
  const auto with_threads = [](double wait, double transfer, double blocked) {
    std::vector<Share> shares{{"wait", wait}, {"transfer", transfer}};
    shares[0].blocked = blocked;
    return decide(shares);
  };
  EXPECT_EQ(with_threads(0.01, 0, 0.03).name, "compute");
  EXPECT_EQ(with_threads(0.01, 0.02, 0.3).name, "undecided");
  EXPECT_NE(with_threads(0.01, 0, 0.3).text.find("up to 30.0% more may be waiting, off the CPU"), std::string::npos);
  EXPECT_EQ(with_threads(0.01, 0.4, 0.3).name, "transfer");
  EXPECT_EQ(with_threads(0.4, 0.2, 0.3).name, "wait");
  EXPECT_NE(with_threads(0.4, 0.2, 0.3).text.find("up to 30.0% more may be waiting"), std::string::npos)
      << "what it is bound by is larger still";
}

TEST(Verdict, WhatIsNotSplitMayTurnIt) {
  EXPECT_EQ(decide({{"wait", 0.40}, {"transfer", 0.06}, {kNotSplit, 0.10}}).name, "wait");  // 6 + 10 % are less
  EXPECT_EQ(decide({{"wait", 0.15}, {"transfer", 0.06}, {kNotSplit, 0.10}}).name, "undecided");
  EXPECT_EQ(decide({{"wait", 0.01}, {"transfer", 0.01}, {kNotSplit, 0.30}}).name, "undecided");
  // below the threshold whatever it is
  EXPECT_EQ(decide({{"wait", 0.01}, {"transfer", 0.01}, {kNotSplit, 0.04}}).name, "compute");
  EXPECT_EQ(decide({{kNotSplit, 0.30}}).name, "undecided");
  const std::string text = decide({{"wait", 0.15}, {"transfer", 0.06}, {kNotSplit, 0.10}}).text;
  EXPECT_NE(text.find("wait 15.0%, transfer 6.0%, not split 10.0% of the step"), std::string::npos) << text;
}

TEST(Verdict, NothingKnownNothingSaid) { EXPECT_EQ(decide({}).name, ""); }

}  // namespace
}  // namespace ddl
