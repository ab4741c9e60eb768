// The tables that passes hand on are what analyzer/tables.sql declares, and are written anew by each analysis.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "analyzer/analyze.h"
#include "analyzer/tables.h"
#include "tests/analyzer/analyzed.h"
#include "tests/support/training_job.h"

namespace ddl::test {
namespace {

/// An analyzed job with what fills most of the tables.
struct FaultyJob {
  explicit FaultyJob(const std::vector<Fault>& faults) {
    write_training_job(draw_training_job(410'003, faults), folder.path());
    const RunDirectory directory = find_run(folder.path().string());
    ingest(directory);
    db.emplace(open_store(directory.store, Access::kReadWrite));
    analyze(*db);
  }
  std::vector<std::string> list(const std::string& sql) {
    std::vector<std::string> rows;
    SQLite::Statement row(*db, sql);
    while (row.executeStep()) rows.push_back(row.getColumn(0).getString());
    return rows;
  }
  /// All rows of a table as one text.
  std::string content(const std::string& table) {
    std::string text;
    SQLite::Statement row(*db, "SELECT * FROM " + table);
    while (row.executeStep())
      for (int i = 0; i < row.getColumnCount(); ++i)
        text += row.getColumn(i).getString() + (i + 1 < row.getColumnCount() ? "|" : "\n");
    return text;
  }

  ScratchFolder folder;
  std::optional<SQLite::Database> db;
};

/// As SQLite itself reads tables.sql.
std::vector<std::string> declared() {
  SQLite::Database empty(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  empty.exec(kTablesSql);
  std::vector<std::string> names;
  SQLite::Statement row(empty, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name");
  while (row.executeStep()) names.push_back(row.getColumn(0).getString());
  return names;
}

class DeclaredTables : public ::testing::TestWithParam<std::vector<Fault>> {};

TEST_P(DeclaredTables, HoldWhatTheirColumnsSay) {
  FaultyJob job(GetParam());
  EXPECT_TRUE(job.list("SELECT name FROM sqlite_temp_master").empty()) << "no pass hands on in secret";
  for (const std::string& table : declared()) {
    for (const std::string& column : job.list("SELECT name FROM pragma_table_info('" + table + "')")) {
      const std::string type =
          job.list("SELECT lower(type) FROM pragma_table_info('" + table + "') WHERE name = '" + column + "'").at(0);
      std::vector<std::string> wrong = job.list("SELECT DISTINCT typeof(" + column + ") FROM " + table +
                                                " WHERE typeof(" + column + ") NOT IN ('null', '" + type + "')");
      EXPECT_TRUE(wrong.empty()) << table << "." << column << " is declared " << type << " and holds " << wrong.at(0);
    }
  }
  for (const char* table :
       {"steady_world", "steady_number", "steady_part", "steady_step", "steady_rank", "steady_wait", "mean_transfer"})
    EXPECT_NE(job.content(table), "") << table;
}

TEST_P(DeclaredTables, AreTheSameAfterAnotherAnalysis) {
  FaultyJob job(GetParam());
  std::string before, after;
  for (const std::string& table : declared()) before += table + "\n" + job.content(table);
  analyze(*job.db);
  for (const std::string& table : declared()) after += table + "\n" + job.content(table);
  EXPECT_EQ(before, after);
}

INSTANTIATE_TEST_SUITE_P(Analyzer, DeclaredTables,
                         ::testing::Values(std::vector<Fault>{}, std::vector{Fault::kSlowRank},
                                           std::vector{Fault::kBubble}, std::vector{Fault::kInputStall},
                                           std::vector{Fault::kHostBound}));

TEST(DeclaredTables, OfAnotherVersionAreDropped) {
  Analyzed run(SyntheticRun().ranks(2).steps(3).each_step().compute(1'000'000).allreduce(1'000, 1'000));
  run.db.exec("CREATE TABLE of_old (x); CREATE TABLE of_the_user (x); DROP TABLE late; CREATE TABLE late (other)");
  run.db.exec("UPDATE meta SET value = 'of_old ' || value WHERE key = 'analysis.tables'");
  analyze(run.db);
  EXPECT_EQ(run.integer("SELECT count(*) FROM sqlite_master WHERE name = 'of_old'"), 0);
  EXPECT_EQ(run.integer("SELECT count(*) FROM sqlite_master WHERE name = 'of_the_user'"), 1)
      << "not made by an analysis";
  EXPECT_EQ(run.integer("SELECT count(*) FROM pragma_table_info('late') WHERE name = 'wait_ns'"), 1) << "made anew";
}

/// How steady steps are counted, by a second way: from step_part.
TEST(DeclaredTables, SteadyWorldIsTheBasis) {
  Analyzed run(SyntheticRun().ranks(2).steps(14).each_step().compute(1'000'000).allreduce(1'000, 1'000));
  EXPECT_EQ(
      run.text(
          "SELECT annotated || ' ' || inferred || ' ' || used || ' ' || warmup || ' ' || incomplete FROM steady_world"),
      "1 0 9 5 0");
  EXPECT_EQ(run.integer("SELECT count(*) FROM steady_part"), 18);
}

}  // namespace
}  // namespace ddl::test
