// Traces of PyTorch's profiler, as the test writes them: everything about them is known.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analyzer/facts.h"
#include "tests/import/imported.h"

namespace ddl::test {
namespace {

/// One rank of two, times in us. Step n begins at 1000 n: the operator lin [+100, +300) launches gemm, which runs
/// [+200, +500), and an allreduce that runs from +500 (+ `late`) to +800.
std::string rank_trace(int rank, int steps, int late_us, int64_t base_us = 0, const std::string& more = "") {
  std::string events;
  const auto add = [&](const std::string& event) { events += (events.empty() ? "" : ",\n") + event; };
  for (int n = 1; n <= steps; ++n) {
    const int64_t t = base_us + 1000 * n;
    add(fmt::format(
        R"({{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{}", "pid": 9, "tid": 9, "ts": {}, "dur": 1000}})",
        n, t));
    add(fmt::format(
        R"({{"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 9, "tid": 9, "ts": {}, "dur": 200.5, "args": {{"Sequence number": {}}}}})",
        t + 100, n));
    add(fmt::format(
        R"({{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": {}, "dur": 10, "args": {{"correlation": {}}}}})",
        t + 150, 2 * n));
    add(fmt::format(
        R"({{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 9, "tid": 9, "ts": {}, "dur": 10, "args": {{"correlation": {}}}}})",
        t + 400, 2 * n + 1));
    add(fmt::format(
        R"({{"ph": "X", "cat": "kernel", "name": "gemm", "pid": {0}, "tid": 7, "ts": {1}, "dur": 300, "args": {{"device": {0}, "context": 1, "stream": 7, "correlation": {2}}}}})",
        rank, t + 200, 2 * n));
    add(fmt::format(
        R"J({{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_TREE_LL128(ncclDevKernelArgsStorage<4096ul>)", "pid": {0}, "tid": 20, "ts": {1}, "dur": {2},
          "args": {{"device": {0}, "context": 1, "stream": 20, "correlation": {3}, "Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": 2, "dtype": "BFloat16", "Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]"}}}})J",
        rank, t + 500 + late_us, 300 - late_us, 2 * n + 1));
  }
  return fmt::format(
      R"({{"schemaVersion": 1, "deviceProperties": [{{"id": 0, "name": "GPU A"}}, {{"id": 1, "name": "GPU B"}}],
    "distributedInfo": {{"backend": "nccl", "rank": {}, "world_size": 2}}, "traceEvents": [{}{}]}})",
      rank, events, more);
}

/// One rank of two over Gloo, in the form that PyTorch 2.6 writes on CPUs: in step n, at 1000 n us, the bucket's
/// reduction runs on a thread of the process group from +500 (+ `late`) to +800, and the next step's broadcast of
/// buffers from +900 on.
std::string gloo_trace(int rank, int steps, int late_us, const std::string& groups) {
  std::string events;
  const auto add = [&](const std::string& event) { events += (events.empty() ? "" : ",\n") + event; };
  const auto gloo = [&](const char* name, int64_t t, int64_t us, const char* type, const char* dims) {
    add(fmt::format(
        R"({{"ph": "X", "cat": "user_annotation", "name": "gloo:{}", "pid": {}, "tid": {}, "ts": {}.125, "dur": {}, "args": {{"External id": 1, "Record function id": 0, "Concrete Inputs": [""], "Input type": ["{}"], "Input Strides": [[1]], "Input Dims": [[{}]], "Ev Idx": 0}}}})",
        name, 90 + rank, 900 + (t / 1000) % 2, t, us, type, dims));
  };
  for (int n = steps; n >= 1; --n) {  // a trace is in no order
    const int64_t t = 1000 * n;
    gloo("broadcast", t + 900, 20, "long int", "3");
    gloo("all_reduce", t + 500 + late_us, 300 - late_us, "float", "22170");
    add(fmt::format(
        R"({{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{}", "pid": {}, "tid": {}, "ts": {}, "dur": 1000}})",
        n, 90 + rank, 90 + rank, t));
    add(fmt::format(
        R"({{"ph": "X", "cat": "cpu_op", "name": "aten::conv2d", "pid": {}, "tid": {}, "ts": {}, "dur": 400}})",
        90 + rank, 90 + rank, t + 50));
    add(fmt::format(
        R"({{"ph": "X", "cat": "cpu_op", "name": "c10d::allreduce_", "pid": {}, "tid": {}, "ts": {}, "dur": 30}})",
        90 + rank, 90 + rank, t + 450));
  }
  return fmt::format(
      R"({{"schemaVersion": 1, "deviceProperties": [], "distributedInfo": {{"backend": "gloo", "rank": {}, "world_size": 2, "pg_count": 1, "pg_config": [{}]}}, "record_shapes": 1, "traceEvents": [{}]}})",
      rank, groups, events);
}

