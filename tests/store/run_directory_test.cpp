// Finding runs, and the file that becomes their store.
#include "store/run_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "store/job.h"
#include "store/seal.h"
#include "store/text.h"
#include "tests/store/store_fixture.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;

test::SyntheticRun small_run() { return test::run().ranks(2).steps(1).compute(1_ms).barrier(); }

class RunDirectoryTest : public StoreTest {
 protected:
  void SetUp() override {
    before_ = fs::current_path();
    fs::current_path(scratch_.path());
  }
  void TearDown() override { fs::current_path(before_); }

  /// Makes all files of a run `seconds` old.
  static void age(const fs::path& directory, int seconds) {
    const auto when = fs::file_time_type::clock::now() - std::chrono::seconds(seconds);
    for (const auto& entry : fs::directory_iterator(directory)) fs::last_write_time(entry.path(), when);
  }
  fs::path before_;
};

TEST_F(RunDirectoryTest, WithoutAnArgumentTheNewestRunHereIsMeant) {
  const Error none = error_of([] { find_run(); });
  EXPECT_EQ(none.code(), ExitCode::kDataMissing);
  EXPECT_FALSE(none.hint().empty());
  for (const char* name : {"a.ddl", "b.ddl", "c.ddl"}) small_run().write(name);
  age("a.ddl", 30);
  age("b.ddl", 10);
  age("c.ddl", 20);
  fs::create_directory("empty.ddl");
  EXPECT_EQ(find_run().directory.filename(), "b.ddl");
  ingest(find_run("a.ddl"));  // reading an old run does not make it the newest
  EXPECT_EQ(find_run().directory.filename(), "b.ddl");
}

TEST_F(RunDirectoryTest, ADirectoryOrItsStoreCanBeNamed) {
  small_run().write("x.ddl");
  EXPECT_EQ(find_run("x.ddl").store, fs::path("x.ddl/run.sqlite"));
  ingest(find_run("x.ddl"));
  EXPECT_EQ(find_run("x.ddl/run.sqlite").directory, fs::path("x.ddl"));
  fs::copy_file("x.ddl/run.sqlite", "taken-home.sqlite");
  EXPECT_EQ(find_run("taken-home.sqlite").store, fs::path("taken-home.sqlite"));
  EXPECT_TRUE(is_ingested(find_run("taken-home.sqlite")));
}

TEST_F(RunDirectoryTest, WhatIsNoRunIsRefusedWithAHint) {
  EXPECT_EQ(error_of([] { find_run("nowhere"); }).code(), ExitCode::kDataMissing);
  small_run().write("jobs/x.ddl");
  const Error parent = error_of([] { find_run("jobs"); });
  EXPECT_EQ(parent.code(), ExitCode::kDataMissing);
  EXPECT_NE(parent.hint().find("jobs/x.ddl"), std::string::npos);
  const std::string spool = find_run("jobs/x.ddl").spools().front().string();
  EXPECT_NE(error_of([&] { find_run(spool); }).hint().find("x.ddl"), std::string::npos);
}

TEST_F(RunDirectoryTest, AStoreIsUsedUntilSomethingChanges) {
  small_run().write("x.ddl");
  age("x.ddl", 5);
  const RunDirectory run = find_run("x.ddl");
  EXPECT_FALSE(is_ingested(run));
  ingest(run);
  EXPECT_TRUE(is_ingested(run));
  fs::last_write_time(run.spools()[1], fs::file_time_type::clock::now() + std::chrono::seconds(2));
  EXPECT_FALSE(is_ingested(run));
}

TEST_F(RunDirectoryTest, SpoolsOfAnotherHostArriveWithTheirOldTimes) {
  small_run().write("x.ddl");
  age("x.ddl", 100);
  const RunDirectory run = find_run("x.ddl");
  const fs::path late = run.spools()[1];
  fs::rename(late, "late.spool");
  ingest(run);
  EXPECT_TRUE(is_ingested(run));
  fs::rename("late.spool", late);  // as rsync -a brings it: older than the store
  EXPECT_FALSE(is_ingested(run));
  ingest(run);
  EXPECT_TRUE(is_ingested(run));
  fs::remove(late);  // to save space
  EXPECT_TRUE(is_ingested(run));
}

