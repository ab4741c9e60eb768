// What the report of a tuning says, of tunings that are written down here.
#include "cli/tune_report.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "reports/text.h"
#include "tests/cli/ddl_command.h"

namespace ddl::cli {
namespace {

/// K of six values and an algorithm: the default, and one other value of K.
Tuning cut_short() {
  Tuning tuning{
      .space = tune::Space({{"K", {"1", "2", "3", "4", "5", "6"}, false}, {"algorithm", {"default"}, false, true}}),
      .tunables = {{"K", tune::How::kVariable, "K", false, {"1", "2", "3", "4", "5", "6"}, false},
                   {"algorithm", tune::How::kOpenmpiAllreduce, "", false, {"default"}, false, true}}};
  tuning.result.trials = {{0, tune::Stage::kCalibrate, 0, {2.6, ""}},
                          {1, tune::Stage::kExplore, 5, {3.3, ""}},
                          {1, tune::Stage::kExplore, 0, {2.6, ""}}};
  tuning.base.ranks = 2, tuning.base.nodes = 1, tuning.base.steps = 14;
  tuning.base.step_s = 0.061;
  return tuning;
}

std::string text_of(const Tuning& tuning) {
  return reports::render_text(tune_document({.command = {"job"}, .directory = "tuned"}, tuning, false), {});
}

TEST(TuneReport, PointsThatWereNotTriedAreNoneThatWereWorse) {
  const Tuning tuning = cut_short();
  const std::string words = conclusion_words(tuning), text = text_of(tuning);
  EXPECT_TRUE(has(words, "not explored: ") && has(words, "none of the 2 of 6 points tried was better than the default"))
      << words;
  EXPECT_TRUE(has(text, "3 trials, 2 of 6 points")) << text;
  EXPECT_TRUE(has(text, "2 of 6")) << text;
  EXPECT_TRUE(has(untried_words({.command = {}, .directory = "", .budget_s = 32}, tuning),
                  "--budget 32.0 s did not suffice to try 4 of 6 points"));
  Tuning default_only = tuning;
  default_only.result.trials.resize(1);
  EXPECT_EQ(conclusion_words(default_only),
            "not explored: the tuning ended before anything better than the default was seen");
  Tuning unpromising = tuning;
  unpromising.result.conclusion = tune::Conclusion::kNoneBetter;
  EXPECT_TRUE(has(conclusion_words(unpromising), "none of the 2 of 6 points tried")) << conclusion_words(unpromising);
}

TEST(TuneReport, ThePartsOfAStepAreMeansAndAddUp) {
  Tuning tuning = cut_short();
  tuning.base.compute_s = 0.058;
  tuning.base.parts = {
      .step_s = 0.060, .compute_s = 0.040, .transfer_s = 0.002, .wait_s = 0.009, .copy_s = 0.001, .idle_s = 0.003};
  tuning.base.unsplit_s = 0.005;
  const reports::Document document = tune_document({.command = {"job"}, .directory = "tuned"}, tuning, false);
  const auto split = std::find_if(document.tables.begin(), document.tables.end(),
                                  [](const auto& table) { return table.id == "split"; });
  ASSERT_NE(split, document.tables.end());
  const auto cell = [&](const std::string& id) {
    for (size_t i = 0; i < split->columns.size(); ++i)
      if (split->columns[i].key == id) return split->rows[0][i];
    return reports::Value::null(reports::Unit::kText);
  };
  const auto ns = [&](const std::string& id) { return cell(id).as_integer(); };
  EXPECT_EQ(ns("compute_ns"), 40'000'000) << "the mean, not the slowest rank's";
  EXPECT_EQ(ns("compute_ns") + ns("wait_ns") + ns("transfer_ns") + ns("unsplit_ns") + ns("copy_ns") + ns("idle_ns"),
            ns("mean_step_ns"));
  EXPECT_TRUE(cell("allreduces").is_absent()) << "through Horovod or Gloo none is known";
}

}  // namespace
}  // namespace ddl::cli
