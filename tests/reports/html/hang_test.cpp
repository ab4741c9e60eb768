// Figure "hang", sections "hang" and "hang_stacks" of dumps of flight recorders whose truth is known.
#include <gtest/gtest.h>

#include <algorithm>

#include "reports/html/figure.h"
#include "reports/overview.h"
#include "reports/run_view.h"
#include "reports/text.h"
#include "tests/import/imported.h"
#include "tests/support/flight_dumps.h"

namespace ddl::reports::html {
namespace {

using namespace ddl::test;

/// Two tensor groups and the data groups across: rank 3 stops before a collective of ranks 2 and 3, which rank 0 waits
/// for through rank 2.
FlightJob hanging_job() {
  FlightJob job(4, {{"0", "default_pg", {0, 1, 2, 3}},
                    {"1", "TENSOR_MODEL_PARALLEL_GROUP", {0, 1}},
                    {"2", "TENSOR_MODEL_PARALLEL_GROUP", {2, 3}},
                    {"3", "DATA_PARALLEL_GROUP", {0, 2}}});
  FlightOp done, open;
  done.stack = "embed";
  open.stack = "forward";
  open.state = FlightState::kScheduled;
  job.all(0, done);
  job.all(2, open, {3});
  job.all(3, open, {2});
  return job;
}

TEST(HangFigure, HasACellForEachMemberOfEachCall) {
  Imported run("flight-recorder", flight_files(hanging_job()));
  const std::vector<Figure> figures = hang_calls(RunView(run.db, std::nullopt));
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(figures[0].id, "hang");
  EXPECT_NE(figures[0].caption.find("Rank 3 never entered all_reduce number 1 on TENSOR_MODEL_PARALLEL_GROUP 2"),
            std::string::npos)
      << figures[0].caption;
  const auto cells = [&](const std::string& css) {
    size_t count = 0;
    for (size_t at = figures[0].svg.find("class=\"" + css + "\""); at != std::string::npos;
         at = figures[0].svg.find("class=\"" + css + "\"", at + 1))
      ++count;
    return count;
  };
  // Each is once in the legend: rank 3 the cause, rank 2 missing in the data group, ranks 2 and 0 in a call.
  EXPECT_EQ(cells("h3"), 2u);
  EXPECT_EQ(cells("h1"), 2u);
  EXPECT_EQ(cells("s0"), 3u);
}

TEST(HangReport, SaysWhoWaitsForWhomAndFromWhere) {
  Imported run("flight-recorder", flight_files(hanging_job()));
  const RunView view(run.db, std::nullopt);
  const Document hang = build_section(view, "hang");
  ASSERT_EQ(hang.tables[0].rows.size(), 2u);
  EXPECT_EQ(hang.tables[0].rows[0][0].as_integer(), 1);
  EXPECT_EQ(hang.tables[0].rows[0][5].as_text(), "2");
  EXPECT_EQ(hang.tables[0].rows[0][6].as_text(), "3");
  EXPECT_EQ(hang.tables[0].rows[1][0].as_integer(), 2);
  EXPECT_EQ(hang.tables[0].rows[1][5].as_text(), "0");
  EXPECT_EQ(hang.tables[0].rows[1][6].as_text(), "2");
  const Document stacks = build_section(view, "hang_stacks");
  ASSERT_FALSE(stacks.tables[0].rows.empty());
  EXPECT_EQ(stacks.tables[0].rows[0][0].as_text(), "3");
  EXPECT_EQ(stacks.tables[0].rows[0][2].as_text(), "cause");
  EXPECT_NE(stacks.tables[0].rows[0][5].as_text().find("embed (/home/u/train.py:15)"), std::string::npos);
  const Document overview = build_overview(view, "hang.ddl");
  EXPECT_NE(render_one_line(overview).find("1 finding, first: rank 3 never entered"), std::string::npos)
      << render_one_line(overview);
  EXPECT_TRUE(
      std::none_of(overview.tables.begin(), overview.tables.end(), [](const Table& t) { return t.id == "ranks"; }));
}

}  // namespace
}  // namespace ddl::reports::html
