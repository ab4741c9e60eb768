// The store is the same for any number of threads that read spools and analyze: row for row, not only in what is shown.
#include <gtest/gtest.h>

#include <string>

#include "analyzer/analyze.h"
#include "analyzer/parallel_reads.h"
#include "core/error.h"
#include "store/database.h"
#include "store/ingest.h"
#include "tests/support/store_dump.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/training_job.h"

namespace ddl {
namespace {

using namespace test::literals;

std::string dump_with(const std::filesystem::path& folder, unsigned threads) {
  const RunDirectory run = find_run(folder.string());
  ingest(run, {.output = folder / "store.sqlite",
               .progress = {},
               .finish = [&](SQLite::Database& db) { analyze(db, {}, threads); },
               .threads = threads});
  SQLite::Database db = open_store(folder / "store.sqlite");
  return test::store_dump(db);
}

void expect_the_same(const std::filesystem::path& folder) {
  const std::string one = dump_with(folder, 1);
  EXPECT_NE(one.find("\ncollective\n"), std::string::npos);
  EXPECT_NE(one.find("straggler"), std::string::npos) << "it has a finding";
  for (const unsigned threads : {2u, 5u}) EXPECT_TRUE(one == dump_with(folder, threads)) << threads << " threads";
}

TEST(Threads, TheStoreOfManyHostsIsTheSame) {
  const test::ScratchFolder folder;
  test::write_training_job(test::many_ranks_job(32), folder.path());
  expect_the_same(folder.path());
}

TEST(Threads, TheStoreOfAJobWithMessagesIsTheSame) {
  const test::ScratchFolder folder;
  test::run()
      .ranks(6)
      .hosts(2)
      .steps(30)
      .jitter(100_us)
      .slow(3, 2_ms)
      .forward("fc", 2_ms)
      .allreduce(1_MiB, 300_us)
      .iallreduce(64_KiB, 200_us)
      .waitall()
      .sendrecv_ring(16_KiB, 40_us)
      .value("samples", 8)
      .write(folder.path());
  expect_the_same(folder.path());
}

TEST(Threads, ParallelReadsAskEverythingOnce) {
  const test::ScratchFolder folder;
  test::run().ranks(2).steps(4).allreduce(8, 10_us).write(folder.path());
  const RunDirectory run = find_run(folder.path().string());
  ingest(run);
  SQLite::Database db = open_store(run.store, Access::kReadWrite);
  for (const unsigned threads : {1u, 3u}) {
    std::vector<int> found(50);
    read_in_parallel(db, threads, found.size(), [&](size_t i, SQLite::Database& connection) {
      found[i] += connection.execAndGet("SELECT count(*) + " + std::to_string(i) + " FROM process").getInt();
    });
    for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], static_cast<int>(i) + 2);
    try {
      read_in_parallel(db, threads, 9, [](size_t i, SQLite::Database&) {
        if (i % 2 == 1) throw Error(std::to_string(i));
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "1") << "the first that failed";
    }
  }
}

}  // namespace
}  // namespace ddl
