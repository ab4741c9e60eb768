// What was analyzed by another version of ddl is analyzed again before anybody reads it.
#include <gtest/gtest.h>

#include <fstream>

#include "analyzer/analyze.h"
#include "store/database.h"
#include "store/seal.h"
#include "tests/cli/ddl_command.h"
#include "tests/support/synthetic_run.h"

namespace ddl::cli {
namespace {

namespace fs = std::filesystem;
using namespace test::literals;

class OpenRun : public testing::Test {
 protected:
  OpenRun() {
    test::run().ranks(2).steps(8).compute(10_ms).allreduce(1_MiB, 1_ms).write(run_);
    EXPECT_EQ(metrics(), metrics());
  }

  std::string metrics() const {
    return ddl_command({"query", run_.string(), "SELECT count(*) FROM metric", "--csv"}).out;
  }
  void change(const char* sql) const {
    open_store(run_ / "run.sqlite", Access::kReadWrite).exec(sql);
    seal_store(run_ / "run.sqlite");
  }

  test::ScratchFolder folder_;
  std::filesystem::path run_ = folder_ / "job.ddl";
};

TEST_F(OpenRun, WhatAnotherVersionAnalyzedIsAnalyzedAgain) {
  const std::string all = metrics();
  // Such as ddl left it before it knew another metric.
  change("DELETE FROM metric WHERE id = 'step_time'; UPDATE meta SET value = '7' WHERE key = 'analysis.version'");
  EXPECT_EQ(metrics(), all);
  SQLite::Database db = open_store(run_ / "run.sqlite");
  EXPECT_EQ(db.execAndGet("SELECT value FROM meta WHERE key = 'analysis.version'").getString(), analysis_version());
}

TEST_F(OpenRun, AStoreOfAnOlderSchemaIsMadeAgainFromTheSpools) {
  const std::string all = metrics(), old = "PRAGMA user_version = " + std::to_string(kSchemaVersion - 1);
  change(old.c_str());
  const std::filesystem::path alone = folder_ / "alone.sqlite";
  std::filesystem::copy_file(run_ / "run.sqlite", alone);
  const Result result = ddl_command({"query", run_.string(), "SELECT count(*) FROM metric", "--csv"});
  EXPECT_EQ(result.out, all);
  EXPECT_TRUE(has(result.err, "is older than this program's")) << result.err;
  EXPECT_TRUE(has(result.err, "rebuilding it from the spools")) << result.err;
  EXPECT_EQ(metrics(), all) << "once";
  const Result without = ddl_command({"report", alone.string()});
  EXPECT_EQ(without.code, 3);
  EXPECT_TRUE(has(without.err, "is older than this program's")) << without.err;
}

TEST_F(OpenRun, WhatThisVersionAnalyzedIsLeftAlone) {
  const std::string all = metrics();
  change("DELETE FROM metric WHERE id = 'step_time'");
  EXPECT_NE(metrics(), all);
}

class DamagedRun : public OpenRun {
 protected:
  void flip_a_bit(std::uintmax_t at) const {
    std::fstream file(run_ / "run.sqlite", std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 4));
  }
  void flip_a_bit() const { flip_a_bit(std::filesystem::file_size(run_ / "run.sqlite") / 2); }
  Result json() const { return ddl_command({"report", run_.string(), "--json"}); }
};

TEST_F(DamagedRun, ItIsMadeAgainFromTheSpools) {
  const Result before = json();
  flip_a_bit();
  const Result after = json();
  EXPECT_EQ(after.code, 0);
  EXPECT_TRUE(after.out == before.out);
  EXPECT_TRUE(has(after.err, "it is damaged")) << after.err;
  EXPECT_TRUE(has(after.err, "rebuilding it from the spools")) << after.err;
  EXPECT_EQ(json().err, "") << "and is whole from then on";
  std::filesystem::resize_file(run_ / "run.sqlite", 20000);
  EXPECT_TRUE(json().out == before.out);
  std::filesystem::resize_file(run_ / "run.sqlite", 0);
  EXPECT_TRUE(json().out == before.out);
}

TEST_F(DamagedRun, WithoutSpoolsNothingIsAnswered) {
  json();
  for (const auto& entry : std::filesystem::directory_iterator(run_))
    if (entry.path().extension() == ".spool") std::filesystem::remove(entry.path());
  EXPECT_EQ(json().code, 0) << "the store alone is a run";
  flip_a_bit();
  for (const Arguments& verb :
       {Arguments{"report", run_.string(), "--json"}, Arguments{"query", run_.string(), "SELECT 1"},
        Arguments{"export", "csv", run_.string(), "--table", "v_rank"}, Arguments{"analyze", run_.string()},
        Arguments{"top", run_.string(), "-b", "-n", "1"}}) {
    const Result result = ddl_command(verb);
    EXPECT_EQ(result.code, 3) << verb[0];
    EXPECT_EQ(result.out, "") << verb[0];
    EXPECT_TRUE(has(result.err, "it is damaged")) << result.err;
  }
}

TEST_F(DamagedRun, ATextIsNeverAnotherOne) {
  const auto text = [&] { return ddl_command({"report", run_.string()}); };
  const std::string whole = text().out;
  const fs::path store = run_ / "run.sqlite", kept = folder_ / "kept.sqlite";
  fs::copy_file(store, kept);
  const uintmax_t bytes = fs::file_size(kept);
  int made_again = 0;
  for (uintmax_t at = 5; at < bytes; at += 5 * 8192) {  // the text does not read every page
    fs::copy_file(kept, store, fs::copy_options::overwrite_existing);
    flip_a_bit(at);
    const Result result = text();
    EXPECT_EQ(result.code, 0) << at;
    EXPECT_TRUE(result.out == whole) << at;
    if (result.err.empty()) continue;
    ++made_again;
    EXPECT_TRUE(has(result.err, "it is damaged")) << result.err;
    EXPECT_EQ(result.err.find("rebuilding it"), result.err.rfind("rebuilding it")) << "once: " << result.err;
    EXPECT_EQ(check_seal(store), Seal::kWhole);
  }
  EXPECT_GT(made_again, 3);
  for (const auto& entry : fs::directory_iterator(run_))
    if (entry.path().extension() == ".spool") fs::remove(entry.path());
  int refused = 0;
  for (uintmax_t at = 5; at < bytes; at += 5 * 8192) {
    fs::copy_file(kept, store, fs::copy_options::overwrite_existing);
    flip_a_bit(at);
    const Result result = text();
    if (result.code == 0) {
      EXPECT_TRUE(result.out == whole) << at;
      continue;
    }
    ++refused;
    EXPECT_EQ(result.code, 3) << at;
    EXPECT_EQ(result.out, "") << at;
    EXPECT_TRUE(has(result.err, "it is damaged")) << result.err;
  }
  EXPECT_EQ(refused, made_again);
}

TEST_F(DamagedRun, WhatAnotherVersionAnalyzedIsNotCopiedWithItsDamage) {
  const auto text = [&] { return ddl_command({"report", run_.string()}); };
  const std::string whole = text().out;
  change("UPDATE meta SET value = '7' WHERE key = 'analysis.version'");
  flip_a_bit();
  const Result result = text();
  EXPECT_TRUE(result.out == whole);
  EXPECT_TRUE(has(result.err, "rebuilding it from the spools")) << result.err;
}

}  // namespace
}  // namespace ddl::cli
