// Traces of the other formats, as tests/import/samples.h writes them: everything about them is known.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>

#include "analyzer/models/replay_imported.h"
#include "analyzer/models/what_if.h"
#include "tests/import/imported.h"
#include "tests/import/samples.h"

namespace ddl::test {
namespace {

TEST(ImportFolders, HoldFilesOfTheFormatAndOthers) {
  for (const Sample& sample : samples()) {
    if (sample.file == "results4.sqlite") continue;  // rocprofv3 names its own .db
    SCOPED_TRACE(sample.file);
    const ScratchFolder folder;
    for (const char* const other : {"README.md", "events.out.tfevents.1"})
      std::ofstream(folder / other) << "not a trace";
    std::ofstream(folder / sample.file, std::ios::binary) << sample.contents;
    Imported by_folder(sample.format, std::vector<std::filesystem::path>{folder.path()});
    Imported by_name(sample.format, std::vector<std::filesystem::path>{folder / sample.file});
    EXPECT_EQ(by_folder.summary.events, by_name.summary.events);
    EXPECT_EQ(by_folder.integer("SELECT count(*) FROM process"), by_name.integer("SELECT count(*) FROM process"));
  }
}

TEST(ImportFolders, WithoutFilesOfTheFormatAreRefused) {
  const ScratchFolder folder;
  std::ofstream(folder / "trace.csv") << "not JSON";
  try {
    Imported run("kineto", std::vector<std::filesystem::path>{folder.path()});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), folder.path().string() + ": a folder without files of kineto: .json .json.gz");
    EXPECT_EQ(error.hint(), "name the files, e.g. ddl import kineto worker*.pt.trace.json.gz");
  }
}

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
      run.integer(
          "SELECT count(*) FROM v_memcpy WHERE kind = 'HtoD' AND source = 'pinned' AND destination = 'device' AND bytes = 65536"),
      1);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_memcpy WHERE kind = 'memset' AND bytes = 64"), 1);
  EXPECT_EQ(run.text("SELECT name FROM gpu"), "NVIDIA H100");
  EXPECT_EQ(run.integer("SELECT sum(time_ns) FROM v_call WHERE op = 'MPI_Allreduce' AND bytes = 4096"), 100000);
  EXPECT_EQ(run.text("SELECT op || calls || ' ' || time_ns FROM v_call WHERE op = 'MPI_Waitall'"), "MPI_Waitall1 20000")
      << "of one call, two requests";
  EXPECT_EQ(run.text("SELECT class || duration_ns FROM op JOIN event ON op = op.id WHERE name = 'MPI_Finalize'"),
            "lifecycle40000");
  EXPECT_EQ(run.integer("SELECT exposed_ns FROM v_step"), 130000);
}

/// The sample after some SQL.
std::filesystem::path changed_report(const ScratchFolder& folder, const std::string& sql) {
  const auto path = folder / "report.sqlite";
  std::ofstream(path, std::ios::binary) << nsys_report();
  SQLite::Database(path, SQLite::OPEN_READWRITE).exec(sql);
  return path;
}

TEST(Nsys, CallsAreOfTheClassOfTheirNames) {
  const ScratchFolder folder;
  std::string sql =
      "INSERT INTO MPI_COLLECTIVES_EVENTS SELECT 520000, 520010, globalTid, 2, 1 FROM ThreadNames; DELETE FROM MPI_P2P_EVENTS;";
  const std::vector<std::array<std::string, 3>> calls = {
      {"MPI_Iallreduce", "all_to_all", "1"},     {"MPI_Scan", "scan", "0"},
      {"MPI_Reduce_scatter", "all_to_all", "0"}, {"MPI_Gather", "all_to_root", "0"},
      {"MPI_Iscatterv", "root_to_all", "1"},     {"MPI_Ineighbor_alltoall", "neighbor", "1"},
      {"MPI_Sendrecv", "send_receive", "0"},     {"MPI_Irecv", "receive", "1"},
      {"MPI_Waitall", "completion", "0"}};
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string id = std::to_string(100 + i), start = std::to_string(600000 + 100 * i),
                      end = std::to_string(600050 + 100 * i);
    sql += "INSERT INTO StringIds VALUES (" + id + ", '" + calls[i][0] + "');";
    sql += i < 6 ? "INSERT INTO MPI_COLLECTIVES_EVENTS SELECT " + start + ", " + end + ", globalTid, " + id +
                       ", 8 FROM ThreadNames;"
                 : "INSERT INTO MPI_P2P_EVENTS SELECT " + start + ", " + end + ", globalTid, " + id +
                       ", 8, 1, 0 FROM ThreadNames;";
  }
  Imported run("nsys", {changed_report(folder, sql)});
  for (const auto& [name, op_class, nonblocking] : calls)
    EXPECT_EQ(run.text("SELECT class || nonblocking FROM op WHERE name = '" + name + "'"), op_class + nonblocking)
        << name;
}

TEST(Nsys, RefusesTimesBeyondReason) {
  for (const char* sql :
       {"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = -9223372036854775807, end = -9223372036854775000",
        "UPDATE NVTX_EVENTS SET start = 9223372036854775000, end = 9223372036854775807",
        "UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = 9223372036854775807"}) {
    const ScratchFolder folder;
    const auto path = changed_report(folder, sql);
    try {
      Imported run("nsys", {path});
      FAIL() << sql;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("its time is out of range"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("report.sqlite, table "), std::string::npos) << error.what();
    }
  }
}

TEST(Nsys, NamesTableAndRow) {
  const ScratchFolder folder;
  const auto path = changed_report(folder, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon'");
  try {
    Imported run("nsys", {path});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("report.sqlite, table CUPTI_ACTIVITY_KIND_KERNEL, row 1: start is not a whole number"),
              std::string::npos)
        << error.what();
  }
  EXPECT_NE(
      import_error(
          "nsys",
          "not a database at all, not a database at all, not a database at all, not a database at all, not a database",
          "x.sqlite")
          .find("x.sqlite, byte 0: "),
      std::string::npos);
}

