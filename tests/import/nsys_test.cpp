// Reports of Nsight Systems of several processes: who is which rank, which kernels of NCCL belong together, and what is not told.
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
        static_cast<int>(kAllReduce), static_cast<int>(kSendReceive), static_cast<int>(kGemm), tells_process ? "globalPid INTEGER, " : ""));
  }

  Report& kernel(int process, int device, Name name, int64_t begin_us, int64_t end_us) {
    db_.exec(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({}, {}, {}, 1, {}, 0, {}{})", 1000 * begin_us, 1000 * end_us,
                         device, name == kGemm ? 7 : 20, tells_process_ ? fmt::format("{}, ", process * kProcess) : "",
                         static_cast<int>(name)));
    return *this;
  }
  Report& variable(const std::string& name, const std::string& value) {
    db_.exec(fmt::format("INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', '{}=\"{}\"')", name, value));
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

/// One of two ranks enters 200 us before the other, 10 times an allreduce, and the other 50 us before it, 8 times an exchange.
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
  EXPECT_EQ(run.text("SELECT group_concat(rank || ':' || pid, ' ') FROM (SELECT rank, pid FROM process ORDER BY rank)"), "0:4 1:5");
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE op = 'ncclAllReduce' AND comm_size = 2 AND wait_ns IS NOT NULL"), 20);
  EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM v_collective WHERE rank = 0"), 10 * 200'000);
  EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM v_collective WHERE rank = 1"), 0);
  const std::string whole = "SELECT wait_ns FROM gpu_part g JOIN process p ON p.id = g.process WHERE g.step IS NULL AND p.rank = ";
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
  EXPECT_NE(import_error("nsys", several.contents(), "report.sqlite").find("does not name its process"), std::string::npos);
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

}  // namespace
}  // namespace ddl::test
