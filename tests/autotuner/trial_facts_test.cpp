// What the tuner reads of a recorded trial.
#include "autotuner/trial_facts.h"
#include "autotuner/goal.h"

#include <gtest/gtest.h>

#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

Tables two_ranks() {
  Tables run(2);
  for (int64_t step = 0; step < 10; ++step)
    for (int64_t rank = 0; rank < 2; ++rank) run.step(rank, step, step * 100_ms, step * 100_ms + 90_ms, 10_ms);
  run.exec("INSERT INTO process_fact VALUES (1, 'peak_memory_bytes', '2000'), (2, 'peak_memory_bytes', '3000')");
  return run;
}

TEST(TrialFacts, MemoryIsThatOfTheRankThatNeedsMost) {
  Tables run = two_ranks();
  run.analyze();
  const tune::TrialFacts facts = tune::read_trial(run.db());
  EXPECT_EQ(facts.memory_bytes, 3000);
  EXPECT_FALSE(facts.memory_of_gpu);
}

TEST(TrialFacts, MemoryIsTheGpusWhereItWasSampled) {
  Tables run = two_ranks();
  run.exec(
      "INSERT INTO node_sample VALUES (1, 0, 'gpu A', 'memory_used_bytes', 500), (1, 1, 'gpu A', 'memory_used_bytes', 700), "
      "(2, 0, 'gpu B', 'memory_used_bytes', 600), (1, 0, 'gpu A', 'memory_total_bytes', 9000)");
  run.analyze();
  const tune::TrialFacts facts = tune::read_trial(run.db());
  EXPECT_EQ(facts.memory_bytes, 700);
  EXPECT_TRUE(facts.memory_of_gpu);
}

TEST(TrialFacts, SizesOfAllreducesAreThoseOfAllRanks) {
  Tables run = two_ranks();
  run.exec(
      "INSERT INTO communicator (id, world, uid, label, size, kind) VALUES (901, 0, 901, 'all', 2, 'intra'), (902, 0, 902, 'one', 1, 'intra');"
      "INSERT INTO op (id, name, class, nonblocking) VALUES (901, 'MPI_Allreduce', 'collective', 0), (902, 'MPI_Iallreduce', 'collective', 1);"
      "INSERT INTO profile (process, op, comm, region, size_class, calls, bytes, time_ns, time_estimated) VALUES "
      "(1, 901, 901, 0, 17, 5, 400000, 1, 0), (2, 901, 901, 0, 3, 5, 20, 1, 0), (1, 901, 902, 0, 9, 5, 2000, 1, 0), (1, 902, 901, 0, 11, 5, 9000, 1, 0)");
  run.analyze();
  EXPECT_EQ(tune::read_trial(run.db()).allreduce_size_classes, (std::set<int64_t>{3, 17}));
}

/// Steps of 90 ms, one every 100 ms; the loss of every n-th one is 2 before the given number of steps, then 0.5.
std::optional<double> seconds_to_loss(int64_t rank, int64_t every, int64_t needs) {
  Tables run(2);
  for (int64_t step = 0; step < 150; ++step) {
    for (int64_t r = 0; r < 2; ++r) run.step(r, step, step * 100_ms, step * 100_ms + 90_ms, 10_ms);
    if (step % every == every - 1)
      run.exec("INSERT INTO value VALUES (" + std::to_string(rank + 1) + ", " + std::to_string(step) + ", " +
               std::to_string(step * 100_ms + 50_ms) + ", 'loss', " + (step + 1 >= needs ? "0.5" : "2") + ")");
  }
  run.analyze();
  return tune::read_trial(run.db(), 1).target_s;
}

