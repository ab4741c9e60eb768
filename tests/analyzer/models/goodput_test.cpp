// The parts of a job's wall time, of runs whose every number is known.
#include "analyzer/models/goodput.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "core/error.h"
#include "tests/analyzer/analyzed.h"
#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

using namespace models;

constexpr int64_t kStart = 1'700'000'000'000'000'000;

/// Starts 2 s before its first sign of life; steps of a second from `first` on, and a second behind the last.
RunTimes run_of(int64_t start_s, int64_t first, int64_t steps, int workers = 2) {
  RunTimes run;
  run.name = "r" + std::to_string(start_s);
  run.start_realtime_ns = kStart + start_s * 1_s;
  run.offset_ns = 2_s;
  run.wall_ns = (4 + steps) * 1_s;
  run.ended_by = "finished";
  for (int w = 0; w < workers; ++w) {
    WorkerTimes worker;
    for (int64_t i = 0; i < steps; ++i)
      worker.steps.push_back({first + i, 1_s + i * 1_s, 2_s + i * 1_s, w == 0 ? 0.0 : 0.25e9});
    worker.end_ns = 1_s + steps * 1_s;
    run.workers.push_back(worker);
  }
  return run;
}

double seconds(const Goodput& goodput, WallPart part) { return goodput.parts[part] * 1e-9; }

void expect_sums(const Goodput& goodput) {
  EXPECT_NEAR(std::accumulate(goodput.parts.begin(), goodput.parts.end(), 0.0), goodput.wall_ns, 1);
  for (const RunGoodput& run : goodput.runs)
    EXPECT_NEAR(std::accumulate(run.parts.begin(), run.parts.end(), 0.0), static_cast<double>(run.wall_ns), 1)
        << run.name;
}

TEST(Goodput, OfOneRunThatEndedWell) {
  RunTimes run = run_of(0, 0, 10);
  run.workers[0].checkpoints = {{3_s + 500_ms, 3_s + 700_ms}, {3_s + 600_ms, 3_s + 900_ms}};  // within each other
  run.workers[1].loading = {{5_s, 5_s + 100_ms}};
  const Goodput goodput = goodput_of({run});
  expect_sums(goodput);
  EXPECT_NEAR(goodput.wall_ns, 14e9, 1);
  EXPECT_NEAR(seconds(goodput, kStartUp), 3, 1e-9);
  EXPECT_NEAR(seconds(goodput, kShutDown), 1, 1e-9);
  EXPECT_NEAR(seconds(goodput, kCheckpoints), 0.4 / 2, 1e-9);
  EXPECT_NEAR(seconds(goodput, kLoading), 0.1 / 2, 1e-9);
  EXPECT_NEAR(seconds(goodput, kWaitingPart), 2.5 / 2, 1e-9);
  EXPECT_NEAR(seconds(goodput, kProductive), 10 - 0.2 - 0.05 - 1.25, 1e-9);
  EXPECT_EQ(goodput.lost_steps, 0);
}

TEST(Goodput, RestartsLoseWhatTheNextRunDoesAgain) {
  RunTimes first = run_of(0, 0, 13), second = run_of(30, 10, 7), third = run_of(50, 15, 5);
  first.failed = second.failed = true;
  const Goodput goodput = goodput_of({third, first, second});  // in any order
  expect_sums(goodput);
  ASSERT_EQ(goodput.runs.size(), 3u);
  EXPECT_EQ(goodput.runs[0].lost_steps, 3);
  EXPECT_EQ(goodput.runs[1].lost_steps, 2);
  EXPECT_EQ(goodput.runs[2].lost_steps, 0);
  EXPECT_EQ(goodput.runs[0].lost_by, "numbers");
  EXPECT_EQ(goodput.lost_steps, 5);
  EXPECT_NEAR(seconds(goodput, kLost), 5, 1e-9);
  EXPECT_NEAR(seconds(goodput, kDown), (30 - 17) + (50 - 30 - 11), 1e-9);
  EXPECT_NEAR(goodput.wall_ns, 59e9, 1);
}

TEST(Goodput, WhereNumbersBeginAnewTheLastCheckpointTells) {
  RunTimes first = run_of(0, 0, 10), second = run_of(30, 0, 10);
  first.workers[0].checkpoints = {{5_s, 6_s}};  // the fifth second is step 4
  first.failed = true;
  const Goodput goodput = goodput_of({first, second});
  expect_sums(goodput);
  EXPECT_EQ(goodput.runs[0].lost_steps, 5) << "5 to 9 ended behind it";
  EXPECT_EQ(goodput.runs[0].lost_by, "checkpoint");
  first.workers[1].steps[4].end_ns += 10_ms;
  first.workers[1].steps[5].start_ns += 10_ms;
  EXPECT_EQ(goodput_of({first, second}).runs[0].lost_steps, 5) << "rank 0 saved step 4, which rank 1 ended after that";
  first.workers[0].checkpoints.clear();
  EXPECT_EQ(goodput_of({first, second}).runs[0].lost_steps, 10);
  EXPECT_EQ(goodput_of({first}).lost_steps, 0) << "nobody knows";
}

// A benchmark that is run twice, without checkpoints.
TEST(Goodput, WhatFinishedAndIsDoneAgainIsNotLost) {
  RunTimes first = run_of(0, 0, 10);
  const Goodput goodput = goodput_of({first, run_of(30, 0, 10)});
  expect_sums(goodput);
  EXPECT_EQ(goodput.lost_steps, 0);
  EXPECT_EQ(goodput.steps, 20);
  first.ended_by = "exited";  // with which code is not known
  EXPECT_EQ(goodput_of({first, run_of(30, 0, 10)}).lost_steps, 10);
}

