// The page of a run whose every number is known, and what its drawings are made of.
#include "reports/html/page.h"

#include <gtest/gtest.h>

#include "reports/html/chart.h"
#include "reports/html/shares.h"
#include "reports/overview.h"
#include "tests/reports/golden.h"
#include "tests/reports/handmade_run.h"

namespace ddl::reports::html {
namespace {

using test::HandmadeRun;

std::string page_of(SQLite::Database& db) {
  const RunView view(db, std::nullopt);
  return render_page(build_page(view, "train.ddl"), build_figures(view));
}

// Everything but the style sheet, an element a line.
std::string body_of(std::string page) {
  const size_t body = page.find("<body>");
  page.erase(0, body);
  for (size_t at = 0; (at = page.find("><", at)) != std::string::npos; at += 2) page.insert(at + 1, "\n");
  return page;
}

TEST(Golden, Page) {
  HandmadeRun run;
  test::expect_golden(body_of(page_of(run.db())), "page.html");
}

TEST(Shares, AddUpToTheStep) {
  HandmadeRun run;
  const RunView view(run.db(), std::nullopt);
  const std::vector<Share> shares = shares_of_ranks(view);
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_DOUBLE_EQ(shares[0].compute_ns, 60e6);
  EXPECT_DOUBLE_EQ(shares[0].wait_ns, 30e6);
  EXPECT_DOUBLE_EQ(shares[0].transfer_ns, 10e6);
  EXPECT_DOUBLE_EQ(shares[0].total_ns(), 100e6);
  EXPECT_DOUBLE_EQ(shares[1].compute_ns, 90e6);
  EXPECT_DOUBLE_EQ(shares[1].wait_ns, 0);
}

TEST(Shares, WaitingThatIsNotKnownIsNotZero) {
  HandmadeRun run;
  run.db().exec("UPDATE step_part SET wait_ns = NULL, xfer_ns = NULL, why = 'PARTIAL_RANKS' WHERE process = 1 AND step = 9");
  const RunView view(run.db(), std::nullopt);
  const std::vector<Share> shares = shares_of_ranks(view);
  EXPECT_DOUBLE_EQ(shares[0].unsplit_ns, 40e6);
  EXPECT_DOUBLE_EQ(shares[0].wait_ns, 0);
  EXPECT_DOUBLE_EQ(shares[0].total_ns(), 100e6);
  const std::vector<Figure> figures = where_a_step_goes(view);
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_NE(figures[0].caption.find("in MPI, waiting not known"), std::string::npos) << figures[0].caption;
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
  EXPECT_NE(svg.find("<title id=\"f-title\">&lt;b&gt;</title><desc id=\"f-desc\">]]&gt;</desc>"), std::string::npos) << svg;
  EXPECT_NE(svg.find(">&quot;&amp;\\x1b\\u{202e}</text>"), std::string::npos) << svg;
}

}  // namespace
}  // namespace ddl::reports::html