TEST(Kineto, CollectivesOfGlooAreRanges) {
  const std::string world =
      R"({"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cpu:gloo,cuda:gloo", "pg_size": 2, "ranks": [0, 1]})";
  Imported run(
      "kineto",
      Imported::Files{{"rank0.json", gloo_trace(0, 12, 0, world)}, {"rank1.json", gloo_trace(1, 12, 100, world)}},
      true);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_collective WHERE op = 'gloo::allreduce' AND source = 'gloo' AND comm = 'default_pg' AND comm_size = 2"
          " AND payload_bytes = 88680 AND duration_ns = iif(rank = 0, 300000, 200000)"),
      24);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_collective WHERE op = 'gloo::allreduce' AND wait_ns = iif(rank = 0, 100000, 0) AND xfer_ns = 200000"),
      24);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE op = 'gloo::broadcast' AND payload_bytes = 24"), 24);
  EXPECT_EQ(run.text("SELECT group_concat(rank) FROM communicator_member"), "0,1");
  EXPECT_EQ(run.integer("SELECT count(*) FROM event WHERE kind = 1"), 48);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_layer WHERE layer LIKE 'gloo%'"), 0)
      << "a collective is not a layer's computing";
  EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM blame WHERE late = 1 AND waiter = 0"), 1200000);
  // Operators cover 430 us of each step, and the rest of the reduction is not hidden.
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_step WHERE compute_ns = 430000"), 24);
  EXPECT_EQ(run.text("SELECT id || rank FROM finding ORDER BY position LIMIT 1"), "straggler1");
}

/// A profiler without a schedule: a step ends with the optimizer's, and begins with what the last one left, here the
/// loader.
TEST(Kineto, WithoutAScheduleStepsEndWithTheOptimizers) {
  std::string events;
  for (int n = 0; n < 5; ++n) {
    const auto range = [&](const char* name, int from, int us) {
      events += fmt::format(
          R"({}{{"ph": "X", "cat": "user_annotation", "name": "{}", "pid": 9, "tid": 9, "ts": {}, "dur": {}}})",
          events.empty() ? "" : ",", name, 1000 * (n + 1) + from, us);
    };
    range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 300);
    range("Optimizer.step#Adam.step", 800, 150);
    range("Optimizer.step#SGD.step", 960, 20);  // of another optimizer, the second to step
  }
  Imported run("kineto", Imported::Files{{"rank0.json", R"({"schemaVersion": 1, "traceEvents": [)" + events + "]}"}});
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(step || ':' || (start_ns - (SELECT min(start_ns) FROM v_step)) || '+' || duration_ns, ' ') FROM v_step"),
      "0:0+950000 1:950000+1000000 2:1950000+1000000 3:2950000+1000000 4:3950000+1000000");
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM range_event e JOIN region r ON r.id = e.region WHERE r.name = 'input' AND e.step IS NOT NULL"),
      5);
}

