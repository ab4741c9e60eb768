// The page of a run whose every number is known, and what its drawings are made of.
#include "reports/html/page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "analyzer/findings/finding.h"
#include "analyzer/models/scaling.h"
#include "reports/html/bars.h"
#include "reports/html/chart.h"
#include "reports/html/figure.h"
#include "reports/html/shares.h"
#include "reports/overview.h"
#include "tests/reports/golden.h"
#include "tests/reports/handmade_run.h"

namespace ddl::reports::html {
namespace {

using test::HandmadeRun;

std::string page_of(SQLite::Database& db) {
  const RunView view = test::view_of(db);
  return render_page(build_page(view, "train.ddl"), build_figures(view));
}

// Everything but the style sheet, an element a line.
std::string body_of(const std::string& page) {
  std::string body;
  for (size_t at = page.find("<body>"); at < page.size(); ++at) {
    body += page[at];
    if (page[at] == '>' && at + 1 < page.size() && page[at + 1] == '<') body += '\n';
  }
  return body;
}

TEST(Golden, Page) {
  HandmadeRun run;
  test::expect_golden(body_of(page_of(run.db())), "page.html");
}

TEST(Page, EveryFindingLinksToTheFigureOfItsRow) {
  std::vector<Figure> figures;
  for (const FigureKind& kind : figure_kinds())
    figures.push_back({.id = kind.id, .title = "F", .caption = "", .svg = "", .reading = "", .data = {}});
  for (const FindingRow& row : finding_rows()) {
    Document document;
    Finding& finding = document.findings.emplace_back();
    finding.id = row.id;
    const std::string findings = render_page(document, figures);
    const size_t begin = findings.find("id=\"finding-1\""),
                 link = findings.find(fmt::format("See <a href=\"#{}\">", row.figure), begin);
    EXPECT_EQ(link != std::string::npos, !row.figure.empty()) << row.id;
  }
}

TEST(Shares, AddUpToTheStep) {
  HandmadeRun run;
  const RunView view = test::view_of(run.db());
  const std::vector<ResourceTime>& shares = view.facts.by_thread;
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_DOUBLE_EQ(shares[0].mean.compute_ns, 60e6);
  EXPECT_DOUBLE_EQ(shares[0].mean.wait_ns, 30e6);
  EXPECT_DOUBLE_EQ(shares[0].mean.transfer_ns, 10e6);
  EXPECT_DOUBLE_EQ(shares[0].mean.total_ns(), 100e6);
  EXPECT_DOUBLE_EQ(shares[1].mean.compute_ns, 90e6);
  EXPECT_DOUBLE_EQ(shares[1].mean.wait_ns, 0);
}

TEST(Shares, WaitingThatIsNotKnownIsNotZero) {
  HandmadeRun run;
  run.db().exec(
      "UPDATE step_part SET wait_ns = NULL, xfer_ns = NULL, why = 'PARTIAL_RANKS' WHERE process = 1 AND step = 9");
  const RunView view = test::view_of(run.db());
  const std::vector<ResourceTime>& shares = view.facts.by_thread;
  EXPECT_DOUBLE_EQ(shares[0].mean.unsplit_ns, 40e6 / 7);  // one of seven steady steps
  EXPECT_DOUBLE_EQ(shares[0].mean.wait_ns, 30e6 * 6 / 7);
  EXPECT_DOUBLE_EQ(shares[0].mean.total_ns(), 100e6);
  const std::vector<Figure> figures = where_a_step_goes(view);
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_NE(figures[0].caption.find("exposed, waiting not known"), std::string::npos) << figures[0].caption;
}

Figure only(const std::vector<Figure>& figures) {
  EXPECT_EQ(figures.size(), 1u);
  return figures.empty() ? Figure{} : figures.front();
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Figures, LatenessNamesTheSlowRank) {
  HandmadeRun run;
  const RunView view = test::view_of(run.db());
  const Figure figure = only(lateness_map(view));
  EXPECT_TRUE(
      has(figure.caption, "Rank 1 is late by 30.0 ms in the mean step, and the latest of all in 100.0% of them."))
      << figure.caption;
  // Seven steady steps: the second of two rows is of the strongest shade from end to end, the first one is empty.
  EXPECT_TRUE(has(figure.svg, "<path d=\"M0 1h7v1h-7z\" class=\"h3\"/>")) << figure.svg;
  EXPECT_FALSE(has(figure.svg, "M0 0h")) << figure.svg;
  EXPECT_EQ(figure.data.rows[1][1].as_integer(), 30'000'000);
  EXPECT_EQ(figure.data.rows[0][1].as_integer(), 0);
}

TEST(Figures, LatenessThatIsNotKnownIsNotPunctual) {
  HandmadeRun run;
  run.db().exec("UPDATE step_part SET wait_ns = NULL, xfer_ns = NULL, why = 'PARTIAL_RANKS'");
  const RunView view = test::view_of(run.db());
  const Figure figure = only(lateness_map(view));
  EXPECT_TRUE(has(figure.caption, "Nobody knows who was late")) << figure.caption;
  EXPECT_TRUE(has(figure.svg, "class=\"unknown\"")) << figure.svg;
  EXPECT_TRUE(figure.data.rows[1][1].is_absent());
}

TEST(Figures, CollectivesKeepWhatIsNotSplitApart) {
  HandmadeRun run;
  const RunView view = test::view_of(run.db());
  const Figure figure = only(collective_times(view));
  // 360 of 600 ms in the one that could be split, and 6.8 of 9.2 us in the barrier; 15 of 615 ms could not.
  EXPECT_TRUE(has(figure.caption, "MPI_Allreduce 4MiB world takes 97.6% of the time")) << figure.caption;
  EXPECT_TRUE(has(figure.caption, "60.0% of all that could be split is waiting")) << figure.caption;
  EXPECT_TRUE(has(figure.caption, "2.4% could not be split")) << figure.caption;
}

/// 615 ms of the 20 s of two ranks; of a part of the run nothing is said.
TEST(Figures, CollectivesSayHowMuchOfTheRunTheyAre) {
  HandmadeRun run;
  run.db().exec(
      "INSERT INTO rank_part VALUES (1, 10000000000, 9600000000, 400000000, 400000000, 300000000, 100000000, 0, NULL, 0),"
      "  (2, 10000000000, 9900000000, 100000000, 100000000, 0, 100000000, 0, NULL, 0)");
  const auto told = [&] {
    return has(only(collective_times(test::view_of(run.db()))).caption,
               "All collectives together are 3.1% of the run.");
  };
  EXPECT_FALSE(told()) << "some events were not kept";
  run.db().exec("DELETE FROM loss");
  EXPECT_TRUE(told()) << only(collective_times(test::view_of(run.db()))).caption;
}

/// Inferred layers differ in their number, which which is in the middle; what they have in common gives way.
TEST(Figures, BarsOfOneLibraryAreToldApart) {
  Bars bars{.id = "layers", .title = "Layers", .description = "", .parts = {{"compute", "c0"}}};
  for (const char* name :
       {"MPI_Alltoall #11 libgromacs_mpi.so.7.0.0+0xc39d8b", "MPI_Alltoall #12 libgromacs_mpi.so.7.0.0+0xc39d8b", "fc"})
    bars.bars.push_back({name, {1e6}});
  const std::string svg = draw_bars(bars);
  for (const char* label :
       {">MPI_Alltoall #11 li...0+0xc39d8b</text>", ">MPI_Alltoall #12 li...0+0xc39d8b</text>", ">fc</text>"})
    EXPECT_TRUE(has(svg, label)) << label << svg;
}

TEST(Figures, BandwidthSaysWhyThereIsNoModel) {
  HandmadeRun run;
  run.db().exec(
      "UPDATE collective_group SET bus_factor = 1; UPDATE collective_group SET bytes = 8, busbw_xfer = 1000, algbw_bytes_per_second = 1000 "
      "WHERE op = 2");
  const RunView view = test::view_of(run.db());
  const Figure figure = only(bus_bandwidth(view));
  EXPECT_TRUE(has(figure.caption, "419MB/s, of MPI_Allreduce, 2 ranks with 4MiB")) << figure.caption;
  EXPECT_TRUE(has(figure.caption, "No model: ")) << figure.caption;
}

TEST(Figures, TheTreeNamesItsWeakestLeaf) {
  HandmadeRun run;
  run.db().exec(
      "UPDATE metric SET value = 0.72 WHERE id = 'communication_efficiency';"
      " INSERT INTO metric (id, world, value, unit) VALUES ('serialisation_efficiency', 0, 0.9, 'ratio'), ('transfer_efficiency', 0, 0.8, 'ratio')");
  const RunView view = test::view_of(run.db());
  const Figure figure = only(efficiency_tree(view));
  EXPECT_EQ(
      figure.caption,
      "75.0% of the time of ranks is computing. The weakest factor is transfer (80.0%): time lost to waiting for others.");
}

TEST(Figures, LayersSplitWhatWasInsideTheCall) {
  HandmadeRun run;
  const char* const kUnsplit = "in calls, waiting not known";
  {
    const RunView view = test::view_of(run.db());
    const Figure figure = only(layer_times(view));
    EXPECT_TRUE(has(figure.caption, "conv1 forward takes 65.6% of the time of all layers, 2 of 2 layers take 80%."))
        << figure.caption;
    EXPECT_TRUE(has(figure.svg, kUnsplit)) << "fc: nobody knows";
  }
  HandmadeRun other;
  other.db().exec(
      "DELETE FROM collective_group WHERE upper_bound = 1; UPDATE event SET region = 4 WHERE id = 1;"
      " UPDATE collective SET wait_ns = 15000000 WHERE event = 1;"
      "DELETE FROM collective WHERE event <> 1");
  const RunView view = test::view_of(other.db());
  const Figure figure = only(layer_times(view));
  EXPECT_FALSE(has(figure.svg, kUnsplit)) << figure.svg;
  EXPECT_TRUE(has(figure.svg, "in calls: waiting 15.0 ms")) << figure.svg;
}

TEST(Figures, StepTimesKeepTheFirstSteps) {
  HandmadeRun run;
  run.db().exec("UPDATE step SET duration_ns = 250000000 WHERE process = 2 AND step = 3");
  const RunView view = test::view_of(run.db());
  const Figure figure = only(step_times(view));
  EXPECT_TRUE(has(figure.caption,
                  "12 steps, warm-up included: 100 ms in the median. The longest is step 3: 250 ms, on rank 1."))
      << figure.caption;
  ASSERT_EQ(figure.data.rows.size(), 12u);
  EXPECT_EQ(figure.data.rows[3][2].as_integer(), 250'000'000);
}

models::ScalingPoint point_of(double workers, double throughput) {
  models::ScalingPoint point;
  point.workers = workers;
  point.throughput = models::Printed::exactly(throughput);
  return point;
}

TEST(ScalingFigures, SayTheBaseAndTheDearestGrowth) {
  // 1, 0.9, 0.72 and 0.7 of the ideal: growing from 8 to 16 keeps 0.8, the others 0.9 and 0.972.
  const auto rows =
      models::scaling_rows({point_of(4, 400), point_of(8, 720), point_of(16, 1152), point_of(32, 2240)}, {}, "GPU");
  const Figure figure = only(scaling_figures(rows, "GPU"));
  EXPECT_EQ(
      figure.caption,
      "On 32 GPUs each does 0.70 of what it did at the base (4 GPUs). Dearest is the growth from 8 to 16 GPUs: it keeps 80.0%.");
  EXPECT_EQ(figure.data.rows.size(), 4u);
  // The plot is 260 high and ends at 1.06: the mark of 0.72 lies 260 * 0.72 / 1.06 above the bottom, at 266.
  EXPECT_TRUE(has(figure.svg, fmt::format("cy=\"{}\" r=\"5\" class=\"s0\"", coordinate(266 - 260 * 0.72 / 1.06))))
      << figure.svg;
  EXPECT_TRUE(has(figure.svg, fmt::format("d=\"M48 {0}L616 {0}\" class=\"model\"", coordinate(266 - 260 / 1.06))))
      << figure.svg;
}

TEST(ScalingFigures, SplitTheLoss) {
  models::ScalingPoint small = point_of(2, 20), large = point_of(4, 32);  // steps of 100 and 125 ms, weak
  small.global_batch = 2, large.global_batch = 4;
  small.parts = {.step_s = 0.1, .compute_s = 0.09, .transfer_s = 0.01, .wait_s = 0, .copy_s = 0, .idle_s = 0};
  large.parts = {.step_s = 0.125, .compute_s = 0.09, .transfer_s = 0.015, .wait_s = 0.02, .copy_s = 0, .idle_s = 0};
  const std::vector<Figure> figures = scaling_figures(models::scaling_rows({small, large}, {}, "rank"), "rank");
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[1].caption,
            "On 4 ranks a step loses 20.0% against the base, most of it to waiting for others: 16.0%.");
  EXPECT_EQ(figures[1].data.rows[1][4].as_integer(), 20'000'000);
}

TEST(TuningFigures, PutMeasuredAgainstPredicted) {
  const std::vector<TrialMark> trials = {{"calibrate", "batch=8", 4e6, 4e6, true, false},
                                         {"calibrate", "batch=16", 2.2e6, 2e6, false, true},
                                         {"explore", "batch=32", {}, 1.5e6, false, false},
                                         {"confirm", "batch=8", 4e6, 4e6, true, false},
                                         {"confirm", "batch=16", 2.2e6, 2e6, false, true}};
  const std::vector<Figure> figures = tuning_figures(trials, "Per sample");
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[0].caption, "5 trials of 3 configurations, from 2.20 ms to 4.00 ms. 1 trial failed.");
  EXPECT_TRUE(figures[0].data.rows[2][3].is_absent());
  EXPECT_TRUE(has(figures[0].svg, "explore, batch=32: failed, predicted 1.50 ms"));
  EXPECT_EQ(figures[1].caption, "The prediction was off by 10.0% in the median, by 10.0% at most.");
  ASSERT_EQ(figures[1].data.rows.size(), 2u) << "what failed has no cost";
  EXPECT_EQ(figures[1].data.rows[1][4].as_integer(), 2);
  EXPECT_TRUE(tuning_figures({trials[0]}, "Per sample").empty());
}