TEST(Goodput, StallsAndTheStepThatNeverEnded) {
  RunTimes run = run_of(0, 0, 5, 1);
  run.workers[0].open_step_ns = 6_s;
  run.workers[0].end_ns = 7_s;
  run.wall_ns = 30_s;
  run.stalls = {{6_s + 500_ms, 26_s}};
  run.failed = true;
  run.workers[0].checkpoints = {{1_s, 1_s + 100_ms}};
  const Goodput goodput = goodput_of({run});
  expect_sums(goodput);
  EXPECT_NEAR(seconds(goodput, kStalls), 19.5, 1e-9);
  EXPECT_NEAR(seconds(goodput, kLost), 5 + 0.5, 1e-9) << "all steps behind the checkpoint ended, and the open one";
  EXPECT_EQ(goodput.lost_steps, 5);
}

TEST(Goodput, WarmUpIsWhatFirstStepsTakeLonger) {
  RunTimes run = run_of(0, 0, 10, 1);
  run.workers[0].steps[0].start_ns = -1_s;  // three seconds
  run.warmup = 2;
  const Goodput goodput = goodput_of({run});
  expect_sums(goodput);
  EXPECT_NEAR(seconds(goodput, kWarmUp), 2, 1e-9);
  EXPECT_NEAR(seconds(goodput, kProductive), 10, 1e-9);
}

/// Reads the jobs of a folder: its recording.
std::vector<RunTimes> recorded(const std::vector<SyntheticRun>& jobs, const std::string& name = "job") {
  const ScratchFolder folder;
  for (const SyntheticRun& job : jobs) job.write(folder.path());
  const RunDirectory directory = find_run(folder.path().string());
  ingest(directory);
  SQLite::Database db = open_store(directory.store, Access::kReadWrite);
  ddl::analyze(db);
  return read_run_times(db, name);
}

/// 4 ranks; each step 12 ms.
SyntheticRun start_of(uint64_t first, uint64_t steps, int64_t begin_ns) {
  return run()
      .ranks(4)
      .steps(steps, first)
      .compute(10_ms)
      .allreduce(4_MiB, 2_ms)
      .world(0x100 + first, begin_ns, 1000 + static_cast<uint32_t>(first));
}

TEST(Goodput, OfTwoJobsInOneRecordingIsThatOfTwoRecordings) {
  const SyntheticRun first = start_of(0, 100, 0), second = start_of(100, 100, 1300_ms);
  const std::vector<RunTimes> together = recorded({first, second});
  ASSERT_EQ(together.size(), 2u);
  EXPECT_EQ(together[0].name, "job #1");
  EXPECT_EQ(together[1].name, "job #2");
  std::vector<RunTimes> apart = recorded({first}, "a");
  ASSERT_EQ(apart.size(), 1u);
  EXPECT_EQ(apart[0].name, "a");
  apart.push_back(recorded({start_of(100, 100, 0)}, "b")[0]);
  apart[1].start_realtime_ns += 1300_ms;
  const Goodput one = goodput_of(together), two = goodput_of(apart);
  expect_sums(one);
  for (size_t p = 0; p < kWallParts; ++p) EXPECT_NEAR(one.parts[p], two.parts[p], 1) << kWallPartNames[p].id;
  EXPECT_NEAR(one.parts[kProductive] / one.wall_ns, 2.4 / (1.3 + 1.2033), 1e-3);
  EXPECT_EQ(one.steps, 200);
  EXPECT_EQ(one.lost_steps, 0);
  for (const RunGoodput& of : one.runs) EXPECT_EQ(of.workers, 4u);
  EXPECT_NEAR(seconds(one, kDown), 1.3 - static_cast<double>(one.runs[0].wall_ns) * 1e-9, 1e-9);
}

TEST(Goodput, ARestartInsideOfARecordingLosesSteps) {
  const std::vector<RunTimes> starts = recorded({start_of(0, 100, 0).killed(2, 13), start_of(10, 30, 5_s)});
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_TRUE(starts[0].failed);
  EXPECT_FALSE(starts[1].failed);
  EXPECT_NE(starts[0].ended_by.find("ended abnormally"), std::string::npos) << starts[0].ended_by;
  EXPECT_EQ(starts[1].ended_by, "finished");
  const Goodput goodput = goodput_of(starts);
  expect_sums(goodput);
  EXPECT_EQ(goodput.runs[0].lost_steps, 3) << "10 to 12";
  EXPECT_EQ(goodput.runs[0].lost_by, "numbers");
  EXPECT_EQ(goodput.steps, 13 + 30);
  EXPECT_GT(seconds(goodput, kLost), 3 * 0.012 - 1e-9);
}

TEST(Goodput, WorldsThatOverlapAreOneStart) {
  const std::vector<RunTimes> starts =
      recorded({start_of(0, 100, 0), start_of(7, 20, 300_ms), start_of(100, 100, 2_s)});
  ASSERT_EQ(starts.size(), 2u) << "the second began inside of the first";
  EXPECT_EQ(starts[0].workers.size(), 8u);
  EXPECT_EQ(starts[1].workers.size(), 4u);
  EXPECT_EQ(starts[0].worlds, (std::set<int64_t>{0, 1}));
  const Goodput goodput = goodput_of(starts);
  expect_sums(goodput);
  EXPECT_EQ(goodput.lost_steps, 0) << "7 to 26 ran beside the first, not after it";
  EXPECT_EQ(goodput.runs[0].steps, 100) << "each world counts by itself";
  EXPECT_EQ(goodput.runs[0].worlds, 2u);
}

TEST(Goodput, RunsAtTheSameTimeAreNoRestarts) {
  EXPECT_THROW(goodput_of({run_of(0, 0, 100), run_of(50, 0, 100)}), Error);
}

}  // namespace
}  // namespace ddl::test