TEST(Kineto, WhatLiesInAStepWhoseNumberCameBeforeIsInNoStep) {
  std::string events;
  for (int n = 0; n < 6; ++n)
    events += fmt::format(
        R"({}{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{}", "pid": 9, "tid": 9, "ts": {}, "dur": 1000}},
        {{"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 9, "tid": 9, "ts": {}, "dur": 200}})",
        n == 0 ? "" : ",", n % 3, 1000 * (n + 1), 1000 * (n + 1) + 100);
  Imported run("kineto", Imported::Files{{"rank0.json", R"({"schemaVersion": 1, "traceEvents": [)" + events + "]}"}});
  EXPECT_EQ(
      run.text("SELECT group_concat(coalesce(step, '-'), ' ') FROM (SELECT step FROM range_event ORDER BY start_ns)"),
      "0 1 2 - - -");
  EXPECT_EQ(run.integer("SELECT count FROM loss WHERE kind = 'repeated_steps'"), 3);
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(step || ':' || measured, ' ') FROM (SELECT step, measured FROM step ORDER BY start_ns)"),
      "0:1 1:1 2:1 0:0 1:0 2:0");
}

TEST(Kineto, AmongSeveralGroupsOfGlooNobodySaysWhich) {
  const std::string groups =
      R"({"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cpu:gloo", "pg_size": 2, "ranks": [0, 1]},
    {"pg_name": "1", "pg_desc": "dp", "backend_config": "cpu:gloo", "pg_size": 2, "ranks": [0, 1]})";
  Imported run(
      "kineto",
      Imported::Files{{"rank0.json", gloo_trace(0, 3, 0, groups)}, {"rank1.json", gloo_trace(1, 3, 100, groups)}},
      true);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_call WHERE op = 'gloo::allreduce' AND bytes IS NOT NULL"), 2);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective"), 0);
}

/// The three rows that nvprof printed for a transposition (tests/published/nvprof_transpose.csv), one behind the other:
/// 58.043 of 59.943 ms copy.
TEST(Kineto, WhatOnlyCopiesIsNotComputing) {
  std::string events;
  double at_us = 10;
  int correlation = 0;
  const auto add = [&](const char* category, const char* name, double us) {
    ++correlation;
    events += fmt::format(
        R"({}{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunch", "pid": 1, "tid": 1, "ts": {}, "dur": 1, "args": {{"correlation": {}}}}},
      {{"ph": "X", "cat": "{}", "name": "{}", "pid": 0, "tid": 7, "ts": {}, "dur": {}, "args": {{"device": 0, "stream": 7, "correlation": {}}}}})",
        correlation == 1 ? "" : ",", correlation, correlation, category, name, at_us, us, correlation);
    at_us += us;
  };
  add("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 28462);
  add("kernel", "naiveTransposeKernel", 1900);
  add("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 29581);
  Imported run("kineto", Imported::Files{{"worker0.json", R"({"traceEvents": [)" + events + "]}"}});
  const Facts facts = read_facts(run.db, 0);
  EXPECT_EQ(facts.resource, Resource::kDevice);
  EXPECT_NEAR(facts.headline.share(&TimeParts::copy_ns), 0.9683, 0.0002);
  EXPECT_NEAR(facts.headline.share(&TimeParts::compute_ns), 0.0317, 0.0002);
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'verdict'"), "copy");
}

TEST(Kineto, TwoRanksBecomeOneRun) {
  Imported run("kineto",
               Imported::Files{{"worker1.json", rank_trace(1, 3, 100)}, {"worker0.json", rank_trace(0, 3, 0)}}, true);
  EXPECT_EQ(run.summary.ranks, 2u);
  EXPECT_EQ(run.integer("SELECT group_concat(rank, '') FROM v_rank"), 1);  // "01"
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_step WHERE duration_ns = 1000000"), 6);
  EXPECT_EQ(run.text("SELECT name FROM gpu WHERE process = 2"), "GPU B");
  // The launch is in aten::linear, the other outside of it.
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_kernel WHERE name = 'gemm' AND layer = 'aten::linear' AND launch_duration_ns = 10000 AND step = 3"),
      2);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_kernel WHERE class = 'communication' AND layer IS NULL AND comm = 'default_pg'"),
      6);
  EXPECT_EQ(run.integer("SELECT count(*) FROM range_event WHERE duration_ns = 200500 AND seq = 2"), 2);
  // Rank 0 waits for rank 1, 100 us each time.
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_collective WHERE op = 'ncclAllReduce' AND bytes = 2000 AND algorithm = 'TREE' AND protocol = 'LL128'"
          " AND wait_method = 'max-start' AND wait_ns = iif(rank = 0, 100000, 0)"),
      6);
  EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM blame WHERE late = 1 AND waiter = 0"), 300000);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM gpu_part WHERE step IS NOT NULL AND exposed_wait_ns = iif(process = 1, 100000, 0) AND compute_ns = 300000"),
      6);
  EXPECT_EQ(run.integer("SELECT count(*) FROM loss"), 0);
}

