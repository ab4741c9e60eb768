// What launches, queues, copies and gaps of streams are, on a trace of which everything is known; and what HTA
// leaves out of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "analyzer/name_diff.h"
#include "tests/import/imported.h"

namespace ddl::test {
namespace {

std::string launch_of(int correlation, int start_us, int duration_us, const char* call = "cudaLaunchKernel") {
  return fmt::format(
      R"J({{"ph":"X","cat":"cuda_runtime","name":"{}","pid":9,"tid":9,"ts":{},"dur":{},"args":{{"correlation":{}}}}},)J",
      call, start_us, duration_us, correlation);
}
std::string work_of(int correlation, int stream, int start_us, int duration_us, const char* name = "gemm") {
  return fmt::format(
      R"J({{"ph":"X","cat":"kernel","name":"{}","pid":0,"tid":{},"ts":{},"dur":{},"args":{{"device":0,"context":1,"stream":{},"correlation":{}}}}},)J",
      name, stream, start_us, duration_us, stream, correlation);
}

/// Steps 1 and 2 of 1 ms each.
std::string two_steps() {
  std::string events =
      R"J({"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":9,"tid":9,"ts":0,"dur":1000},)J"
      R"J({"ph":"X","cat":"user_annotation","name":"ProfilerStep#2","pid":9,"tid":9,"ts":1000,"dur":1000},)J";
  // Stream 7: two kernels back to back, a copy 20 us behind them that had been launched long before, and one for which
  // the host came 60 us late.
  events += launch_of(1, 100, 10) + work_of(1, 7, 150, 100) + launch_of(2, 120, 10) + work_of(2, 7, 250, 50);
  events +=
      launch_of(3, 140, 5, "cudaMemcpyAsync") +
      R"J({"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,"tid":7,"ts":320,"dur":20,)J"
      R"J("args":{"device":0,"context":1,"stream":7,"correlation":3,"bytes":20000}},)J";
  events += launch_of(4, 400, 10) + work_of(4, 7, 430, 50);
  // Stream 8: a kernel, and a collective that waited 100 us for something else.
  events += launch_of(5, 350, 10) + work_of(5, 8, 360, 40);
  events += launch_of(6, 355, 5) + work_of(6, 8, 500, 10, "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)");
  // One that was launched before the trace began, and one of the last step.
  events += work_of(99, 9, 600, 100) + launch_of(7, 1100, 10) + work_of(7, 7, 1150, 100);
  events.pop_back();
  return R"({"traceEvents": [)" + events + "]}";
}

TEST(Launches, EachHasItsCallAndItsDelay) {
  Imported run("kineto", Imported::Files{{"worker0.json", two_steps()}});
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(correlation || ':' || (launch_delay_ns / 1000), ' ') FROM (SELECT * FROM v_launch ORDER BY correlation)"),
      "1:40 2:120 3:175 4:20 5:0 6:140 7:40");
  EXPECT_EQ(
      run.text(
          "SELECT kind || ' ' || name || ' ' || step || ' ' || launch_duration_ns FROM v_launch WHERE correlation = 3"),
      "memcpy [CUDA memcpy HtoD] 1 5000");
}

/// A run of 10 ms without steps: the first launch comes after 6 ms, and once more the host is late by 2 ms and 5 us
/// until the GPU begins.
TEST(Launches, TheFirstIsNotALateOne) {
  std::string events = R"J({"ph":"X","cat":"cpu_op","name":"aten::empty","pid":9,"tid":9,"ts":0,"dur":10000},)J";
  events += launch_of(1, 6000, 5) + work_of(1, 7, 6005, 995) + launch_of(2, 9000, 5) + work_of(2, 7, 9005, 995);
  events.pop_back();
  Imported run("kineto", Imported::Files{{"worker0.json", R"({"traceEvents": [)" + events + "]}"}});
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(sentence || '|' || coalesce(saving_ns, 'n/a'), '; ') FROM (SELECT * FROM finding ORDER BY position)"),
      "GPUs wait for the host for 20% of the run: 2.00 ms until it launches the next kernel|2005000; GPUs have nothing to do in the first "
      "60% of the run: the host takes 6.00 ms until it launches anything|n/a");
  EXPECT_EQ(
      run.text("SELECT value FROM meta WHERE key = 'verdict.text'").find("bound by start: start 60.0%, host 20.0%, "),
      0)
      << run.text("SELECT value FROM meta WHERE key = 'verdict.text'");
}

TEST(Launches, QueuesGrowWithLaunchesAndShrinkWithBegins) {
  Imported run("kineto", Imported::Files{{"worker0.json", two_steps()}});
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(((time_ns - 100000) / 1000) || '=' || length, ' ') FROM (SELECT * FROM v_queue WHERE stream = 7 ORDER BY time_ns)"),
      "0=1 20=2 40=3 50=2 150=1 220=0 300=1 330=0 1000=1 1050=0");
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_queue WHERE stream = 9"), 0) << "when that was launched is not known";
}

TEST(Launches, CopiesHaveARateAsLongAsTheyRun) {
  Imported run("kineto", Imported::Files{{"worker0.json", two_steps()}});
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(kind || ' ' || (time_ns / 1000) || ' ' || bytes_per_second, ', ') FROM (SELECT * FROM v_copy_rate ORDER BY time_ns)"),
      "HtoD 320 1000000000.0, HtoD 340 0.0");
}

