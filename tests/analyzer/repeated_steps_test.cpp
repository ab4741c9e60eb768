// Numbers of steps that each epoch uses again: the first use is measured, and what is said of a step is never made
// of two of its uses.
#include <gtest/gtest.h>

#include "analyzer/models/goodput.h"
#include "analyzer/models/replay_run.h"
#include "analyzer/models/run_consistency.h"
#include "analyzer/models/step_gradients.h"
#include "reports/overview.h"
#include "reports/trace/selection.h"
#include "tests/analyzer/findings_jobs.h"

namespace ddl::test {
namespace {

constexpr int64_t kEpochSteps = 20, kEpochRanks = 2;

/// Steps of 100 ms, 20 of them in an allreduce, for which rank 0 waits half of that. Those of the second epoch, with
/// the same numbers, last five times as long. As the ingest leaves it, what lies in them is in no step.
Tables two_epochs() {
  Tables run(kEpochRanks);
  run.exec("BEGIN");
  int64_t now_ns = 1_s, seq = 0;
  for (const int64_t times : {1, 5}) {
    for (int64_t s = 0; s < kEpochSteps; ++s) {
      const std::optional<int64_t> step = times == 1 ? std::optional(s) : std::nullopt;
      run.allreduce(++seq, {now_ns + times * 80_ms, now_ns + times * 90_ms}, times * 10_ms, 1_MB, step);
      for (const int64_t rank : {0, 1})
        run.step(rank, s, now_ns, now_ns + times * 100_ms, times * (rank == 0 ? 20_ms : 10_ms));
      now_ns += times * 100_ms;
    }
  }
  run.exec("COMMIT");
  run.analyze();
  return run;
}

TEST(RepeatedSteps, ThePartsOfAStepAreThoseOfItsFirstUse) {
  Tables run = two_epochs();
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_step"), 2 * kEpochRanks * kEpochSteps);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_step WHERE measured AND duration_ns = 100000000 AND compute_ns + exposed_ns = duration_ns"),
      kEpochRanks * kEpochSteps);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_step WHERE NOT measured AND duration_ns = 500000000 AND coalesce(compute_ns, comm_ns, exposed_ns,"
          " wait_ns, xfer_ns, idle_ns, sigma_ns) IS NULL"),
      kEpochRanks * kEpochSteps);
}

TEST(RepeatedSteps, ModelsSeeTheFirstUseOnly) {
  Tables run = two_epochs();
  const models::RunConsistency consistency = models::run_consistency(run.db(), 0);
  EXPECT_NEAR(consistency.recorded_step_s, 0.1, 1e-9);
  EXPECT_EQ(consistency.steps.size(), static_cast<size_t>(kEpochSteps - 5));
  const models::StepGradients gradients = models::step_gradients(run.db(), 0);
  EXPECT_NEAR(gradients.measured_s, 0.1, 1e-9);
  EXPECT_NEAR(gradients.compute_s, 0.09, 1e-9);
  EXPECT_NEAR(models::replay_run(run.db(), 0).recorded_step_s, 0.1, 1e-9);
}

/// How long ranks waited in the second use is not known.
TEST(RepeatedSteps, WaitingOfAnotherUseIsNotThatOfTheFirst) {
  Tables run = two_epochs();
  for (const char* fact : {"epoch_realtime_ns", "started_realtime_ns"}) run.meta(fact, "1700000000000000000");
  run.meta("ended_realtime_ns", "1700000100000000000");
  const models::RunTimes times = models::read_run_times(run.db(), "run").at(0);
  ASSERT_EQ(times.workers.size(), static_cast<size_t>(kEpochRanks));
  ASSERT_EQ(times.workers[0].steps.size(), static_cast<size_t>(2 * kEpochSteps));
  EXPECT_EQ(times.workers[0].steps[kEpochSteps - 1].wait_ns, 10e6);
  EXPECT_EQ(times.workers[0].steps[2 * kEpochSteps - 1].wait_ns, 0);
  EXPECT_FALSE(times.waiting_known);
}

TEST(RepeatedSteps, ReportsAndTracesShowTheFirstUse) {
  Tables run = two_epochs();
  const reports::RunView view(run.db(), std::nullopt);
  const reports::Document document = reports::build_section(view, "steps");
  const reports::Table& steps = document.tables.at(0);
  ASSERT_EQ(steps.rows.size(), static_cast<size_t>(kEpochSteps));
  EXPECT_EQ(steps.rows[7][1].as_integer(), 100_ms) << "duration";
  EXPECT_EQ(steps.rows[7][5].as_integer(), kEpochRanks);
  reports::select_processes(view, {.steps = reports::TraceRequest::Steps{3, 4}, .ranks = {}});
  EXPECT_EQ(run.integer("SELECT max(end_ns - begin_ns) FROM temp.trace_process"), 200_ms) << "not to the second use";
}

/// 0.1 of the step after its begin on rank 0, 0.2 on rank 1.
TEST(RepeatedSteps, ALateStartIsThatInTheFirstUse) {
  Tables run = two_epochs();
  run.exec(
      "INSERT INTO gpu_name VALUES (1, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL', 'communication');"
      "INSERT INTO gpu_event (id, process, kind, name, device, context, stream, region, step, thread, start_ns, duration_ns, correlation)"
      " SELECT row_number() OVER (), process, 1, 1, 0, 1, 7, 0, step, 0, start_ns + process * 10000000, 5000000, 0 FROM step WHERE measured");
  run.analyze();
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM rank_metric WHERE id = 'hta_late_start' AND abs(value - (rank + 1) * 0.1) < 1e-9"),
      kEpochRanks);
}

}  // namespace
}  // namespace ddl::test
