// What the report says of the steps it counts: which were left out and why, and where their number is ambiguous.
#include "reports/step_remarks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analyzer/analyze.h"
#include "reports/overview.h"
#include "store/database.h"
#include "store/ingest.h"
#include "store/run_directory.h"
#include "tests/reports/handmade_run.h"
#include "tests/support/synthetic_run.h"

namespace ddl::reports {
namespace {

using namespace ddl::test::literals;

/// All collectives from one call site: a loop over tensors.
std::string remarks_of(const test::SyntheticRun& job) {
  const test::ScratchFolder folder;
  job.write(folder.path());
  const RunDirectory directory = find_run(folder.path().string());
  ingest(directory);
  SQLite::Database db = open_store(directory.store, Access::kReadWrite);
  db.exec("UPDATE event SET site = NULL");
  analyze(db);
  return step_remarks(RunView(db, std::nullopt));
}

// hvd.join(), or a rank whose loader runs out.
TEST(StepRemarks, StepsThatARankDidNotMakeAreNotMissingFromItsRecord) {
  test::HandmadeRun run;
  run.db().exec(
      "DELETE FROM loss; DELETE FROM step WHERE process = 1 AND step >= 9; DELETE FROM step_part WHERE process = 1 AND step >= 9");
  EXPECT_EQ(step_remarks(test::view_of(run.db())), "; 3 of 12 left out: rank 0 made 9 steps only");
  run.db().exec("INSERT INTO loss VALUES (0, 0, 'not_kept', 3, 'events')");
  EXPECT_EQ(step_remarks(test::view_of(run.db())), "; 3 of 12 left out: not recorded on every rank");
}

// A setup that takes as long as all steps together. 30 steps of 20 ms and 1 us of a barrier.
TEST(StepRemarks, StepsThatAreNotMostOfTheRun) {
  test::SyntheticRun job = test::run().ranks(2).steps(30).setup().compute(600_ms).each_step().compute(20_ms).barrier();
  EXPECT_EQ(remarks_of(job), "; all steps are 600 ms of the run's 1.20 s: 600 ms before them");
  EXPECT_EQ(remarks_of(test::SyntheticRun(job).window(10, 19)).find("all steps are"), std::string::npos)
      << "steps that were not kept are not beside the steps";
  EXPECT_EQ(remarks_of(test::run().ranks(2).steps(30).compute(20_ms).barrier().gap(20_ms)),
            "; all steps are 600 ms of the run's 1.20 s: 580 ms between them");
  EXPECT_EQ(remarks_of(test::run().ranks(2).steps(30).compute(20_ms).barrier().gap(1_ms)), "");
}

// All 12 took their time, and what was done in 4 of them is known, the warm-up: STEP is of the 7 others.
TEST(StepRemarks, StepsWithoutASampleTakeTheirTimeAllTheSame) {
  test::HandmadeRun run;
  run.db().exec("DELETE FROM loss; DELETE FROM step_part WHERE process = 1 AND step >= 4");
  test::view_of(run.db());
  run.db().exec(
      "INSERT INTO background_process VALUES (1, 0, 1, NULL); INSERT INTO timed_step SELECT DISTINCT 0, step, 80000000, 5 FROM step WHERE "
      "step >= 5");
  const RunView view(run.db(), std::nullopt);
  EXPECT_EQ(view.facts.step.p50_ns, 80'000'000);
  EXPECT_EQ(step_remarks(view), "; where the time goes is known of 4 of 12: the others were not sampled on every rank");
}

// Horovod's ranks wait for the one that is ready last, which need not enter last.
TEST(Blame, OfAJobThatNegotiatesIsOfReadiness) {
  test::HandmadeRun run;
  const auto says = [&](std::string_view words) {
    const RunView view(run.db(), std::nullopt);
    return blame_table(view).caption.find(words) != std::string::npos &&
           axis_blame_table(view).caption.find(words) != std::string::npos;
  };
  test::view_of(run.db());
  EXPECT_TRUE(says("last rank to enter"));
  run.db().exec("INSERT INTO negotiation VALUES (1, 1, 1, NULL, 0, 10, 0, 10)");
  EXPECT_TRUE(says("last rank to be ready for a reduction"));
}

TEST(StepRemarks, WhatPythonsHooksSayOfTheirSteps) {
  test::HandmadeRun run;
  run.db().exec("INSERT INTO process_fact VALUES (1, 'torch.steps', 'several optimizers step')");
  EXPECT_EQ(step_remarks(test::view_of(run.db())), "; several optimizers step");
}

// Nothing but the computing between them tells four equal collectives a step from one.
TEST(StepRemarks, EqualCollectivesMayBeSeveralOfAStep) {
  test::SyntheticRun job = test::run().ranks(2).steps(30).no_steps();
  job.compute(20_ms);
  for (int i = 0; i < 4; ++i) job.allreduce(1_MiB, 1_ms).compute(i < 3 ? 2_ms : 0);
  EXPECT_NE(
      remarks_of(job).find(
          "; how many is ambiguous: all collectives are alike, and before every 4th 20.0 ms are computed, before the others "
          "2.00 ms: a step of the job may hold 4"),
      std::string::npos)
      << remarks_of(job);
  test::SyntheticRun one = test::run().ranks(2).steps(60).no_steps();
  one.compute(20_ms).allreduce(1_MiB, 1_ms);
  EXPECT_NE(remarks_of(one).find(
                "; how many is ambiguous: all collectives are alike, and a step of the job may hold several"),
            std::string::npos)
      << remarks_of(one);
  test::SyntheticRun two = test::run().ranks(2).steps(60).no_steps();
  two.compute(20_ms).allreduce(1_MiB, 1_ms).compute(2_ms).allreduce(2_MiB, 2_ms);
  EXPECT_EQ(remarks_of(two).find("ambiguous"), std::string::npos) << remarks_of(two);
}

}  // namespace
}  // namespace ddl::reports
