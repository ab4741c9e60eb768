// ddl history in this process, on virtual runs of which the truth is known.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/cli/ddl_command.h"
#include "tests/support/synthetic_run.h"

namespace ddl::cli {
namespace {

using namespace test::literals;

class HistoryVerb : public testing::Test {
 protected:
  HistoryVerb() { setenv("DDL_HISTORY", (folder_ / "runs.sqlite").c_str(), 1); }
  ~HistoryVerb() override { unsetenv("DDL_HISTORY"); }
  std::string write(const std::string& name, const test::SyntheticRun& job) {
    job.write(folder_ / name);
    return (folder_ / name).string();
  }
  Json history(Arguments arguments) {
    arguments.insert(arguments.begin(), "history");
    arguments.push_back("--json");
    const Result result = ddl_command(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return Json::parse(result.out, nullptr, false);
  }
  test::ScratchFolder folder_;
};

test::SyntheticRun job_of_two_hosts(int64_t transfer_ns) {
  return test::run()
      .ranks(4)
      .hosts(2)
      .steps(20)
      .compute(10_ms)
      .allreduce(1_MiB, transfer_ns)
      .slow(2, 3_ms)
      .value("samples", 8)
      .value("loss", 0.5)
      .job_json()
      .command({"mpirun", "./train", "--api-key", "geheim"});
}

TEST_F(HistoryVerb, ARunIsOneRowWithTheNumbersOfItsReport) {
  const std::string run = write("a.ddl", job_of_two_hosts(2_ms));
  const Result added = ddl_command({"history", "add", run});
  EXPECT_EQ(added.code, 0) << added.err;
  EXPECT_TRUE(has(added.out, "added ")) << added.out;
  EXPECT_TRUE(has(added.out, "4 ranks on 2 hosts, step time 15.0 ms")) << added.out;
  const Json row = history({})["runs"][0];
  EXPECT_NEAR(row["step_time_ns"].get<double>(), 15e6, 1e3);  // 10 + 3 of the slow rank + 2
  EXPECT_EQ(row["ranks"], 4);
  EXPECT_EQ(row["hosts"], 2);
  EXPECT_NEAR(row["wait_ns"].get<double>(), 3e6 * 3 / 4, 2e3);
  EXPECT_NEAR(row["throughput"].get<double>(), 32 / 0.015, 1);
  EXPECT_EQ(row["loss"], 0.5);
  EXPECT_EQ(row["finding"], "straggler");
  EXPECT_TRUE(has(row["command"], "***")) << row["command"];
  EXPECT_FALSE(has(row["command"], "geheim")) << row["command"];
  EXPECT_TRUE(row["job_id"].is_null());
  EXPECT_TRUE(has(ddl_command({"history", "--rows", "1"}).out, "n/a(NO_DATA)")) << "the commit";
  EXPECT_EQ(std::filesystem::status(folder_ / "runs.sqlite").permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const Json report = Json::parse(ddl_command({"report", run, "--json"}).out);
  for (const Json& metric : report["metrics"]) {
    for (const auto& [id, key] :
         {std::pair("parallel_efficiency", "efficiency"), {"ccr_xfer", "ccr"}, {"throughput", "throughput"}})
      EXPECT_TRUE(metric["id"] != id || row[key] == metric["value"]) << id;
  }
  EXPECT_EQ(report["step"]["p50_ns"], row["step_time_ns"]);
  const Json node = history({"nodes"})["nodes"][0];
  EXPECT_EQ(node["slow_runs"], 1);
  EXPECT_EQ(node["p"], 0.5);
}

TEST_F(HistoryVerb, AHostOfWhichAllRanksAreSlowIsNamed) {
  const auto job = test::run()
                       .ranks(6)
                       .hosts(3)
                       .steps(40)
                       .compute(10_ms)
                       .jitter(200_us)
                       .allreduce(1_MiB, 2_ms)
                       .slow(2, 4_ms)
                       .slow(3, 4_ms);
  EXPECT_EQ(ddl_command({"history", "add", write("a.ddl", job)}).code, 0);
  const Json row = history({})["runs"][0];
  ASSERT_EQ(row["finding"], "straggler");
  const Json nodes = history({"nodes"})["nodes"];
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_TRUE(has(ddl_command({"report", (folder_ / "a.ddl").string()}).out,
                  "all 2 ranks on " + nodes[0]["host"].get<std::string>()));
  EXPECT_NEAR(nodes[0]["p"].get<double>(), 1.0 / 3, 1e-12);
}

TEST_F(HistoryVerb, ARunThatWasMovedOrAnalyzedAgainIsTheSame) {
  const std::string run = write("a.ddl", job_of_two_hosts(2_ms)), moved = (folder_ / "b.ddl").string();
  EXPECT_EQ(ddl_command({"history", "add", run}).code, 0);
  std::filesystem::rename(run, moved);
  std::filesystem::remove(moved + "/run.sqlite");
  const Result again = ddl_command({"history", "add", moved});
  EXPECT_TRUE(has(again.out, "updated ")) << again.out << again.err;
  const Json rows = history({})["runs"];
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["run"], "b.ddl");
}

TEST_F(HistoryVerb, OneThatCannotBeReadDoesNotKeepTheOthersOut) {
  const std::string run = write("a.ddl", job_of_two_hosts(2_ms));
  const Result result = ddl_command({"history", "add", (folder_ / "none.ddl").string(), run});
  EXPECT_EQ(result.code, 3);
  EXPECT_TRUE(has(result.err, "none.ddl")) << result.err;
  EXPECT_EQ(history({})["runs"].size(), 1u);
}

TEST_F(HistoryVerb, RunsWithoutStepsSayWhy) {
  EXPECT_EQ(ddl_command({"history", "add",
                         write("a.ddl", test::run().ranks(2).no_steps().compute(10_ms).allreduce(1_MiB, 1_ms))})
                .code,
            0);
  const Json row = history({})["runs"][0];
  EXPECT_TRUE(row["step_time_ns"].is_null());
  EXPECT_TRUE(row["loss"].is_null());
  EXPECT_TRUE(has(ddl_command({"history"}).out, "n/a (1 run without a step time)"));
  const Result gate = ddl_command({"history", "check", "--fail-over", "5%"});
  EXPECT_EQ(gate.code, 3);
  EXPECT_TRUE(has(gate.err, "no job has 14 runs")) << gate.err;
}

TEST_F(HistoryVerb, TheGateTripsOnTheJobThatGotSlower) {
  for (int i = 0; i < 16; ++i) {
    auto job = test::run().ranks(2).steps(6).compute(10_ms + i % 3 * 10_us).allreduce(1_MiB, i < 8 ? 2_ms : 3_ms);
    job.world(100 + static_cast<uint64_t>(i), i * 1_s, 1000 + static_cast<uint32_t>(i) * 10);
    EXPECT_EQ(ddl_command({"history", "add", write("r" + std::to_string(i) + ".ddl", job)}).code, 0);
  }
  const Json said = history({"check"});
  ASSERT_EQ(said["changes"].size(), 1u);
  EXPECT_EQ(said["changes"][0]["first_run"], "r8.ddl");
  EXPECT_EQ(said["changes"][0]["part"], "exposed transfer");
  EXPECT_EQ(said["changes"][0]["part_ns"], 1'000'000);
  EXPECT_EQ(ddl_command({"history", "check", "--fail-over", "9%"}).code, 0);
  const Result gate = ddl_command({"history", "check", "--fail-over", "8%"});
  EXPECT_EQ(gate.code, 4);
  EXPECT_TRUE(has(gate.err, "on 2 ranks, 1 host is slower by 8.3%, more than --fail-over 8%")) << gate.err;
  EXPECT_EQ(ddl_command({"history", "check", "--fail-over", "8%", "--within", "7"}).code, 0);
  const std::string page = (folder_ / "h.html").string();
  EXPECT_EQ(ddl_command({"history", "html", "-o", page}).code, 0);
  EXPECT_GT(std::filesystem::file_size(page), 10'000u);
  const std::string name = said["jobs"][0]["job"];
  EXPECT_TRUE(has(ddl_command({"history", "badge", name}).out, "13.0 ms, +8.3% since"));
}

/// 14 runs that differ by 20 % do not show whether they became slower by 5 %; they show 100 %.
TEST_F(HistoryVerb, TheGateDoesNotPassWhatItCannotTell) {
  for (int i = 0; i < 14; ++i) {
    auto job = test::run().ranks(2).steps(6).compute(10_ms + i * 5 % 7 * 300_us).allreduce(1_MiB, 1_ms);
    job.world(100 + static_cast<uint64_t>(i), i * 1_s, 1000 + static_cast<uint32_t>(i) * 10);
    EXPECT_EQ(ddl_command({"history", "add", write("r" + std::to_string(i) + ".ddl", job)}).code, 0);
  }
  EXPECT_TRUE(has(ddl_command({"history", "check"}).out, "no change seen"));
  const Result unsure = ddl_command({"history", "check", "--fail-over", "5%"});
  EXPECT_EQ(unsure.code, 3);
  EXPECT_TRUE(has(unsure.err, "to find one slower by 5%")) << unsure.err;
  const Result sure = ddl_command({"history", "check", "--fail-over", "100%"});
  EXPECT_EQ(sure.code, 0) << sure.err;
  EXPECT_TRUE(has(sure.err, "is seen after 7 runs at the earliest")) << sure.err;
}

TEST_F(HistoryVerb, MistakesAreClear) {
  EXPECT_EQ(ddl_command({"history", "lst"}).code, 2);
  EXPECT_TRUE(has(ddl_command({"history", "lst"}).err, "did you mean list?"));
  EXPECT_EQ(ddl_command({"history", "--help"}).code, 0);
  const Result nothing = ddl_command({"history"});
  EXPECT_EQ(nothing.code, 3);
  EXPECT_TRUE(has(nothing.err, "there is no history yet")) << nothing.err;
  EXPECT_EQ(ddl_command({"history", "add", write("a.ddl", job_of_two_hosts(2_ms))}).code, 0);
  const Result name = ddl_command({"history", "list", "trainn"});
  EXPECT_EQ(name.code, 3);
  EXPECT_TRUE(has(name.err, "did you mean train?")) << name.err;
  EXPECT_EQ(ddl_command({"history", "check", "--fail-over", "x"}).code, 2);
  EXPECT_EQ(ddl_command({"history", "check", "--within", "0"}).code, 2);
  EXPECT_EQ(ddl_command({"history", "list", "--rows", "-1"}).code, 2);
  EXPECT_EQ(ddl_command({"history", "nodes", "--drain", "--json"}).code, 2);
  EXPECT_EQ(ddl_command({"history", "badge"}).code, 2);
  EXPECT_EQ(ddl_command({"history", "--database", "mysql://x/y"}).code, 2);
}

}  // namespace
}  // namespace ddl::cli
