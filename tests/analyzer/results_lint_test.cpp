// Each rule has a table that breaks it, and one that does not (specification.md S7).
#include "analyzer/results_lint.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ddl {
namespace {

Stated honest() {
  return {{"accuracy", "76.3%"},
          {"accuracy_on", "test"},
          {"runs", "5"},
          {"interval", "min-max"},
          {"hardware", "P100"},
          {"scope", "application"},
          {"data", "real"},
          {"precision", "fp32"},
          {"options", "nhwc"},
          {"accuracy_options", "nhwc"},
          {"global_batch", "8192"},
          {"steps", "1000"},
          {"warmup", "50"},
          {"scaling", "weak"},
          {"base", "smallest"}};
}

std::vector<std::string> codes(const std::vector<Stated>& rows) {
  std::vector<std::string> found;
  for (const LintRemark& remark : lint_results(rows)) found.push_back(remark.code);
  return found;
}

using Codes = std::vector<std::string>;

TEST(ResultsLint, NothingToSayOfAnHonestTable) {
  EXPECT_EQ(codes({honest(), honest()}), Codes{});
  EXPECT_EQ(codes({}), Codes{});
}

TEST(ResultsLint, EachRuleHasATableThatBreaksIt) {
  struct Case {
    const char* code;
    Stated change;  ///< of every row; "" takes the statement away
  };
  const Case cases[] = {
      {"LINT-01", {{"accuracy", ""}, {"accuracy_on", ""}}},
      {"LINT-02", {{"accuracy_on", ""}}},
      {"LINT-02", {{"accuracy_on", "train"}}},
      {"LINT-03", {{"runs", ""}}},
      {"LINT-03", {{"interval", ""}}},
      {"LINT-03", {{"runs", "1"}}},
      {"LINT-03", {{"tuned", "yes"}}},
      {"LINT-04", {{"hardware", ""}}},
      {"LINT-05", {{"scope", ""}}},
      {"LINT-05", {{"scope", "kernel"}}},
      {"LINT-06", {{"data", "synthetic"}}},
      {"LINT-06", {{"data", ""}}},
      {"LINT-06", {{"io", "excluded"}}},
      {"LINT-07", {{"precision", ""}}},
      {"LINT-08", {{"accuracy_options", "fp16"}}},
      {"LINT-09", {{"global_batch", ""}}},
      {"LINT-09", {{"safe_batch", "4096"}}},
      {"LINT-10", {{"steps", ""}}},
      {"LINT-10", {{"steps", "10"}}},
      {"LINT-10", {{"warmup", ""}}},
      {"LINT-10", {{"warmup", "0"}}},
      {"LINT-11", {{"scaling", "mixed"}}},
      {"LINT-11", {{"scaling", "not known"}}},
      {"LINT-11", {{"scaling_of_batches", "strong"}}},
      {"LINT-12", {{"base", "8 GPUs"}}},
      {"LINT-12", {{"base", ""}}},
      {"LINT-12", {{"superlinear", "yes"}}},
  };
  for (const Case& one : cases) {
    Stated row = honest();
    for (const auto& [key, value] : one.change) row[key] = value;
    EXPECT_EQ(codes({row, row}), Codes{one.code}) << one.change.begin()->first << "=" << one.change.begin()->second;
  }
}

TEST(ResultsLint, RowsThatDiffer) {
  Stated other = honest();
  other["hardware"] = "V100", other["precision"] = "fp16", other["options"] = "xla", other["accuracy_options"] = "xla";
  EXPECT_EQ(codes({honest(), other}), (Codes{"LINT-04", "LINT-07", "LINT-08"}));
  Stated four = honest(), eight = honest();  // 95 % against 1 node of 4 GPUs, 89 % against one of 8
  four["base_size"] = "1 node = 4 GPUs", eight["base_size"] = "1 node = 8 GPUs";
  EXPECT_EQ(codes({four, eight}), (Codes{"LINT-12"}));
  EXPECT_EQ(codes({four, four}), Codes{});
}

TEST(ResultsLint, StrongScalingDoesNotChangeWhatIsLearnt) {
  Stated row = honest();
  row["scaling"] = "strong", row["accuracy"] = "", row["accuracy_on"] = "";
  EXPECT_EQ(codes({row}), Codes{});
}

/// For every key one of these breaks a rule.
constexpr const char* kTelling[] = {"",         "train", "1",     "kernel", "synthetic",
                                    "excluded", "yes",   "mixed", "fp16",   "4096"};

TEST(ResultsLint, KeysAreTheOnesThatRulesRead) {
  Stated all = honest();
  all["tuned"] = "yes", all["trials"] = "20", all["io"] = "included", all["safe_batch"] = "16384",
  all["superlinear"] = "no";
  Stated untuned = all;
  untuned["tuned"] = "no", untuned["trials"] = "";
  for (const Stated& good : {all, untuned}) ASSERT_EQ(codes({good}), Codes{});
  size_t keys = 0;
  for (const LintKey& key : lint_keys()) {
    ++keys;
    ASSERT_TRUE(all.contains(std::string(key.key))) << key.key;
    const bool is_read = std::any_of(std::begin(kTelling), std::end(kTelling), [&](const char* value) {
      Stated one = all, other = untuned;
      one[std::string(key.key)] = other[std::string(key.key)] = value;
      return !codes({one}).empty() || !codes({other}).empty();
    });
    EXPECT_TRUE(is_read) << "no rule reads " << key.key;
  }
  EXPECT_EQ(all.size(), keys) << "something is stated that is not a key";
}

}  // namespace
}  // namespace ddl
