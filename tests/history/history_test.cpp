// The database: in a file, and, where DDL_TEST_POSTGRES is the URL of a server (tests/history/postgres.py), in
// PostgreSQL.
#include "history/history.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "core/error.h"
#include "history/commit.h"
#include "tests/history/generated.h"
#include "tests/support/synthetic_run.h"

namespace ddl::history {
namespace {

using test::generate;

class Database : public testing::Test {
 protected:
  std::string place() const {
    const char* url = std::getenv("DDL_TEST_POSTGRES");
    return url != nullptr ? url : (folder_ / "deep" / "history.sqlite").string();
  }
  void SetUp() override {
    if (!is_postgres_url(place())) return;
    auto connection = open_postgres(place());
    for (const char* table :
         {"ddl_schema", "ddl_run", "ddl_unknown", "ddl_metric", "ddl_axis", "ddl_finding", "ddl_host"})
      connection->run(std::string("DROP TABLE IF EXISTS ") + table);
  }
  int64_t count(const std::string& table) {
    auto connection = is_postgres_url(place()) ? open_postgres(place()) : open_sqlite(place(), Access::kRead);
    return std::stoll(*connection->run("SELECT count(*) FROM " + table)[0][0]);
  }
  /// Runs `writer(number)` in so many processes at once; how many of them ended well.
  template <class Writer>
  int processes(int number, Writer writer) {
    std::vector<pid_t> children;
    for (int i = 0; i < number; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        try {
          writer(i);
          _exit(0);
        } catch (const std::exception& error) {
          std::fprintf(stderr, "writer %d: %s\n", i, error.what());
          _exit(1);
        }
      }
      children.push_back(child);
    }
    int good = 0;
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      good += status == 0 ? 1 : 0;
    }
    return good;
  }
  test::ScratchFolder folder_;
};

RunRow full_row() {
  RunRow row = generate({.runs = 1})[0];
  row.command = "mpirun ./train --name 'a; b' \xff";
  row.commit_id = std::string(40, 'a');
  row.exit_code = 0;
  row.throughput = 1.0 / 3;
  row.efficiency = 1e-300;
  row.findings = 1;
  row.loss = std::nan("");
  row.why = {{"loss", "NO_DATA"}, {"step_p99_ns", "PARTIAL_RANKS"}};
  row.metrics = {{"ccr_xfer", 0.25, "ratio", {}, 0.2, 0.3}, {"mfu", {}, "ratio", "NO_DATA", {}, {}}};
  row.found = {{"straggler", "rank 3 is late; it's slow", 3, 1000, 0.1, "sure", "lower"}};
  row.on = {{"node1", 8, false, {}}, {"node2", 8, true, 3}};
  return row;
}

TEST_F(Database, WhatIsWrittenIsRead) {
  const RunRow row = full_row();
  EXPECT_EQ(History(place(), Access::kWrite).add(row), History::Added::kNew);
  const std::vector<RunRow> rows = History(place(), Access::kRead).runs({});
  ASSERT_EQ(rows.size(), 1u);
  const RunRow& back = rows[0];
  EXPECT_EQ(back.run, row.run);
  EXPECT_EQ(back.path, row.path);
  EXPECT_EQ(back.command, "mpirun ./train --name 'a; b' \xef\xbf\xbd") << "not text: replaced";
  EXPECT_EQ(back.commit_id, row.commit_id);
  EXPECT_EQ(back.job_step_id, std::nullopt);
  EXPECT_EQ(back.started_ns, row.started_ns);
  EXPECT_EQ(back.step_time_ns, row.step_time_ns);
  EXPECT_EQ(back.throughput, 1.0 / 3) << "all digits";
  EXPECT_EQ(back.efficiency, 1e-300);
  EXPECT_EQ(back.compute_ns, row.compute_ns);
  EXPECT_EQ(back.loss, std::nullopt) << "NaN is not known";
  EXPECT_EQ(back.why_not("loss"), "NO_DATA");
  EXPECT_EQ(back.why_not("step_p99_ns"), "PARTIAL_RANKS");
  ASSERT_EQ(back.axes.size(), 2u);
  EXPECT_EQ(back.axes[0].axis, "data");
  EXPECT_EQ(back.axes[0].transfer_ns, row.axes[0].transfer_ns);
  ASSERT_EQ(back.found.size(), 1u);
  EXPECT_EQ(back.found[0].sentence, row.found[0].sentence);
  EXPECT_EQ(back.found[0].rank, 3);
  EXPECT_EQ(back.found[0].saving_bound, "lower");
  ASSERT_EQ(back.on.size(), 2u);
  EXPECT_FALSE(back.on[0].slow);
  EXPECT_TRUE(back.on[1].slow);
  EXPECT_EQ(count("ddl_metric"), 2);
  EXPECT_TRUE(History(place(), Access::kRead).runs("other").empty());
  EXPECT_EQ(History(place(), Access::kRead).runs("train").size(), 1u);
}