TEST(Horovod, RanksWaitForTheLastOneThatIsReady) {
  Imported run("horovod", Imported::Files{{"timeline.json", horovod_timeline()}});
  EXPECT_EQ(run.summary.ranks, 3u);
  SQLite::Statement rows(
      run.db,
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
  EXPECT_EQ(run.text("SELECT kind FROM communicator"), "intra");
  EXPECT_EQ(run.text("SELECT group_concat(DISTINCT why) FROM v_collective WHERE op = 'BROADCAST'"), "PARTIAL_RANKS");
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'epoch_realtime_ns'"), "1700000000001000000");
}

TEST(Horovod, AFusedBatchIsOneOperation) {
  Imported run("horovod", Imported::Files{{"timeline.json", horovod_steps(20, false)}});
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE rank = 0"), 40);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE layer = 'c and 1 more' AND payload_bytes = 300 AND"
                        " duration_ns = iif(rank = 0, 20500000, 500000) AND wait_ns = iif(rank = 0, 20000000, 0)"),
            40);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE layer = 'a' AND payload_bytes = 400"), 40);
  EXPECT_EQ(run.integer("SELECT sum(calls) FROM v_call WHERE op = 'ALLREDUCE' AND rank = 0 AND bytes = 20 * 700"), 40);
  EXPECT_EQ(
      run.integer("SELECT sum(calls) FROM v_call WHERE op = 'MPI_ALLREDUCE' AND time_ns = 40 * 5000 AND bytes IS NULL"),
      40);
}

TEST(Horovod, AStepEndsWhereATensorComesBack) {
  Imported run("horovod", Imported::Files{{"timeline.json", horovod_steps(20, false)}});
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_step WHERE duration_ns = iif(step = 0, 21400000, 30000000)"), 40);
  // Rank 0 hands over its last tensor 6 ms after the step began for it, and waits until rank 1 has.
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_step WHERE rank = 0 AND step > 0 AND compute_ns = 9600000 AND exposed_ns = 20400000"
          " AND wait_ns = 20000000 AND xfer_ns = 400000"),
      19);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_step WHERE rank = 1 AND step > 0 AND compute_ns = 29600000 AND exposed_ns = 400000"
          " AND wait_ns = 0"),
      19);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_layer WHERE compute_ns != 0"), 0)
      << "what a tensor's reduction takes is not computing";
  EXPECT_EQ(run.integer("SELECT sum(exposed_ns) FROM v_layer WHERE layer = 'c and 1 more'"), 20 * 19500000);
  EXPECT_EQ(run.integer("SELECT sum(calls) FROM v_layer WHERE layer = 'c and 1 more'"), 40);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM finding WHERE id = 'straggler' AND rank = 1 AND saving_ns BETWEEN 19000000 AND 21000000"),
      1);
}

TEST(Horovod, StepsAreRankZerosWhereTheCacheAnswers) {
  Imported run("horovod", Imported::Files{{"timeline.json", horovod_steps(20, true)}});
  EXPECT_EQ(
      run.integer("SELECT count(*) FROM v_step WHERE rank = 0 AND duration_ns = iif(step = 0, 21400000, 30000000)"),
      20);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_step WHERE rank = 1"), 0);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_step WHERE step > 0 AND exposed_ns = 20400000 AND wait_ns IS NULL"),
            19);
  EXPECT_EQ(run.integer("SELECT count FROM loss WHERE kind = 'negotiations'"), 38);
  EXPECT_EQ(run.text("SELECT group_concat(DISTINCT why) FROM v_collective WHERE step > 0"), "PARTIAL_RANKS");
  EXPECT_EQ(run.integer("SELECT count(*) FROM finding"), 0);
}

TEST(Horovod, ABatchBeginsWithItsFirstActivity) {
  // A second batch begins before a thread that waits for the GPU tells the first activity of the first one.
  Imported run("horovod", Imported::Files{{"timeline.json", R"([
{"ph": "B", "name": "ALLREDUCE", "ts": 100, "pid": 1}, {"ph": "B", "name": "ALLREDUCE", "ts": 100, "pid": 2},
{"ph": "B", "name": "ALLREDUCE", "ts": 110, "pid": 3}, {"ph": "B", "name": "ALLREDUCE", "ts": 110, "pid": 4},
{"ph": "B", "name": "QUEUE", "ts": 120, "pid": 1}, {"ph": "B", "name": "QUEUE", "ts": 120, "pid": 2},
{"ph": "E", "ts": 130, "pid": 1}, {"ph": "E", "ts": 130, "pid": 2},
{"ph": "E", "ts": 140, "pid": 1, "args": {"dtype": "float16", "shape": "[8]"}},
{"ph": "E", "ts": 140, "pid": 2, "args": {"dtype": "float16", "shape": "[2]"}},
{"ph": "B", "name": "QUEUE", "ts": 150, "pid": 3}, {"ph": "B", "name": "QUEUE", "ts": 150, "pid": 4},
{"ph": "E", "ts": 160, "pid": 3}, {"ph": "E", "ts": 160, "pid": 4},
{"ph": "E", "ts": 170, "pid": 3, "args": {"dtype": "float16", "shape": "[4]"}},
{"ph": "E", "ts": 170, "pid": 4, "args": {"dtype": "float16", "shape": "[4]"}}])"}});
  EXPECT_EQ(run.text("SELECT group_concat(layer || ' ' || payload_bytes, ', ') FROM v_collective"),
            "1 and 1 more 20, 3 and 1 more 16");
}

TEST(Horovod, BytesOfBroadcastsAreNotKnownWithoutAShape) {
  Imported run("horovod", Imported::Files{{"timeline.json", R"([
{"ph": "B", "name": "BROADCAST", "ts": 100, "pid": 1},
{"ph": "B", "name": "MPI_BCAST", "ts": 101, "pid": 1},
{"ph": "E", "ts": 108, "pid": 1},
{"ph": "E", "ts": 110, "pid": 1}])"}});
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_call WHERE op = 'BROADCAST' AND calls = 1 AND bytes IS NULL"), 1);
  EXPECT_EQ(run.integer(
                "SELECT count(*) FROM v_collective WHERE op = 'BROADCAST' AND payload_bytes IS NULL AND bytes IS NULL"),
            1);
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
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_collective WHERE op = 'ncclAllReduce' AND wait_method = 'min-duration' AND bytes = 4096"
          " AND source = 'profiler' AND comm_size = 2 AND wait_ns = iif(rank = 0, 500000, 0) AND xfer_ns = 400000"),
      6);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_collective WHERE op = 'ncclAllGather' AND bytes = 16384 AND payload_bytes = 8192 AND wait_ns = 0"),
      6);
  EXPECT_EQ(run.text("SELECT host FROM v_rank WHERE rank = 1"), "node1");
}

