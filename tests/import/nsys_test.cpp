// Reports of Nsight Systems of several processes: who is which rank, which kernels of NCCL belong together, and
// what is not told.
#include <SQLiteCpp/Database.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/import/imported.h"

namespace ddl::test {
namespace {

constexpr int64_t kProcess = int64_t{1} << 24;  ///< globalPid of process n: n * kProcess
enum Name { kAllReduce = 1, kSendReceive, kGemm };

/// A report without steps, of processes of one host; times in us.
class Report {
 public:
  explicit Report(bool tells_process = true)
      : db_(folder_ / "report.sqlite", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE), tells_process_(tells_process) {
    db_.exec(fmt::format(
        "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT NOT NULL);"
        "INSERT INTO StringIds VALUES ({}, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)'),"
        " ({}, 'ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)'), ({}, 'gemm');"
        "CREATE TABLE META_DATA_CAPTURE(name TEXT, value TEXT);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,"
        " correlationId INTEGER, {}demangledName INTEGER)",
        static_cast<int>(kAllReduce), static_cast<int>(kSendReceive), static_cast<int>(kGemm),
        tells_process ? "globalPid INTEGER, " : ""));
  }

  Report& kernel(int process, int device, Name name, int64_t begin_us, int64_t end_us) {
    db_.exec(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({}, {}, {}, 1, {}, 0, {}{})", 1000 * begin_us,
                         1000 * end_us, device, name == kGemm ? 7 : 20,
                         tells_process_ ? fmt::format("{}, ", process * kProcess) : "", static_cast<int>(name)));
    return *this;
  }
  Report& variable(const std::string& name, const std::string& value) {
    db_.exec(fmt::format("INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', '{}=\"{}\"')", name,
                         value));
    return *this;
  }
  Report& sql(const std::string& text) {
    db_.exec(text);
    return *this;
  }
  std::string contents() const {
    std::ifstream file(folder_ / "report.sqlite", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  Imported imported() const { return Imported("nsys", Imported::Files{{"report.sqlite", contents()}}); }

 private:
  ScratchFolder folder_;
  SQLite::Database db_;
  bool tells_process_;
};

/// One of two ranks enters 200 us before the other, 10 times an allreduce, and the other 50 us before it, 8
/// times an exchange.
TEST(Nsys, RanksOnOneClockAreMatchedWithoutSteps) {
  Report report;
  const int late = 5, early = 4;  // processes; the late one is named first, and has GPU 1
  for (int n = 0; n < 10; ++n) {
    report.kernel(late, 1, kAllReduce, 1000 * n + 200, 1000 * n + 300);
    report.kernel(early, 0, kAllReduce, 1000 * n, 1000 * n + 300);
  }
  for (int n = 0; n < 8; ++n) {
    report.kernel(late, 1, kSendReceive, 20000 + 1000 * n, 20000 + 1000 * n + 90);
    report.kernel(early, 0, kSendReceive, 20000 + 1000 * n + 50, 20000 + 1000 * n + 90);
  }
  Imported run = report.imported();
  EXPECT_EQ(run.text("SELECT group_concat(rank || ':' || pid, ' ') FROM (SELECT rank, pid FROM process ORDER BY rank)"),
            "0:4 1:5");
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_collective WHERE op = 'ncclAllReduce' AND comm_size = 2 AND wait_ns IS NOT NULL"),
      20);
  EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM v_collective WHERE rank = 0"), 10 * 200'000);
  EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM v_collective WHERE rank = 1"), 0);
  const std::string whole =
      "SELECT wait_ns FROM gpu_part g JOIN process p ON p.id = g.process WHERE g.step IS NULL AND p.rank = ";
  EXPECT_EQ(run.integer(whole + "0"), 10 * 200'000);
  EXPECT_EQ(run.integer(whole + "1"), 8 * 50'000);
}

/// Neither leaves with the other: two communicators of one rank each, or of ranks that were not traced.
TEST(Nsys, RanksThatDoNotLeaveTogetherAreNotMatched) {
  Report report;
  for (int n = 0; n < 10; ++n) {
    report.kernel(4, 0, kAllReduce, 1000 * n, 1000 * n + 300);
    report.kernel(5, 1, kAllReduce, 1000 * n + 500, 1000 * n + 800);
  }
  Imported run = report.imported();
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective"), 0);
  EXPECT_EQ(run.integer("SELECT sum(count) FROM loss WHERE kind = 'nccl_kernels'"), 20);
  EXPECT_EQ(run.integer("SELECT count(*) FROM gpu_part WHERE wait_ns IS NOT NULL"), 0) << "0 would be a lie";
}

TEST(Nsys, RanksAreThoseOfTheLauncher) {
  const auto file = [](const char* rank) {
    return Report()
        .variable("SLURM_PROCID", "0")
        .variable("OMPI_COMM_WORLD_RANK", rank)
        .variable("OMPI_COMM_WORLD_SIZE", "3")
        .kernel(9, 0, kGemm, 0, 5)
        .contents();
  };
  Imported run("nsys", Imported::Files{{"a.sqlite", file("2")}, {"b.sqlite", file("0")}});
  EXPECT_EQ(run.text("SELECT group_concat(rank, ' ') FROM (SELECT rank FROM process ORDER BY rank)"), "0 2");
  EXPECT_EQ(run.integer("SELECT DISTINCT world_size FROM process"), 3);
  EXPECT_EQ(run.integer("SELECT count FROM loss WHERE kind = 'missing_rank'"), 1);
  // Two jobs of one rank, or a launcher that started both as one: in the order of the files.
  Imported same("nsys", Imported::Files{{"a.sqlite", file("1")}, {"b.sqlite", file("1")}});
  EXPECT_EQ(same.text("SELECT group_concat(rank, ' ') FROM (SELECT rank FROM process ORDER BY rank)"), "0 1");
}

TEST(Nsys, ExportsOf2019DoNotTellTheProcess) {
  Imported run = Report(false).kernel(0, 0, kGemm, 0, 5).imported();
  EXPECT_EQ(run.integer("SELECT sum(duration_ns) FROM v_kernel WHERE name = 'gemm'"), 5000);
  Report several(false);
  several.kernel(0, 0, kGemm, 0, 5)
      .sql(
          "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER);"
          "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (0, 1, 1 << 24, 1), (0, 1, 2 << 24, 2)");
  EXPECT_NE(import_error("nsys", several.contents(), "report.sqlite").find("does not name its process"),
            std::string::npos);
}

TEST(Nsys, WholeGraphsAndTablesThatAreNotReadAreTold) {
  Report report;
  report.kernel(4, 0, kGemm, 0, 5)
      .sql(fmt::format(
          "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start INTEGER, end INTEGER, deviceId INTEGER, graphId INTEGER, contextId INTEGER,"
          " streamId INTEGER, correlationId INTEGER, globalPid INTEGER);"
          "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (10000, 30000, 0, 109, 1, 7, 0, {0}), (40000, 60000, 0, 109, 1, 7, 0, {0});"
          "CREATE TABLE CUPTI_ACTIVITY_KIND_TELEPORT(start INTEGER, end INTEGER); INSERT INTO CUPTI_ACTIVITY_KIND_TELEPORT VALUES (1, 2)",
          4 * kProcess));
  Imported run = report.imported();
  EXPECT_EQ(run.integer("SELECT sum(duration_ns) FROM v_kernel WHERE name = '[CUDA graph 109]'"), 40000);
  EXPECT_EQ(run.integer("SELECT count FROM loss WHERE kind = 'whole_graphs'"), 2);
  EXPECT_EQ(run.text("SELECT note FROM loss WHERE kind = 'not_understood'"),
            "rows of tables that ddl does not understand: CUPTI_ACTIVITY_KIND_TELEPORT (1): left out");
}

/// What `nsys profile --trace=mpi` writes of two ranks, the first process rank 1: three times a message of 4 KiB that
/// is posted and awaited for 7.998 ms with another request, then an allreduce.
class MpiReport : public Report {
 public:
  explicit MpiReport(std::string_view process_column = "globalTid") {
    std::string rows = fmt::format(
        "BEGIN; CREATE TABLE MPI_RANKS({} INTEGER, rank INTEGER NOT NULL);"
        "CREATE TABLE MPI_P2P_EVENTS(start INTEGER NOT NULL, end INTEGER, globalTid INTEGER, textId INTEGER, commHandle INTEGER,"
        " tag INTEGER, remoteRank INTEGER, size INTEGER, requestHandle INTEGER);"
        "CREATE TABLE MPI_COLLECTIVES_EVENTS(start INTEGER NOT NULL, end INTEGER, globalTid INTEGER, textId INTEGER, commHandle INTEGER,"
        " rootRank INTEGER, size INTEGER, recvSize INTEGER, requestHandle INTEGER);"
        "CREATE TABLE MPI_START_WAIT_EVENTS(start INTEGER NOT NULL, end INTEGER, globalTid INTEGER, textId INTEGER, requestHandle INTEGER);"
        "CREATE TABLE MPI_OTHER_EVENTS(start INTEGER NOT NULL, end INTEGER, globalTid INTEGER, textId INTEGER);"
        "INSERT INTO StringIds VALUES (11, 'MPI_Isend'), (12, 'MPI_Waitall'), (13, 'MPI_Allreduce'), (14, 'MPI_Init'), (15, 'MPI_Start');",
        process_column);
    for (const int process : {1000, 1001}) {
      const int64_t pid = process * kProcess, tid = pid + process;
      rows += fmt::format("INSERT INTO MPI_RANKS VALUES ({}, {});", process_column == "globalTid" ? tid : pid,
                          1001 - process);
      rows += fmt::format("INSERT INTO MPI_OTHER_EVENTS VALUES (0, 5000000, {}, 14);", tid);
      for (int64_t at = 10'000'000; at <= 30'000'000; at += 10'000'000) {
        rows += fmt::format("INSERT INTO MPI_P2P_EVENTS VALUES ({0}, {0} + 1000, {1}, 11, 1, 7, {2}, 4096, 21);", at,
                            tid, process - 1000);
        for (const int request : {21, 22})
          rows += fmt::format("INSERT INTO MPI_START_WAIT_EVENTS VALUES ({0} + 2000, {0} + 8000000, {1}, 12, {2});", at,
                              tid, request);
        rows += fmt::format(
            "INSERT INTO MPI_COLLECTIVES_EVENTS VALUES ({0} + 8500000, {0} + 9000000, {1}, 13, 1, NULL, 8, 8, NULL);",
            at, tid);
      }
    }
    sql(rows + "COMMIT");
  }
};

constexpr const char* kCalls =
    "SELECT group_concat(op || ' ' || calls || ' ' || time_ns, ', ') FROM"
    " (SELECT op, sum(calls) AS calls, sum(time_ns) AS time_ns FROM v_call GROUP BY op ORDER BY op)";

TEST(Nsys, RanksOfMpiAreThoseOfTheirThreads) {
  for (const char* column : {"globalTid", "globalPid"}) {
    Imported run = MpiReport(column).imported();
    EXPECT_EQ(
        run.text("SELECT group_concat(rank || ':' || pid, ' ') FROM (SELECT rank, pid FROM process ORDER BY rank)"),
        "0:1001 1:1000")
        << column;
  }
  MpiReport without("globalPid");
  without.sql("UPDATE MPI_RANKS SET globalPid = NULL");
  EXPECT_NE(
      import_error("nsys", without.contents(), "report.sqlite").find("table MPI_RANKS, row 1: globalPid is missing"),
      std::string::npos);
}

TEST(Nsys, CallsThatCompleteOrBeginAreCallsToo) {
  Imported run = MpiReport().imported();
  EXPECT_EQ(run.text(kCalls), "MPI_Allreduce 6 3000000, MPI_Init 2 10000000, MPI_Isend 6 6000, MPI_Waitall 6 47988000");
  EXPECT_EQ(run.text("SELECT group_concat(name || ' ' || class, ', ') FROM (SELECT * FROM op ORDER BY name)"),
            "MPI_Allreduce all_to_all, MPI_Init lifecycle, MPI_Isend send, MPI_Waitall completion");
  EXPECT_EQ(run.integer("SELECT count(*) FROM loss"), 0);
}

/// Calls that begin at the same time on two threads, or one inside the other, are two.
TEST(Nsys, RowsOfOneCallAgreeInThreadBeginAndEnd) {
  Imported run =
      MpiReport()
          .sql(fmt::format(
              "DELETE FROM MPI_START_WAIT_EVENTS;"
              "INSERT INTO MPI_START_WAIT_EVENTS VALUES (10, 50, {0}, 12, 1), (10, 40, {0}, 15, 1), (10, 50, {1}, 12, 1),"
              " (10, 50, {0}, 12, 2)",
              1000 * kProcess + 1, 1000 * kProcess + 2))
          .imported();
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(op || ' ' || calls || ' ' || time_ns, ', ') FROM (SELECT op, sum(calls) AS calls, sum(time_ns) AS"
          " time_ns FROM v_call WHERE op IN ('MPI_Waitall', 'MPI_Start') GROUP BY op ORDER BY op)"),
      "MPI_Start 1 30, MPI_Waitall 2 80");
}

TEST(Nsys, WhatNeverEndsIsCounted) {
  Imported run =
      MpiReport()
          .sql(fmt::format(
              "UPDATE MPI_COLLECTIVES_EVENTS SET end = NULL WHERE start = 38500000;"
              "UPDATE MPI_START_WAIT_EVENTS SET end = NULL WHERE start = 30002000 AND globalTid >> 24 = 1000;"
              "CREATE TABLE NVTX_EVENTS(start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT,"
              " globalTid INTEGER, textId INTEGER);"
              "INSERT INTO NVTX_EVENTS VALUES (0, 1000, 59, 'step 0', {0}, NULL), (1000, NULL, 59, 'step 1', {0}, NULL),"
              " (1000, NULL, 60, 'conv1', {0}, NULL), (1000, NULL, 34, 'a mark', {0}, NULL)",
              1000 * kProcess + 1000))
          .imported();
  EXPECT_EQ(run.text(kCalls), "MPI_Allreduce 4 2000000, MPI_Init 2 10000000, MPI_Isend 6 6000, MPI_Waitall 5 39990000");
  EXPECT_EQ(run.integer("SELECT count(*) FROM step"), 1);
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(kind || ' ' || count || ' ' || note, '; ') FROM (SELECT * FROM loss ORDER BY count DESC)"),
      "abandoned_calls 3 calls of MPI in report.sqlite that begin and never end, as in a job that was killed inside them: they are left out; "
      "abandoned_calls 2 NVTX ranges in report.sqlite that begin and never end: they are left out");
}

TEST(Nsys, TablesOfMpiThatAreNotReadAreTold) {
  Imported run =
      MpiReport()
          .sql("CREATE TABLE MPI_TELEPORT_EVENTS(start INTEGER); INSERT INTO MPI_TELEPORT_EVENTS VALUES (1), (2)")
          .imported();
  EXPECT_EQ(run.text("SELECT note FROM loss"),
            "rows of tables that ddl does not understand: MPI_TELEPORT_EVENTS (2): left out");
}

/// `nsys profile --trace=ucx` writes calls of UCX into tables of their own.
TEST(Nsys, CallsOfUcxAreCountedAsNotRead) {
  std::string rows =
      "CREATE TABLE UCP_WORKERS(globalTid INTEGER NOT NULL, workerUid INTEGER NOT NULL); INSERT INTO UCP_WORKERS VALUES (1, 1);";
  for (const char* table : {"UCP_SUBMIT_EVENTS", "UCP_PROGRESS_EVENTS"})
    rows += fmt::format(
        "CREATE TABLE {0}(start INTEGER NOT NULL, end INTEGER, globalTid INTEGER, textId INTEGER, bufferAddr INTEGER, packedSize INTEGER,"
        " peerWorkerUid INTEGER, tag INTEGER); INSERT INTO {0} VALUES (10, 20, {1}, 11, 1, 4096, 2, 7);",
        table, 1000 * kProcess + 1000);
  rows += "CREATE TABLE UCP_EVENTS(start INTEGER NOT NULL, end INTEGER, globalTid INTEGER, textId INTEGER);";
  Imported run = MpiReport().sql(rows).imported();
  EXPECT_EQ(run.text("SELECT note FROM loss"),
            "rows of tables that ddl does not understand: UCP_PROGRESS_EVENTS (1), UCP_SUBMIT_EVENTS (1): left out");
  EXPECT_EQ(run.integer("SELECT count FROM loss"), 2);
}

}  // namespace
}  // namespace ddl::test