TEST_F(Database, TheSameRunAgainIsOneRow) {
  RunRow row = full_row();
  History history(place(), Access::kWrite);
  history.add(row);
  row.step_time_ns = 5;
  row.path = "elsewhere:/moved.ddl";
  row.found.clear(), row.metrics.clear();
  row.added_by = "somebody else", row.added_ns += 9, row.updated_ns += 9;
  EXPECT_EQ(history.add(row), History::Added::kAgain);
  const std::vector<RunRow> rows = history.runs({});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].step_time_ns, 5);
  EXPECT_EQ(rows[0].path, row.path);
  EXPECT_EQ(rows[0].added_by, "tester");
  EXPECT_EQ(rows[0].added_ns, row.added_ns - 9);
  EXPECT_EQ(rows[0].updated_ns, row.updated_ns);
  EXPECT_TRUE(rows[0].found.empty());
  EXPECT_EQ(count("ddl_metric"), 0);
  EXPECT_EQ(count("ddl_host"), 2);
}

TEST_F(Database, EightWritersAtOnceLoseNothing) {
  constexpr int kWriters = 8, kRuns = 6;
  // Nobody has made the database yet: they also race for that. Every one writes runs of its own, and one that
  // all of them write.
  const int good = processes(kWriters, [&](int writer) {
    History history(place(), Access::kWrite);
    for (int i = 0; i < kRuns; ++i) {
      RunRow row = full_row();
      row.run = fmt::format("run-{}-{}", writer, i);
      history.add(row);
      row.run = "shared";
      history.add(row);
    }
  });
  EXPECT_EQ(good, kWriters);
  EXPECT_EQ(count("ddl_run"), kWriters * kRuns + 1);
  EXPECT_EQ(count("ddl_metric"), 2 * (kWriters * kRuns + 1));
  EXPECT_EQ(count("ddl_finding"), kWriters * kRuns + 1);
  EXPECT_EQ(count("ddl_schema"), 1);
}

TEST_F(Database, AWriterThatIsKilledLeavesWholeRuns) {
  History(place(), Access::kWrite).add(full_row());
  const pid_t child = fork();
  if (child == 0) {
    History history(place(), Access::kWrite);
    for (int i = 0;; ++i) {
      RunRow row = full_row();
      row.run = fmt::format("run-{}", i);
      history.add(row);
    }
  }
  while (count("ddl_run") < 5) usleep(1000);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  History(place(), Access::kWrite).add(full_row());  // nothing is left locked
  EXPECT_EQ(count("ddl_metric"), 2 * count("ddl_run"));
  EXPECT_EQ(count("ddl_host"), 2 * count("ddl_run"));
}

TEST_F(Database, AnEarlierSchemaIsBroughtUpToDateWithItsRuns) {
  History(place(), Access::kWrite).add(full_row());
  auto connection = is_postgres_url(place()) ? open_postgres(place()) : open_sqlite(place(), Access::kWrite);
  connection->run("ALTER TABLE ddl_finding DROP COLUMN saving_bound");
  connection->run("UPDATE ddl_schema SET version = 1");
  connection.reset();
  RunRow another = full_row();
  another.run = "another";
  const auto version = [&] {
    auto now = is_postgres_url(place()) ? open_postgres(place()) : open_sqlite(place(), Access::kRead);
    return *now->run("SELECT version FROM ddl_schema")[0][0];
  };
  const std::vector<RunRow> read = History(place(), Access::kRead).runs({});
  ASSERT_EQ(read.size(), 1u);
  ASSERT_EQ(read[0].found.size(), 1u);
  EXPECT_EQ(read[0].found[0].saving_ns, 1000);
  EXPECT_EQ(read[0].found[0].saving_bound, std::nullopt);
  EXPECT_EQ(version(), "1") << "who reads may not be allowed to write";
  EXPECT_EQ(processes(4, [&](int) { History(place(), Access::kWrite); }), 4);
  EXPECT_EQ(version(), "2");
  EXPECT_EQ(History(place(), Access::kWrite).add(another), History::Added::kNew);
  const std::vector<RunRow> rows = History(place(), Access::kRead).runs({});
  ASSERT_EQ(rows.size(), 2u);
  for (const RunRow& row : rows) {
    ASSERT_EQ(row.found.size(), 1u);
    EXPECT_EQ(row.found[0].saving_ns, 1000);
    EXPECT_EQ(row.found[0].saving_bound, row.run == "another" ? std::optional<std::string>("lower") : std::nullopt);
  }
}