/// Bandwidths that Inspector printed itself (specification.md G-D): its sizes are those of one rank, and of AllGather
/// and ReduceScatter it multiplies them by the ranks. The others print nothing, or are not in its documents.
TEST(NcclInspector, BandwidthsAreThoseThatItPrints) {
  struct Printed {
    const char* name;
    int ranks;
    int64_t bytes, us;
    double algbw, busbw;  // GB/s
  };
  const Printed printed[] = {{"ReduceScatter", 32, 65536, 110, 19.065018, 18.469236},
                             {"ReduceScatter", 8, 2147483648, 41057, 418.439467, 366.134533},
                             // by the same lines of its source
                             {"AllGather", 8, 2147483648, 41057, 418.439467, 366.134533},
                             {"AllReduce", 8, 17179869184, 61974, 277.210914, 485.119099}};
  for (const Printed& p : printed) {
    SCOPED_TRACE(std::string(p.name) + " of " + std::to_string(p.ranks));
    const auto log_of = [&](int rank) {
      return R"({"header": {"id": "0x1", "rank": )" + std::to_string(rank) + R"(, "n_ranks": )" +
             std::to_string(p.ranks) + R"(}, "metadata": {"hostname": "a", "pid": )" + std::to_string(100 + rank) +
             R"(, "dump_timestamp_us": 1748030377748202}, "coll_perf": {"coll": ")" + p.name +
             R"(", "coll_sn": 1, "coll_msg_size_bytes": )" + std::to_string(p.bytes) + R"(, "coll_exec_time_us": )" +
             std::to_string(p.us) + "}}\n";
    };
    Imported::Files files;
    for (int rank = 0; rank < p.ranks; ++rank) files.push_back({std::to_string(rank) + ".log", log_of(rank)});
    Imported all("nccl-inspector", files);
    EXPECT_NEAR(all.real("SELECT algbw_bytes_per_second / 1e9 FROM collective_group"), p.algbw, 1e-6);
    EXPECT_NEAR(all.real("SELECT busbw_raw / 1e9 FROM collective_group"), p.busbw, 1e-6);
    EXPECT_NEAR(all.real("SELECT busbw_xfer / 1e9 FROM collective_group"), p.busbw, 1e-6) << "nobody waited";
    Imported one("nccl-inspector", Imported::Files{{"7.log", log_of(7)}});
    EXPECT_NEAR(one.real("SELECT busbw_raw / 1e9 FROM collective_group"), p.busbw, 1e-6) << "one rank is enough";
    EXPECT_EQ(
        one.integer(
            "SELECT count(*) FROM collective_group WHERE busbw_xfer IS NULL AND busbw_max IS NULL AND why = 'PARTIAL_RANKS'"),
        1);
  }
}

/// From 4.3 on a line with dump_stats tells who wrote the lines after it, in its file: the same operations as of 4.0,
/// and what was lost.
TEST(NcclInspector, LinesBelongToTheMarkerBeforeThem) {
  const auto marker = [](int rank, const std::string& comm, int records, int dropped, int64_t us) {
    return R"({"header": {"id": ")" + comm + R"(", "rank": )" + std::to_string(rank) +
           R"(, "n_ranks": 2, "nnodes": 1}, "metadata": {"inspector_output_format_version": "v4.3", "dump_timestamp_us": )" +
           std::to_string(us) + R"(, "hostname": "node)" + std::to_string(rank) +
           R"(", "pid": 9}, "dump_stats": {"coll_records": )" + std::to_string(records) +
           R"(, "coll_dropped_total": 70, "coll_dropped_since_last_dump": )" + std::to_string(dropped) +
           R"(, "p2p_records": 1, "p2p_dropped_since_last_dump": 2, "proxy_records": 1}})"
           "\n";
  };
  const auto collective = [](int number, int us) {
    return R"({"coll_perf": {"coll": "AllReduce", "coll_algo": "RING", "coll_proto": "LL", "coll_sn": )" +
           std::to_string(number) + R"(, "coll_msg_size_bytes": 4096, "coll_exec_time_us": )" + std::to_string(us) +
           "}}\n";
  };
  const auto log = [&](int rank) {
    const int us = rank == 0 ? 900 : 400;
    return marker(rank, "0x1", 2, 3, 1748030377748202) + collective(0, us) + collective(1, us) +
           R"({"p2p_perf": {"p2p": "Send", "p2p_sn": 4}})"
           "\n"
           R"({"proxy_trace": {"record_type": "proxy_step", "record_sn": 41, "parent_type": "coll", "parent_sn": 1, "direction": "send",)"
           R"( "event_trace_ts": {"send_gpu_wait_ts": 1748030377748100}}})"
           "\n" +
           marker(rank, "0x2", 1, 4, 1748030377758202) + collective(0, us / 2) +
           marker(rank, "0x2", 0, 0, 1748030377768202);
  };
  Imported run("nccl-inspector", Imported::Files{{"0.log", log(0)}, {"1.log", log(1)}});
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE op = 'ncclAllReduce' AND comm_size = 2"), 6);
  EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM v_collective WHERE rank = 0"), 500'000 + 500'000 + 250'000);
  EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM v_collective WHERE rank = 1"), 0);
  EXPECT_EQ(run.integer("SELECT count(DISTINCT comm) FROM v_collective"), 2);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM nccl_collective WHERE algorithm = 'RING' AND protocol = 'LL' AND source = 'profiler'"),
      6);
  EXPECT_EQ(run.integer("SELECT sum(count) FROM loss WHERE kind = 'nccl_dropped'"), 2 * (3 + 2 + 4 + 2 + 0 + 2));
  EXPECT_EQ(run.integer("SELECT sum(count) FROM loss WHERE kind = 'nccl_proxies'"), 2);
  EXPECT_EQ(run.integer("SELECT sum(count) FROM loss WHERE kind = 'nccl_kernels'"), 2) << "the messages";
  EXPECT_NE(import_error("nccl-inspector", collective(0, 9)).find("a line without header.id"), std::string::npos);
}

TEST(NcclInspector, SizesThatDoNotFitAreRefused) {
  const std::string line =
      R"({"header": {"id": "0x1", "rank": 0, "n_ranks": 16777216}, "metadata": {"hostname": "a", "pid": 1, "dump_timestamp_us": 1748030377748202},)"
      R"( "coll_perf": {"coll": "ReduceScatter", "coll_sn": 1, "coll_msg_size_bytes": 1099511627776, "coll_exec_time_us": 9}})";
  EXPECT_NE(import_error("nccl-inspector", line).find("coll_msg_size_bytes is out of range"), std::string::npos);
}

