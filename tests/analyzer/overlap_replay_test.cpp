// Reductions that hide nothing. The truth of a saving is worked out by hand, from a step whose parts are even.
#include <sqlite3.h>

#include "analyzer/findings/overlap_replay.h"
#include "analyzer/findings/shared.h"
#include "tests/analyzer/findings_jobs.h"

namespace ddl::test {
namespace {

/// Forward 20 ms, backward in four parts of 10 ms, each with a reduction of 3 ms behind it, the optimizer 5
/// ms.
SyntheticRun job(bool nonblocking, bool waits_at_once, int64_t transfer_ns = 3_ms, int ranks = 16) {
  SyntheticRun made = run().ranks(ranks).steps(60).phase("forward").compute(20_ms).end_phase();
  made.phase("backward");
  for (int part = 0; part < 4; ++part) {
    made.compute(10_ms);
    if (nonblocking) {
      made.iallreduce(25_MiB, transfer_ns);
      if (waits_at_once) made.wait();
    } else {
      made.allreduce(25_MiB, transfer_ns);
    }
  }
  if (nonblocking && !waits_at_once) made.waitall();
  return made.end_phase().phase("optimizer").compute(5_ms).end_phase();
}

constexpr double kHidden = 3 * 3e6;  // of four transfers of 3 ms the first three fit behind the 10 ms that follow each

TEST(OverlapReplay, BlockingReductionsBetweenWhichIsComputed) {
  Analyzed blocking(job(false, false));
  ASSERT_EQ(blocking.findings(), Ids{"blocking_collectives"});
  EXPECT_NEAR(static_cast<double>(blocking.integer("SELECT saving_ns FROM finding")), kHidden, 1e5);
  EXPECT_TRUE(has(blocking.text("SELECT sentence FROM finding"),
                  "4.0 blocking MPI_Allreduce per step hide nothing of their 12.0 ms"))
      << blocking.text("SELECT sentence FROM finding");
  EXPECT_EQ(blocking.text("SELECT confidence FROM finding"), "likely");
}

TEST(OverlapReplay, TransfersThatAreLongerThanTheComputingHideBehindItOnly) {
  // on the network from 10 ms of backward on: 4 x 15 ms, against 40 ms + 60 ms
  Analyzed blocking(job(false, false, 15_ms));
  const std::string saving = "SELECT saving_ns FROM finding WHERE id = 'blocking_collectives'";
  ASSERT_EQ(blocking.integer("SELECT count(*) FROM finding WHERE id = 'blocking_collectives'"), 1);
  EXPECT_NEAR(static_cast<double>(blocking.integer(saving)), 30e6, 2e5)
      << "70 ms from the begin of backward instead of 100";
}

TEST(OverlapReplay, NonblockingReductionsThatAreWaitedForAtOnce) {
  Analyzed at_once(job(true, true));
  ASSERT_EQ(at_once.findings(), Ids{"unused_overlap"});
  EXPECT_NEAR(static_cast<double>(at_once.integer("SELECT saving_ns FROM finding")), kHidden, 2e5);
}

TEST(OverlapReplay, NothingToSay) {
  Analyzed hidden(job(true, false));
  for (const std::string& id : hidden.findings()) EXPECT_NE(id, "unused_overlap") << "they do hide";
  Analyzed forward(run()
                       .ranks(4)
                       .steps(40)
                       .phase("forward")
                       .compute(10_ms)
                       .allreduce(25_MiB, 3_ms)
                       .compute(10_ms)
                       .allreduce(25_MiB, 3_ms)
                       .end_phase());
  EXPECT_EQ(forward.findings(), Ids{}) << "their results are needed at once";
  Analyzed one(run().ranks(4).steps(40).compute(50_ms).allreduce(100_MiB, 8_ms));
  EXPECT_EQ(one.findings(), Ids{}) << "nothing is left to hide behind";
}

/// What SQLite does to look for blocking reductions that could go on beside computing.
int64_t work_of_replay(const SyntheticRun& job, bool finds) {
  Analyzed blocking(job);
  const Catalog catalog(blocking.db);
  InputRanges inputs(blocking.db);
  SharedAnswers shared;
  SteadySteps steps;
  steps.annotated = true;
  const FindingInput input{blocking.db, catalog, 0, steps, 65_ms, false, shared, inputs};
  int64_t work = 0;
  sqlite3_progress_handler(
      blocking.db.getHandle(), 100, [](void* sum) { return ++*static_cast<int64_t*>(sum), 0; }, &work);
  EXPECT_EQ(replay_overlap(input, false, 0.05).has_value(), finds);
  sqlite3_progress_handler(blocking.db.getHandle(), 0, nullptr, nullptr);
  return work;
}

// A step saves no more than its rank that saves least: what one rank rules out is not replayed on all others.
TEST(OverlapReplay, EndsWithTheRankThatShowsThatTooLittleIsSaved) {
  EXPECT_GT(work_of_replay(job(false, false, 3_ms, 32), true), 5 * work_of_replay(job(false, false, 3_ms, 4), true));
  EXPECT_LT(work_of_replay(job(false, false, 100_us, 32), false),
            2 * work_of_replay(job(false, false, 100_us, 4), false));
}

TEST(OverlapReplay, DoesNotReadReductionsOfOtherAxes) {
  const auto by_nodes = [](int ranks) {
    SyntheticRun made = run().ranks(ranks).steps(60).split("node", ranks / 4).split("dp", 4, true);
    for (int part = 0; part < 4; ++part)
      made.compute(10_ms).on_comm("node").collective("MPI_Reduce_scatter", 25_MiB, 3_ms);
    return made.on_comm("dp").collective("MPI_Allgather", 25_MiB, 3_ms);
  };
  EXPECT_LT(work_of_replay(by_nodes(32), false), 100) << "2,330 with those of each rank";
}

}  // namespace
}  // namespace ddl::test
