// What findings say that a fault costs, against the same virtual job without it (tests/support/training_job.h):
// one job of each kind whose saving a rule told wrong, where a replay of the steps tells it. injected_findings
// does so by the hundred.
#include <gtest/gtest.h>

#include "tests/analyzer/analyzed.h"
#include "tests/support/training_job.h"

namespace ddl::test {
namespace {

constexpr double kNear = 0.05;

struct Costly {
  const char* finding;
  Fault fault;
  uint64_t seed;
  const char* before;
  bool at_most = false;  ///< nothing recorded tells more than a bound
};

constexpr Costly kCostly[] = {
    {"batch_too_small", Fault::kSmallBatch, 3800009, "half of the transfers were 13.6 of 15.5 %"},
    {"host_bound", Fault::kHostBound, 3800007, "without what launches take, 18.9 of 22.4 %"},
    {"pipeline_bubble", Fault::kBubble, 3800066, "as a share of the whole step, 7.1 of 6.6 %"},
    {"small_collectives", Fault::kSmallTensors, 3800053, "in proportion to the bytes, 8.3 of 26.1 %", true},
    {"small_collectives", Fault::kSmallTensors, 3800032, "although a transfer goes on behind them, 10.7 of 6.5 %",
     true},
};

SQLite::Database analyzed(const TrainingJob& job, const ScratchFolder& folder) {
  write_training_job(job, folder.path());
  const RunDirectory directory = find_run(folder.path().string());
  ingest(directory);
  SQLite::Database db = open_store(directory.store, Access::kReadWrite);
  ddl::analyze(db);
  return db;
}

TEST(Savings, AreWhatTheJobSavesWithoutTheFault) {
  for (const Costly& one : kCostly) {
    const TrainingJob job = draw_training_job(one.seed, {one.fault});
    const ScratchFolder folder;
    SQLite::Database db = analyzed(job, folder);
    SQLite::Statement row(db, "SELECT share_ratio, saving_bound IS 'upper' FROM finding WHERE id = ?");
    row.bind(1, one.finding);
    ASSERT_TRUE(row.executeStep()) << one.finding;
    const double of_cost = row.getColumn(0).getDouble() / job.faults[0].cost;
    EXPECT_EQ(row.getColumn(1).getInt() != 0, one.at_most) << one.finding << ": " << one.before;
    if (one.at_most) {
      EXPECT_GE(of_cost, 1 - kNear) << one.finding << ": " << one.before;
    } else {
      EXPECT_NEAR(of_cost, 1, kNear) << one.finding << ": " << one.before;
    }
  }
}

/// In some of the steps the slowest one is a rank that left no record: their length tells. Behind non-blocking
/// transfers it does not, and the known ranks' unevenness is a lower bound.
TEST(Savings, OfAnUnevenLayerCountStepsOfARankWithoutARecord) {
  struct Case {
    uint64_t seed;
    int missing;
    const char* before;
    bool at_least;
  };
  for (const Case& one :
       {Case{9520012, 1, "11.7 of 19.1 %", false}, Case{9520018, 2, "14.9 of 20.3 %", false},
        Case{9520013, 0, "8.9 of 17.6 %", false}, Case{9520005, 2, "8.2 of 19.8 %, as known", true}}) {
    TrainingJob job = draw_training_job(one.seed, {Fault::kLayerImbalance});
    job.removed = {one.missing};
    const ScratchFolder folder;
    SQLite::Database db = analyzed(job, folder);
    SQLite::Statement row(db, "SELECT id, share_ratio, coalesce(saving_bound, 'known'), evidence FROM finding");
    ASSERT_TRUE(row.executeStep()) << one.seed;
    EXPECT_EQ(row.getColumn(0).getString(), "layer_imbalance") << one.seed;
    const double of_cost = row.getColumn(1).getDouble() / job.faults[0].cost;
    const std::string bound = row.getColumn(2).getString(), evidence = row.getColumn(3).getString();
    if (one.at_least) {
      EXPECT_LT(of_cost, 1) << one.seed << ": " << one.before;
      EXPECT_EQ(bound, "lower") << one.seed << ": " << one.before;
    } else {
      EXPECT_NEAR(of_cost, 1, kNear) << one.seed << ": " << one.before;
      EXPECT_EQ(bound, "known") << one.seed;
    }
    EXPECT_EQ(has(evidence, "which left no record, was the slowest."), !one.at_least) << evidence;
  }
}

}  // namespace
}  // namespace ddl::test