TEST(NcclInspector, ProcessesWithSeveralGpus) {
  // Both ranks in one process of one host.
  std::string second = inspector_log(1, 9);
  for (size_t at = 0; (at = second.find("node1", at)) != std::string::npos;) second[at + 4] = '0';
  Imported run("nccl-inspector", Imported::Files{{"a.log", inspector_log(0, 9) + second}});
  EXPECT_EQ(run.summary.ranks, 2u);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE wait_ns IS NOT NULL"), 12);
}

/// Tensor and data parallelism of two, and no communicator of all four: which rank each is nobody tells. Rank 3, by the
/// numbers here, is always last.
TEST(NcclInspector, RanksThatNobodyTellsAreNumberedAndCounted) {
  struct Process {
    const char* host;
    int pid, tensor, data;  // communicators; its rank in one is the number of the other
  };
  const Process processes[] = {{"z", 200, 0, 0}, {"z", 201, 0, 1}, {"a", 100, 1, 0}, {"a", 101, 1, 1}};
  Imported::Files files;
  for (const Process& p : processes) {
    std::string log;
    for (const bool tensor : {true, false})
      for (int k = 1; k <= 3; ++k)
        log += fmt::format(
            R"({{"header": {{"id": "{}", "rank": {}, "n_ranks": 2}}, "metadata": {{"hostname": "{}", "pid": {}, "dump_timestamp_us": {}}}, )"
            R"("coll_perf": {{"coll": "AllReduce", "coll_sn": {}, "coll_msg_size_bytes": 4096, "coll_exec_time_us": {}}}}})"
            "\n",
            tensor ? fmt::format("tensor{}", p.tensor) : fmt::format("data{}", p.data), tensor ? p.data : p.tensor,
            p.host, p.pid, 1748030377748202 + 1000 * k, k, p.pid == 101 ? 50 : 500);
    files.push_back({fmt::format("{}.log", p.pid), log});
  }
  Imported run("nccl-inspector", files);
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(rank || ' ' || host || ' ' || pid, ', ') FROM (SELECT * FROM v_rank ORDER BY rank)"),
      "0 a 100, 1 a 101, 2 z 200, 3 z 201");
  EXPECT_EQ(
      run.text("SELECT kind || ' ' || count || ' ' || note FROM loss"),
      "inspector_ranks 4 processes whose rank in the job Inspector does not tell, since no communicator has all of them: numbered by host and "
      "process id");
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(label || ' ' || rank, ', ') FROM (SELECT label, rank FROM communicator c JOIN communicator_member m"
          " ON m.communicator = c.id ORDER BY label, comm_rank)"),
      "data0 2, data0 0, data1 3, data1 1, tensor0 2, tensor0 3, tensor1 0, tensor1 1");
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(comm || ' ' || rank || ' ' || wait_us, ', ') FROM (SELECT comm, rank, sum(wait_ns) / 1000 AS wait_us"
          " FROM v_collective GROUP BY comm, rank HAVING wait_us > 0 ORDER BY comm, rank)"),
      "data1 3 1350, tensor1 0 1350");

  // One of all four, however small its part: its ranks are the job's.
  for (size_t i = 0; i < 4; ++i)
    files[i].second += fmt::format(
        R"({{"header": {{"id": "all", "rank": {}, "n_ranks": 4}}, "metadata": {{"hostname": "{}", "pid": {}, "dump_timestamp_us": 1748030377758202}}, )"
        R"("coll_perf": {{"coll": "AllReduce", "coll_sn": 1, "coll_msg_size_bytes": 8, "coll_exec_time_us": 9}}}})"
        "\n",
        i, processes[i].host, processes[i].pid);
  Imported told("nccl-inspector", files);
  EXPECT_EQ(told.text("SELECT group_concat(rank || ' ' || pid, ', ') FROM (SELECT * FROM v_rank ORDER BY rank)"),
            "0 200, 1 201, 2 100, 3 101");
  EXPECT_EQ(told.integer("SELECT count(*) FROM loss"), 0);
}

TEST(NcclInspector, ACommunicatorOfMillionsCostsWhatIsTold) {
  // 400 communicators of 2^24 ranks, each told by one of them: rows for all members would be 50 GB.
  std::string log;
  for (int comm = 0; comm < 400; ++comm)
    log +=
        R"({"header": {"id": "0x)" + std::to_string(comm) +
        R"(", "rank": 5, "n_ranks": 16777216}, "metadata": {"hostname": "a", "pid": 1,)"
        R"( "dump_timestamp_us": 1748030377748202}, "coll_perf": {"coll": "AllReduce", "coll_sn": 1, "coll_msg_size_bytes": 8, "coll_exec_time_us": 9}})"
        "\n";
  Imported run("nccl-inspector", Imported::Files{{"a.log", log}});
  EXPECT_EQ(run.integer("SELECT count(*) FROM communicator WHERE size = 16777216"), 400);
  EXPECT_EQ(run.integer("SELECT count(*) FROM communicator_member"), 0);
}

TEST(Chrome, RanksOfOneFile) {
  Imported run("chrome", Imported::Files{{"trace.json", chrome_trace()}});
  EXPECT_EQ(run.text("SELECT group_concat(rank || '=' || pid) FROM v_rank"), "0=6,1=7");
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_step WHERE rank = 1 AND step = 4 AND duration_ns = 119500"), 1);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_kernel WHERE name = 'gemm' AND layer = 'conv1' AND step = 4"), 1);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_collective WHERE op = 'MPI_Allreduce' AND bytes = 4000 AND comm = 'MPI_COMM_WORLD'"
          " AND wait_ns = iif(rank = 1, 10000, 0)"),
      2);
  EXPECT_EQ(run.integer("SELECT exposed_ns FROM v_step"), 31000);
}

std::string chrome_events(const std::string& events) { return "{\"traceEvents\": [" + events + "]}"; }

