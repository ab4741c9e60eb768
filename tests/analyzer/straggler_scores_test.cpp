// Straggler scores of sections and ranks, against runs whose ranks are slow by a known factor.
#include "analyzer/passes/straggler_scores.h"

#include <gtest/gtest.h>

#include "tests/analyzer/analyzed.h"

namespace ddl::test {
namespace {

double of_rank(Analyzed& run, const std::string& id, int rank) {
  return run.db.execAndGet("SELECT value FROM rank_metric WHERE id = '" + id + "' AND rank = " + std::to_string(rank))
      .getDouble();
}

TEST(SectionScores, WeightedByTheTimeOfTheSection) {
  // Rank 1 takes twice as long in section 7 and half as long in section 8, where rank 0 spends a ninth of its time.
  const std::map<int64_t, std::map<int64_t, SectionTimes>> sections = {
      {0, {{7, {8, 80, {8, 8}}}, {8, {1, 10, {1, 1}}}}},
      {1, {{7, {16, 160, {16, 16}}}, {8, {0.5, 5, {0.25, 0.5}}}, {9, {1, 1000, {}}}}}};
  const auto scores = score_sections(sections);
  EXPECT_DOUBLE_EQ(*scores.at(0).relative, (80 * 1.0 + 10 * 0.5) / 90);
  EXPECT_DOUBLE_EQ(*scores.at(1).relative, (160 * 0.5 + 5 * 1.0) / 165);  // section 9 is nobody else's
  EXPECT_DOUBLE_EQ(*scores.at(0).individual, 1);
  EXPECT_DOUBLE_EQ(*scores.at(1).individual, (160 * 1.0 + 5 * 0.5) / 165);
}

TEST(SectionScores, ASlowRank) {
  SyntheticRun job = run().ranks(4).steps(40);
  job.layer("a", 10_ms).layer("b").compute(10_ms).on_rank(2).compute(20_ms).end_layer();
  Analyzed run(job.allreduce(1_MiB, 1_ms));
  EXPECT_NEAR(of_rank(run, "straggler_relative", 2), (10 * 1 + 30 / 3.0) / 40, 1e-6);
  for (const int rank : {0, 1, 3}) EXPECT_NEAR(of_rank(run, "straggler_relative", rank), 1, 1e-6);
  EXPECT_NEAR(of_rank(run, "straggler_individual", 2), 1, 1e-6);  // it always was
  EXPECT_DOUBLE_EQ(run.db.execAndGet("SELECT value FROM metric WHERE id = 'straggler_relative'").getDouble(),
                   of_rank(run, "straggler_relative", 2));
  EXPECT_DOUBLE_EQ(of_rank(run, "late_rate", 2), 1);
  EXPECT_DOUBLE_EQ(of_rank(run, "late_rate", 0), 0);
  EXPECT_DOUBLE_EQ(of_rank(run, "blame_of_rank", 2), 1);
  EXPECT_NEAR(run.db.execAndGet("SELECT sum(value) FROM rank_metric WHERE id = 'blame_of_rank'").getDouble(), 1, 1e-12);
}

TEST(SectionScores, ARankThatBecomesSlow) {
  SyntheticRun job = run().ranks(2).steps(50);
  Analyzed run(job.compute(10_ms).slow(1, 10_ms, 40).allreduce(1_MiB, 1_ms));
  EXPECT_NEAR(of_rank(run, "straggler_individual", 1), 0.5, 0.01);
  EXPECT_NEAR(of_rank(run, "straggler_individual", 0), 1, 1e-6);
}

TEST(SectionScores, UndefinedSaysWhy) {
  Analyzed alone(run().ranks(1).steps(20).compute(1_ms).barrier());
  EXPECT_EQ(alone.text("SELECT why FROM metric WHERE id = 'straggler_relative'"), "NOT_APPLICABLE");
  Analyzed partial(run().ranks(3).steps(20).compute(1_ms).barrier().missing(1));
  EXPECT_EQ(partial.text("SELECT why FROM metric WHERE id = 'blame_of_rank'"), "NO_DATA");
}

}  // namespace
}  // namespace ddl::test