TEST(Kineto, WhatIsNotUnderstoodIsALoss) {
  std::string more;
  for (int n = 0; n < 5; ++n)
    more += fmt::format(
        R"(, {{"ph": "X", "cat": "mtia_ccp_events", "name": "job", "pid": 3, "tid": 1, "ts": {}, "dur": 7}})",
        1100 + n);
  more += R"(, {"ph": "X", "cat": "hpu_op", "name": "op", "pid": 3, "tid": 1, "ts": 1200, "dur": 7}
    , {"ph": "X", "cat": "gpu_user_annotation", "name": "forward", "pid": 0, "tid": 7, "ts": 1200, "dur": 7})";
  Imported run("kineto",
               Imported::Files{{"rank0.json", rank_trace(0, 2, 0, 0, more)}, {"rank1.json", rank_trace(1, 2, 0)}});
  EXPECT_EQ(run.integer("SELECT count FROM loss WHERE kind = 'not_understood'"), 6);
  EXPECT_EQ(run.text("SELECT note FROM loss WHERE kind = 'not_understood'"),
            "events of categories that ddl does not understand: mtia_ccp_events (5), hpu_op (1): left out");
  Imported whole("kineto", Imported::Files{{"rank0.json", rank_trace(0, 2, 0)}, {"rank1.json", rank_trace(1, 2, 0)}});
  EXPECT_EQ(whole.integer("SELECT count(*) FROM loss WHERE kind = 'not_understood'"), 0);
}

TEST(Kineto, NamesOfWorkersAreNotHosts) {
  const auto host = [](const std::string& file) {
    Imported run("kineto", Imported::Files{{file, rank_trace(0, 2, 0)}});
    return run.text("SELECT name FROM host");
  };
  EXPECT_EQ(host("node7_4242.1623143089861.pt.trace.json"), "node7");
  EXPECT_EQ(host("worker0_5.1623143089861.pt.trace.json"), "host of worker0_5.1623143089861.pt.trace.json");
}

TEST(Kineto, ClocksOfUnknownHostsAreNotTrusted) {
  const Imported::Files files{{"worker0.json", rank_trace(0, 3, 0)}, {"worker1.json", rank_trace(1, 3, 100)}};
  Imported apart("kineto", files);
  EXPECT_EQ(apart.integer("SELECT count(*) FROM host WHERE sigma_ns IS NULL AND method = 'realtime'"), 2);
  EXPECT_EQ(
      apart.integer(
          "SELECT count(*) FROM v_collective WHERE wait_method = 'min-duration' AND wait_ns = iif(rank = 0, 100000, 0)"),
      6);
  Imported together("kineto", Imported::Files{{"node1_12.99.pt.trace.json", rank_trace(0, 3, 0)},
                                              {"node1_13.99.pt.trace.json", rank_trace(1, 3, 100)}});
  EXPECT_EQ(together.text("SELECT name || method || sigma_ns FROM host"), "node1single-host0.0");
  EXPECT_EQ(together.integer("SELECT count(*) FROM v_collective WHERE wait_method = 'max-start'"), 6);
}

