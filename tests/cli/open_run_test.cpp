// What was analyzed by another version of ddl is analyzed again before anybody reads it.
#include <gtest/gtest.h>

#include "analyzer/analyze.h"
#include "store/database.h"
#include "tests/cli/ddl_command.h"
#include "tests/support/synthetic_run.h"

namespace ddl::cli {
namespace {

using namespace test::literals;

class OpenRun : public testing::Test {
 protected:
  OpenRun() {
    test::run().ranks(2).steps(8).compute(10_ms).allreduce(1_MiB, 1_ms).write(run_);
    EXPECT_EQ(metrics(), metrics());
  }

  std::string metrics() const { return ddl_command({"query", run_.string(), "SELECT count(*) FROM metric", "--csv"}).out; }
  SQLite::Database store() const { return open_store(run_ / "run.sqlite", Access::kReadWrite); }

  test::ScratchFolder folder_;
  std::filesystem::path run_ = folder_ / "job.ddl";
};

TEST_F(OpenRun, WhatAnotherVersionAnalyzedIsAnalyzedAgain) {
  const std::string all = metrics();
  // Such as ddl left it before it knew another metric.
  store().exec("DELETE FROM metric WHERE id = 'step_time'; UPDATE meta SET value = '7' WHERE key = 'analysis.version'");
  EXPECT_EQ(metrics(), all);
  SQLite::Database db = store();
  EXPECT_EQ(db.execAndGet("SELECT value FROM meta WHERE key = 'analysis.version'").getString(), analysis_version());
}

TEST_F(OpenRun, WhatThisVersionAnalyzedIsLeftAlone) {
  const std::string all = metrics();
  store().exec("DELETE FROM metric WHERE id = 'step_time'");
  EXPECT_NE(metrics(), all);
}

}  // namespace
}  // namespace ddl::cli