/// One allreduce of two ranks, the later one 100 us late: as X, and as B and E with their arguments in either or both.
TEST(Chrome, ArgumentsOfARangeAreThoseOfItsBeginAndItsEnd) {
  const std::string all = R"("args": {"comm": "w", "comm_size": 2, "seq": 1, "bytes": 4096, "peer": 1, "tag": 7})";
  const std::string half = R"("args": {"comm": "w", "seq": 1, "bytes": 1, "tag": 7})";
  const std::string rest = R"("args": {"comm_size": 2, "bytes": 4096, "peer": 1})";
  const auto event = [](const char* phase, int rank, int time_us, const std::string& more) {
    return fmt::format(R"({{"ph": "{}", "name": "ncclAllReduce", "cat": "nccl", "pid": {}, "tid": 1, "ts": {}{}{}}})",
                       phase, rank, time_us, more.empty() ? "" : ", ", more);
  };
  const auto pairs = [&](const std::string& begin, const std::string& end) {
    return event("B", 0, 100, begin) + "," + event("E", 0, 300, end) + "," + event("B", 1, 200, begin) + "," +
           event("E", 1, 300, end);
  };
  const std::string whole =
      event("X", 0, 100, R"("dur": 200, )" + all) + "," + event("X", 1, 200, R"("dur": 100, )" + all);
  for (const std::string& events : {whole, pairs(all, ""), pairs("", all), pairs(half, rest)}) {
    SCOPED_TRACE(events);
    Imported run("chrome", Imported::Files{{"trace.json", chrome_events(events)}});
    EXPECT_EQ(run.text("SELECT group_concat(rank || ' ' || comm || ' ' || bytes || ' ' || wait_ns, ', ') FROM"
                       " (SELECT * FROM v_collective ORDER BY rank)"),
              "0 w 4096 100000, 1 w 4096 0");
    EXPECT_EQ(run.text("SELECT DISTINCT seq || ' ' || peer || ' ' || tag FROM event"), "1 1 7");
    EXPECT_EQ(run.integer("SELECT count(*) FROM loss"), 0);
  }
}

