// Traces of the other formats, as tests/import/samples.h writes them: everything about them is known.
#include <gtest/gtest.h>

#include "tests/import/imported.h"
#include "tests/import/samples.h"

namespace ddl::test {
namespace {

TEST(Nsys, ReportBecomesARun) {
  Imported run("nsys", Imported::Files{{"report.sqlite", nsys_report()}});
  EXPECT_EQ(run.text("SELECT rank || host FROM v_rank"), "1node7");
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'epoch_realtime_ns'"), "1700000000000001000");
  EXPECT_EQ(run.integer("SELECT duration_ns FROM v_step WHERE step = 1"), 899000);
  EXPECT_EQ(run.text("SELECT name FROM thread"), "main thread");
  // conv1 lies in forward lies in the step; the kernel was launched there.
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_kernel WHERE name = 'void gemm<float>(float*)' AND layer = 'conv1' AND phase = 'forward' AND step = 1"
          " AND start_ns = 19000 AND duration_ns = 100000 AND launch_ns = 3000 AND launch_duration_ns = 5000"),
      1);
  EXPECT_EQ(
      run.integer("SELECT count(*) FROM v_memcpy WHERE kind = 'HtoD' AND source = 'pinned' AND destination = 'device' AND bytes = 65536"),
      1);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_memcpy WHERE kind = 'memset' AND bytes = 64"), 1);
  EXPECT_EQ(run.text("SELECT name FROM gpu"), "NVIDIA H100");
  EXPECT_EQ(run.integer("SELECT sum(time_ns) FROM v_call WHERE op = 'MPI_Allreduce' AND bytes = 4096"), 100000);
  EXPECT_EQ(run.integer("SELECT exposed_ns FROM v_step"), 110000);
}

TEST(Nsys, NamesTableAndRow) {
  std::string report = nsys_report();
  const ScratchFolder folder;
  const auto path = folder / "report.sqlite";
  std::ofstream(path, std::ios::binary) << report;
  SQLite::Database(path, SQLite::OPEN_READWRITE).exec("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon'");
  try {
    Imported run("nsys", {path});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("report.sqlite, table CUPTI_ACTIVITY_KIND_KERNEL, row 1: start is no whole number"),
              std::string::npos)
        << error.what();
  }
  EXPECT_NE(
      import_error("nsys", "not a database at all, not a database at all, not a database at all, not a database at all, not a database",
                   "x.sqlite")
          .find("x.sqlite, byte 0: "),
      std::string::npos);
}

TEST(Horovod, RanksWaitForTheLastOneThatIsReady) {
  Imported run("horovod", Imported::Files{{"timeline.json", horovod_timeline()}});
  EXPECT_EQ(run.summary.ranks, 3u);
  SQLite::Statement rows(run.db,
                         "SELECT wait_ns, duration_ns, bytes, layer, wait_method FROM v_collective WHERE op = 'ALLREDUCE' ORDER BY rank");
  const int64_t waits_us[] = {400, 0, 300}, durations_us[] = {610, 210, 510};
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(rows.executeStep());
    EXPECT_EQ(rows.getColumn(0).getInt64(), waits_us[rank] * 1000) << rank;
    EXPECT_EQ(rows.getColumn(1).getInt64(), durations_us[rank] * 1000) << rank;
    EXPECT_EQ(rows.getColumn(2).getInt64(), 1200);
    EXPECT_EQ(rows.getColumn(3).getString(), "DistributedOptimizer/grad_1");
    EXPECT_EQ(rows.getColumn(4).getString(), "max-post");  // posted and done later: no bandwidth
  }
  EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM blame WHERE late = 1"), 700000);
  EXPECT_EQ(run.text("SELECT group_concat(DISTINCT why) FROM v_collective WHERE op = 'BROADCAST'"), "PARTIAL_RANKS");
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'epoch_realtime_ns'"), "1700000000001000000");
}

TEST(Horovod, TakesATimelineThatIsStillWritten) {
  std::string timeline = horovod_timeline();
  timeline.pop_back();  // the bracket
  timeline +=
      ",\n"
      R"({"ph": "B", "name": "ALLREDUCE", "ts": 2000, "pid": 1},)";
  Imported run("horovod", Imported::Files{{"timeline.json", timeline}});
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE op = 'ALLREDUCE'"), 3);
  EXPECT_EQ(run.integer("SELECT count FROM loss WHERE kind = 'abandoned_calls'"), 1);
}

