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

TEST(Savings, AreWhatTheJobSavesWithoutTheFault) {
  for (const Costly& one : kCostly) {
    const TrainingJob job = draw_training_job(one.seed, {one.fault});
    const ScratchFolder folder;
    write_training_job(job, folder.path());
    const RunDirectory directory = find_run(folder.path().string());
    ingest(directory);
    SQLite::Database db = open_store(directory.store, Access::kReadWrite);
    ddl::analyze(db);
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

}  // namespace
}  // namespace ddl::test