TEST_F(RunDirectoryTest, AJobThatMayStillRunIsReadAgain) {
  small_run().killed(1, 0).write("x.ddl");
  const RunDirectory run = find_run("x.ddl");
  ingest(run);
  EXPECT_FALSE(is_ingested(run)) << "a process has not ended and was heard of a moment ago";
  age("x.ddl", 100);
  EXPECT_TRUE(is_ingested(run));
}

// ---------------------------------------------------------------------------------------------------- the store's file

TEST_F(RunDirectoryTest, TheStoreIsPrivateAndLeavesNoDraft) {
  small_run().write("x.ddl");
  ingest(find_run("x.ddl"));
  struct stat status;
  ASSERT_EQ(stat("x.ddl/run.sqlite", &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  for (const auto& entry : fs::directory_iterator("x.ddl"))
    EXPECT_EQ(entry.path().filename().string().find(".tmp."), std::string::npos);
}

TEST_F(RunDirectoryTest, AForeignDatabaseIsNeitherReadNorReplaced) {
  small_run().write("x.ddl");
  {
    SQLite::Database("x.ddl/run.sqlite", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
        .exec("CREATE TABLE mine(a); INSERT INTO mine VALUES (1)");
  }
  const RunDirectory run = find_run("x.ddl");
  EXPECT_EQ(error_of([&] { open_store(run.store); }).code(), ExitCode::kDataMissing);
  EXPECT_EQ(error_of([&] { is_ingested(run); }).code(), ExitCode::kDataMissing);
  EXPECT_EQ(error_of([&] { ingest(run); }).code(), ExitCode::kDataMissing);
  SQLite::Database mine("x.ddl/run.sqlite");
  EXPECT_EQ(mine.execAndGet("SELECT a FROM mine").getInt(), 1);
}

TEST_F(RunDirectoryTest, ANewerOrOlderSchemaIsRefusedByName) {
  small_run().write("x.ddl");
  const RunDirectory run = find_run("x.ddl");
  ingest(run);
  const auto set_version = [&](int version) {
    open_store(run.store, Access::kReadWrite).exec("PRAGMA user_version = " + std::to_string(version));
    seal_store(run.store);
  };
  set_version(kSchemaVersion + 1);
  const Error newer = error_of([&] { open_store(run.store); });
  EXPECT_NE(std::string(newer.what()).find("newer"), std::string::npos);
  EXPECT_EQ(newer.code(), ExitCode::kDataMissing);
  EXPECT_EQ(error_of([&] { ingest(run); }).code(), ExitCode::kDataMissing) << "another ddl's store is not thrown away";
}

TEST_F(RunDirectoryTest, GarbageAndAbsenceAreErrorsOfOurs) {
  EXPECT_EQ(error_of([] { open_store("nothing.sqlite"); }).code(), ExitCode::kDataMissing);
  std::ofstream("garbage.sqlite") << std::string(5000, 'g');
  const Error garbage = error_of([] { open_store("garbage.sqlite"); });
  EXPECT_EQ(garbage.code(), ExitCode::kDataMissing);
  EXPECT_FALSE(garbage.hint().empty());
}

TEST_F(RunDirectoryTest, SchemaFileAndConstantsAgree) {
  create_store("new.sqlite");
  seal_store("new.sqlite");
  SQLite::Database db = open_store("new.sqlite");
  EXPECT_EQ(db.execAndGet("PRAGMA application_id").getInt(), kApplicationId);
  EXPECT_EQ(db.execAndGet("PRAGMA user_version").getInt(), kSchemaVersion);
  EXPECT_THROW(create_store("new.sqlite"), Error) << "an existing file is not written into";
  fs::create_symlink("elsewhere.sqlite", "link.sqlite");
  EXPECT_THROW(create_store("link.sqlite"), Error);
  EXPECT_FALSE(fs::exists("elsewhere.sqlite"));
}

TEST_F(RunDirectoryTest, AReadOnlyFolderIsToldFromOtherErrors) {
  small_run().write("x.ddl");
  fs::permissions("x.ddl", fs::perms::owner_read | fs::perms::owner_exec);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0) {  // root writes everywhere: be nobody
      constexpr uid_t kNobody = 65534;
      bool done = chown(scratch_.path().c_str(), kNobody, kNobody) == 0;
      for (const auto& entry : fs::recursive_directory_iterator(scratch_.path()))
        done = chown(entry.path().c_str(), kNobody, kNobody) == 0 && done;
      if (!done || setegid(kNobody) != 0 || seteuid(kNobody) != 0) _exit(2);
    }
    try {
      ingest(find_run("x.ddl"));
    } catch (const CannotWrite&) {
      _exit(0);
    } catch (...) {
    }
    _exit(1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  fs::permissions("x.ddl", fs::perms::owner_all);
}

TEST_F(RunDirectoryTest, TheStoreCanGoElsewhere) {
  small_run().write("x.ddl");
  IngestOptions options;
  options.output = "elsewhere.sqlite";
  ingest(find_run("x.ddl"), options);
  EXPECT_FALSE(fs::exists("x.ddl/run.sqlite"));
  EXPECT_EQ(open_store("elsewhere.sqlite").execAndGet("SELECT count(*) FROM process").getInt(), 2);
}

TEST_F(RunDirectoryTest, WhoStopsTheIngestLeavesTheOldStore) {
  small_run().write("x.ddl");
  const RunDirectory run = find_run("x.ddl");
  ingest(run);
  small_run().world(9, 1_s, 500).write("x.ddl");
  struct Stop {};
  IngestOptions options;
  options.progress = [](const Progress& p) {
    if (std::string(p.stage) == "reading" && p.done_bytes > 0) throw Stop();
  };
  EXPECT_THROW(ingest(run, options), Stop);
  EXPECT_EQ(open_store(run.store).execAndGet("SELECT count(*) FROM process").getInt(), 2);
  for (const auto& entry : fs::directory_iterator("x.ddl"))
    EXPECT_EQ(entry.path().filename().string().find(".tmp."), std::string::npos);
}

TEST_F(RunDirectoryTest, TheNewStoreTakesItsPlaceWhenItIsFinished) {
  small_run().write("x.ddl");
  const RunDirectory run = find_run("x.ddl");
  ingest(run);
  small_run().world(9, 1_s, 500).write("x.ddl");
  int seen = 0;
  IngestOptions options;
  options.finish = [&](SQLite::Database& db) {
    seen = db.execAndGet("SELECT count(*) FROM process").getInt();
    db.exec("INSERT INTO meta VALUES ('finished', 'yes')");
    EXPECT_EQ(open_store(run.store).execAndGet("SELECT count(*) FROM process").getInt(), 2)
        << "a reader sees the old one until then";
  };
  ingest(run, options);
  EXPECT_EQ(seen, 4);
  EXPECT_EQ(open_store(run.store).execAndGet("SELECT value FROM meta WHERE key = 'finished'").getString(), "yes");
  struct Stop {};
  options.finish = [](SQLite::Database&) { throw Stop(); };
  EXPECT_THROW(ingest(run, options), Stop);
  EXPECT_EQ(open_store(run.store).execAndGet("SELECT value FROM meta WHERE key = 'finished'").getString(), "yes");
}

TEST_F(RunDirectoryTest, ProgressGoesForwardAndEndsAtTheEnd) {
  test::run().ranks(3).steps(2000).compute(1_ms).allreduce(1_KiB, 1_ms).write("x.ddl");
  std::map<std::string, Progress> last;
  int calls = 0;
  IngestOptions options;
  options.progress = [&](const Progress& p) {
    ++calls;
    if (last.count(p.stage)) {
      EXPECT_GE(p.done_bytes, last[p.stage].done_bytes);
    }
    EXPECT_LE(p.done_bytes, p.total_bytes);
    last[p.stage] = p;
  };
  ingest(find_run("x.ddl"), options);
  EXPECT_GE(calls, 6);
  for (const char* stage : {"scanning", "reading", "indexing"})
    EXPECT_EQ(last.at(stage).done_bytes, last.at(stage).total_bytes) << stage;
}

TEST_F(RunDirectoryTest, ADraftThatWasLeftBehindIsRemoved) {
  small_run().write("x.ddl");
  std::ofstream("x.ddl/run.sqlite.tmp.1") << "old";
  std::ofstream("x.ddl/run.sqlite.tmp.2") << "being written";
  fs::last_write_time("x.ddl/run.sqlite.tmp.1", fs::file_time_type::clock::now() - std::chrono::hours(2));
  ingest(find_run("x.ddl"));
  EXPECT_FALSE(fs::exists("x.ddl/run.sqlite.tmp.1"));
  EXPECT_TRUE(fs::exists("x.ddl/run.sqlite.tmp.2"));
}

// ------------------------------------------------------------------------------------------------------------ job.json

class JobTest : public RunDirectoryTest {
 protected:
  static Job read(const std::string& text) {
    std::ofstream("job.json") << text;
    return read_job("job.json");
  }
};

TEST_F(JobTest, AllFieldsAreOptional) {
  EXPECT_TRUE(read_job("absent.json").problem.empty());
  const Job empty = read("{}");
  EXPECT_TRUE(empty.problem.empty());
  EXPECT_FALSE(empty.exit_code);
  const Job job = read(
      R"({"schema": 1, "command": ["mpirun", "./train"], "started_realtime_ns": 5, "ended_realtime_ns": null, "exit_code": 0, "signal": null,
                           "launcher": "mpirun", "job_id": null, "env": {"OMP_NUM_THREADS": "4"}, "libraries": {"mpi": "4.1"}, "np": 2})");
  EXPECT_EQ(job.command, (std::vector<std::string>{"mpirun", "./train"}));
  EXPECT_EQ(job.started_realtime_ns, 5);
  EXPECT_FALSE(job.ended_realtime_ns);
  EXPECT_EQ(job.exit_code, 0);
  EXPECT_EQ(job.facts,
            (std::map<std::string, std::string>{
                {"launcher", "mpirun"}, {"env.OMP_NUM_THREADS", "4"}, {"libraries.mpi", "4.1"}, {"np", "2"}}));
}

TEST_F(JobTest, OddFilesAreAProblemAndNoFailure) {
  for (const char* text : {"", "[1]", "{", "{\"a\": \xff}", "\"x\""}) EXPECT_FALSE(read(text).problem.empty()) << text;
  const Job wrong_types = read(R"({"command": 5, "exit_code": "zero", "env": [1]})");
  EXPECT_TRUE(wrong_types.command.empty());
  EXPECT_FALSE(wrong_types.exit_code);
  const Job newer = read(R"({"schema": 2, "exit_code": 7})");
  EXPECT_FALSE(newer.problem.empty());
  EXPECT_EQ(newer.exit_code, 7);
}

TEST(Text, KeepsTextAndReplacesWhatIsNone) {
  EXPECT_EQ(clean_text("conv1/weights \xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\x80"),
            "conv1/weights \xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\x80");
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(clean_text(std::string("a\0b", 3)), "a" + bad + "b");
  EXPECT_EQ(clean_text("\x1b[31m\n"), bad + "[31m" + bad);
  EXPECT_EQ(clean_text("\xc0\xaf"), bad + bad) << "overlong";
  EXPECT_EQ(clean_text("\xed\xa0\x80"), bad + bad + bad) << "surrogate";
  EXPECT_EQ(clean_text("\xf4\x90\x80\x80"), bad + bad + bad + bad) << "beyond U+10FFFF";
  EXPECT_EQ(clean_text("x\xe2\x82"), "x" + bad + bad) << "cut";
  EXPECT_EQ(clean_text("\xc2\x9b"), bad) << "C1 control";
  EXPECT_EQ(clean_name(std::string(1000, 'a')).size(), 255u);
}

}  // namespace
}  // namespace ddl