TEST(Chart, Coordinates) {
  EXPECT_EQ(coordinate(0), "0");
  EXPECT_EQ(coordinate(-0.04), "0");
  EXPECT_EQ(coordinate(0.26), ".3");
  EXPECT_EQ(coordinate(-0.26), "-.3");
  EXPECT_EQ(coordinate(12), "12");
  EXPECT_EQ(coordinate(-12.349), "-12.3");
  EXPECT_EQ(coordinate(719.96), "720");
}

TEST(Chart, TicksAreRound) {
  EXPECT_EQ(round_ticks(0, 100, 5), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_EQ(round_ticks(3, 11, 4), (std::vector<double>{4, 6, 8, 10}));
  EXPECT_EQ(round_ticks(7, 7, 4), (std::vector<double>{7}));
  EXPECT_FALSE(std::signbit(round_ticks(0, 1.06, 6)[0])) << "no -0 on an axis";
}

TEST(Chart, LogarithmicTicksAreRound) {
  EXPECT_EQ(log_ticks(3, 40), (std::vector<double>{5, 10, 20}));
  EXPECT_EQ(log_ticks(1, 1000), (std::vector<double>{1, 10, 100, 1000}));
}

TEST(Chart, ScalesMapEndsToEnds) {
  const Scale linear{.from = 10, .to = 20, .begin = 100, .end = 0};
  EXPECT_DOUBLE_EQ(linear(10), 100);
  EXPECT_DOUBLE_EQ(linear(15), 50);
  const Scale logarithmic{.from = 1, .to = 100, .begin = 0, .end = 50, .logarithmic = true};
  EXPECT_DOUBLE_EQ(logarithmic(10), 25);
}

TEST(Chart, NamesAreWords) {
  Chart chart("f", "<b>", "]]>", 10);
  chart.text(0, 0, Anchor::kStart, "\"&\x1b\xe2\x80\xae");
  const std::string svg = chart.take();
  EXPECT_NE(svg.find("<title id=\"f-title\">&lt;b&gt;</title><desc id=\"f-desc\">]]&gt;</desc>"), std::string::npos)
      << svg;
  EXPECT_NE(svg.find(">&quot;&amp;\\x1b\\u{202e}</text>"), std::string::npos) << svg;
}

}  // namespace
}  // namespace ddl::reports::html