TEST(NcclInspector, ShortestMemberTellsTheTransfer) {
  Imported run("nccl-inspector", Imported::Files{{"b.log", inspector_log(1, 9)}, {"a.log", inspector_log(0, 9)}});
  EXPECT_EQ(run.summary.ranks, 2u);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE op = 'ncclAllReduce' AND wait_method = 'min-duration' AND bytes = 4096 "
                        "AND source = 'profiler'"
                        " AND comm_size = 2 AND wait_ns = iif(rank = 0, 500000, 0) AND xfer_ns = 400000"),
            6);
  EXPECT_EQ(
      run.integer("SELECT count(*) FROM v_collective WHERE op = 'ncclAllGather' AND bytes = 8192 AND payload_bytes = 4096 AND wait_ns = 0"),
      6);
  EXPECT_EQ(run.text("SELECT host FROM v_rank WHERE rank = 1"), "node1");
}

TEST(NcclInspector, ProcessesWithSeveralGpus) {
  // Both ranks in one process of one host.
  std::string second = inspector_log(1, 9);
  for (size_t at = 0; (at = second.find("node1", at)) != std::string::npos;) second[at + 4] = '0';
  Imported run("nccl-inspector", Imported::Files{{"a.log", inspector_log(0, 9) + second}});
  EXPECT_EQ(run.summary.ranks, 2u);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE wait_ns IS NOT NULL"), 12);
}

TEST(Chrome, RanksOfOneFile) {
  Imported run("chrome", Imported::Files{{"trace.json", chrome_trace()}});
  EXPECT_EQ(run.text("SELECT group_concat(rank || '=' || pid) FROM v_rank"), "0=6,1=7");
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_step WHERE rank = 1 AND step = 4 AND duration_ns = 119500"), 1);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_kernel WHERE name = 'gemm' AND layer = 'conv1' AND step = 4"), 1);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE op = 'MPI_Allreduce' AND bytes = 4000 AND comm = 'MPI_COMM_WORLD' AND "
                        "wait_ns = iif(rank = 1, 10000, 0)"),
            2);
  EXPECT_EQ(run.integer("SELECT exposed_ns FROM v_step"), 31000);
}

TEST(PipeDream, LayersForwardAndBackward) {
  Imported run("pipedream", Imported::Files{{"profile.csv", layers_csv()}});
  EXPECT_EQ(run.integer("SELECT duration_ns FROM v_step"), 17972000 + 22307000 + 24613000 + 4446000 + 5553000);
  EXPECT_EQ(run.integer("SELECT compute_ns FROM v_layer WHERE layer = '2 Conv2d(3, 64, \"same\")' AND phase = 'backward'"), 24613000);
  EXPECT_EQ(run.integer("SELECT compute_ns FROM v_layer WHERE layer = '3 ReLU' AND phase = 'forward'"), 4446000);
}

TEST(PipeDream, WhatIfOperations) {
  Imported run("pipedream", Imported::Files{{"trace.csv", what_if_csv()}});
  EXPECT_EQ(run.summary.ranks, 4u);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_step WHERE duration_ns = 310000000"), 8);
  // Rank 0 (stage 0, replica 0) waits 10 ms for rank 1.
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE op = 'grads-reduce-scatter' AND comm = 'replicas of stage 0' AND wait_ns "
                        "= iif(rank = 0, 10000000, 0)"),
            4);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_message WHERE source + 2 = destination AND late_sender_wait_ns = 50000000"), 4);
  EXPECT_EQ(run.integer("SELECT sum(time_ns) FROM range_profile f JOIN region r ON r.id = f.region WHERE r.layer = 'forward-compute' AND "
                        "r.kind = 'layer'"),
            2 * (50 + 60) * 1000000);
}

TEST(PipeDream, NamesTheRow) {
  EXPECT_NE(
      import_error("pipedream", "op,fwd_ms,bwd_ms\na,1,x\n", "p.csv").find("p.csv, byte 17: bwd_ms is \"x\", which is no number that fits"),
      std::string::npos);
  EXPECT_NE(import_error("pipedream", "op,fwd_ms,bwd_ms\na,1\n", "p.csv").find("p.csv, byte 17: a row of 2 fields below a header of 3"),
            std::string::npos);
  EXPECT_NE(import_error("pipedream", "a,b\n1,2\n", "p.csv").find("p.csv, byte 0: neither a column optype"), std::string::npos);
}

}  // namespace
}  // namespace ddl::test