TEST(Kineto, CollectivesAreMatchedStepByStep) {
  // The profiler of rank 1 saw one more allreduce of step 2, as if it had begun earlier: that step cannot be
  // matched, the others can.
  const std::string more =
      R"(,{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_TREE_LL128", "pid": 1, "tid": 20, "ts": 2900, "dur": 5, "args": {"device": 1, "stream": 20,
      "correlation": 99, "Collective name": "allreduce", "In msg nelems": 1, "Group size": 2, "dtype": "Float", "Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]"}})";
  Imported run("kineto",
               Imported::Files{{"worker0.json", rank_trace(0, 3, 0)}, {"worker1.json", rank_trace(1, 3, 100, 0, more)}},
               true);
  EXPECT_EQ(run.text("SELECT group_concat(DISTINCT step) FROM v_collective WHERE wait_ns IS NOT NULL"), "1,3");
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective"), 4);
  EXPECT_EQ(run.integer("SELECT count FROM loss WHERE kind = 'nccl_kernels'"), 3);
}

TEST(Kineto, TimesOfOtherEpochsMeet) {
  // Rank 1 counts from a base of its own.
  std::string based = rank_trace(1, 3, 100, -5'000'000);
  based.insert(1, R"("baseTimeNanoseconds": 5000000000, )");
  Imported run("kineto", Imported::Files{{"worker0.json", rank_trace(0, 3, 0)}, {"worker1.json", based}}, true);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE wait_ns = iif(rank = 0, 100000, 0)"), 6);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_step WHERE start_ns = (step - 1) * 1000000"), 6);
}

TEST(Kineto, TheLaunchOfAGraphCountsOnce) {
  // Each step has two launches of 10 us, and in steps 2 and 3 a graph of four kernels that takes 40 us to launch.
  // Kineto tells the nodes since 2023.
  for (const char* node : {"", R"(, "graph node id": {})"}) {
    std::string more;
    for (int n = 2; n <= 3; ++n) {
      more += fmt::format(
          R"(,{{"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 9, "tid": 9, "ts": {}, "dur": 40, "args": {{"correlation": {}}}}})",
          1000 * n + 450, 100 + n);
      for (int k = 1; k <= 4; ++k) {
        more += fmt::format(
            R"(,{{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": {}, "dur": 5, "args": {{"device": 0, "context": 1, "stream": 7, "correlation": {}{}}}}})",
            1000 * n + 500 + 10 * k, 100 + n, fmt::format(fmt::runtime(node), k));
      }
    }
    Imported run("kineto", Imported::Files{{"worker0.json", rank_trace(0, 3, 0, 0, more)}}, true);
    EXPECT_EQ(run.integer("SELECT count(graph_node) FROM gpu_event"), *node != 0 ? 8 : 0);
    EXPECT_EQ(run.text("SELECT group_concat(ns, ' ') FROM (SELECT ns FROM host_gpu ORDER BY step)"),
              "20000 60000 60000");
  }
}

TEST(Kineto, ARankWithoutEventsDoesNotHideTheEpoch) {
  // Rank 1 has the base of its times, and no event that ddl knows.
  std::string with_events = rank_trace(0, 3, 0), without = rank_trace(1, 0, 0);
  for (std::string* trace : {&with_events, &without})
    trace->insert(1, R"("baseTimeNanoseconds": 1700000000000000000, )");
  Imported run("kineto", Imported::Files{{"worker0.json", with_events}, {"worker1.json", without}});
  EXPECT_EQ(run.summary.ranks, 2u);
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'epoch_realtime_ns'"), "1700000000001000000");
}

