#include "reports/text.h"

#include <gtest/gtest.h>

#include "reports/overview.h"
#include "tests/reports/handmade_run.h"

namespace ddl::reports {
namespace {

std::string line_of(SQLite::Database& db) {
  const RunView view = test::view_of(db);
  return render_one_line(build_overview(view, "train.ddl"));
}

TEST(OneLine, SaysWhereTheStepGoesAndTheFirstFinding) {
  test::HandmadeRun run;
  run.db().exec("DELETE FROM loss");
  EXPECT_EQ(
      line_of(run.db()),
      "train, job 4711, 2 ranks on 1 host, 12 steps in 1.50 s: step 100 ms, compute 75.0%, exposed transfer 10.0%, waiting 15.0%, compute / "
      "communication raw 2.50, exposed 3.00; 2 "
      "findings, "
      "first: rank 1 (nid0042) is late\n");
}

TEST(OneLine, AlertsAndMissingDataComeFirst) {
  test::HandmadeRun run;
  run.db().exec("UPDATE process SET ended = 'aborted', abort_code = 7 WHERE rank = 1; DELETE FROM finding");
  const std::string line = line_of(run.db());
  EXPECT_NE(line.find("exposed 3.00; rank 1 called MPI_Abort(7); data are missing; no finding\n"), std::string::npos)
      << line;
}

TEST(OneLine, NamesCannotBreakIt) {
  test::HandmadeRun run;
  run.db().exec("UPDATE finding SET sentence = 'a' || char(10) || char(27) || '[2Jb' || printf('%.5000c', 'x')");
  const std::string line = line_of(run.db());
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
  EXPECT_LT(line.size(), 600u);
}

}  // namespace
}  // namespace ddl::reports
