// Whole verbs in this process, on run directories of virtual jobs: ingest, analysis, output and exit codes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/verbs.h"
#include "reports/safe_text.h"
#include "tests/support/synthetic_run.h"

namespace ddl::cli {
namespace {

using namespace test::literals;
using test::ScratchFolder;

struct Result {
  int code = 0;
  std::string out, err;
};

Result ddl_command(const Arguments& arguments) {
  Result result;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  result.code = run_ddl(arguments);
  result.out = testing::internal::GetCapturedStdout();
  result.err = testing::internal::GetCapturedStderr();
  return result;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

test::SyntheticRun slow_job() {
  return test::run()
      .ranks(4)
      .steps(20)
      .forward("conv1", 20_ms)
      .backward("conv1", 30_ms)
      .allreduce(4_MiB, 5_ms)
      .slow(2, 25_ms)
      .value("samples", 32)
      .job_json();
}

class RunFolder : public testing::Test {
 protected:
  std::string write(const test::SyntheticRun& job, const char* name = "job.ddl") {
    job.write(folder_ / name);
    return (folder_ / name).string();
  }
  ScratchFolder folder_;
};

using Report = RunFolder;

TEST_F(Report, NamesTheSlowRankFirst) {
  const Result result = ddl_command({"report", write(slow_job())});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "") << "no progress where nobody watches";
  const size_t first = result.out.find("\n 1 rank 2 ");
  EXPECT_NE(first, std::string::npos) << result.out;
  EXPECT_TRUE(has(result.out, "data: 4/4 ranks")) << result.out;
  EXPECT_TRUE(has(result.out, "20 steps")) << result.out;
  EXPECT_TRUE(has(result.out, "MPI_Allreduce 4MiB world")) << result.out;
  EXPECT_TRUE(has(result.out, "(rank 2)")) << result.out;
}

TEST_F(Report, ASecondLookReadsWhatTheFirstOneMade) {
  const std::string run = write(slow_job());
  const Result first = ddl_command({"report", run});
  struct stat before {
  }, after{};
  ASSERT_EQ(stat((run + "/run.sqlite").c_str(), &before), 0);
  EXPECT_EQ(before.st_mode & 0777, 0600u);
  const Result second = ddl_command({"report", run + "/run.sqlite"});
  ASSERT_EQ(stat((run + "/run.sqlite").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
  EXPECT_EQ(first.out, second.out);
}

TEST_F(Report, JsonOfARealIngest) {
  const Result result = ddl_command({"report", write(slow_job()), "--json"});
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["findings"][0]["rank"], 2);
  EXPECT_EQ(json["run"]["ranks"], 4);
  EXPECT_EQ(json["steps"].size(), 20u);
  EXPECT_EQ(json["loss"].size(), 0u);
}

TEST_F(Report, WordsInAnyOrder) {
  const std::string run = write(slow_job());
  EXPECT_EQ(ddl_command({"report", run, "calls"}).out, ddl_command({"report", "calls", run}).out);
  EXPECT_EQ(ddl_command({"report", run, "cals"}).code, 2);
  EXPECT_EQ(ddl_command({"report", run, "calls", "ranks"}).code, 2);
  EXPECT_EQ(ddl_command({"report", run, "--json", "--csv", "rank"}).code, 2);
}

TEST_F(Report, StrictCountsWhatIsMissing) {
  const std::string whole = write(slow_job(), "whole.ddl"), partial = write(slow_job().missing(3), "partial.ddl");
  EXPECT_EQ(ddl_command({"report", whole, "--strict"}).code, 0);
  EXPECT_EQ(ddl_command({"report", partial}).code, 0);
  const Result result = ddl_command({"report", partial, "--strict"});
  EXPECT_EQ(result.code, 3);
  EXPECT_TRUE(has(result.out, "3/4 ranks")) << result.out;
  EXPECT_TRUE(has(result.out, "Missing data")) << result.out;
}

TEST_F(Report, AHungJobNamesWhoIsMissing) {
  const Result result = ddl_command({"report", write(slow_job().hang(1, 7))});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(has(result.out, "rank 1")) << result.out;
  EXPECT_TRUE(has(result.out, "Calls that were entered and had not returned")) << result.out;
}

TEST_F(Report, AKilledRank) {
  const Result result = ddl_command({"report", write(slow_job().killed(3, 9))});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(has(result.out, "ended without MPI_Finalize")) << result.out;
}

/// The shipped run was recorded by ddl 0.1.0, with rank 2 slowed by 10 ms a step: what was told of it then holds in
/// every version since.
TEST(Demo, TellsOfARunOfVersion01WhatThatVersionTold) {
  const Result result = ddl_command({"report", "--demo", "--one-line"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(
      result.out,
      "train, 4 ranks on 1 host, 60 steps in 985 ms: step 10.6 ms, compute 26.2%, exposed transfer 3.9%, waiting 69.9%, compute / "
      "communication raw 0.354, transfer 6.55, exposed 0.354; 2 findings, first: rank 2 (vm) enters last in 100% of collectives: the "
      "others wait 9.86 ms/step\n");
  const std::filesystem::path run =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../share/ddl/demo/train.ddl";
  // 60 steps of 4 ranks; each reduces as many bytes as MPI_Bcast gave it parameters, and two floats: loss and hits.
  const Result calls =
      ddl_command({"query", "--csv", run.string(),
                   "SELECT sum(calls) FILTER (WHERE op = 'MPI_Iallreduce') AS calls, sum(bytes) FILTER (WHERE op = "
                   "'MPI_Iallreduce') - 60 * sum(bytes) FILTER (WHERE op = 'MPI_Bcast') AS more FROM v_call"});
  EXPECT_EQ(calls.out, "calls,more\r\n240,1920\r\n") << calls.err;
}

TEST(Demo, LeavesNothingBehindAndTakesNoOtherRun) {
  const std::filesystem::path store =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../share/ddl/demo/train.ddl/run.sqlite";
  std::filesystem::remove(store);
  EXPECT_EQ(ddl_command({"report", "--demo", "ranks"}).code, 0);
  EXPECT_EQ(ddl_command({"top", "--demo", "-b", "-n", "1"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(store));
  const Result both = ddl_command({"report", "--demo", "job.ddl"});
  EXPECT_EQ(both.code, 2);
  EXPECT_TRUE(has(both.err, "--demo and RUN exclude each other")) << both.err;
}

TEST(Demo, SectionsAreFoundByHyphensAndHaveOneSpelling) {
  const Result spelled = ddl_command({"report", "--demo", "open_calls"}),
               hyphen = ddl_command({"report", "open-calls", "--demo"});
  EXPECT_EQ(hyphen.code, 0) << hyphen.err;
  EXPECT_EQ(hyphen.out, spelled.out);
  EXPECT_EQ(ddl_command({"report", "--demo", "critical-path"}).code, 0);
  const std::string help = ddl_command({"report", "--help"}).out;
  EXPECT_TRUE(has(help, "critical_path"));
  EXPECT_FALSE(has(help, "critical-path"));
}

TEST_F(Report, HostileNamesDoNotReachTheTerminal) {
  const std::string run = write(slow_job().names(test::hostile_names()));
  for (const Arguments& arguments :
       {Arguments{"report", run}, {"report", run, "layers"}, {"query", run, "SELECT layer FROM v_layer"}}) {
    const Result result = ddl_command(arguments);
    EXPECT_EQ(result.code, 0);
    for (size_t offset = 0; offset < result.out.size();) {
      const char32_t code = reports::next_code_point(result.out, offset);
      ASSERT_TRUE(code == '\n' || (code >= 0x20 && code != 0x7f && code != reports::kNotUtf8 && code != 0x202e))
          << static_cast<uint32_t>(code);
    }
  }
  EXPECT_TRUE(nlohmann::json::accept(ddl_command({"report", run, "--json"}).out));
}

TEST_F(Report, OneRankAloneHasNobodyToWaitFor) {
  const Result result =
      ddl_command({"report", write(test::run().ranks(1).steps(12).compute(10_ms).allreduce(1_KiB, 1_ms))});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(has(result.out, "lateness n/a(NOT_APPLICABLE)")) << result.out;
}

TEST_F(Report, WhatCannotBeAnswered) {
  std::filesystem::create_directory(folder_ / "empty.ddl");
  for (const std::string& run : {(folder_ / "empty.ddl").string(), (folder_ / "absent.ddl").string()}) {
    const Result result = ddl_command({"report", run});
    EXPECT_EQ(result.code, 3) << run;
    EXPECT_TRUE(result.err.starts_with("ddl: error: ")) << result.err;
    EXPECT_TRUE(has(result.err, "\nddl: hint: ")) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(Report, ADirectoryThatCannotBeWritten) {
  const std::string run = write(slow_job());
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  chmod(run.c_str(), 0500);
  const Result result = ddl_command({"report", run});
  chmod(run.c_str(), 0700);
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(has(result.err, "cannot write")) << result.err;
  EXPECT_TRUE(has(result.out, "WHAT TO FIX")) << result.out;
}

using Query = RunFolder;

TEST_F(Query, TextCsvJson) {
  const std::string run = write(slow_job());
  EXPECT_EQ(ddl_command({"query", run, "SELECT rank, ended FROM v_rank WHERE rank < 2"}).out,
            " rank  ended\n    0  finalized\n    1  finalized\n");
  EXPECT_EQ(ddl_command({"query", run, "SELECT rank, ended FROM v_rank WHERE rank < 1", "--no-header"}).out,
            "    0  finalized\n");
  EXPECT_EQ(ddl_command({"query", run, "--csv", "SELECT rank, NULL AS x FROM v_rank WHERE rank < 1"}).out,
            "rank,x\r\n0,\r\n");
  EXPECT_EQ(nlohmann::json::parse(
                ddl_command({"query", run, "--json", "SELECT count(*) AS n FROM v_collective"}).out)[0]["n"],
            80);
  EXPECT_TRUE(has(ddl_command({"query", run}).err, "no SQL given for " + run));
  EXPECT_TRUE(has(ddl_command({"query", run, "--tables"}).out, "v_step(world, rank, step,"));
}

TEST_F(Query, EndsAndIsBounded) {
  const std::string run = write(slow_job());
  const std::string endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT ";
  const Result silent = ddl_command({"query", run, endless + "max(i) FROM n", "--timeout", "0.2s"});
  EXPECT_EQ(silent.code, 2);
  EXPECT_TRUE(has(silent.err, "stopped after 0.2 s") && has(silent.err, "--timeout")) << silent.err;
  const Result rows = ddl_command({"query", run, endless + "i FROM n", "--csv", "--limit", "3"});
  EXPECT_EQ(rows.code, 0);
  EXPECT_EQ(rows.out, "i\r\n1\r\n2\r\n3\r\n");
  EXPECT_TRUE(has(rows.err, "the first 3 rows")) << rows.err;
  const Result json = ddl_command({"query", run, "SELECT rank FROM v_rank ORDER BY rank", "--json", "--limit", "4"});
  EXPECT_EQ(nlohmann::json::parse(json.out).size(), 4u);
  EXPECT_EQ(json.err, "") << "there are no more";
  EXPECT_EQ(ddl_command({"query", run, "SELECT 1", "--timeout", "0"}).code, 2);
}

TEST_F(Query, MistakesAreUsageErrors) {
  const std::string run = write(slow_job());
  EXPECT_EQ(ddl_command({"query", run, "DELETE FROM meta"}).code, 2);
  EXPECT_EQ(ddl_command({"query", run, "SELECT * FROM nonsense"}).code, 2);
  EXPECT_EQ(ddl_command({"query", run, "SELECT 1", "more"}).code, 2);
  const Result unbound = ddl_command({"query", run, "SELECT * FROM metric WHERE world = :world"});
  EXPECT_EQ(unbound.code, 2);
  EXPECT_TRUE(has(unbound.err, ":world has no value")) << unbound.err;
  EXPECT_EQ(ddl_command({"query"}).code, 2);
}

using Analyze = RunFolder;

TEST_F(Analyze, OneMetric) {
  const std::string run = write(slow_job());
  const Result result = ddl_command({"analyze", run, "--metric", "step_time"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "80000000\n");  // 20 + 30 + 25 of the slow rank + 5 transfer
  EXPECT_EQ(ddl_command({"analyze", run, "--metric", "step_tim"}).code, 2);
  EXPECT_TRUE(has(ddl_command({"analyze", "--list"}).out, "load_balance"));
}

/// A metric file needs no compiler, only a run.
TEST_F(Analyze, TriesAMetricOfSomebodyElse) {
  const std::string run = write(slow_job());
  const auto file = [&](const std::string& scope, const std::string& sql) {
    const std::string path = (folder_ / "longest_step.sql").string();
    std::ofstream(path) << "-- id: longest_step\n-- name: Longest step\n-- unit: ns\n-- better: lower\n-- scope: "
                        << scope << "\n-- source: specification.md W5"
                        << "\n-- sentence: The longest steady step.\n"
                        << sql;
    return path;
  };
  const std::string job =
      file("job", "SELECT max(longest_ns) AS value, 'NO_DATA' AS why FROM steady_step WHERE world = :world");
  const Result result = ddl_command({"analyze", run, "--try", job});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(has(result.out, "80.000ms")) << result.out;  // as OneMetric
  EXPECT_TRUE(has(result.out, "longest_step")) << result.out;
  const Result ranks = ddl_command(
      {"analyze", run, "--try",
       file("rank", "SELECT rank, iif(rank = 2, max(compute_ns), NULL), 'NO_DATA' FROM steady_part GROUP BY rank")});
  EXPECT_TRUE(has(ranks.out, "75.000ms") && has(ranks.out, "n/a")) << ranks.out;

  for (const char* wrong :
       {"SELECT nothing, 1 FROM steady_step", "SELECT 1 FROM no_such_table", "DELETE FROM metric",
        "SELECT 1, 2; SELECT 3", "SELECT 1", "", "SELECT 1, NULL WHERE 0", "SELECT 1, NULL UNION SELECT 2, NULL"}) {
    const Result refused = ddl_command({"analyze", run, "--try", file("job", wrong)});
    EXPECT_EQ(refused.code, 2) << wrong << refused.out;
    EXPECT_TRUE(has(refused.err, "ddl: error: ")) << refused.err;
  }
  EXPECT_EQ(ddl_command({"analyze", run, "--try", (folder_ / "none.sql").string()}).code, 2);
  EXPECT_EQ(ddl_command({"analyze", run, "--try", job, "--metric", "step_time"}).code, 2);
  EXPECT_TRUE(has(ddl_command({"query", run, "SELECT count(*) AS n FROM metric WHERE id = 'longest_step'"}).out, "0"))
      << "nothing is kept";
}

/// What a metric may read, `ddl query` shows.
TEST_F(Query, AnswersOnEveryTable) {
  const std::string run = write(slow_job());
  std::istringstream tables(ddl_command({"query", run, "--tables"}).out);
  int asked = 0;
  for (std::string line; std::getline(tables, line); ++asked) {
    const Result result = ddl_command({"query", run, "SELECT count(*) FROM " + line.substr(0, line.find('('))});
    EXPECT_EQ(result.code, 0) << line << result.err;
  }
  EXPECT_GT(asked, 60);
  EXPECT_TRUE(has(ddl_command({"query", run, "SELECT used FROM steady_world"}).out, "15")) << "of 20 steps";
}

using Doctor = RunFolder;

TEST_F(Doctor, SaysWhatARunHolds) {
  const Result good = ddl_command({"doctor", write(slow_job())});
  EXPECT_EQ(good.code, 0);
  EXPECT_TRUE(has(good.out, "ok       ranks        4 of 4")) << good.out;
  const Result partial = ddl_command({"doctor", write(slow_job().missing(0), "partial.ddl")});
  EXPECT_EQ(partial.code, 3);
  EXPECT_TRUE(has(partial.out, "problem  ranks        3 of 4")) << partial.out;
}

TEST(Main, UnknownVerbsAndOptions) {
  Result result = ddl_command({"reprot"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "ddl: error: unknown verb 'reprot'\nddl: hint: did you mean report?\n");
  result = ddl_command({"report", "--jsno"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "ddl: error: unknown option --jsno\nddl: hint: did you mean --json?\n");
  EXPECT_EQ(ddl_command({}).code, 2);
  EXPECT_EQ(ddl_command({"--help"}).code, 0);
  EXPECT_TRUE(ddl_command({"--version"}).out.starts_with("ddl "));
}

TEST(Main, AFullDiskIsAnError) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (full < 0) GTEST_SKIP() << "no /dev/full";
  const int kept = dup(STDOUT_FILENO);
  dup2(full, STDOUT_FILENO);
  testing::internal::CaptureStderr();
  const int code = run_ddl({"--help"});
  const std::string err = testing::internal::GetCapturedStderr();
  dup2(kept, STDOUT_FILENO);
  close(kept);
  close(full);
  EXPECT_EQ(code, 1);
  EXPECT_TRUE(has(err, "cannot write the output")) << err;
}

}  // namespace
}  // namespace ddl::cli
