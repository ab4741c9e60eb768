// The tables of GPUs. The first one replays rows that nvprof printed (published/nvprof_transpose.csv: Summit training
// material in IBM's slides on parallel training) and must print their digits.
#include <gtest/gtest.h>

#include <iterator>
#include <sstream>

#include "analyzer/models/replay_operators.h"
#include "analyzer/passes/catalog.h"
#include "reports/overview.h"
#include "reports/text.h"
#include "tests/reports/handmade_run.h"

namespace ddl::reports {
namespace {

class GpuTables : public ::testing::Test {
 protected:
  void event(int kind, int name, int64_t duration_ns, const char* rest) {
    run_.db().exec(
        "INSERT INTO gpu_event (process, kind, name, device, context, stream, region, start_ns, duration_ns, correlation, bytes, copy,"
        " source, destination) VALUES (1, " +
        std::to_string(kind) + ", " + std::to_string(name) + ", 0, 1, 7, 3, 0, " + std::to_string(duration_ns) +
        ", 0, " + rest + ")");
  }
  std::vector<std::string> lines(const char* section) {
    std::istringstream text(render_text(build_section(view_, section), {.width = 200, .color = false}));
    std::vector<std::string> found;
    for (std::string line; std::getline(text, line);) found.push_back(line);
    return found;
  }
  /// The first line that ends with `name`, cut at blanks.
  std::vector<std::string> cells(const char* section, const std::string& name) {
    for (const std::string& line : lines(section)) {
      if (!line.ends_with(name)) continue;
      std::istringstream words(line.substr(0, line.size() - name.size()));
      std::vector<std::string> found;
      for (std::string word; words >> word;) found.push_back(word);
      return found;
    }
    return {};
  }
  void transpose() {
    run_.db().exec(
        "INSERT INTO gpu_name VALUES (1, 'naiveTransposeKernel', 'compute'), (2, '[CUDA memcpy DtoH]', 'copy'),"
        " (3, '[CUDA memcpy HtoD]', 'copy')");
    event(1, 1, 1'900'000, "NULL, NULL, NULL, NULL");
    event(2, 3, 28'462'000, "200000000, 'HtoD', 'pageable', 'device'");
    event(2, 2, 29'581'000, "200000000, 'DtoH', 'device', 'pinned'");
  }