TEST(Chrome, LaunchesAndCopiesHaveTheArgumentsOfTheirBegin) {
  Imported run("chrome", Imported::Files{{"trace.json", chrome_events(R"(
    {"ph": "X", "name": "layer a", "pid": 0, "tid": 1, "ts": 0, "dur": 100},
    {"ph": "B", "name": "cudaMemcpyAsync", "cat": "cuda_runtime", "pid": 0, "tid": 1, "ts": 10, "args": {"correlation": 5}},
    {"ph": "E", "pid": 0, "tid": 1, "ts": 20},
    {"ph": "B", "name": "Memcpy HtoD", "cat": "gpu_memcpy", "pid": 0, "tid": 2, "ts": 30,
     "args": {"correlation": 5, "device": 3, "stream": 7, "bytes": 64}},
    {"ph": "E", "pid": 0, "tid": 2, "ts": 40},
    {"ph": "B", "name": "odd", "pid": 0, "tid": 1, "ts": 50, "args": {"bytes": "many", "device": "none"}},
    {"ph": "E", "pid": 0, "tid": 1, "ts": 60, "args": {"stream": []}})")}});
  EXPECT_EQ(
      run.text(
          "SELECT layer || ' ' || device || ' ' || stream || ' ' || bytes || ' ' || launch_duration_ns FROM v_memcpy"),
      "layer a 3 7 64 10000");
}

TEST(Chrome, WhatIsNotReadIsTold) {
  Imported run("chrome", Imported::Files{{"trace.json", chrome_events(R"(
    {"ph": "E", "pid": 0, "tid": 1, "ts": 1}, {"ph": "E", "pid": 0, "tid": 1, "ts": 2},
    {"ph": "X", "name": "step 1", "pid": 0, "tid": 1, "ts": 10, "dur": 100},
    {"ph": "b", "cat": "nccl", "id": 1, "name": "ncclAllReduce", "pid": 0, "tid": 1, "ts": 20},
    {"ph": "n", "cat": "nccl", "id": 1, "name": "ncclAllReduce", "pid": 0, "tid": 1, "ts": 25},
    {"ph": "n", "cat": "nccl", "id": 1, "name": "ncclAllReduce", "pid": 0, "tid": 1, "ts": 26},
    {"ph": "e", "cat": "nccl", "id": 1, "name": "ncclAllReduce", "pid": 0, "tid": 1, "ts": 30},
    {"ph": "s", "id": 2, "pid": 0, "tid": 1, "ts": 30}, {"ph": "f", "id": 2, "pid": 0, "tid": 1, "ts": 31},
    {"ph": "B", "name": "open", "pid": 0, "tid": 1, "ts": 40})")}});
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(kind || ' ' || count || ' ' || note, '; ') FROM (SELECT * FROM loss ORDER BY kind)"),
      "abandoned_calls 1 ranges that begin and never end: they are left out; "
      "not_understood 4 events of phases that ddl does not understand: n (2), b (1), e (1): left out; "
      "unbalanced_ranges 2 range ends without a begin in the trace: they are left out");
}

TEST(Chrome, TimeInsideMpiIsThatOfTheRangeOnly) {
  // Ranges that overlap without one lying in the other: outer [0, 10), step 1 [5, 100); the call comes when outer has
  // ended.
  Imported run("chrome", Imported::Files{{"trace.json", chrome_events(R"(
    {"ph": "X", "name": "outer", "pid": 0, "tid": 1, "ts": 0, "dur": 10},
    {"ph": "X", "name": "step 1", "pid": 0, "tid": 1, "ts": 5, "dur": 95},
    {"ph": "X", "name": "MPI_Barrier", "cat": "mpi", "pid": 0, "tid": 1, "ts": 50, "dur": 20})")}});
  EXPECT_EQ(run.integer("SELECT mpi_ns FROM range_event"), 0);
  EXPECT_EQ(run.integer("SELECT mpi_ns FROM range_profile"), 0);
  EXPECT_EQ(run.integer("SELECT mpi_ns FROM step"), 20000);
}

TEST(Chrome, WhatIsOnlyPostedIsNoInstance) {
  std::string events;
  for (const char* pid : {"0", "1"})
    for (const auto& [name, seq] :
         {std::pair("MPI_Iallreduce", "1"), std::pair("MPI_Allreduce", "2"), std::pair("MPI_Iscan", "3")})
      events += std::string(events.empty() ? "" : ",") + R"({"ph": "X", "name": ")" + name +
                R"(", "cat": "mpi", "pid": )" + pid + R"(, "tid": 1, "ts": )" + seq +
                R"(00, "dur": 9, "args": {"comm": "w", "comm_size": 2, "seq": )" + seq + R"(, "bytes": 8}})";
  Imported run("chrome", Imported::Files{{"trace.json", chrome_events(events)}});
  EXPECT_EQ(run.text("SELECT group_concat(name || ' ' || class || nonblocking) FROM (SELECT * FROM op ORDER BY name)"),
            "MPI_Allreduce all_to_all0,MPI_Iallreduce all_to_all1,MPI_Iscan scan1");
  EXPECT_EQ(run.text("SELECT group_concat(DISTINCT op) FROM v_collective"), "MPI_Allreduce");
  EXPECT_EQ(run.text("SELECT group_concat(kind) FROM communicator"), "intra");
}

TEST(Chrome, NcclCommunicatorsAreThoseOfNcclCalls) {
  Imported run("chrome", Imported::Files{{"trace.json", chrome_events(R"(
    {"ph": "X", "name": "ncclAllReduce", "cat": "nccl", "pid": 0, "tid": 1, "ts": 0, "dur": 10, "args": {"comm": "c", "comm_size": 1, "seq": 1}},
    {"ph": "X", "name": "MPI_Bcast", "cat": "mpi", "pid": 0, "tid": 1, "ts": 50, "dur": 20, "args": {"comm": "c", "comm_size": 1, "seq": 1}})")}});
  EXPECT_EQ(run.text("SELECT group_concat(label || kind) FROM (SELECT * FROM communicator ORDER BY label)"),
            "cnccl,c#2intra");
}

TEST(Chrome, SumsStayWithin64Bits) {
  const std::string call =
      R"({"ph": "X", "name": "MPI_Send", "cat": "mpi", "pid": 0, "tid": 1, "ts": 1, "dur": 5, "args": {"bytes": )";
  EXPECT_NE(import_error("chrome", chrome_events(call + "1125899906842625}}"))
                .find("1125899906842625 bytes are out of range"),
            std::string::npos);
  std::string most;
  for (int i = 0; i < 8192; ++i) most += (i == 0 ? "" : ",") + call + "1125899906842624}}";
  EXPECT_NE(import_error("chrome", chrome_events(most)).find("overflow 64 bits"), std::string::npos);
  // Calls of twelve days all at once, in a range that is as long; by operation they fit.
  std::string days = R"({"ph": "X", "name": "step 1", "pid": 0, "tid": 1, "ts": 0, "dur": 1036800000000})";
  for (int i = 0; i < 9000; ++i)
    days += std::string(R"(,{"ph": "X", "name": "MPI_)") + (i % 2 ? "Send" : "Recv") +
            R"(", "cat": "mpi", "pid": 0, "tid": 1, "ts": 0, "dur": 1036800000000})";
  EXPECT_NE(import_error("chrome", chrome_events(days)).find("overflow 64 bits"), std::string::npos);
}

TEST(Chrome, NamesThatLookTheSameAreOneOperation) {
  const std::string events = R"({"ph": "X", "name": "a\u0001", "cat": "mpi", "pid": 0, "tid": 1, "ts": 1, "dur": 5},)"
                             R"({"ph": "X", "name": "a\u0002", "cat": "mpi", "pid": 0, "tid": 1, "ts": 9, "dur": 5})";
  Imported run("chrome", Imported::Files{{"trace.json", chrome_events(events)}});
  EXPECT_EQ(run.integer("SELECT count(*) FROM op"), 1);
}

TEST(PipeDream, LayersForwardAndBackward) {
  Imported run("pipedream", Imported::Files{{"profile.csv", layers_csv()}});
  EXPECT_EQ(run.integer("SELECT duration_ns FROM v_step"), 17972000 + 22307000 + 24613000 + 4446000 + 5553000);
  EXPECT_EQ(
      run.integer("SELECT compute_ns FROM v_layer WHERE layer = '2 Conv2d(3, 64, \"same\")' AND phase = 'backward'"),
      24613000);
  EXPECT_EQ(run.integer("SELECT compute_ns FROM v_layer WHERE layer = '3 ReLU' AND phase = 'forward'"), 4446000);
}

TEST(PipeDream, WhatIfOperations) {
  Imported run("pipedream", Imported::Files{{"trace.csv", what_if_csv()}});
  EXPECT_EQ(run.summary.ranks, 4u);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_step WHERE duration_ns = 310000000"), 8);
  // Rank 0 (stage 0, replica 0) waits 10 ms for rank 1.
  EXPECT_EQ(
      run.integer("SELECT count(*) FROM v_collective WHERE op = 'grads-reduce-scatter' AND comm = 'replicas of stage 0'"
                  " AND wait_ns = iif(rank = 0, 10000000, 0)"),
      4);
  EXPECT_EQ(
      run.integer("SELECT count(*) FROM v_message WHERE source + 2 = destination AND late_sender_wait_ns = 50000000"),
      4);
  EXPECT_EQ(run.integer("SELECT sum(time_ns) FROM range_profile f JOIN region r ON r.id = f.region"
                        " WHERE r.layer = 'forward-compute' AND r.kind = 'layer'"),
            2 * (50 + 60) * 1000000);
}

/// What the operations say: a rank computes in them alone, communicates in the others, and stands still for the
/// rest of the 310 ms.
TEST(PipeDream, ComputingIsTheOperationsThatCompute) {
  Imported run("pipedream", Imported::Files{{"trace.csv", what_if_csv()}});
  const auto part = [&](int rank) {
    return run.text(
        "SELECT (compute_ns / 1000000) || ' ' || (exposed_ns / 1000000) || ' ' || (wait_ns / 1000000) || ' ' || (idle_ns / 1000000)"
        " FROM v_step WHERE step = 3 AND rank = " +
        std::to_string(rank));
  };
  EXPECT_EQ(part(0), "50 51 10 209") << "a message of 1 ms, and 50 ms of a reduction, of which it waits 10";
  EXPECT_EQ(part(1), "60 41 0 209");
  EXPECT_EQ(part(2), "60 51 50 199")
      << "a backward and an optimizer; 51 ms for a message, of which its sender computes 50";
}

/// 20 equal steps of two stages with four replicas and four micro-batches, of which replica 1 of stage 1 computes
/// `slow` times as long as the others.
struct WhatIfPipeline {
  std::string csv = "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n";
  double step_s = 0;

  WhatIfPipeline(double slow, const std::function<int(int replica, int stage)>& rank_of) {
    for (int step = 0; step < 20; ++step) {
      double ready_s[4][2] = {};
      const auto add = [&](int d, int s, const char* type, double start_s, double duration_s) {
        csv +=
            fmt::format("{},{},{},{},{},{:.6f},{:.6f},0,0,0,0\n", d, s, rank_of(d, s), step, type, start_s, duration_s);
      };
      for (int d = 0; d < 4; ++d)
        for (const bool forward : {true, false})
          for (int m = 0; m < 4; ++m) {
            const int first = forward ? 0 : 1, second = 1 - first;
            const char* const types[] = {forward ? "forward-compute" : "backward-compute",
                                         forward ? "forward-send" : "backward-send",
                                         forward ? "forward-recv" : "backward-recv"};
            const auto compute = [&](int s, double from_s) {
              const double seconds = (forward ? 0.010 : 0.020) * (d == 1 && s == 1 ? slow : 1);
              add(d, s, types[0], from_s, seconds);
              ready_s[d][s] = from_s + seconds;
            };
            const double posted_s = ready_s[d][second];
            compute(first, ready_s[d][first]);
            add(d, first, types[1], ready_s[d][first], 0.0001);
            const double arrived_s = std::max(posted_s, ready_s[d][first]) + 0.0001;
            add(d, second, types[2], posted_s, arrived_s - posted_s);
            compute(second, arrived_s);
          }
      for (int s = 0; s < 2; ++s) {
        double done_s = 0;
        for (int d = 0; d < 4; ++d) done_s = std::max(done_s, ready_s[d][s] + 0.002);
        for (int d = 0; d < 4; ++d) {
          add(d, s, "grads-reduce-scatter", ready_s[d][s], done_s - ready_s[d][s]);
          add(d, s, "optimizer", done_s, 0.003);
        }
        step_s = std::max(step_s, done_s + 0.003);
      }
    }
  }
};

/// Whatever numbers the file gives its ranks, also those with gaps of eight-fold tensor parallelism: the one that makes
/// the job slower by more than half is the first finding, and saves what a job without it takes less.
TEST(PipeDream, ARankThatHalvesThroughputIsTheFirstFinding) {
  const std::function<int(int, int)> dense[] = {[](int d, int s) { return 4 * s + d; },
                                                [](int d, int s) { return 2 * d + s; }};
  struct Numbering {
    std::function<int(int, int)> of_file, rank_of;
  };
  const Numbering numberings[] = {{dense[0], dense[0]},
                                  {dense[1], dense[1]},
                                  {[](int d, int s) { return 8 * (4 * s + d); }, dense[0]},
                                  {[](int d, int s) { return 8 * (2 * d + s) + 4; }, dense[1]}};
  const WhatIfPipeline healthy(1, dense[0]);
  for (const auto& [of_file, rank_of] : numberings) {
    const WhatIfPipeline job(3, of_file);
    EXPECT_GT(job.step_s, 2 * healthy.step_s);
    Imported run("pipedream", Imported::Files{{"trace.csv", job.csv}});
    EXPECT_EQ(run.summary.ranks, 8u);
    EXPECT_EQ(run.text("SELECT id || ' ' || rank FROM finding WHERE position = 1"),
              fmt::format("straggler {}", rank_of(1, 1)));
    EXPECT_NEAR(run.real("SELECT saving_ns * 1e-9 FROM finding WHERE position = 1"), job.step_s - healthy.step_s,
                0.002);
    EXPECT_EQ(run.integer("SELECT count(*) FROM finding WHERE id = 'missing_rank'"), 0);
    EXPECT_EQ(
        run.text("SELECT min(world_size) || ' ' || max(world_size) || ' ' || (SELECT count(*) FROM loss) FROM process"),
        "8 8 0");
    EXPECT_EQ(
        run.text(fmt::format(
            "SELECT value FROM process_fact f JOIN process p ON p.id = f.process WHERE key = 'global_rank' AND rank = {}",
            rank_of(3, 0))),
        fmt::to_string(of_file(3, 0)));
    const std::optional<models::ImportedReplay> replay = models::imported_replay(run.db, 0);
    ASSERT_TRUE(replay);
    EXPECT_EQ(replay->stages.at(rank_of(2, 1)), 1);
    EXPECT_EQ(slowdown_of(replay->run.replay).worst_ranks.front(), rank_of(1, 1));
  }
}

constexpr const char* kWhatIfColumns = "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc\n";

TEST(PipeDream, AMissingRankIsNamedDespiteTheGaps) {
  std::string csv = kWhatIfColumns;
  for (const auto& [replica, stage] : {std::pair(0, 0), {1, 0}, {1, 1}})
    csv += fmt::format("{},{},{},1,forward-compute,0,1,0,0\n", replica, stage, 4 * (2 * stage + replica));
  Imported run("pipedream", Imported::Files{{"t.csv", csv}});
  EXPECT_EQ(run.text("SELECT group_concat(rank, ' ') FROM (SELECT rank FROM v_rank ORDER BY rank)"), "0 1 3");
  EXPECT_EQ(run.text("SELECT count || ' ' || note FROM loss WHERE kind = 'missing_rank'"),
            "1 of 4 ranks without a trace: rank 2");
}

/// Two stages of two model chunks each: chunks 0 and 2 of the model are stage 0's, 1 and 3 stage 1's. One micro-batch,
/// forwards and backwards, with the messages of each chunk, also those of the ends of the model, which nobody meets.
/// `tells`: messages have their chunk, as the public files have not.
std::string interleaved_csv(bool tells) {
  std::string csv = kWhatIfColumns;
  for (const bool forward : {true, false})
    for (int k = 0; k < 4; ++k) {
      const int chunk = forward ? k : 3 - k, stage = chunk % 2, mc = chunk / 2;
      const double start_s = 0.1 + (forward ? 0 : 2) + 0.5 * k;
      const std::string direction = forward ? "forward" : "backward";
      const auto add = [&](const std::string& type, double from_s, double duration_s, bool is_message) {
        csv += fmt::format("0,{0},{0},1,{1}-{2},{3:.3f},{4:.3f},0,{5}\n", stage, direction, type, from_s, duration_s,
                           is_message && !tells ? -1 : mc);
      };
      add("recv", start_s - 0.1, 0.1, true);
      add("compute", start_s, 0.4, false);
      add("send", start_s + 0.4, 0.1, true);
    }
  return csv;
}

TEST(PipeDream, InterleavedStagesSendRoundThePipeline) {
  Imported run("pipedream", Imported::Files{{"t.csv", interleaved_csv(true)}});
  const char* const messages =
      "SELECT group_concat(source || '>' || destination || ' ' || tag, ', ') FROM (SELECT * FROM v_message WHERE why IS NULL ORDER BY send_ns)";
  EXPECT_EQ(run.text(messages), "0>1 0, 1>0 0, 0>1 0, 1>0 1, 0>1 1, 1>0 1");
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_message"), 6);
  const char* const ends =
      "SELECT group_concat(rank || ' ' || name, ', ') FROM (SELECT p.rank, r.name FROM range_event e JOIN region r ON r.id = e.region"
      " JOIN process p ON p.id = e.process WHERE r.name LIKE '%-send' OR r.name LIKE '%-recv' ORDER BY p.rank, r.name)";
  EXPECT_EQ(run.text(ends), "0 backward-send, 0 forward-recv, 1 backward-recv, 1 forward-send");
  EXPECT_EQ(run.text("SELECT group_concat(kind || ' ' || count) FROM loss"), "stage_messages 4");
  EXPECT_EQ(run.integer("SELECT sum(compute_ns) FROM v_step"), 8 * int64_t{400'000'000})
      << "ranges of messages are no computing";

  // Without their chunk, messages round the pipeline may be those that nobody meets; the others are what they were.
  Imported untold("pipedream", Imported::Files{{"t.csv", interleaved_csv(false)}});
  EXPECT_EQ(untold.text(messages), "0>1 0, 0>1 0, 1>0 1, 1>0 1");
  EXPECT_EQ(untold.integer("SELECT count(*) FROM v_message"), 4);
  EXPECT_EQ(untold.text("SELECT group_concat(kind || ' ' || count) FROM loss"), "stage_messages 8");
}

/// A profiler may have written messages that nobody sent: they are no reason to refuse the file.
TEST(PipeDream, AMessageBeyondThePipelineIsARange) {
  std::string csv = what_if_csv();
  csv += "0,1,2,3,forward-send,0.2,0.001,1,-1,-1,-1\n0,0,0,3,forward-recv,0.0,0.001,1,-1,-1,-1\n";
  Imported run("pipedream", Imported::Files{{"t.csv", csv}});
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_message"), 4);
  EXPECT_EQ(run.text("SELECT kind || ' ' || count FROM loss"), "stage_messages 2");
}

/// Stage 1 sends micro-batch 1 forwards and receives the gradients of micro-batch 0 in one operation, which meets the
/// other stage's; both of them wait 30 ms.
TEST(PipeDream, TwoMessagesInOneOperation) {
  const std::string csv = std::string(kWhatIfColumns) +
                          "0,0,0,1,forward-compute,0.0,0.1,0,0\n"
                          "0,0,0,1,forward-send,0.1,0.01,0,-1\n"
                          "0,1,1,1,forward-recv,0.1,0.01,0,-1\n"
                          "0,0,0,1,forward-compute,0.11,0.1,1,0\n"
                          "0,1,1,1,backward-compute,0.11,0.13,0,0\n"
                          "0,0,0,1,forward-send-backward-recv,0.21,0.05,0,-1\n"
                          "0,1,1,1,backward-send-forward-recv,0.24,0.02,0,-1\n"
                          "0,1,1,1,backward-compute,0.26,0.1,1,0\n"
                          "0,1,1,1,backward-send,0.36,0.01,0,-1\n"
                          "0,0,0,1,backward-recv,0.36,0.01,0,-1\n";
  Imported run("pipedream", Imported::Files{{"t.csv", csv}});
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(source || '>' || destination || ' ' || (late_sender_wait_ns / 1000000) || ' ' || (late_receiver_wait_ns / 1000000),"
          " ', ') FROM (SELECT * FROM v_message WHERE why IS NULL ORDER BY send_ns, source)"),
      "0>1 0 0, 0>1 0 30, 1>0 30 0, 1>0 0 0");
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_message"), 4);
  EXPECT_EQ(run.text("SELECT (exposed_ns / 1000000) || ' ' || (wait_ns / 1000000) FROM v_step WHERE rank = 0"), "70 30")
      << "each time once";
  EXPECT_EQ(run.integer("SELECT count(*) FROM loss"), 0);
  EXPECT_EQ(slowdown_of(models::imported_replay(run.db, 0)->run.replay).ranks.size(), 2u)
      << "its messages have both ends";
}

TEST(PipeDream, ParquetIsToldAsWhatItIs) {
  EXPECT_NE(import_error("pipedream", "PAR1\x15\x04", "t.parquet").find("is a Parquet file, not CSV"),
            std::string::npos);
}

TEST(PipeDream, RefusesAJobOfManyDays) {
  const std::string csv =
      "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id\n0,0,0,1,forward-compute,900000,900000,0\n";
  EXPECT_NE(import_error("pipedream", csv, "t.csv").find("t.csv, byte "), std::string::npos);
}

TEST(PipeDream, TakesWhatSpreadsheetsWrite) {
  Imported run("pipedream", Imported::Files{{"profile.csv", "\xef\xbb\xbfop,fwd_ms,bwd_ms\r\n\"Re,LU\",1,2\r\n"}});
  EXPECT_EQ(run.integer("SELECT duration_ns FROM v_step"), 3000000);
  EXPECT_NE(import_error("pipedream", "op,fwd_ms,bwd_ms\n\"a,1,2\n", "p.csv").find("p.csv, byte 17: unclosed quote"),
            std::string::npos);
}

TEST(PipeDream, NamesTheRow) {
  EXPECT_NE(import_error("pipedream", "op,fwd_ms,bwd_ms\na,1,x\n", "p.csv")
                .find("p.csv, byte 17: bwd_ms is \"x\", which is not a number that fits"),
            std::string::npos);
  EXPECT_NE(import_error("pipedream", "op,fwd_ms,bwd_ms\na,1\n", "p.csv")
                .find("p.csv, byte 17: a row has 2 fields, the header 3"),
            std::string::npos);
  EXPECT_NE(import_error("pipedream", "a,b\n1,2\n", "p.csv").find("p.csv, byte 0: neither a column optype"),
            std::string::npos);
}

TEST(Chrome, ATraceOfKinetoIsSaidToBeOne) {
  const std::string events = chrome_trace();
  const std::string kineto = R"({"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": )" +
                             events.substr(events.find('[')) + (events.front() == '[' ? "}" : "");
  Imported run("chrome", Imported::Files{{"trace.json", kineto}});
  EXPECT_EQ(run.integer("SELECT count FROM loss WHERE kind = 'other_format'"), 1);
  EXPECT_NE(run.text("SELECT note FROM loss WHERE kind = 'other_format'").find("see ddl import kineto"),
            std::string::npos);
  Imported plain("chrome", Imported::Files{{"trace.json", events}});
  EXPECT_EQ(plain.integer("SELECT count(*) FROM loss WHERE kind = 'other_format'"), 0);
}

}  // namespace
}  // namespace ddl::test