TEST(Launches, GapsOfStreamsSayWhatTheyWaitedFor) {
  Imported run("kineto", Imported::Files{{"worker0.json", two_steps()}});
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(stream || '@' || (start_ns / 1000) || ': ' || (host_ns / 1000) || ' ' || (launch_ns / 1000) || ' ' || (kernel_ns / 1000)"
          " || ' ' || (other_ns / 1000), ', ') FROM (SELECT * FROM v_stream_idle ORDER BY stream, start_ns)"),
      "7@300: 0 0 20 0, 7@340: 60 30 0 0, 7@480: 620 50 0 0, 8@400: 0 0 0 100");
  EXPECT_EQ(
      run.integer("SELECT count(*) FROM v_stream_idle WHERE host_ns + launch_ns + kernel_ns + other_ns <> duration_ns"),
      0);
}

/// A run of one step more, in which gemm takes twice as long in step 1, the collective is gone and an operator is new.
TEST(NameDiff, TellsWhatChangedInAMeanStep) {
  Imported before("kineto", Imported::Files{{"worker0.json", two_steps()}});
  std::string changed = two_steps();
  const auto replace = [&](const std::string& from, const std::string& to) {
    changed.replace(changed.find(from), from.size(), to);
  };
  replace("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "relu");
  replace(R"("ts":150,"dur":100)", R"("ts":150,"dur":300)");
  const std::string work = work_of(8, 7, 2020, 60);
  changed.insert(
      changed.rfind("]}"),
      R"J(,{"ph":"X","cat":"cpu_op","name":"aten::relu","pid":9,"tid":9,"ts":50,"dur":40},)J"
      R"J({"ph":"X","cat":"user_annotation","name":"ProfilerStep#3","pid":9,"tid":9,"ts":2000,"dur":100},)J" +
          launch_of(8, 2010, 5) + work.substr(0, work.size() - 1));
  Imported after("kineto", Imported::Files{{"worker0.json", changed}});
  const NameDiff diff = compare_names(NamesOf::kKernels, before.db, 0, after.db, 0);
  EXPECT_TRUE(diff.per_step);
  EXPECT_EQ(diff.steps_before, 2);
  EXPECT_EQ(diff.steps_after, 3);
  ASSERT_EQ(diff.names.size(), 4U);
  // Before: 100 + 50 + 50 + 40 + 100 us of gemm in five launches and two steps; what was launched before the trace is
  // in step 1 by its begin.
  const NameChange& gemm = diff.names[0];
  EXPECT_EQ(gemm.name, "gemm");
  EXPECT_DOUBLE_EQ(gemm.before->calls, 6 / 2.0);
  EXPECT_DOUBLE_EQ(gemm.before->time_ns, 440e3 / 2);
  EXPECT_DOUBLE_EQ(gemm.after->calls, 7 / 3.0);
  EXPECT_DOUBLE_EQ(gemm.after->time_ns, (440e3 + 200e3 + 60e3) / 3);
  std::set<std::string> rest;
  for (size_t i = 1; i < diff.names.size(); ++i)
    rest.insert(diff.names[i].name.substr(0, 20) + (!diff.names[i].before  ? ": new"
                                                    : !diff.names[i].after ? ": gone"
                                                                           : ""));
  EXPECT_EQ(rest, (std::set<std::string>{"ncclKernel_AllReduce: gone", "relu: new", "[CUDA memcpy HtoD]"}));
  const NameDiff operators = compare_names(NamesOf::kOperators, before.db, 0, after.db, 0);
  EXPECT_FALSE(operators.per_step) << "one of them has none";
  ASSERT_EQ(operators.names.size(), 1U);
  EXPECT_FALSE(operators.names[0].before);
  EXPECT_DOUBLE_EQ(operators.names[0].after->time_ns, 40e3);
}

TEST(Hta, LeavesOutTheLastStepAndWhatItDoesNotSeeLaunched) {
  Imported run("kineto", Imported::Files{{"worker0.json", two_steps()}});
  EXPECT_EQ(
      run.text(
          "SELECT (kernel_time_ns / 1000) || ' ' || (idle_ns / 1000) || ' ' || (compute_ns / 1000) || ' ' || (non_compute_ns / 1000) || ' ' ||"
          " (comm_ns / 1000) || ' ' || overlap_ns FROM v_hta"),
      "360 90 240 30 10 0");
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(correlation || ' ' || class, ', ') FROM (SELECT * FROM v_hta_event ORDER BY correlation)"),
      "1 COMPUTATION, 2 COMPUTATION, 3 MEMORY, 4 COMPUTATION, 5 COMPUTATION, 6 COMMUNICATION");
  EXPECT_EQ(
      run.text(
          "SELECT (kernel_time_ns / 1000) || ' ' || (idle_ns / 1000) || ' ' || (compute_ns / 1000) FROM hta_part WHERE whole = 1"),
      "1100 630 440");
  EXPECT_NEAR(run.real("SELECT value FROM metric WHERE id = 'hta_idle'"), 0.25, 1e-12);
  // From a trace with one step nothing is left out, as in HTA.
  std::string one = two_steps();
  one.replace(one.find("ProfilerStep#2"), 14, "something else");
  Imported single("kineto", Imported::Files{{"worker0.json", one}});
  EXPECT_EQ(single.integer("SELECT (kernel_time_ns / 1000) FROM v_hta"), 1100);
}

}  // namespace
}  // namespace ddl::test
