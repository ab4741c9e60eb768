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
#include "tests/support/synthetic_run_spool.h"
#include "tests/support/training_job.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;
using namespace test::literals;

std::string dump_of(const fs::path& store) {
  SQLite::Database db = open_store(store);
  return test::store_dump(db);
}

IngestOptions into(const fs::path& store, bool analyzed) {
  IngestOptions options;
  options.output = store;
  if (analyzed) options.finish = [](SQLite::Database& db) { analyze(db); };
  options.threads = 1;
  return options;
}

std::string in_one(const RunDirectory& run, bool analyzed = true) {
  const fs::path output = run.directory / "one.sqlite";
  ingest(run, into(output, analyzed));
  return dump_of(output);
}

std::string in_parts(const RunDirectory& run, unsigned parts, bool analyzed = true) {
  IngestOptions options;
  options.threads = 1;
  for (unsigned number = 1; number <= parts; ++number) make_part(run, {number, parts}, options);
  EXPECT_TRUE(missing_parts(run, parts).empty());
  const fs::path output = run.directory / "merged.sqlite";
  merge_parts(run, into(output, analyzed));
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
  // Rank 3 meets the layers in another order than rank 0.
  job.on_rank(3).layer("head").on_rank(3).compute(1_ms).on_rank(3).end_layer();
  for (const char* layer : {"fc", "head"}) job.layer(layer).compute(1_ms).allreduce(1_MiB, 300_us).end_layer();
  job.iallreduce(64_KiB, 200_us)
      .waitall()
      .sendrecv_ring(16_KiB, 40_us)
      .killed(2, 7)
      .value("samples", 8)
      .write(folder.path());
  const RunDirectory run = find_run(folder.path().string());
  const std::string one = in_one(run);
  prepare_parts(run);
  for (const unsigned parts : {2U, 3U, 5U, 9U}) EXPECT_TRUE(one == in_parts(run, parts)) << parts << " parts";
}

TEST(Parts, GpusAreTheSame) {
  const test::ScratchFolder folder;
  test::write_training_job(test::draw_training_job(3, {test::Fault::kHostBound}), folder.path());
  const RunDirectory run = find_run(folder.path().string());
  const std::string one = in_one(run, false);
  SQLite::Database db = open_store(run.directory / "one.sqlite");
  for (const char* table : {"gpu_event", "gpu_name", "gpu", "site"})
    EXPECT_GT(db.execAndGet(std::string("SELECT count(*) FROM ") + table).getInt(), 0) << table;
  prepare_parts(run);
  EXPECT_TRUE(one == in_parts(run, 3, false));
}

/// A rank that carried out a collective of NCCL, the second one with operations, layers, call sites and kernels
/// in another order.
void write_nccl_rank(const fs::path& path, int32_t rank) {
  constexpr uint64_t kBegin = 1000000;
  test::SpoolBuilder spool;
  spool.header().begin = spool.header().latest = {kBegin, kBegin, 5000000};
  spool.header().rank = rank;
  spool.header().world_size = 2;
  spool.header().pid = rank + 1;
  spool.header().flags = kMpiInitialized | kMpiFinalized;
  const bool turned = rank == 1;
  spool.string(1, turned ? "head" : "fc");
  spool.string(2, turned ? "fc" : "head");
  spool.string(3, turned ? "relu" : "ncclDevKernel_AllReduce");
  spool.string(4, turned ? "ncclDevKernel_AllReduce" : "relu");
  spool.module(0x1000, 0x3000, 0, "/bin/train");
  spool.context({1, 0, static_cast<uint32_t>(ContextKind::kLayer), 1, 0});
  spool.context({2, 0, static_cast<uint32_t>(ContextKind::kLayer), 2, 0});
  spool.context({3, 1, static_cast<uint32_t>(ContextKind::kSite), 0, turned ? 0x2000U : 0x1100U});
  spool.context({4, 2, static_cast<uint32_t>(ContextKind::kSite), 0, turned ? 0x1100U : 0x2000U});
  for (uint32_t op = 0; op < 2; ++op)
    spool.operation(kFirstNcclOp + op, OpClass::kAllToAll, true,
                    (op == 0) == turned ? "ncclAllGather" : "ncclAllReduce");
  CommunicatorMeta comm = {};
  comm.index = 1;
  comm.uid = 9;
  comm.size = 2;
  comm.rank = rank;
  comm.flags = kCommNccl;
  spool.communicator(comm, {});
  const size_t log = spool.add_chunk(ChunkKind::kEvents), device = spool.add_chunk(ChunkKind::kDevice);
  for (uint32_t number = 1; number <= 3; ++number) {
    const uint64_t at = kBegin + 1000 * number;
    const uint32_t context = 3 + number % 2;
    spool.append(log,
                 Record{at,
                        record_word(RecordKind::kCall,
                                    kFirstNcclOp + (number % 2 == 1 ? (turned ? 1U : 0U) : (turned ? 0U : 1U)), 50),
                        4096, 1, context, number, -1});
    spool.append(log, Record{at + 10, record_word(RecordKind::kLaunch, static_cast<uint32_t>(LaunchKind::kKernel), 5),
                             number, 1, context, number, -1});
    DeviceRecord kernel = {};
    kernel.start = at + 100;
    kernel.end = at + 300;
    kernel.what = device_what(DeviceKind::kKernel, 0, 0, 0, 0);
    kernel.cuda_context = 1;
    kernel.stream = 7;
    kernel.correlation = number;
    kernel.context = kContextOfLaunch;
    kernel.name = number % 2 == 1 ? 3 : 4;
    spool.append_device(device, kernel);
  }
  const size_t table = spool.add_chunk(ChunkKind::kProfile);
  uint32_t slot = 0;
  for (const uint32_t op :
       {static_cast<uint32_t>(ContextKind::kLayer), kFirstCounterOp, kFirstNcclOp, kFirstNcclOp + 1}) {
    for (const uint32_t context : {1U, 2U}) {
      ProfileEntry entry = {};
      entry.context = context;
      entry.op = static_cast<uint16_t>(op);
      entry.comm = op >= kFirstCallOp ? 1 : kNoComm;
      entry.histogram[0] = entry.ticks = 1 + context + op;
      entry.min_ticks = entry.max_ticks = 1;
      spool.put_profile(table, slot++, entry);
    }
  }
  spool.write(path);
}

TEST(Parts, CollectivesOfNcclAreTheSame) {
  const test::ScratchFolder folder;
  for (const int32_t rank : {0, 1})
    write_nccl_rank(folder.path() / ("n0." + std::to_string(rank + 1) + ".1.spool"), rank);
  const RunDirectory run = find_run(folder.path().string());
  const std::string one = in_one(run);
  SQLite::Database db = open_store(run.directory / "one.sqlite");
  const std::pair<const char*, int> rows[] = {
      {"nccl_collective", 6}, {"op", 2},     {"site", 2},          {"gpu_name", 2},
      {"profile", 8},         {"region", 3}, {"range_profile", 4}, {"counter_profile", 4}};
  for (const auto& [table, count] : rows)
    EXPECT_EQ(db.execAndGet(std::string("SELECT count(*) FROM ") + table).getInt(), count) << table;
  prepare_parts(run);
  for (const unsigned parts : {1U, 2U}) EXPECT_TRUE(one == in_parts(run, parts)) << parts << " parts";
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
  std::fstream(second, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(bytes / 2))
      .put('#');
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