TEST_F(Database, ANewerSchemaIsRefused) {
  History(place(), Access::kWrite).add(full_row());
  auto connection = is_postgres_url(place()) ? open_postgres(place()) : open_sqlite(place(), Access::kWrite);
  connection->run("UPDATE ddl_schema SET version = 3");
  try {
    History history(place(), Access::kRead);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDataMissing);
    EXPECT_NE(std::string(error.what()).find("schema 3"), std::string::npos) << error.what();
  }
}

class File : public testing::Test {
 protected:
  std::string refusal(const std::string& path, Access access) {
    try {
      History history(path, access);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  test::ScratchFolder folder_;
};

TEST_F(File, WhatIsNoHistoryIsRefusedAndLeftAlone) {
  const std::string text = (folder_ / "text").string(), other = (folder_ / "other.sqlite").string(),
                    fifo = (folder_ / "fifo").string();
  std::ofstream(text) << "this is no database, however long it may be, and however often it is opened";
  sqlite3* db = nullptr;
  sqlite3_open(other.c_str(), &db);
  sqlite3_exec(db, "CREATE TABLE theirs (x)", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  mkfifo(fifo.c_str(), 0600);
  EXPECT_NE(refusal(text, Access::kWrite).find("not a database"), std::string::npos) << refusal(text, Access::kWrite);
  EXPECT_NE(refusal(other, Access::kWrite).find("not a history"), std::string::npos) << refusal(other, Access::kWrite);
  EXPECT_NE(refusal(fifo, Access::kWrite).find("FIFO"), std::string::npos);
  EXPECT_NE(refusal((folder_ / "absent").string(), Access::kRead).find("there is no history yet"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "absent"));
  EXPECT_NE(refusal("mysql://host/db", Access::kRead).find("is not a history: give a file or postgresql://"),
            std::string::npos);
}

TEST_F(File, AnEmptyFileWithRightsForAGroupKeepsThem) {
  const std::string path = (folder_ / "shared.sqlite").string();
  std::ofstream(path).flush();
  chmod(path.c_str(), 0660);
  History(path, Access::kWrite).add(full_row());
  struct stat info {};
  stat(path.c_str(), &info);
  EXPECT_EQ(info.st_mode & 0777, 0660u);
  EXPECT_EQ(History(path, Access::kRead).runs({}).size(), 1u);
}

TEST_F(File, PasswordsAreNotShown) {
  EXPECT_EQ(shown_place("postgresql://me:hunter2@db.example.org/ddl"), "postgresql://me:***@db.example.org/ddl");
}

// .git as Git writes it.
TEST_F(File, TheCommitIsThatOfTheMoment) {
  namespace fs = std::filesystem;
  const std::string first(40, 'a'), second(40, 'b'), none(40, '0');
  fs::create_directories(folder_ / "repo/.git/logs");
  fs::create_directories(folder_ / "repo/.git/refs/heads");
  fs::create_directories(folder_ / "repo/src/deep");
  std::ofstream(folder_ / "repo/.git/HEAD") << "ref: refs/heads/main\n";
  std::ofstream(folder_ / "repo/.git/refs/heads/main") << second << "\n";
  std::ofstream(folder_ / "repo/.git/logs/HEAD")
      << none << " " << first << " A B > C <a@b> 1000 +0100\tcommit (initial): x > y\n"
      << first << " " << second << " A B <a@b> 2000 +0100\tcommit: y\n";
  const fs::path deep = folder_ / "repo/src/deep";
  EXPECT_EQ(commit_at(deep, 999'000'000'000), std::nullopt) << "before the first";
  EXPECT_EQ(commit_at(deep, 1999'000'000'000), first);
  EXPECT_EQ(commit_at(deep, 2000'000'000'000), second);
  EXPECT_EQ(commit_now(deep), second);
  fs::remove(folder_ / "repo/.git/refs/heads/main");
  std::ofstream(folder_ / "repo/.git/packed-refs") << "# pack-refs with: peeled\n"
                                                   << first << " refs/heads/main\n^" << second << "\n";
  EXPECT_EQ(commit_now(deep), first);
  std::ofstream(folder_ / "repo/.git/HEAD") << second << "\n";
  EXPECT_EQ(commit_now(deep), second) << "detached";
  std::ofstream(folder_ / "repo/.git/HEAD") << "ref: ../../../etc/passwd\n";
  EXPECT_EQ(commit_now(deep), std::nullopt);
  fs::create_directories(folder_ / "tree");
  std::ofstream(folder_ / "tree/.git") << "gitdir: ../repo/.git\n";
  EXPECT_EQ(commit_at(folder_ / "tree", 1500'000'000'000), first) << "a work tree that was added";
  EXPECT_EQ(commit_now("/proc/self"), std::nullopt);
}

}  // namespace
}  // namespace ddl::history
