#include "reports/history.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/html/figure.h"
#include "reports/html/page.h"
#include "reports/json.h"
#include "reports/text.h"
#include "tests/history/generated.h"

namespace ddl::reports {
namespace {

using history::RunRow;
using test::generate;

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string text_of(const Document& document) { return render_text(document, {}); }

TEST(HistoryReport, TheSentenceOfAChange) {
  // 14.9 ms, and from run 80 on 7 % of that more in exposed transfer on the data axis; no noise, so that the
  // digits are known.
  const HistoryView view(generate({.runs = 120, .noise = 0, .outliers = 0, .drift_from = 80, .drift = 0.07}),
                         "runs.sqlite");
  ASSERT_EQ(view.series.size(), 1u);
  const std::string sentence =
      "step time +7.0% since job 4191, 2026-01-04: exposed transfer, data axis (+1.04 ms of +1.04 ms)";
  EXPECT_EQ(trend_sentence(view.series[0]), sentence);
  const Document document = build_history(view, 10);
  ASSERT_EQ(document.alerts.size(), 1u);
  EXPECT_EQ(document.alerts[0], "train on 16 ranks, 2 hosts: " + sentence);
  const auto answer = nlohmann::json::parse(render_json(build_history(view, 1000)));
  EXPECT_EQ(answer["runs"].size(), 120u);
  EXPECT_EQ(answer["run"]["runs"], 120);
  const auto& change = answer["changes"][0];
  EXPECT_EQ(change["sentence"], sentence);
  EXPECT_NEAR(change["change_ratio"].get<double>(), 0.07, 1e-6);
  EXPECT_EQ(change["before_ns"], 14'900'000);
  EXPECT_EQ(change["first_run"], "job 4191");
  EXPECT_EQ(change["axis"], "data");
  EXPECT_TRUE(says(text_of(document), "110 older: ddl history list --rows N, --json")) << text_of(document);
  EXPECT_TRUE(build_trends(view).alerts.empty());
}

TEST(HistoryReport, WhatIsNotKnownIsSaid) {
  std::vector<RunRow> rows = generate({.runs = 13});
  rows[12].step_time_ns.reset();
  rows[12].why["step_time_ns"] = "NOT_APPLICABLE";
  rows[11].efficiency.reset();
  rows[11].why["efficiency"] = "CLOCK_UNTRUSTED";
  rows[11].bounded = 1;
  const HistoryView view(std::move(rows), "runs.sqlite");
  EXPECT_EQ(trend_sentence(view.series[0]), "n/a (12 runs: a change point needs 14)");
  const std::string text = text_of(build_history(view, 2));
  EXPECT_TRUE(says(text, "n/a(CLOCK_UNTRUSTED)")) << text;
  EXPECT_TRUE(says(text, ">=1.")) << text;
  std::vector<RunRow> silent = generate({.runs = 2});
  for (RunRow& row : silent) row.step_time_ns.reset();
  EXPECT_EQ(trend_sentence(HistoryView(silent, "").series[0]), "n/a (2 runs without a step time)");
  EXPECT_TRUE(says(render_badge(HistoryView(silent, "").series[0]), ">n/a (NO_DATA)<"));
  EXPECT_EQ(trend_sentence(HistoryView(generate({.runs = 30, .outliers = 0}), "").series[0]), "no change seen");
}

// No drift, and no reason for exit code 4; but somebody may want to know which runs.
TEST(HistoryReport, RunsThatAreOutliersAreTold) {
  std::vector<RunRow> rows = generate({.runs = 16, .outliers = 0});
  const int64_t usual_ns = *rows[0].step_time_ns;
  for (const size_t slow : {3, 6, 10}) rows[slow].step_time_ns = usual_ns * 7 / 5;
  const std::string told = trend_sentence(HistoryView(rows, "").series[0]);
  EXPECT_TRUE(told.starts_with("no change seen; 3 of 16 runs took 1.")) << told;
  EXPECT_TRUE(told.ends_with(" times the median: job 4114, job 4117, job 4121")) << told;
  rows[12].step_time_ns = usual_ns * 11 / 10;
  EXPECT_EQ(trend_sentence(HistoryView(rows, "").series[0]), told) << "a tenth is not much longer";
  // Runs that always differ as much have no outliers.
  for (size_t i = 0; i < rows.size(); ++i) rows[i].step_time_ns = usual_ns * static_cast<int64_t>(5 + i % 4) / 5;
  EXPECT_EQ(trend_sentence(HistoryView(rows, "").series[0]), "no change seen");
}

TEST(HistoryReport, Badge) {
  const HistoryView slower(generate({.runs = 60, .noise = 0, .outliers = 0, .drift_from = 30, .drift = 0.1}), ""),
      still(generate({.runs = 30, .outliers = 0}), ""), few(generate({.runs = 3, .outliers = 0}), "");
  EXPECT_TRUE(says(render_badge(slower.series[0]), ">16.4 ms, +10.0% since 2026-01-02<"))
      << render_badge(slower.series[0]);
  EXPECT_TRUE(says(render_badge(slower.series[0]), "#b3261e"));
  EXPECT_TRUE(says(render_badge(still.series[0]), "#2e7d32"));
  EXPECT_TRUE(says(render_badge(few.series[0]), "#5f6368"));
}

TEST(HistoryReport, DrainListNamesNodesAndNothingElse) {
  std::vector<RunRow> rows = generate({.runs = 30});
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool other = i % 2 == 0;
    rows[i].on = {{"node07", 8, !other, !other ? std::optional<int64_t>(static_cast<int64_t>(i)) : std::nullopt},
                  {"node08", 8, other, other ? std::optional<int64_t>(9) : std::nullopt}};
    for (int k = 0; k < 6; ++k) rows[i].on.push_back({"other" + std::to_string(k), 8, false, {}});
  }
  const HistoryView view(rows, "runs.sqlite");
  const std::string list = drain_list(view);
  EXPECT_TRUE(says(
      list, "\nscontrol update nodename=node07 state=drain reason=\"ddl: slow in 15 of 30 runs, 3.75 expected, p="))
      << list;
  EXPECT_TRUE(says(list, "\n# not node08: all of its runs blame one rank of one job")) << list;
  EXPECT_TRUE(says(text_of(build_nodes(view)), "always rank 9 of train: perhaps the program"))
      << text_of(build_nodes(view));

  for (RunRow& row : rows) row.on[0].host = "$(reboot)\nreboot";
  const std::string hostile = drain_list(HistoryView(rows, "runs.sqlite"));
  EXPECT_FALSE(says(hostile, "reboot")) << hostile;
  EXPECT_TRUE(says(hostile, "# none")) << hostile;
}

TEST(HistoryReport, Page) {
  std::vector<RunRow> rows = generate({.drift = 0.03});
  for (RunRow& row : rows) row.name = "<script>alert(1)</script>";
  const HistoryView view(std::move(rows), "runs.sqlite");
  const auto figures = html::history_figures(view);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[0].data.rows.size(), 200u);
  EXPECT_EQ(figures[1].data.rows.size(), 2u);
  const std::string page = html::render_page(build_history(view, 200), figures);
  EXPECT_FALSE(says(page, "<script"));
  EXPECT_TRUE(says(page, "exposed transfer, data axis"));
  EXPECT_LT(page.size(), 300'000u);
}

}  // namespace
}  // namespace ddl::reports