TEST(Kineto, RefusesTwoFilesOfOneRank) {
  try {
    Imported run("kineto", Imported::Files{{"a.json", rank_trace(0, 1, 0)}, {"b.json", rank_trace(0, 1, 0)}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a.json and b.json are both traces of rank 0");
  }
}

TEST(Kineto, HostileTexts) {
  const std::string evil = R"(<script>alert(1)</script>\u001b[31m\u0000\ud83d\ude00 \"'`$(rm -rf) )"
                           "\xff\xfe";
  Imported run(
      "kineto",
      Imported::Files{
          {"w.json", R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": ")" + evil +
                         R"(", "pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": {"stream": 7, "correlation": 1}}]})"}});
  EXPECT_EQ(
      run.text("SELECT name FROM gpu_name"),
      "<script>alert(1)</script>\xEF\xBF\xBD[31m\xEF\xBF\xBD\xF0\x9F\x98\x80 \"'`$(rm -rf) \xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Kineto, NamesWhatIsWrongAndWhere) {
  const auto with = [](const std::string& event) {
    return R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, )" + event + "}]}";
  };
  const auto says = [&](const std::string& event, const std::string& part) {
    const std::string error = import_error("kineto", with(event));
    EXPECT_NE(error.find("trace.json, byte 17: " + part), std::string::npos) << error;
  };
  says(R"("ts": "x", "dur": 1)", "ts is \"x\", which is not a number that fits");
  says(R"("ts": 1)", "an event without ts and dur");
  says(R"("ts": 1e40, "dur": 1)", "ts is 1e40, which is not a number that fits");
  says(R"("ts": 1, "dur": 3000000000000000)", "the event lasts longer than twelve days");
  says(R"("ts": 1, "dur": 1, "args": {"stream": "abc"})",
       "args.stream is \"abc\", which is not a whole number that fits");
  EXPECT_NE(
      import_error(
          "kineto",
          R"([{"name": "aten::empty", "ph": "X", "ts": 268, "dur": 47, "tid": 1, "pid": "CPU functions", "args": {}}])")
          .find("the format of PyTorch's profiler before Kineto"),
      std::string::npos);
  EXPECT_NE(import_error("kineto", R"({"traceEvents": []})").find("trace.json has no event that ddl knows"),
            std::string::npos);
  EXPECT_NE(import_error("kineto", R"({"distributedInfo": {"rank": 1.5}, "traceEvents": []})")
                .find("distributedInfo.rank is not a whole number"),
            std::string::npos);
}

TEST(Kineto, CountsWhatEndsBeforeItBegins) {
  Imported run("kineto", Imported::Files{{"w.json", rank_trace(0, 1, 301)}});
  EXPECT_EQ(run.integer("SELECT count FROM loss WHERE kind = 'bad_times'"), 1);
}

/// A call of the host that waits for the GPU, us from the begin of step 1, and what the device tells of it.
std::string synchronisation(const char* name, int64_t us, int64_t length_us, int correlation) {
  return fmt::format(
      R"(, {{"ph": "X", "cat": "cuda_runtime", "name": "{}", "pid": 9, "tid": 9, "ts": {}, "dur": {}, "args": {{"correlation": {}}}}})",
      name, 1000 + us, length_us, correlation);
}

