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
    shortest = std::min(shortest, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return shortest;
}

TEST(Faults, SlowRankIsSlowFromItsStepOnAndAddsUp) {
  const FaultPlan plan{.slow = {{.rank = 1, .ms = 30.0, .from_step = 5}, {.rank = 1, .ms = 20.0, .from_step = 9}}};
  const Faults rank0(plan, 1, 0);
  const Faults rank1(plan, 1, 1);
  EXPECT_LT(milliseconds([&] { rank0.stretch_forward(9); }), 15.0);
  EXPECT_LT(milliseconds([&] { rank1.stretch_forward(4); }), 15.0);
  EXPECT_GE(milliseconds([&] { rank1.stretch_forward(5); }), 30.0);
  EXPECT_GE(milliseconds([&] { rank1.stretch_forward(9); }), 50.0);
  EXPECT_LT(milliseconds([&] { rank1.before_first_reduction(9); }), 15.0);
}

TEST(Faults, DelayOnceHitsOneRankInOneStep) {
  const FaultPlan plan{.delays = {{.rank = 0, .step = 3, .ms = 30.0}}};
  EXPECT_GE(milliseconds([&] { Faults(plan, 1, 0).before_first_reduction(3); }), 30.0);
  EXPECT_LT(milliseconds([&] { Faults(plan, 1, 0).before_first_reduction(2); }), 15.0);
  EXPECT_LT(milliseconds([&] { Faults(plan, 1, 1).before_first_reduction(3); }), 15.0);
  EXPECT_LT(milliseconds([&] { Faults(plan, 1, 0).stretch_forward(3); }), 15.0);
}

TEST(Faults, JitterDiffersByRankAndStepButNotByRun) {
  const FaultPlan plan{.jitter_ms = 40.0};
  const auto of = [&](int rank, uint64_t step) { return milliseconds([&] { Faults(plan, 1, rank).stretch_forward(step); }); };
  double shortest = 1e9;
  double longest = 0.0;
  for (uint64_t step = 0; step < 8; ++step) {
    const double ms = of(0, step);
    shortest = std::min(shortest, ms);
    longest = std::max(longest, ms);
  }
  EXPECT_GT(longest - shortest, 5.0);  // eight draws from 0..40 that all fall within 5 ms: chance of about 1e-5, and the seed is fixed
  EXPECT_NEAR(of(0, 1), of(0, 1), 4.0);
}

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(CallLog, HoldsEveryReturnedCallAtOnce) {
  const std::string path = (std::filesystem::temp_directory_path() / ("ddl-calls-" + std::to_string(getpid()))).string();
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
