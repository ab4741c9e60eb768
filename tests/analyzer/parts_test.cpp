// An analysis in parts gives the store of an analysis in one process, row for row, whatever the number of parts.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "analyzer/analyze.h"
#include "core/error.h"
#include "store/database.h"
#include "store/ingest.h"
#include "store/parts.h"
#include "store/seal.h"
#include "tests/support/store_dump.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/training_job.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;
using namespace test::literals;

std::string dump_of(const fs::path& store) {
  SQLite::Database db = open_store(store);
  return test::store_dump(db);
}

std::string in_one(const RunDirectory& run, bool analyzed = true) {
  const fs::path output = run.directory / "one.sqlite";
  ingest(run, {.output = output, .progress = {}, .finish = [&](SQLite::Database& db) { if (analyzed) analyze(db); }, .threads = 1});
  return dump_of(output);
}

std::string in_parts(const RunDirectory& run, unsigned parts, bool analyzed = true) {
  IngestOptions options;
  options.threads = 1;
  for (unsigned number = 1; number <= parts; ++number) make_part(run, {number, parts}, options);
  EXPECT_TRUE(missing_parts(run, parts).empty());
  const fs::path output = run.directory / "merged.sqlite";
  merge_parts(run, {.output = output, .progress = {}, .finish = [&](SQLite::Database& db) { if (analyzed) analyze(db); }, .threads = 1});
  for (unsigned number = 1; number <= parts; ++number) fs::remove(part_file(run, {number, parts}));
  return dump_of(output);
}

/// What of ours is thrown, message and hint; empty: nothing is.
template <class Function>
std::string refusal(Function function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDataMissing) << error.what();
    EXPECT_NE(error.hint(), "");
    return std::string(error.what()) + " | " + error.hint();
  }
  return "";
}

TEST(Parts, TheStoreIsThatOfOneProcess) {
  const test::ScratchFolder folder;
  test::write_training_job(test::many_ranks_job(64), folder.path());
  const RunDirectory run = find_run(folder.path().string());
  EXPECT_EQ(prepare_parts(run), 64U);
  EXPECT_TRUE(is_prepared(run));
  const std::string analyzed = in_one(run);
  EXPECT_NE(analyzed.find("straggler"), std::string::npos) << "it has a finding";
  EXPECT_TRUE(analyzed == in_parts(run, 7));
  const std::string one = in_one(run, false);
  for (const unsigned parts : {1U, 2U, 64U}) EXPECT_TRUE(one == in_parts(run, parts, false)) << parts << " parts";
  remove_parts(run);
  EXPECT_FALSE(fs::exists(parts_folder(run)));
}

TEST(Parts, NamesThatRanksMeetInAnotherOrderAreNumberedAsInOneProcess) {
  const test::ScratchFolder folder;
  test::SyntheticRun job = test::run().ranks(6).hosts(2).steps(12).jitter(50_us).missing(4);
  for (const int rank : {3, 5}) job.on_rank(rank).layer(rank == 3 ? "last" : "first").on_rank(rank).compute(1_ms).on_rank(rank).end_layer();
  job.forward("fc", 2_ms).forward("head", 1_ms).allreduce(1_MiB, 300_us).iallreduce(64_KiB, 200_us).waitall();
  job.sendrecv_ring(16_KiB, 40_us).killed(2, 7).value("samples", 8).write(folder.path());
  const RunDirectory run = find_run(folder.path().string());
  const std::string one = in_one(run);
  prepare_parts(run);
  for (const unsigned parts : {2U, 3U, 5U, 9U}) EXPECT_TRUE(one == in_parts(run, parts)) << parts << " parts";
}