TEST(Kineto, CallsThatWaitForTheGpuAreKeptOnce) {
  const std::string told =
      R"(, {"ph": "X", "cat": "cuda_sync", "name": "Context Sync", "pid": 0, "tid": 7, "ts": 1601, "dur": 198, "args": {"stream": -1, "correlation": 90, "device": 0, "context": 1}})";
  Imported run("kineto",
               Imported::Files{{"rank0.json", rank_trace(0, 3, 0, 0,
                                                         synchronisation("cudaDeviceSynchronize", 600, 200, 90) + told +
                                                             synchronisation("cudaStreamSynchronize", 850, 20, 91))}});
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(name || ' ' || duration_ns, ', ') FROM (SELECT * FROM v_gpu WHERE kind = 'sync' ORDER BY start_ns)"),
      "[CUDA synchronisation: Context Sync] 198000, [CUDA synchronisation: Stream Sync] 20000");
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_gpu WHERE kind = 'sync' AND launch_ns IS NOT NULL"), 2);
  // Two launches of 10 us, and both waits.
  EXPECT_EQ(run.integer("SELECT ns FROM host_gpu WHERE step = 1"), 238'000);
  // The host waits from 600 on for the allreduce, which is over at 800; behind the call that returns then it
  // only ends the step.
  EXPECT_EQ(run.integer("SELECT sum(time_ns) FROM v_critical_path WHERE step = 1"), 1'000'000);
  EXPECT_EQ(run.integer("SELECT time_ns FROM v_critical_path WHERE step = 1 AND kind = 'collective'"), 300'000);
}

TEST(Kineto, MemoryIsATimeline) {
  const auto memory = [](int64_t ts, int64_t bytes, int device, const std::string& totals) {
    return fmt::format(
        R"(, {{"ph": "i", "s": "t", "name": "[memory]", "pid": 9, "tid": 9, "ts": {}, "args": {{"Device Type": {}, "Device Id": {}, "Bytes": {}{}}}}})",
        ts, device < 0 ? 0 : 1, device, bytes, totals);
  };
  // In no order. GPU 0 tells what it holds, the host only what changes.
  const std::string more = memory(2150, -300, 0, R"(, "Total Allocated": 700, "Total Reserved": 2000)") +
                           memory(1150, 1000, 0, R"(, "Total Allocated": 1000, "Total Reserved": 2000)") +
                           memory(2200, -40, -1, "") + memory(1200, 100, -1, "");
  Imported run("kineto", Imported::Files{{"rank0.json", rank_trace(0, 3, 0, 0, more)}});
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(device || ' ' || what || ' ' || step || ' ' || bytes, ', ') FROM (SELECT * FROM v_memory ORDER BY device, what, time_ns)"),
      "cpu since begin 1 100, cpu since begin 2 60, cuda:0 allocated 1 1000, cuda:0 allocated 2 700, cuda:0 reserved 1 2000, cuda:0 reserved 2 2000");
}

TEST(Kineto, CountersBelongToTheOperatorThatLaunchedTheKernel) {
  // Two kernels a step were launched: under aten::linear, and outside of operators.
  const auto counted = [](int kernels) {
    std::string more;
    for (int k = kernels; k >= 1; --k)
      more += fmt::format(
          R"(, {{"ph": "X", "cat": "cuda_profiler_range", "name": "k", "pid": 0, "tid": 0, "ts": {}, "dur": 5, "args": {{"sm__cycles.sum": {}, "dram.avg": 2.6}}}})",
          5000 + 10 * k, 100 * k);
    return more;
  };
  Imported run("kineto", Imported::Files{{"rank0.json", rank_trace(0, 2, 0, 0, counted(4))}});
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(step || ' ' || operator || ' ' || counter || ' ' || value, ', ') FROM (SELECT * FROM v_operator_counter"
          " ORDER BY step, operator, counter DESC)"),
      "1  sm__cycles.sum 200, 1  dram.avg 3, 1 aten::linear sm__cycles.sum 100, 1 aten::linear dram.avg 3, 2  sm__cycles.sum 400, 2  dram.avg 3,"
      " 2 aten::linear sm__cycles.sum 300, 2 aten::linear dram.avg 3");
  EXPECT_EQ(run.integer("SELECT value FROM v_counter WHERE counter = 'sm__cycles.sum' AND kind = 'step'"), 1000);
  // One more than were launched: they still count, but to no operator.
  Imported other("kineto", Imported::Files{{"rank0.json", rank_trace(0, 2, 0, 0, counted(5))}});
  EXPECT_EQ(
      other.integer("SELECT sum(value) FROM v_operator_counter WHERE counter = 'sm__cycles.sum' AND operator = ''"),
      1500);
  EXPECT_EQ(other.integer("SELECT sum(count) FROM loss WHERE kind = 'counters'"), 5);
}

