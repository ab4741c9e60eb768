// The lint of results on a tuning: each rule that can apply, with a tuning that breaks it and one that does not.
#include "cli/tune_report.h"

#include <gtest/gtest.h>

#include <set>

namespace ddl::cli {
namespace {

constexpr const char* kMachine = "node1, Xeon";

// What can be known is known, and nothing but speed was tuned: two points of tunable x, the second one won.
Tuning good() {
  Tuning tuning{.space = tune::Space({{"x", {"1", "2"}, false}}),
                .tunables = {{"x", tune::How::kVariable, "X", false, {"1", "2"}, false}}};
  tuning.base.nodes = 1;
  tuning.base.steps = 40;
  tuning.base.warmup_steps = 5;
  tuning.base.samples = 64;
  tuning.base.noise_scale = 500;
  tuning.best = tuning.base;
  tuning.result.winner = 1;
  tuning.result.gain = tune::Gain{1.2, 1.1, 1.3, 6, 0.99, 1.01};
  return tuning;
}

std::set<std::string> codes(const Tuning& tuning) {
  std::vector<Stated> rows = stated_of(tuning, kMachine);
  for (Stated& row : rows) row.insert({{"precision", "fp32"}, {"data", "real"}});  // as the user says
  std::set<std::string> found;
  for (const LintRemark& remark : lint_results(rows)) found.insert(remark.code);
  return found;
}

using Codes = std::set<std::string>;

TEST(TuneLint, NothingToSayOfSpeedAtTheSameWork) { EXPECT_EQ(codes(good()), Codes{}); }

TEST(TuneLint, WhatNobodySaid) {
  Codes found;
  for (const LintRemark& remark : lint_results(stated_of(good(), kMachine))) found.insert(remark.code);
  EXPECT_EQ(found, (Codes{"LINT-06", "LINT-07"}));  // the input, the precision
}

TEST(TuneLint, ALargerBatchIsOtherWork) {
  Tuning tuning = good();
  tuning.tunables = {{tune::kBatch, tune::How::kCommand, "", true, {"32", "64"}, false}};
  tuning.space = tune::Space({{tune::kBatch, {"32", "64"}, true}});
  tuning.best->samples = 128;
  EXPECT_EQ(codes(tuning), (Codes{"LINT-01", "LINT-11"}));
  tuning.best->samples = 1000;
  EXPECT_EQ(codes(tuning), (Codes{"LINT-01", "LINT-09", "LINT-11"})) << "above the noise scale";
  tuning.best->samples.reset();
  EXPECT_EQ(codes(tuning), (Codes{"LINT-01", "LINT-09", "LINT-11"})) << "not reported";
}

TEST(TuneLint, ALossIsNoAccuracyOnTestData) {
  Tuning tuning = good();
  tuning.goal.target_loss = 0.2;
  EXPECT_EQ(codes(tuning), Codes{"LINT-02"});
}

TEST(TuneLint, ANumberThatWasNotConfirmedHasNoSpread) {
  Tuning tuning = good();
  tuning.result.winner = 0;
  tuning.result.gain.reset();
  EXPECT_EQ(codes(tuning), Codes{"LINT-03"});
}

TEST(TuneLint, OnlyThisMachineIsKnown) {
  Tuning tuning = good();
  tuning.base.nodes = 2;
  EXPECT_EQ(codes(tuning), Codes{"LINT-04"});
}

TEST(TuneLint, CodesAreOtherOptions) {
  Tuning tuning = good();
  tuning.tunables = {{tune::kCompression, tune::How::kCommand, "", true, {"none", "bf16"}, false}};
  tuning.space = tune::Space({{tune::kCompression, {"none", "bf16"}, true}});
  EXPECT_EQ(codes(tuning), (Codes{"LINT-01", "LINT-08", "LINT-11"}));
}

TEST(TuneLint, AHandfulOfStepsWithTheirWarmUp) {
  Tuning tuning = good();
  tuning.base.steps = tuning.best->steps = 9;
  EXPECT_EQ(codes(tuning), Codes{"LINT-10"});
  tuning = good();
  tuning.best->warmup_steps = 0;
  EXPECT_EQ(codes(tuning), Codes{"LINT-10"});
}

TEST(TuneLint, ADefaultThatNobodyNamedIsAChosenBase) {
  Tuning tuning = good();
  tuning.tunables[0].guessed = true;
  EXPECT_EQ(codes(tuning), Codes{"LINT-12"});
}

}  // namespace
}  // namespace ddl::cli
