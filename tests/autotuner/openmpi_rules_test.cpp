// Open MPI's rules file: what is written, how it is read, and the table that Open MPI falls back to. That the real
// library does the same is the business of tests/autotuner/openmpi_in_force.py.
#include "autotuner/openmpi_rules.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "autotuner/openmpi_allreduce.h"
#include "core/error.h"

namespace ddl::tune {
namespace {

const std::vector<AllreduceRule> kRules = {{0, kRecursiveDoubling, "recursive_doubling", 0},
                                           {16384, kRing, "ring", 0},
                                           {1 << 20, kSegmentedRing, "segmented_ring", 131072},
                                           {2000000, kIgnore, "ignore", 0}};

TEST(OpenMpiRules, WhatIsWrittenIsReadBackWithGuards) {
  const std::string text = write_openmpi_rules(4, kRules);
  const OpenMpiRules rules = read_openmpi_rules(text);
  ASSERT_EQ(rules.dropped, "");
  ASSERT_EQ(rules.allreduce.size(), 3u);
  EXPECT_EQ(ruled(rules, 4, 0).algorithm, kRecursiveDoubling);
  EXPECT_EQ(ruled(rules, 4, 16383).algorithm, kRecursiveDoubling);
  EXPECT_EQ(ruled(rules, 4, 16384).algorithm, kRing);
  EXPECT_EQ(ruled(rules, 4, 1999999).algorithm, kSegmentedRing);
  EXPECT_EQ(ruled(rules, 4, 1999999).segment_bytes, 131072);
  EXPECT_EQ(ruled(rules, 4, int64_t{1} << 40).algorithm, kIgnore);
  for (const int64_t ranks : {2, 3, 5, 4096}) EXPECT_EQ(ruled(rules, ranks, 20000).algorithm, kIgnore) << ranks;
}

TEST(OpenMpiRules, PresetsAreWhatOtherLibrariesDo) {
  const std::map<std::string, int64_t> ids = {
      {"ring", kRing}, {"rabenseifner", kRabenseifner}, {"recursive_doubling", kRecursiveDoubling}};
  const OpenMpiRules baidu = read_openmpi_rules(write_openmpi_rules(8, preset_rules("baidu_ring", ids)));
  for (const int64_t bytes : {1, 4096, 1 << 30}) EXPECT_EQ(ruled(baidu, 8, bytes).algorithm, kRing) << bytes;
  const OpenMpiRules gloo = read_openmpi_rules(write_openmpi_rules(8, preset_rules("gloo", ids)));
  EXPECT_EQ(ruled(gloo, 8, 3999999).algorithm, kRabenseifner);  // up to a million elements: Goyal et al., 1706.02677
  EXPECT_EQ(ruled(gloo, 8, 4000000).algorithm, kRing);
  EXPECT_TRUE(preset_rules("nccl", ids).empty());
  EXPECT_TRUE(preset_rules("gloo", {{"ring", kRing}}).empty());
}

TEST(OpenMpiRules, ServeCallsOfTheirSizesOnly) {
  const std::vector<AllreduceRule> rules = {
      {0, 0, "ignore", 0}, {8192, 3, "recursive_doubling", 0}, {32768, 0, "ignore", 0}, {2 << 20, 4, "ring", 0}};
  EXPECT_FALSE(serves_any(rules, {}));
  EXPECT_FALSE(serves_any(rules, {0, 3, 13, 17, 21}))
      << "0, 4 to 7, 4096 to 8191, 64 to 128 KiB, 1 to 2 MiB, less a byte";
  EXPECT_TRUE(serves_any(rules, {3, 14})) << "8192 to 16383 bytes";
  EXPECT_TRUE(serves_any(rules, {22})) << "from 2 MiB on";
  EXPECT_TRUE(serves_any({{0, 4, "ring", 0}}, {0}));
}

TEST(OpenMpiRules, SayWhatTheDefaultWouldHaveUsed) {
  const std::string text = write_openmpi_rules(2, {{0, kRabenseifner, "rabenseifner", 0}, {65536, kRing, "ring", 0}});
  EXPECT_NE(
      text.find(
          "0 6 0 0  # rabenseifner; the default would have used ring up to 7 bytes, recursive_doubling up to 4095 bytes, ring up to "
          "8191 bytes, recursive_doubling up to 16383 bytes, then ring\n"),
      std::string::npos)
      << text;
  EXPECT_NE(
      text.find(
          "65536 4 0 0  # ring; the default would have used segmented_ring up to 262143 bytes, then rabenseifner\n"),
      std::string::npos)
      << text;
}

TEST(OpenMpiRules, WithoutAGuardTheFirstRuleServesSmallerCommunicators) {
  const OpenMpiRules rules = read_openmpi_rules("1 2 1  8 1  0 4 0 0");
  EXPECT_EQ(ruled(rules, 2, 100).algorithm, kRing);
  EXPECT_EQ(ruled(rules, 64, 100).algorithm, kRing);
}

TEST(OpenMpiRules, RulesAfterALargerOneAreNotReached) {
  const OpenMpiRules rules =
      read_openmpi_rules("1 2 3  2 3  0 1 0 0  4096 2 0 0  1024 3 0 0  8 1  0 4 0 0  4 1  0 6 0 0");
  EXPECT_EQ(ruled(rules, 4, 0).algorithm, kBasicLinear);     // 4 comes after 8
  EXPECT_EQ(ruled(rules, 2, 2000).algorithm, kBasicLinear);  // 1024 after 4096
  EXPECT_EQ(ruled(rules, 2, 5000).algorithm, kRecursiveDoubling);
  EXPECT_EQ(ruled(rules, 8, 0).algorithm, kRabenseifner);
}

TEST(OpenMpiRules, NumbersAreThoseOfScanf) {
  const OpenMpiRules rules =
      read_openmpi_rules("1 # one\n2 1\n4 3 x\n0 3 0 0\n010000, 0x4 0 0\n+8192 6 0 0 # tail without a line end");
  ASSERT_EQ(rules.dropped, "");
  EXPECT_EQ(ruled(rules, 4, 4096).algorithm, kRing);
  EXPECT_EQ(ruled(rules, 4, 4095).algorithm, kRecursiveDoubling);
  EXPECT_EQ(ruled(rules, 4, 8192).algorithm, kRabenseifner);
}

TEST(OpenMpiRules, AnythingWrongDropsTheWholeFile) {
  const struct {
    const char *text, *why;
  } kBad[] = {
      {"", "line 1: the file ends where the number of collectives should be"},
      {"rule-file-version-2\n1\n2\n1\n4 1\n0 3 0 0\n", "line 1: the number of collectives is -2"},
      {"1\n2\n1\n4 2\n0 3 0 0\n", "line 6: the file ends where a message size should be"},
      {"1\n2\n1\n4 1\n64 3 0 0\n", "line 5: the first rule for 4 ranks begins at 64 bytes, not at 0"},
      {"23\n", "line 1: 23 collectives, and there are 22"},
      {"1\n22\n", "line 2: collective 22, and the last is 21"},
      {"2\n2\n1\n4 1\n0 3 0 0\n", "line 6: the file ends where the id of a collective should be"},
      {"1\n2\n2000000000\n4 1\n0 3 0 0\n", "line 6: the file ends where the size of a communicator should be"},
      {"1\n2\n1\n4294967295 1\n0 3 0 0\n", "line 4: the size of a communicator is 4294967295"},
  };
  for (const auto& bad : kBad) {
    const OpenMpiRules rules = read_openmpi_rules(bad.text);
    EXPECT_EQ(rules.dropped, bad.why) << bad.text;
    EXPECT_EQ(ruled(rules, 4, 0).algorithm, kIgnore);
  }
}

TEST(OpenMpiRules, RulesThatAreNoneAreRefused) {
  EXPECT_THROW(write_openmpi_rules(1, kRules), Error);
  EXPECT_THROW(write_openmpi_rules(4, {}), Error);
  EXPECT_THROW(write_openmpi_rules(4, {{8, kRing, "ring", 0}}), Error);
  EXPECT_THROW(write_openmpi_rules(4, {{0, kRing, "ring", 0}, {0, kRing, "ring", 0}}), Error);
  EXPECT_THROW(write_openmpi_rules(4, {{0, -1, "?", 0}}), Error);
}

// The published table (Open MPI's coll_tuned_decision_fixed.c), at both ends of every row, for the first and the last
// communicator of its class.
TEST(OpenMpiAllreduce, TheBuiltInTableIsThePublishedOne) {
  std::ifstream file(DDL_SOURCE_DIR "/tests/published/openmpi_allreduce_fixed_decision.csv");
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  int rows = 0;
  for (; std::getline(file, line); ++rows) {
    std::istringstream cells(line);
    std::string ranks, from, below, id, name;
    for (std::string* cell : {&ranks, &from, &below, &id, &name}) std::getline(cells, *cell, ',');
    int64_t first = 2, last = 1 << 20;
    if (ranks[0] == '<') {
      last = std::stoll(ranks.substr(1)) - 1;
    } else if (ranks.starts_with(">=")) {
      first = std::stoll(ranks.substr(2));
    } else {
      first = std::stoll(ranks);
      last = std::stoll(ranks.substr(ranks.find('-') + 1));
    }
    for (const int64_t p : {first, last}) {
      EXPECT_EQ(openmpi_fixed_allreduce(p, std::stoll(from)), std::stoll(id)) << line;
      EXPECT_EQ(openmpi_fixed_allreduce(p, below.empty() ? int64_t{1} << 40 : std::stoll(below) - 1), std::stoll(id))
          << line;
      EXPECT_TRUE(openmpi_default(p, std::stoll(from), std::stoll(from) + 1) == name) << line;
    }
  }
  EXPECT_EQ(rows, 35);
}

TEST(OpenMpiAllreduce, SilentWaysOut) {
  const auto runs = [](int64_t algorithm, int64_t segment, int64_t ranks, int64_t elements, bool commutative = true) {
    return openmpi_allreduce_that_runs(algorithm, segment, ranks, elements, 4, commutative);
  };
  EXPECT_EQ(runs(kRing, 0, 4, 4), kRing);
  EXPECT_EQ(runs(kRing, 0, 4, 3), kRecursiveDoubling);
  EXPECT_EQ(runs(kSegmentedRing, 0, 4, 1000), kRing);
  EXPECT_EQ(runs(kSegmentedRing, 400, 4, 400), kSegmentedRing);
  EXPECT_EQ(runs(kSegmentedRing, 400, 4, 399), kRing);
  EXPECT_EQ(runs(kSegmentedRing, 403, 4, 403), kRing);  // 403 bytes are 100.75 elements: 101
  EXPECT_EQ(runs(kSegmentedRing, 403, 4, 404), kSegmentedRing);
  EXPECT_EQ(runs(kSegmentedRing, 2, 4, 3), kRecursiveDoubling);
  EXPECT_EQ(runs(kRabenseifner, 0, 7, 4), kRabenseifner);
  EXPECT_EQ(runs(kRabenseifner, 0, 7, 3), kBasicLinear);
  EXPECT_EQ(runs(kRabenseifner, 0, 7, 4000, false), kBasicLinear);
}

}  // namespace
}  // namespace ddl::tune