TEST(Kineto, ArgumentsThatAreNoNumbersDoNotEndAnImport) {
  std::string more;
  for (const char* value : {"NaN", "Infinity", "-Infinity", "Inf", "-Inf"})
    more += fmt::format(
        R"(, {{"ph": "X", "cat": "cpu_op", "name": "aten::scale", "pid": 9, "tid": 9, "ts": 1700, "dur": 1, "args": {{"Concrete Inputs": ["", {0}], "scale": {0}}}}})",
        value);
  Imported run("kineto", Imported::Files{{"rank0.json", rank_trace(0, 2, 0, 0, more)}});
  EXPECT_EQ(
      run.integer("SELECT count(*) FROM range_event e JOIN region r ON r.id = e.region WHERE r.name = 'aten::scale'"),
      5);
}

TEST(Kineto, SequencesOfKernelsAreThoseOfEachCall) {
  // us from the begin of the step. What `thread` launches at `launch` runs from `begin` on, for `length`.
  std::string more;
  int number = 1000;
  const auto range = [&](int step, int thread, const char* name, int64_t begin, int64_t length) {
    more += fmt::format(R"(, {{"ph": "X", "cat": "cpu_op", "name": "{}", "pid": 9, "tid": {}, "ts": {}, "dur": {}}})",
                        name, thread, 1000 * step + begin, length);
  };
  const auto launched = [&](int step, int thread, const char* name, int64_t launch, int64_t begin, int64_t length) {
    more += fmt::format(
        R"(, {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": {}, "ts": {}, "dur": 2, "args": {{"correlation": {}}}}})"
        R"(, {{"ph": "X", "cat": "{}", "name": "{}", "pid": 0, "tid": 7, "ts": {}, "dur": {}, "args": {{"device": 0, "context": 1, "stream": 7, "correlation": {}}}}})",
        thread, 1000 * step + launch, number, *name == 'M' ? "gpu_memcpy" : "kernel", name, 1000 * step + begin, length,
        number);
    ++number;
  };
  for (int step = 1; step <= 2; ++step) {
    range(step, 9, "attention", 600, 100);
    range(step, 9, "aten::copy_", 610, 20);
    launched(step, 9, "Memcpy HtoD (Pageable -> Device)", 612, 690, 5);  // given first, and last to begin
    launched(step, 9, "softmax", 640, 660, 7);
    range(step, 8, "attention", 620, 50);  // beside it, on another thread
    launched(step, 8, "scale", 625, 661, 3);
  }
  range(1, 9, "attention", 650, 30);  // inside its like
  launched(1, 9, "gemm", 655, 670, 11);
  launched(1, 9, "scale", 720, 730, 3);  // in no operator
  Imported run("kineto", Imported::Files{{"rank0.json", rank_trace(0, 3, 0, 0, more)}});
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(step || ' ' || range_name || ' ' || calls || ' ' || gpu_ns || ' ' || host_ns || ' ' || sequence, '\n')"
          " FROM (SELECT * FROM v_kernel_sequence WHERE kind = 'operator' ORDER BY step, range_name, sequence)"),
      "1 aten::copy_ 1 5000 20000 [CUDA memcpy HtoD]\n"
      "1 aten::linear 1 300000 200500 gemm\n"
      "1 attention 1 3000 50000 scale\n"
      "1 attention 1 23000 100000 softmax | gemm | [CUDA memcpy HtoD]\n"
      "2 aten::copy_ 1 5000 20000 [CUDA memcpy HtoD]\n"
      "2 aten::linear 1 300000 200500 gemm\n"
      "2 attention 1 3000 50000 scale\n"
      "2 attention 1 12000 100000 softmax | [CUDA memcpy HtoD]\n"
      "3 aten::linear 1 300000 200500 gemm");
}

}  // namespace
}  // namespace ddl::test
