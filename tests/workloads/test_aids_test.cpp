#include "workloads/train/test_aids.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "workloads/train/error.h"

namespace ddl::train {
namespace {

/** The shortest of three runs: a busy machine makes things longer, never shorter. */
template <typename F>
double milliseconds(F&& f) {
  double shortest = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    shortest =
        std::min(shortest, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return shortest;
}

TEST(Faults, SlowRankIsSlowFromItsStepOnAndAddsUp) {
  const FaultPlan plan{.slow = {{.rank = 1, .ms = 30.0, .from_step = 5}, {.rank = 1, .ms = 20.0, .from_step = 9}}};
  const Faults rank0(plan, 1, 0);
  const Faults rank1(plan, 1, 1);
  EXPECT_EQ(rank0.forward_ms(9), 0.0);
  EXPECT_EQ(rank1.forward_ms(4), 0.0);
  EXPECT_EQ(rank1.forward_ms(5), 30.0);
  EXPECT_GE(milliseconds([&] { rank1.stretch_forward(9); }), 50.0);
  EXPECT_LT(milliseconds([&] { rank1.before_first_reduction(9); }), 15.0);
}

TEST(Faults, TellsWhatWasSleptAndSpinsIfAsked) {
  const FaultPlan asleep{.slow = {{.rank = 0, .ms = 20.0}}, .delays = {{.rank = 0, .step = 3, .ms = 10.0}}};
  EXPECT_GE(Faults(asleep, 1, 0).stretch_forward(0), 20'000'000);
  EXPECT_EQ(Faults(asleep, 1, 1).stretch_forward(0), 0);
  EXPECT_GE(Faults(asleep, 1, 0).before_first_reduction(3), 10'000'000);
  EXPECT_EQ(Faults(asleep, 1, 0).before_first_reduction(2), 0);
  const FaultPlan spins{.slow = {{.rank = 0, .ms = 20.0}}, .slow_spins = true};
  EXPECT_GE(milliseconds([&] { EXPECT_EQ(Faults(spins, 1, 0).stretch_forward(0), 0); }), 20.0);
}

TEST(Faults, DelayOnceHitsOneRankInOneStep) {
  const FaultPlan plan{.delays = {{.rank = 0, .step = 3, .ms = 30.0}}};
  EXPECT_GE(milliseconds([&] { Faults(plan, 1, 0).before_first_reduction(3); }), 30.0);
  EXPECT_LT(milliseconds([&] { Faults(plan, 1, 0).before_first_reduction(2); }), 15.0);
  EXPECT_LT(milliseconds([&] { Faults(plan, 1, 1).before_first_reduction(3); }), 15.0);
  EXPECT_EQ(Faults(plan, 1, 0).forward_ms(3), 0.0);
}

TEST(Faults, JitterDiffersByRankAndStepButNotByRun) {
  const FaultPlan plan{.jitter_ms = 40.0};
  const auto of = [&](uint64_t seed, int rank, uint64_t step) { return Faults(plan, seed, rank).forward_ms(step); };
  double shortest = 1e9;
  double longest = 0.0;
  for (uint64_t step = 0; step < 64; ++step) {
    shortest = std::min(shortest, of(1, 0, step));
    longest = std::max(longest, of(1, 0, step));
  }
  EXPECT_GE(shortest, 0.0);
  EXPECT_LT(longest, 40.0);
  EXPECT_GT(longest - shortest, 30.0);  // the seed is fixed
  EXPECT_NE(of(1, 0, 1), of(1, 1, 1));
  EXPECT_NE(of(1, 0, 1), of(2, 0, 1));
  EXPECT_EQ(of(1, 0, 1), of(1, 0, 1));
}

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(CallLog, HoldsEveryReturnedCallAtOnce) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("ddl-calls-" + std::to_string(getpid()))).string();
  CallLog log;
  log.returned(MpiCall::kInit);  // before there is a file
  log.open(path);
  EXPECT_EQ(contents(path), "MPI_Init 1\n");
  for (int i = 0; i < 9; ++i) log.returned(MpiCall::kAllreduce);
  EXPECT_EQ(contents(path), "MPI_Init 1\nMPI_Allreduce 9\n");
  log.returned(MpiCall::kAllreduce);
  log.returned(MpiCall::kBcast);
  EXPECT_EQ(contents(path), "MPI_Init 1\nMPI_Bcast 1\nMPI_Allreduce 10\n");
  EXPECT_FALSE(log.failed());
  std::filesystem::remove(path);
  EXPECT_THROW(CallLog().open("/nonexistent/folder/calls"), DataError);
}

TEST(CallLog, SaysWhenTheFileIsNotToBeTrusted) {
  CallLog log;
  log.open("/dev/full");
  log.returned(MpiCall::kInit);
  EXPECT_TRUE(log.failed());
}

}  // namespace
}  // namespace ddl::train
