// Traces of AMD's profilers, as tests/import/samples.h writes them: everything about them is known.
#include <gtest/gtest.h>

#include "tests/import/imported.h"
#include "tests/import/samples.h"

namespace ddl::test {
namespace {

/// The step that rpd_sql() tells of both processes, at `late_us` for the allreduce.
void expect_step(Imported& run, int64_t rank, int64_t late_us) {
  const std::string of = " AND rank = " + std::to_string(rank);
  EXPECT_EQ(run.integer("SELECT duration_ns FROM v_step WHERE step = 4" + of), 1'000'000);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_kernel WHERE name = 'void gemm<float>(float*)' AND step = 4 AND layer = 'conv1' AND phase = 'forward'"
          " AND duration_ns = 100000 AND launch_duration_ns = 5000 AND start_ns - launch_ns = 20000" +
          of),
      1);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_memcpy WHERE kind = 'HtoD' AND bytes = 65536 AND duration_ns = 20000 AND layer = 'conv1'" +
          of),
      1);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_memcpy WHERE kind = 'memset' AND duration_ns = 1000" + of), 1);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_kernel WHERE class = 'communication' AND duration_ns = " +
                        std::to_string(150'000 - 1000 * late_us) + of),
            1);
}

TEST(Rocm, ProcessesOfOneDatabaseOfRpdAreRanksByTheirGpus) {
  Imported run("rocm", Imported::Files{{"trace.rpd", rpd_trace()}});
  EXPECT_EQ(run.summary.ranks, 2u);
  EXPECT_EQ(run.text("SELECT group_concat(rank || ' ' || pid, ', ') FROM (SELECT * FROM process ORDER BY rank)"),
            "0 71, 1 70");
  EXPECT_EQ(run.text("SELECT group_concat(DISTINCT rank || ':' || device) FROM v_kernel ORDER BY rank"), "0:3,1:5");
  expect_step(run, 0, 0);
  expect_step(run, 1, 30);
  EXPECT_EQ(
      run.text("SELECT note FROM loss WHERE kind = 'not_understood'"),
      "activities of GPUs or rows of tables that ddl does not understand: Barrier (2), rocpd_monitor (1): left out");
}

TEST(Rocm, CollectivesOfRcclAreMatchedBetweenProcesses) {
  // Rank 1 begins its allreduce 30 us after rank 0, by one clock; both end together. Eight steps of it, as the matching
  // by order asks for.
  std::string sql = rpd_sql();
  for (int step = 1; step < 10; ++step) {
    const std::string shift = std::to_string(1'000'000LL * step), more = std::to_string(1000 * step);
    sql += "INSERT INTO rocpd_ustring VALUES (" + std::to_string(10 + step) + ", 'step " + std::to_string(4 + step) +
           "');";
    sql += "INSERT INTO rocpd_api SELECT id + " + more + ", pid, tid, start + " + shift + ", end + " + shift +
           ", apiName_id, category_id, domain_id, CASE args_id WHEN 2 THEN " + std::to_string(10 + step) +
           " ELSE args_id END FROM rocpd_api WHERE id < 1000;";
    sql += "INSERT INTO rocpd_op SELECT id + " + more + ", gpuId, queueId, sequenceId, start + " + shift + ", end + " +
           shift + ", description_id, opType_id FROM rocpd_op WHERE id < 1000;";
    sql += "INSERT INTO rocpd_api_ops(api_id, op_id) SELECT api_id + " + more + ", op_id + " + more +
           " FROM rocpd_api_ops WHERE op_id < 1000;";
  }
  Imported run("rocm", Imported::Files{{"trace.rpd", database_of(sql)}});
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_collective WHERE op = 'ncclAllReduce' AND comm_size = 2 AND algorithm = 'RING' AND protocol = 'LL'"),
      20);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE rank = 0 AND wait_ns = 30000"), 10);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE rank = 1 AND wait_ns = 0"), 10);
}

TEST(Rocm, OldDatabasesOfRpdHaveArgumentsAmongTheStrings) {
  std::string sql = rpd_sql();
  sql +=
      "DROP TABLE rocpd_ustring; UPDATE rocpd_api SET args_id = args_id + 100 WHERE apiName_id = 4;"
      "INSERT INTO rocpd_string VALUES (102, 'step 4'), (103, 'forward'), (104, 'conv1'); UPDATE rocpd_copyapi SET size = '' WHERE api_ptr_id = 105;";
  Imported run("rocm", Imported::Files{{"trace.rpd", database_of(sql)}});
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_step WHERE step = 4"), 2);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_kernel WHERE layer = 'conv1'"), 4);
  EXPECT_EQ(run.text("SELECT group_concat(coalesce(bytes, 'unknown')) FROM v_memcpy WHERE kind = 'HtoD' ORDER BY rank"),
            "unknown,65536");
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(coalesce(bytes, 'unknown') || ' ' || coalesce(bytes_per_second, 'unknown'), ', ') FROM (SELECT * FROM v_link ORDER BY rank)"),
      "unknown unknown, 65536 3276800000.0");
}