TEST(Parts, GpusAndNcclAreTheSame) {
  const test::ScratchFolder folder;
  test::TrainingJob training = test::draw_training_job(3, {test::Fault::kHostBound});
  test::write_training_job(training, folder.path());
  const RunDirectory run = find_run(folder.path().string());
  const std::string one = in_one(run, false);
  SQLite::Database db = open_store(run.directory / "one.sqlite");
  for (const char* table : {"gpu_event", "gpu_name", "nccl_collective", "stream_wait", "site"})
    EXPECT_GT(db.execAndGet(std::string("SELECT count(*) FROM ") + table).getInt(), 0) << table;
  prepare_parts(run);
  for (const unsigned parts : {2U, 3U}) EXPECT_TRUE(one == in_parts(run, parts, false)) << parts << " parts";
}

TEST(Parts, WhatDoesNotBelongTogetherIsRefused) {
  const test::ScratchFolder folder, other;
  test::run().ranks(4).steps(4).allreduce(8, 10_us).write(folder.path());
  test::run().ranks(3).steps(4).allreduce(8, 10_us).write(other.path());
  const RunDirectory run = find_run(folder.path().string()), another = find_run(other.path().string());
  const auto merge = [&] { merge_parts(run); };
  EXPECT_NE(refusal(merge).find("there is no such file"), std::string::npos);
  prepare_parts(run);
  EXPECT_NE(refusal(merge).find("has no parts"), std::string::npos);
  make_part(run, {1, 2});
  EXPECT_NE(refusal(merge).find("1 of 2 parts"), std::string::npos);
  EXPECT_NE(refusal(merge).find("--part 2/2"), std::string::npos);
  EXPECT_EQ(missing_parts(run, 2), (std::vector<unsigned>{2}));
  const fs::path second = part_file(run, {2, 2});

  fs::copy_file(part_file(run, {1, 2}), second);
  EXPECT_NE(refusal(merge).find("it is part 1 of 2"), std::string::npos);
  fs::remove(second);
  fs::copy_file(plan_file(run), second);
  EXPECT_NE(refusal(merge).find("it is not a part"), std::string::npos);
  fs::remove(second);
  prepare_parts(another);
  make_part(another, {2, 2});
  fs::copy_file(part_file(another, {2, 2}), second);
  EXPECT_NE(refusal(merge).find("it was made by another plan"), std::string::npos);
  fs::remove(second);
  ASSERT_EQ(mkfifo(second.c_str(), 0600), 0);
  EXPECT_NE(refusal(merge).find("a FIFO, not a file"), std::string::npos);
  fs::remove(second);
  ingest(another);
  fs::copy_file(another.store, second);
  EXPECT_NE(refusal(merge).find("not one of ddl's"), std::string::npos);
  fs::remove(second);
  make_part(run, {2, 2});
  const auto bytes = fs::file_size(second);
  for (const auto size : {bytes - 1, bytes / 2, uintmax_t{100}, uintmax_t{0}}) {
    fs::resize_file(second, size);
    EXPECT_NE(refusal(merge).find("cannot "), std::string::npos) << "cut to " << size;
    EXPECT_EQ(missing_parts(run, 2), (std::vector<unsigned>{2}));
  }
  make_part(run, {2, 2});
  std::fstream(second, std::ios::in | std::ios::out | std::ios::binary).seekp(static_cast<std::streamoff>(bytes / 2)).put('#');
  EXPECT_NE(refusal(merge).find("it is damaged"), std::string::npos);
  make_part(run, {2, 2});
  EXPECT_EQ(refusal(merge), "");

  fs::rename(plan_file(another), plan_file(run));
  EXPECT_NE(refusal(merge).find("the plan of another run"), std::string::npos);
  EXPECT_FALSE(is_prepared(run));
  prepare_parts(run);
  EXPECT_FALSE(fs::exists(second)) << "parts of another plan go with it";
  std::ofstream(run.spools()[0], std::ios::app) << "more";
  EXPECT_NE(refusal([&] { make_part(run, {1, 2}); }).find("the run has changed since"), std::string::npos);
}

}  // namespace
}  // namespace ddl