/// The mean of five losses is at 1 once four of them are; of fewer as soon as they are, wherever the last
/// five steps have any.
TEST(TrialFacts, TheTimeToALossIsOfStepsHoweverOftenTheyReportIt) {
  EXPECT_DOUBLE_EQ(*seconds_to_loss(0, 1, 60), 6.29);   // step 62 ends
  EXPECT_DOUBLE_EQ(*seconds_to_loss(0, 10, 60), 5.99);  // step 59 ends
  EXPECT_DOUBLE_EQ(*seconds_to_loss(0, 10, 120), 11.99);
  EXPECT_DOUBLE_EQ(*seconds_to_loss(0, 3, 60), 6.29);  // 2 and 0.5 at step 59, twice 0.5 at step 62
  EXPECT_DOUBLE_EQ(*seconds_to_loss(0, 1, 0), 0.49);   // five steps at least
  EXPECT_EQ(seconds_to_loss(0, 10, 200), std::nullopt);
}

TEST(TrialFacts, AJobWithoutLossesIsToldFromOneThatDoesNotLearn) {
  Tables silent = two_ranks();
  silent.analyze();
  tune::Goal goal;
  goal.target_loss = 0.2;
  EXPECT_NE(tune::outcome_of(tune::read_trial(silent.db(), 0.2), goal, {}).why.find("reports no loss"),
            std::string::npos);
  Tables slow = two_ranks();
  slow.exec("INSERT INTO value VALUES (1, 3, 350000000, 'loss', 2)");
  slow.analyze();
  EXPECT_NE(tune::outcome_of(tune::read_trial(slow.db(), 0.2), goal, {}).why.find("did not come to 0.2 in"),
            std::string::npos);
}

/// Rank 0 computes for 80 of 90 ms, rank 1 for 40: the parts are those of the mean rank, and add up.
TEST(TrialFacts, ThePartsOfTheMeanStepAddUp) {
  Tables run(2);
  for (int64_t step = 0; step < 10; ++step) {
    run.step(0, step, step * 100_ms, step * 100_ms + 90_ms, 10_ms);
    run.step(1, step, step * 100_ms, step * 100_ms + 90_ms, 50_ms);
  }
  run.analyze();
  const tune::TrialFacts facts = tune::read_trial(run.db());
  ASSERT_TRUE(facts.parts);
  const models::StepParts& parts = *facts.parts;
  EXPECT_NEAR(parts.step_s, 0.09, 1e-9);
  EXPECT_NEAR(parts.compute_s + parts.wait_s + parts.transfer_s + facts.unsplit_s + parts.copy_s + parts.idle_s,
              parts.step_s, 1e-9);
  EXPECT_NEAR(parts.compute_s, facts.compute_s - 0.02, 1e-9) << "that is the longest computing rank's";
}

TEST(TrialFacts, TheLossIsOfTheLowestRankThatReportsOne) { EXPECT_DOUBLE_EQ(*seconds_to_loss(1, 10, 60), 5.99); }

/// Two epochs of ten steps with the same numbers, in the second of which the values belong to no number: the mean of
/// five losses comes to 0.5 in its fifth step, the fifteenth of all.
TEST(TrialFacts, TheLossGoesOnFromEpochToEpoch) {
  Tables run = two_ranks();
  for (int64_t step = 0; step < 10; ++step)
    for (int64_t rank = 0; rank < 2; ++rank)
      run.step(rank, step, 1_s + step * 100_ms, 1_s + step * 100_ms + 90_ms, 10_ms);
  for (int64_t i = 0; i < 20; ++i)
    run.exec("INSERT INTO value VALUES (1, " + (i < 10 ? std::to_string(i) : "NULL") + ", " +
             std::to_string(i * 100_ms + 50_ms) + ", 'loss', " + (i < 10 ? "1" : "0.5") + ")");
  run.exec("INSERT INTO value VALUES (1, NULL, 95000000, 'loss', 0.1)");  // between two steps
  run.analyze();
  EXPECT_NEAR(tune::read_trial(run.db(), 0.5).target_s.value_or(-1), 1.49, 1e-9);
}

}  // namespace
}  // namespace ddl::test