TEST(Rocm, WhatNoCallIsToldForIsOfTheOnlyProcessThatUsesTheGpu) {
  const std::string lost = "DELETE FROM rocpd_api_ops WHERE op_id IN (203, 103);";
  Imported run("rocm", Imported::Files{{"trace.rpd", database_of(rpd_sql() + lost)}});
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_kernel WHERE class = 'communication'"), 2);
  // Both on one GPU: nobody can tell.
  Imported shared(
      "rocm",
      Imported::Files{{"trace.rpd", database_of(rpd_sql() + lost +
                                                "UPDATE rocpd_op SET gpuId = 3, id = id + 1000 WHERE id IN (103, 203);"
                                                "UPDATE rocpd_op SET gpuId = 3")}});
  EXPECT_EQ(shared.integer("SELECT count(*) FROM v_kernel WHERE class = 'communication'"), 0);
  EXPECT_EQ(shared.integer("SELECT count FROM loss WHERE kind = 'gpu_unread'"), 2);
}

/// The step of rocpd_sql() and rocprofiler_json().
void expect_rank_one(Imported& run) {
  EXPECT_EQ(run.text("SELECT p.rank || ' ' || h.name || ' ' || p.pid FROM process p JOIN host h ON h.id = p.host"),
            "1 frontier1 4711");
  EXPECT_EQ(run.text("SELECT note FROM loss WHERE kind = 'missing_rank'"), "of 2 ranks without a trace: rank 0");
  EXPECT_EQ(run.integer("SELECT duration_ns FROM v_step WHERE step = 4"), 1'000'000);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_kernel WHERE name = 'void gemm<float>(float*)' AND step = 4 AND phase = 'forward' AND device = 2"
          " AND stream = 4 AND duration_ns = 100000 AND launch_duration_ns = 5000 AND start_ns - launch_ns = 20000"),
      1);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_memcpy WHERE kind = 'HtoD' AND bytes = 65536 AND duration_ns = 20000 AND device = 2 AND stream = 4"
          " AND start_ns - launch_ns = 2000"),
      1);
  EXPECT_EQ(run.text("SELECT name FROM gpu WHERE device = 2"), "AMD Instinct MI250X");
  // The name of the kernel does not tell what it carries out; the call of RCCL around its launch does.
  EXPECT_EQ(run.text("SELECT op || ' ' || duration_ns || ' ' || why FROM v_collective"),
            "ncclAllGather 150000 PARTIAL_RANKS");
  EXPECT_EQ(run.integer("SELECT count(*) FROM gpu_event"), 3);
}

TEST(Rocm, DatabaseOfRocprofBecomesARun) {
  for (const int schema : {3, 4}) {
    SCOPED_TRACE(schema);
    Imported run("rocm", Imported::Files{{"results.db", rocpd_trace(schema)}});
    expect_rank_one(run);
    EXPECT_EQ(run.text("SELECT note FROM loss WHERE kind = 'not_understood'"),
              "activities of GPUs or rows of tables that ddl does not understand: rocpd_pmc_event (1): left out");
  }
}

TEST(Rocm, JsonOfRocprofBecomesTheSameRun) {
  Imported run("rocm", Imported::Files{{"results.json", rocprofiler_json()}});
  expect_rank_one(run);
  EXPECT_EQ(
      run.text("SELECT note FROM loss WHERE kind = 'not_understood'"),
      "activities of GPUs or rows of tables that ddl does not understand: counter_collection (1), scratch_memory (1): left out");
}

TEST(Rocm, FilesOfOneJobBecomeItsRanks) {
  std::string other = rocpd_sql(3);
  for (size_t at = 0; (at = other.find("\"SLURM_PROCID\": \"1\"", at)) != std::string::npos;)
    other.replace(at, 19, "\"SLURM_PROCID\": \"0\"");
  Imported run("rocm", Imported::Files{{"a_results.db", rocpd_trace(3)}, {"b_results.db", database_of(other)}});
  EXPECT_EQ(run.text("SELECT group_concat(rank || ' ' || spool, ', ') FROM (SELECT * FROM process ORDER BY rank)"),
            "0 b_results.db, 1 a_results.db");
  EXPECT_EQ(run.text("SELECT method FROM host"), "single-host") << "both are of frontier1";
}

TEST(Rocm, RefusesWhatIsNoTraceOfIts) {
  EXPECT_NE(import_error("rocm", "hello", "x.db").find("x.db, byte 0: invalid JSON"), std::string::npos);
  EXPECT_NE(import_error("rocm", R"({"traceEvents": []})", "x.json").find("x.json, byte 0: neither JSON of rocprofv3"),
            std::string::npos);
  EXPECT_NE(import_error("rocm", nsys_report(), "x.sqlite").find("no table rocpd_op or rocpd_kernel_dispatch"),
            std::string::npos);
  EXPECT_NE(import_error("rocm", "SQLite format 3 and nothing else", "x.db").find("x.db, byte 0: "), std::string::npos);
  std::string cut = rocprofiler_json();
  cut.resize(cut.size() / 2);
  EXPECT_NE(import_error("rocm", cut, "x.json").find("the file ends in the middle"), std::string::npos);
  std::string text = rocprofiler_json();
  text.replace(text.find("7000000030000"), 13, "\"yesterday\"");
  EXPECT_NE(import_error("rocm", text, "x.json").find("start_timestamp is \"yesterday\", which is not a whole number"),
            std::string::npos);
  EXPECT_NE(import_error("rocm", database_of(rpd_sql() + "UPDATE rocpd_op SET start = 'soon' WHERE id = 101"), "x.rpd")
                .find("x.rpd, table rocpd_op, row 101: start is not a whole number"),
            std::string::npos);
  EXPECT_NE(import_error("rocm", database_of(rpd_sql() + "UPDATE rocpd_api SET start = 9223372036854775807"), "x.rpd")
                .find("its time is out of range"),
            std::string::npos);
}

}  // namespace
}  // namespace ddl::test
