// What the tuner reads of a recorded trial.
#include "autotuner/trial_facts.h"

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

}  // namespace
}  // namespace ddl::test
