// ddl diff in this process: what is printed, and the gate.
#include <gtest/gtest.h>

#include "cli/open_run.h"
#include "tests/cli/ddl_command.h"
#include "tests/support/synthetic_run.h"

namespace ddl::cli {
namespace {

using namespace test::literals;

class Diff : public testing::Test {
 protected:
  std::string write(const std::string& name, const test::SyntheticRun& job) {
    job.write(folder_ / name);
    return (folder_ / name).string();
  }
  test::ScratchFolder folder_;
};

test::SyntheticRun job(int64_t compute_ns, uint64_t seed, uint64_t steps = 30) {
  return test::run().ranks(2).steps(steps).compute(compute_ns).allreduce(1_MiB, 1_ms).jitter(300_us, seed);
}

TEST_F(Diff, SlowerTripsTheGateAndNoiseDoesNot) {
  const std::string base = write("base.ddl", job(10_ms, 1)), same = write("same.ddl", job(10_ms, 2)),
                    slow = write("slow.ddl", job(12_ms, 3));
  const Result tripped = ddl_command({"diff", base, slow, "--fail-over", "5%"});
  EXPECT_EQ(tripped.code, 4);
  EXPECT_TRUE(has(tripped.err, "slower by 1")) << tripped.err;
  EXPECT_TRUE(has(tripped.out, "slower: step_time +1")) << tripped.out;
  EXPECT_EQ(ddl_command({"diff", base, slow, "--fail-over", "0.5"}).code, 0);  // slower, but not by half
  EXPECT_EQ(ddl_command({"diff", slow, base, "--fail-over", "5%"}).code, 0);   // faster
  const Result quiet = ddl_command({"diff", base, same, "--fail-over", "0%"});
  EXPECT_EQ(quiet.code, 0);
  EXPECT_TRUE(has(quiet.out, "no change seen: step_time")) << quiet.out;
}

TEST_F(Diff, ThroughputIsTheMeasureWhereBothTellIt) {
  // Twice the batch in less than twice the time: the step is longer, the job is faster.
  const std::string before = write("a.ddl", job(10_ms, 1).value("samples", 32)),
                    after = write("b.ddl", job(15_ms, 2).value("samples", 64));
  const Result result = ddl_command({"diff", before, after, "--fail-over", "5%"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(has(result.out, "faster: throughput +")) << result.out;
  EXPECT_TRUE(has(result.out, "samples per step: before 64, after 128")) << result.out;
}

TEST_F(Diff, ByNameTellsEachLayer) {
  const std::string base = write("base.ddl", job(10_ms, 1)), slow = write("slow.ddl", job(12_ms, 3));
  const Result none = ddl_command({"diff", base, slow, "--by", "kernel"});
  EXPECT_EQ(none.code, 0);
  EXPECT_TRUE(has(none.out, "No kernel in either run.")) << none.out;
  EXPECT_EQ(ddl_command({"diff", base, slow, "--by", "kernel", "--json"}).code, 0);
  EXPECT_EQ(ddl_command({"diff", base, slow, "--by", "colour"}).code, 2);
  EXPECT_EQ(ddl_command({"diff", base, slow, "--by", "kernel", "--fail-over", "5%"}).code, 2);
}

TEST_F(Diff, TooFewStepsCannotTell) {
  const Result result =
      ddl_command({"diff", write("a.ddl", job(10_ms, 1, 3)), write("b.ddl", job(20_ms, 2, 3)), "--fail-over", "5%"});
  EXPECT_EQ(result.code, 3);
  EXPECT_TRUE(has(result.out, "cannot tell whether that is a change")) << result.out;
}

TEST_F(Diff, FindingsComeFirstAndJsonHasBoth) {
  const auto straggling = [](int rank) {
    return test::run().ranks(4).steps(30).compute(10_ms).allreduce(1_MiB, 1_ms).slow(rank, 8_ms).jitter(200_us);
  };
  const std::string one = write("one.ddl", straggling(1)), two = write("two.ddl", straggling(2));
  const std::string text = ddl_command({"diff", one, two}).out;
  EXPECT_LT(text.find(" new "), text.find(" gone "));
  EXPECT_LT(text.find(" gone "), text.find("no change seen"));
  const Json json = Json::parse(ddl_command({"diff", one, two, "--json"}).out, nullptr, false);
  EXPECT_EQ(json["run"]["after"].get<std::string>(), shown_path(two));
  EXPECT_EQ(json["finding_changes"][0]["state"], "new");
  EXPECT_TRUE(has(json["finding_changes"][0]["sentence"].get<std::string>(), "rank 2"));
  EXPECT_GT(json["metric_changes"].size(), 10u);
}

TEST_F(Diff, AFixedOperationIsGoneInTextAndJson) {
  const auto small = [](bool reduce) {
    auto job = test::run().ranks(4).steps(30).compute(4_ms);
    for (int i = 0; i < 20; ++i) {
      if (reduce) job.allreduce(1_KiB, 100_us);
      job.collective("MPI_Allgather", 1_KiB, 100_us);
    }
    return job;
  };
  const std::string both = write("both.ddl", small(true)), one = write("one.ddl", small(false));
  for (const bool fixed : {true, false}) {
    const std::vector<std::string> words = {"diff", fixed ? both : one, fixed ? one : both};
    const std::string state = fixed ? "gone" : "new";
    const Json json = Json::parse(ddl_command({words[0], words[1], words[2], "--json"}).out, nullptr, false);
    const Json& changes = json["finding_changes"];
    ASSERT_EQ(changes.size(), 2u);
    EXPECT_EQ(changes[0]["state"], state);
    EXPECT_TRUE(has(changes[0]["sentence"].get<std::string>(), "MPI_Allreduce"));
    EXPECT_EQ(changes[0][fixed ? "saving_after_ns" : "saving_before_ns"].is_null(), true);
    EXPECT_EQ(changes[1]["state"], "still");
    EXPECT_TRUE(has(changes[1]["sentence"].get<std::string>(), "MPI_Allgather"));
    const std::string text = ddl_command(words).out;
    const size_t reduce = text.find("small MPI_Allreduce"), gather = text.find("small MPI_Allgather");
    ASSERT_TRUE(reduce != std::string::npos && gather != std::string::npos) << text;
    EXPECT_EQ(text.rfind(" " + state + " ", reduce), text.rfind('\n', reduce) + 1) << text;
    EXPECT_EQ(text.rfind(" still ", gather), text.rfind('\n', gather) + 1) << text;
  }
}

TEST_F(Diff, TheGateSaysThatItGoesByTheMean) {
  const auto stalling = [](bool stalls) {
    auto job =
        test::run().ranks(2).steps(105).jitter(200_us).compute(10_ms).allreduce(1_MiB, 2_ms).value("samples", 32);
    if (stalls) job.every(10).compute(200_ms);
    return job;
  };
  const std::string base = write("base.ddl", stalling(false)), bad = write("bad.ddl", stalling(true));
  const Result tripped = ddl_command({"diff", base, bad, "--fail-over", "50%"});
  EXPECT_EQ(tripped.code, 4);
  EXPECT_TRUE(has(tripped.err, "(by the mean of the steps), more than --fail-over 50%")) << tripped.err;
  EXPECT_TRUE(has(tripped.out, "slower: throughput -6")) << tripped.out;
  EXPECT_TRUE(has(tripped.out, "mean of the steps; median ")) << tripped.out;
  const Json json = Json::parse(ddl_command({"diff", base, bad, "--json"}).out, nullptr, false);
  EXPECT_EQ(json["speed"]["of"], "mean");
  EXPECT_EQ(ddl_command({"diff", bad, base, "--fail-over", "5%"}).code, 0);
}

TEST_F(Diff, SaysWhatMakesTheRunsDiffer) {
  const std::string base = write("base.ddl", job(10_ms, 1)), lost = write("lost.ddl", job(10_ms, 2).missing(1)),
                    unmarked = write("unmarked.ddl", job(10_ms, 3).no_steps());
  const std::string text = ddl_command({"diff", base, lost}).out;
  EXPECT_TRUE(has(text, "after: 1 of 2 ranks left no record")) << text;
  EXPECT_FALSE(has(text, "ddl scaling compares sizes")) << text;
  EXPECT_TRUE(has(ddl_command({"diff", unmarked, base}).out, "the steps of before are inferred"));
  job(10_ms, 4).write(folder_ / "two.ddl");
  const std::string two = write("two.ddl", job(10_ms, 5).world(0x77, 5_s, 3000));
  EXPECT_TRUE(has(ddl_command({"diff", base, two}).out, "after: the run has 2 worlds, this is world 0"));
}

TEST_F(Diff, MistakesAreClear) {
  const std::string run = write("a.ddl", job(10_ms, 1));
  EXPECT_EQ(ddl_command({"diff", run}).code, 2);
  EXPECT_EQ(ddl_command({"diff", run, run, run}).code, 2);
  for (const char* share : {"x", "-1%", "%", "5 %", "nan", "5", "1"})
    EXPECT_EQ(ddl_command({"diff", run, run, "--fail-over", share}).code, 2) << share;
  const Result five = ddl_command({"diff", run, run, "--fail-over", "5"});
  EXPECT_TRUE(has(five.err, "'5' is 500 %") && has(five.err, "write 5% or 500%")) << five.err;
  EXPECT_EQ(ddl_command({"diff", run, run, "--fail-over", "500%"}).code, 0);
  EXPECT_EQ(ddl_command({"diff", run, (folder_ / "none.ddl").string()}).code == 0, false);
}

}  // namespace
}  // namespace ddl::cli
