// The parts of a job's wall time, of runs whose every number is known.
#include "analyzer/models/goodput.h"

#include <gtest/gtest.h>

#include <numeric>

#include "core/error.h"
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
    for (int64_t i = 0; i < steps; ++i) worker.steps.push_back({first + i, 1_s + i * 1_s, 2_s + i * 1_s, w == 0 ? 0.0 : 0.25e9});
    worker.end_ns = 1_s + steps * 1_s;
    run.workers.push_back(worker);
  }
  return run;
}

double seconds(const Goodput& goodput, WallPart part) { return goodput.parts[part] * 1e-9; }

void expect_sums(const Goodput& goodput) {
  EXPECT_NEAR(std::accumulate(goodput.parts.begin(), goodput.parts.end(), 0.0), goodput.wall_ns, 1);
  for (const RunGoodput& run : goodput.runs)
    EXPECT_NEAR(std::accumulate(run.parts.begin(), run.parts.end(), 0.0), static_cast<double>(run.wall_ns), 1) << run.name;
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

TEST(Goodput, RunsAtTheSameTimeAreNoRestarts) { EXPECT_THROW(goodput_of({run_of(0, 0, 100), run_of(50, 0, 100)}), Error); }

}  // namespace
}  // namespace ddl::test
