// Calls that may wait for other ranks and for which waiting is not defined: what they take is "not split", never
// transfer.
#include <gtest/gtest.h>

#include "analyzer/facts.h"
#include "tests/analyzer/analyzed.h"

namespace ddl {
namespace {

using namespace test::literals;
using test::Analyzed;
using test::has;
using test::run;
using test::SyntheticRun;

/// Rank 1 computes 40 ms longer in each step, and the others wait for it in calls of that kind.
SyntheticRun late_rank(const std::string& op) {
  return run().ranks(4).steps(20).compute(20_ms).collective(op, 64_KiB, 2_ms).slow(1, 40_ms);
}

std::string verdict(Analyzed& job) { return job.text("SELECT value FROM meta WHERE key = 'verdict'"); }

std::string why_of(Analyzed& job, const std::string& metric) {
  return job.text("SELECT iif(value IS NULL, why, value) FROM metric WHERE id = '" + metric + "'");
}

class UndefinedWaitingIn : public testing::TestWithParam<const char*> {};

TEST_P(UndefinedWaitingIn, IsNotSplit) {
  Analyzed job(late_rank(GetParam()));
  // 4 ranks take 62 ms a step each. Rank 1 is inside the call for 2 ms of them, the others for 42 ms.
  EXPECT_EQ(job.integer("SELECT sum(exposed_ns) FROM step_part WHERE step = 9"), 3 * 42_ms + 2_ms);
  EXPECT_EQ(job.integer(
                "SELECT count(*) FROM step_part WHERE wait_ns IS NULL AND xfer_ns IS NULL AND why = 'NOT_APPLICABLE'"),
            4 * 20);
  EXPECT_EQ(job.integer("SELECT count(*) FROM rank_part WHERE wait_ns IS NULL AND why = 'NOT_APPLICABLE'"), 4);
  for (const char* metric : {"exposed_wait", "exposed_xfer", "f_wait", "f_xfer", "ccr_xfer", "transfer_efficiency",
                             "serialisation_efficiency"})
    EXPECT_EQ(why_of(job, metric), "NOT_APPLICABLE") << metric;
  const Facts facts = read_facts(job.db, 0);
  EXPECT_EQ(facts.headline.sum.wait_ns + facts.headline.sum.transfer_ns, 0);
  EXPECT_NEAR(facts.headline.share(&TimeParts::unsplit_ns), 128.0 / 248, 1e-9);
  EXPECT_EQ(facts.headline.why, "NOT_APPLICABLE");
  EXPECT_EQ(verdict(job), "undecided");
  const std::string text = job.text("SELECT value FROM meta WHERE key = 'verdict.text'");
  EXPECT_TRUE(has(text, "not split (NOT_APPLICABLE) 51.6% of the step")) << text;
}

/// Two barriers of 4 * 1 us are all that is split, beside calls of 128 ms a step.
TEST_P(UndefinedWaitingIn, IsNoShareOfWhatLittleIsSplit) {
  Analyzed job(late_rank(GetParam()).setup().barrier().barrier());
  const bool numbered = job.integer("SELECT count(*) FROM unsplit") > 0;  // else they are not collectives
  EXPECT_EQ(why_of(job, "wait_share") == "NOT_APPLICABLE", numbered);
  // once in twenty steps, and briefly: less than 5 % of the time in collectives
  Analyzed mostly(run()
                      .ranks(4)
                      .steps(20)
                      .compute(20_ms)
                      .slow(1, 40_ms)
                      .allreduce(64_KiB, 2_ms)
                      .every(20)
                      .collective(GetParam(), 64_KiB, 2_ms));
  EXPECT_NEAR(std::stod(why_of(mostly, "wait_share")), 120.0 / 128, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Calls, UndefinedWaitingIn,
                         testing::Values("MPI_Neighbor_alltoall", "MPI_Win_fence", "MPI_Win_start", "MPI_Win_wait",
                                         "MPI_Scan"),
                         [](const testing::TestParamInfo<const char*>& call) { return std::string(call.param); });

TEST(UndefinedWaiting, InTheCallThatCompletesARequestIsNotSplit) {
  Analyzed job(run()
                   .ranks(4)
                   .steps(20)
                   .compute(20_ms)
                   .collective("MPI_Ineighbor_alltoall", 64_KiB, 2_ms)
                   .waitall()
                   .slow(1, 40_ms));
  EXPECT_EQ(job.integer("SELECT count(*) FROM step_part WHERE wait_ns IS NULL AND why = 'NOT_APPLICABLE'"), 4 * 20);
  EXPECT_EQ(verdict(job), "undecided");
}

TEST(UndefinedWaiting, CallsOfWindowsThatAreLocalAreTransfer) {
  Analyzed job(run()
                   .ranks(4)
                   .steps(20)
                   .compute(20_ms)
                   .allreduce(1_MiB, 2_ms)
                   .collective("MPI_Win_sync", 0, 2_ms)
                   .slow(1, 40_ms));
  EXPECT_EQ(job.integer("SELECT count(*) FROM step_part WHERE wait_ns IS NULL"), 0);
}

TEST(UndefinedWaiting, OfARankOnItsOwnIsNone) {
  for (const char* op : {"MPI_Neighbor_alltoall", "MPI_Win_fence", "MPI_Win_wait"}) {
    Analyzed job(
        run().ranks(2).steps(20).split("alone", 2).compute(20_ms).on_comm("alone").collective(op, 64_KiB, 2_ms));
    EXPECT_EQ(job.integer("SELECT count(*) FROM step_part WHERE wait_ns IS NULL"), 0) << op;
    EXPECT_EQ(verdict(job), "transfer") << op;
  }
}

/// A hundredth of the step cannot turn a verdict that rests on half of it.
TEST(UndefinedWaiting, OfNextToNoTimeTakesNoVerdictAway) {
  for (const char* op : {"MPI_Scan", "MPI_Neighbor_alltoall", "MPI_Win_fence", "MPI_Win_wait"}) {
    Analyzed job(
        run().ranks(4).steps(20).compute(20_ms).allreduce(1_MiB, 2_ms).collective(op, 64_KiB, 600_us).slow(1, 40_ms));
    EXPECT_EQ(job.integer("SELECT wait_ns FROM step_part WHERE process = 1 AND step = 9"), 40_ms) << op;
    // Rank 1 spends 0.6 of its 2.6 ms in MPI in them, and they are less than a hundredth of its step.
    EXPECT_EQ(job.integer("SELECT count(*) FROM step_part WHERE wait_ns IS NULL"), 0) << op;
    EXPECT_EQ(verdict(job), "wait") << op;
    EXPECT_EQ(job.findings().front(), "straggler") << op;
  }
}

/// Nor does it matter what 1.6 % of the step are where nothing else is communicated; how much of them is waiting is not
/// known all the same.
TEST(UndefinedWaiting, OfNextToNoTimeLeavesAJobBoundByComputing) {
  for (const char* op : {"MPI_Scan", "MPI_Win_fence"}) {
    Analyzed job(run().ranks(4).steps(20).compute(60_ms).collective(op, 64_KiB, 1_ms));
    EXPECT_EQ(why_of(job, "f_wait"), "NOT_APPLICABLE") << op;
    EXPECT_EQ(verdict(job), "compute") << op;
  }
}

/// The replay takes all of such a call for transfer, which is not what mending the rank would leave of it.
TEST(UndefinedWaiting, ForALateRankCountsAsItComputesLonger) {
  for (const bool steps : {true, false}) {
    SyntheticRun late = late_rank("MPI_Win_wait").jitter(1_ms);
    Analyzed job(steps ? late : late.no_steps());
    ASSERT_EQ(job.findings(), test::Ids{"straggler"}) << steps;
    EXPECT_EQ(job.integer("SELECT rank FROM finding"), 1);
    EXPECT_NEAR(static_cast<double>(job.integer("SELECT saving_ns FROM finding")), steps ? 40e6 : 20 * 40e6,
                (steps ? 1 : 20) * 2e6);
  }
}

TEST(UndefinedWaiting, OfAllToAllsOfNeighboursHasItsReasonInTheTraffic) {
  Analyzed job(late_rank("MPI_Neighbor_alltoall"));
  EXPECT_EQ(job.integer("SELECT count(*) FROM v_traffic WHERE wait_ns IS NULL AND why = 'NOT_APPLICABLE'"), 4);
}

}  // namespace
}  // namespace ddl