  test::HandmadeRun run_;
  RunView view_ = test::view_of(run_.db());
};

using Cells = std::vector<std::string>;

TEST_F(GpuTables, PrintTheDigitsOfNvprof) {
  transpose();
  EXPECT_EQ(cells("gpu", "[CUDA memcpy DtoH]"),
            (Cells{"49.35%", "29.581ms", "1", "29.581ms", "29.581ms", "29.581ms", "191MiB"}));
  EXPECT_EQ(cells("gpu", "[CUDA memcpy HtoD]"),
            (Cells{"47.48%", "28.462ms", "1", "28.462ms", "28.462ms", "28.462ms", "191MiB"}));
  EXPECT_EQ(cells("gpu", "naiveTransposeKernel"),
            (Cells{"3.17%", "1.9000ms", "1", "1.9000ms", "1.9000ms", "1.9000ms", "-"}));
}

TEST_F(GpuTables, SayWhatNoRuleKnows) {
  const auto note = [&] { return build_section(view_, "gpu").tables[0].note; };
  run_.db().exec(
      "INSERT INTO gpu_name VALUES (1, 'gemm', 'compute'), (2, 'void mystery<int>(int)', 'unclassified'), (3, 'odd', 'unclassified')");
  event(1, 1, 9'900, "NULL, NULL, NULL, NULL");
  event(1, 2, 60, "NULL, NULL, NULL, NULL");
  event(1, 3, 40, "NULL, NULL, NULL, NULL");
  const auto gather = [&] {
    run_.db().exec(
        "DELETE FROM kernel_time; INSERT INTO kernel_time SELECT 0, n.class, count(DISTINCT n.id), count(*), sum(g.duration_ns)"
        " FROM gpu_event g JOIN gpu_name n ON n.id = g.name GROUP BY n.class");
  };
  gather();
  EXPECT_EQ(note(), "") << "1 % is little";
  event(1, 3, 100, "NULL, NULL, NULL, NULL");
  gather();
  EXPECT_EQ(
      note(),
      "2.0% of the kernels' time is in 2 names that no rule knows. It counts as computing; see that these do not communicate:"
      " odd, mystery<int>(int)");
}

TEST_F(GpuTables, LinksAreMeasuredAgainstOneDirection) {
  transpose();
  run_.db().exec("INSERT INTO gpu VALUES (1, 0, 'Tesla K80', '0000:3b:00.0', 'PCIe 3.0 x16', 15753846153.8)");
  EXPECT_EQ(cells("links", "HtoD"),
            (Cells{"28.462ms", "1", "191MiB", "7.03GB/s", "15.8GB/s", "44.6%", "pageable", "PCIe", "3.0", "x16"}));
  EXPECT_EQ(cells("links", "DtoH"),
            (Cells{"29.581ms", "1", "191MiB", "6.76GB/s", "15.8GB/s", "42.9%", "pinned", "PCIe", "3.0", "x16"}));
  run_.db().exec("DELETE FROM gpu; UPDATE gpu_event SET copy = 'DtoD', source = 'device' WHERE copy = 'HtoD'");
  EXPECT_EQ(cells("links", "DtoH"),
            (Cells{"29.581ms", "1", "191MiB", "6.76GB/s", "n/a(NO_DATA)", "n/a(NO_DATA)", "pinned", "n/a(NO_DATA)"}));
  EXPECT_EQ(cells("links", "DtoD"), (Cells{"28.462ms", "1", "191MiB", "7.03GB/s", "-", "-", "-", "-"}))
      << "does not cross the link";
}

TEST_F(GpuTables, LayersTellComputeFromCollectivesAndCopies) {
  transpose();
  run_.db().exec("INSERT INTO gpu_name VALUES (4, 'ncclDevKernel_AllReduce', 'communication')");
  event(1, 4, 57, "NULL, NULL, NULL, NULL");
  run_.db().exec("UPDATE gpu_event SET region = 4 WHERE copy = 'HtoD'");
  EXPECT_EQ(cells("gpu_layers", "conv1"),
            (Cells{"52.52%", "31.481ms", "2", "1.9000ms", "57ns", "29.581ms", "191MiB", "forward"}));
  EXPECT_EQ(cells("gpu_layers", "fc"),
            (Cells{"47.48%", "28.462ms", "0", "0ns", "0ns", "28.462ms", "191MiB", "forward"}));
}

TEST_F(GpuTables, CriticalPathsAreMeansOverSteadySteps) {
  run_.db().exec("INSERT INTO gpu_name VALUES (1, 'gemm', 'compute')");
  for (int step = 0; step < 12; ++step) {  // of which 5 are warm-up
    const std::string of_step = "1, " + std::to_string(step),
                      ns = std::to_string(step < 5 ? 900'000 : 20'000 + step % 2 * 7000);
    run_.db().exec("INSERT INTO critical_path VALUES (" + of_step + ", 'compute', 1, 3, 4, 60000), (" + of_step +
                   ", 'host', NULL, 4, 2, " + ns + ")");
  }
  // 7 steps, of which 4 are odd: 20 us and 4 of 7 times 7 us.
  EXPECT_EQ(cells("critical_path", "gemm"), (Cells{"71.43%", "60.000us", "4", "compute", "conv1"}));
  EXPECT_EQ(cells("critical_path", "fc"), (Cells{"28.57%", "24.000us", "2", "host", "fc"}));
}

TEST_F(GpuTables, WhatIfReplaysTheSteps) {
  run_.db().exec(
      "INSERT INTO gpu_name VALUES (1, 'gemm', 'compute'), (2, 'copy', 'copy'), (3, '[CUDA synchronisation: Stream Sync]', 'other')");
  EXPECT_EQ(
      lines("what_if"),
      (Cells{"Nothing can be replayed: nothing ran on a GPU in a steady step: there are no operators to replay"}));
  // Steps of 100 ms: gemm from 1 ms behind the begin for 60 ms, a copy beside it for 50; the host waits for
  // both until the end.
  for (int step = 0; step < 12; ++step) {
    const int64_t begin_ns = 150'000'000 + step * 100'000'000LL;
    const auto add = [&](int kind, int name, const char* stream, int64_t launch_ms, int64_t begin_ms, int64_t ms) {
      const auto at = [&](int64_t after_ms) { return std::to_string(begin_ns + after_ms * 1'000'000); };
      run_.db().exec(
          "INSERT INTO gpu_event (process, kind, name, device, context, stream, region, step, start_ns, duration_ns, correlation, launch_ns,"
          " launch_duration_ns) VALUES (1, " +
          std::to_string(kind) + ", " + std::to_string(name) + ", 0, 1, " + stream + ", 3, " + std::to_string(step) +
          ", " + at(begin_ms) + ", " + std::to_string(ms) + "000000, " + std::to_string(10 * step + name) + ", " +
          at(launch_ms) + ", " + (kind == 4 ? std::to_string(ms) + "000000" : "1000") + ")");
    };
    add(1, 1, "7", 0, 1, 60);
    add(2, 2, "8", 1, 1, 50);
    add(4, 3, "NULL", 2, 2, 98);
    run_.db().exec("INSERT INTO critical_path VALUES (1, " + std::to_string(step) + ", 'compute', 1, 3, 1, 60000000)");
  }
  // conv1 launched both: without it the host waits from 2 ms on for nothing. gemm alone leaves the copy.
  EXPECT_EQ(cells("what_if", "conv1"), (Cells{"60.000ms", "2", "30.000ms", "59.000ms", "59.0%"}));
  const models::OperatorReplay replay(run_.db(), Catalog(run_.db()), 0);
  EXPECT_NEAR(replay.saving_s(*models::operator_named(run_.db(), "gemm"), 0), 0.010, 1e-9);
}

TEST_F(GpuTables, LaunchesHaveCallsDelaysAndQueues) {
  run_.db().exec("INSERT INTO gpu_name VALUES (1, 'gemm', 'compute')");
  // us: the call's begin and length, the kernel's begin and length. The second waits for the first; the third
  // begins within its call.
  const int64_t launched[][4] = {{0, 2, 10, 200}, {20, 60, 210, 1}, {300, 10, 305, 3}};
  for (const auto& [call, call_length, begin, length] : launched)
    run_.db().exec(
        "INSERT INTO gpu_event (process, kind, name, device, context, stream, region, start_ns, duration_ns, correlation, launch_ns,"
        " launch_duration_ns) VALUES (1, 1, 1, 0, 1, 7, 3, " +
        std::to_string(begin * 1000) + ", " + std::to_string(length * 1000) + ", 1, " + std::to_string(call * 1000) +
        ", " + std::to_string(call_length * 1000) + ")");
  // In calls 72; delays 8, 130 and 0; two are shorter than their calls.
  const auto row = [&](const char* section, size_t number) {
    std::istringstream words(lines(section).at(number + 2));
    return Cells{std::istream_iterator<std::string>(words), {}};
  };
  EXPECT_EQ(row("launches", 0),
            (Cells{"0", "kernel", "3", "72.000us", "24.000us", "46.000us", "68.000us", "2", "1", "1"}));
  // One is queued from 0 to 10, from 20 to 210 and from 300 to 305: 205 of 305.
  EXPECT_EQ(row("queue", 0), (Cells{"0", "0", "7", "6", "1", "0.672", "100.00us", "0ns"}));
  const Cells kernels_calls_and_delays[] = {{"0", "0", "1"}, {"1", "0", "0"}, {"1", "1", "0"},
                                            {"0", "1", "1"}, {"0", "1", "0"}, {"1", "0", "1"}};
  const char* const from[] = {"0ns", "1.0000us", "2.0000us", "8.0000us", "32.000us", "128.00us"};
  for (size_t i = 0; i < 6; ++i) {
    const Cells cells = row("durations", i);
    EXPECT_EQ((Cells{cells[2], cells[6], cells[7]}), kernels_calls_and_delays[i]) << i;
    EXPECT_EQ(cells[0], from[i]);
  }
  EXPECT_EQ(row("durations", 5)[3], "200.00us");
}

TEST_F(GpuTables, SequencesAreTheFrequentOnesOfOperators) {
  run_.db().exec(
      "INSERT INTO gpu_name VALUES (1, 'gemm', 'compute'), (2, 'add', 'compute');"
      "INSERT INTO region VALUES (20, 3, 'operator', 'aten::linear', 'forward', 'conv1'), (21, 20, 'operator', 'aten::addmm', 'forward', 'conv1')");
  // One operator inside the other; three calls of two kernels, then one of twelve, then one of one.
  int64_t time_ns = 0;
  for (const int kernels : {2, 2, 2, 12, 1}) {
    time_ns += 100'000;
    const std::string begin = std::to_string(time_ns);
    run_.db().exec(
        "INSERT INTO range_event (process, thread, region, step, start_ns, duration_ns, mpi_ns) VALUES (1, 0, 20, 1, " +
        begin + ", 50000, 0), (1, 0, 21, 1, " + begin + " + 10, 40000, 0)");
    for (int k = 0; k < kernels; ++k)
      run_.db().exec(
          "INSERT INTO gpu_event (process, kind, name, device, context, stream, region, step, thread, start_ns, duration_ns, correlation,"
          " launch_ns, launch_duration_ns) VALUES (1, 1, " +
          std::to_string(1 + k % 2) + ", 0, 1, 7, 21, 1, 0, " + begin + " + 60000 + " + std::to_string(k) +
          ", 300, 0, " + begin + " + 100, 5)");
  }
  EXPECT_EQ(cells("sequences", "aten::linear  gemm | add"), (Cells{"3", "2", "1.8000us", "150.00us"}));
  EXPECT_EQ(cells("sequences", "gemm | add | gemm | add | gemm | add | gemm | add | 4 more"),
            (Cells{"1", "12", "3.6000us", "50.000us", "aten::linear"}));
  // Where only layers were recorded.
  run_.db().exec("UPDATE range_event SET region = 3 WHERE region = 20; DELETE FROM range_event WHERE region = 21");
  EXPECT_EQ(cells("sequences", "conv1  gemm | add"), (Cells{"3", "2", "1.8000us", "150.00us"}));
  EXPECT_EQ(run_.db().execAndGet("SELECT count(*) FROM v_kernel_sequence WHERE range_name = 'conv1'").getInt(), 3)
      << "the view has all";
  const Document everything = build_everything(view_, "x.ddl");
  for (const Table& table : everything.tables)
    EXPECT_NE(table.id, "sequences") << "sorts all events: only where it is asked for";
}

TEST_F(GpuTables, MemoryIsTheMostOfEachDevice) {
  run_.db().exec(
      "INSERT INTO value VALUES (1, 3, 1000, 'memory allocated cuda:0', 1048576), (1, 4, 3000, 'memory allocated cuda:0', 3145728),"
      " (1, 4, 4000, 'memory allocated cuda:0', 2097152), (1, NULL, 2000, 'memory change cpu', 2048), (1, NULL, 5000, 'memory change cpu', -1024);"
      "INSERT INTO range_event (process, thread, region, step, start_ns, duration_ns, mpi_ns) VALUES (1, 0, 3, 4, 2500, 1000, 0)");
  EXPECT_EQ(cells("memory", "conv1"), (Cells{"0", "cuda:0", "allocated", "3MiB", "3.0000us", "4", "2MiB", "3"}));
  EXPECT_EQ(cells("memory", "-"), (Cells{"0", "cpu", "since", "begin", "2KiB", "2.0000us", "-", "1KiB", "2"}));
}

TEST_F(GpuTables, GpusAreMeansOverSteadySteps) {
  for (int step = 0; step < 12; ++step) {  // of which 5 are warm-up
    const std::string ns = std::to_string(step < 5 ? 0 : 10'000 * (step % 2));
    run_.db().exec("INSERT INTO gpu_part VALUES (1, 0, " + std::to_string(step) + ", 100000, " + ns +
                   ", 2000, 0, 3000, 4000, " + (step == 7 ? "NULL" : "1000") +
                   ", 5000, 6000, 7000, 8000, 100, 200, 300, 400, 500, 600, 5900, " +
                   (step == 7 ? "'PARTIAL_RANKS'" : "NULL") + ", NULL)");
  }
  EXPECT_EQ(cells("gpus", "n/a(NO_DATA)"),
            (Cells{"0", "0", "100.00us", "5.7140us", "2.0000us", "4.0000us", "n/a(PARTIAL_RANKS)", "5.0000us",
                   "8.0000us", "200ns", "100ns", "300ns", "400ns", "500ns", "600ns", "5.9000us"}));
}

TEST_F(GpuTables, ARunWithoutGpusDoesNotMentionThem) {
  EXPECT_EQ(render_text(build_overview(view_, "x.ddl"), {}).find("GPU"), std::string::npos);
  EXPECT_EQ(lines("gpu"), (Cells{"No GPU activity was recorded. If the job used GPUs, ddl report loss says why."}));
}

}  // namespace
}  // namespace ddl::reports
