// ddl export, from the command line to the files that it leaves.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>

#include "tests/cli/ddl_command.h"
#include "tests/support/prometheus_text.h"
#include "tests/support/synthetic_run.h"

namespace ddl::cli {
namespace {

namespace fs = std::filesystem;
using namespace test::literals;

class Export : public testing::Test {
 protected:
  std::string write(const test::SyntheticRun& job, const char* name = "job.ddl") const {
    job.write(folder_ / name);
    return (folder_ / name).string();
  }
  static test::SyntheticRun job() {
    return test::run().ranks(2).steps(3).layer("conv1", 5_ms).allreduce(4_MiB, 2_ms).slow(1, 1_ms);
  }
  static std::string contents(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  test::ScratchFolder folder_;
};

TEST_F(Export, ChakraTracesIntoAFolder) {
  const std::string run = write(job());
  const Result result = ddl_command({"export", "chakra", run, "--steps", "1", "-o", path("et")});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("step 1 of 2 ranks"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("count as computing"), std::string::npos) << result.err;
  EXPECT_EQ(contents(folder_ / "et" / "communicators.json"), "{\"1\": [0, 1]}\n");
  const std::string trace = contents(folder_ / "et" / "ddl.1.et");
  EXPECT_NE(trace.find("MPI_Allreduce"), std::string::npos);
  EXPECT_EQ(ddl_command({"export", "chakra", run}).code, 2);
  EXPECT_EQ(ddl_command({"export", "chakra", run, "--ranks", "1", "-o", path("et")}).code, 2);
  EXPECT_EQ(ddl_command({"export", "chakra", run, "--steps", "77", "-o", path("et")}).code, 3);
  const Result back = ddl_command(
      {"import", "chakra", path("et/ddl.0.et"), path("et/ddl.1.et"), "--one-clock", "-o", path("back.ddl")});
  ASSERT_EQ(back.code, 0) << back.err;
  EXPECT_EQ(
      ddl_command({"query", path("back.ddl"), "select count(distinct seq) || ':' || min(bytes) as n from v_collective"})
          .out,
      " n\n 1:4194304\n");
}

TEST_F(Export, OneTableAsCsv) {
  const std::string run = write(job());
  const Result result = ddl_command({"export", "csv", run, "--table", "collective"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, ddl_command({"export", "csv", run, "--table", "v_collective"}).out) << "a view's short name";
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 7);
  EXPECT_TRUE(ddl_command({"export", "csv", run, "--table", "collective_group"}).out.starts_with("world,"))
      << "a table";
  EXPECT_EQ(ddl_command({"export", "csv", run, "--table", "v_step", "-o", path("steps.csv")}).out, "");
  EXPECT_EQ(contents(folder_ / "steps.csv"), ddl_command({"report", run, "--csv", "v_step"}).out);
  EXPECT_EQ(ddl_command({"export", "csv", run, "--table", "v_step", "-o", "-"}).out, contents(folder_ / "steps.csv"));
}

TEST_F(Export, EveryViewAsCsv) {
  const std::string run = write(job());
  ASSERT_EQ(ddl_command({"export", "csv", run, "-o", path("views")}).code, 0);
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "views")) {
    ++files;
    const std::string view = entry.path().stem().string();
    EXPECT_EQ(entry.path().extension(), ".csv");
    EXPECT_EQ(contents(entry.path()), ddl_command({"report", run, "--csv", view}).out) << view;
  }
  EXPECT_EQ(
      std::to_string(files),
      Json::parse(ddl_command({"query", run,
                               "SELECT count(*) AS n FROM sqlite_master WHERE name LIKE 'v~_%' ESCAPE '~'", "--json"})
                      .out)[0]["n"]
          .dump());
}

TEST_F(Export, HostileNamesAreOneFieldOfCsv) {
  const std::string run = write(job().names(test::hostile_names()));
  const std::string csv = ddl_command({"export", "csv", run, "--table", "v_layer"}).out;
  EXPECT_TRUE(has(csv, ",'=1+1,")) << csv;
  EXPECT_FALSE(has(csv, "\x1b"));
  EXPECT_FALSE(has(csv, "\xff"));
  EXPECT_TRUE(has(csv, ",\"\"\"quoted\"\", 'single', \\ ; --\",")) << csv;
}

TEST_F(Export, MistakesAreUsageErrors) {
  const std::string run = write(job());
  Result result = ddl_command({"export", "cvs", run});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "ddl: error: unknown format 'cvs'\nddl: hint: did you mean csv?\n");
  EXPECT_EQ(ddl_command({"export"}).code, 2);
  EXPECT_EQ(ddl_command({"export", "csv", run}).code, 2);
  EXPECT_EQ(ddl_command({"export", "csv", run, "--table", "nonsense"}).code, 2);
  EXPECT_TRUE(has(ddl_command({"export", "--help"}).out, "csv "));
}

TEST_F(Export, WhatCannotBeWrittenLeavesNothing) {
  const std::string run = write(job());
  std::ofstream(folder_ / "file") << "mine";
  EXPECT_EQ(ddl_command({"export", "csv", run, "-o", path("file")}).code, 1);
  EXPECT_EQ(ddl_command({"export", "csv", run, "--table", "nonsense", "-o", path("file")}).code, 2);
  EXPECT_EQ(contents(folder_ / "file"), "mine");
  EXPECT_EQ(ddl_command({"export", "csv", run, "--table", "v_step", "-o", path("none/steps.csv")}).code, 1);
  EXPECT_EQ(ddl_command({"export", "csv", run, "-o", path("file/below")}).code, 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 2) << "the run and the file";
  const Result full = ddl_command({"export", "csv", run, "--table", "v_step", "-o", "/dev/full"});
  EXPECT_EQ(full.code, 1);
  EXPECT_TRUE(has(full.err, "the disk is full")) << full.err;
}

TEST_F(Export, FoldersThatWereMadeGoWithWhatFailed) {
  const std::string run = write(job());
  fs::create_directories(folder_ / "mine" / "views" / "v_step.csv");  // a folder has the name of one of the files
  EXPECT_EQ(ddl_command({"export", "csv", run, "-o", path("mine/views")}).code, 1);
  EXPECT_EQ(std::distance(fs::recursive_directory_iterator(folder_ / "mine"), {}), 2) << "they were there before";
  fs::create_symlink("/proc", folder_ / "proc");  // nobody makes a folder there
  EXPECT_EQ(ddl_command({"export", "csv", run, "-o", path("new/../proc/views")}).code, 1);
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  EXPECT_EQ(ddl_command({"export", "chakra", run, "--steps", "77", "-o", path("new/traces/")}).code, 3);
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  EXPECT_EQ(ddl_command({"export", "csv", run, "-o", path("new/views/")}).code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "new" / "views" / "v_step.csv"));
}

TEST_F(Export, ATraceOfEachRank) {
  const std::string run = write(job());
  ASSERT_EQ(ddl_command({"export", "chrome-json", run, "-o", path("traces")}).code, 0);
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder_ / "traces")) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  ASSERT_EQ(files.size(), 2u);
  EXPECT_TRUE(has(files[1], "_1.")) << files[1];
  const Result one = ddl_command({"export", "chrome-json", run, "--ranks", "1"});
  EXPECT_EQ(one.out, contents(files[1]));
  EXPECT_EQ(Json::parse(one.out)["distributedInfo"]["rank"], 1);
  EXPECT_EQ(ddl_command({"export", "chrome-json", run, "--ranks", "1", "-o", path("one.json")}).code, 0);
  EXPECT_EQ(contents(folder_ / "one.json"), one.out);
  const Result both = ddl_command({"export", "chrome-json", run});
  EXPECT_EQ(both.code, 2);
  EXPECT_TRUE(has(both.err, "2 ranks need a file each")) << both.err;
}

TEST_F(Export, PartsThatAreNotThere) {
  const std::string run = write(job().missing(1));
  for (const char* format : {"perfetto", "chrome-json"}) {
    EXPECT_EQ(ddl_command({"export", format, run, "--steps", "7:9"}).code, 3);
    EXPECT_EQ(ddl_command({"export", format, run, "--ranks", "1"}).code, 3);
    EXPECT_EQ(ddl_command({"export", format, run, "--ranks", "2"}).code, 2);
    EXPECT_EQ(ddl_command({"export", format, run, "--ranks", "0,,1"}).code, 2);
    EXPECT_EQ(ddl_command({"export", format, run, "--steps", "1:0"}).code, 2);
    EXPECT_EQ(ddl_command({"export", format, run, "--table", "v_step"}).code, 2);
  }
}

TEST_F(Export, NumbersForPrometheus) {
  const std::string run = write(job());
  const Result otlp = ddl_command({"export", "otlp", run, "--top", "1"});
  EXPECT_EQ(otlp.code, 0) << otlp.err;
  EXPECT_TRUE(otlp.out.starts_with(R"({"resourceMetrics":[)")) << otlp.out.substr(0, 200);
  EXPECT_EQ(ddl_command({"export", "otlp", run, "--watch", "30s"}).code, 2);
  const Result shown = ddl_command({"export", "prometheus", run});
  EXPECT_EQ(shown.code, 0);
  test::read_prometheus(shown.out);
  EXPECT_TRUE(has(shown.out, "ddl_running{run=\"job.ddl\"} 0\n")) << shown.out;
  EXPECT_EQ(ddl_command({"export", "prometheus", run, "--textfile", folder_.path().string()}).code, 0);
  EXPECT_EQ(contents(folder_ / "ddl-job.prom"), shown.out);
  EXPECT_EQ(ddl_command({"export", "prometheus", run, "--watch", "30s", "--textfile", folder_.path().string()}).code, 0)
      << "it has ended";
  EXPECT_EQ(contents(folder_ / "ddl-job.prom"), shown.out) << "of the whole run, not of the newest steps";
  const Result one = ddl_command({"export", "prometheus", run, "--top", "1"});
  EXPECT_TRUE(has(one.out, "ddl_left_out{run=\"job.ddl\",what=\"ranks\"} 1\n")) << one.out;

  const Result fast = ddl_command({"export", "prometheus", run, "--watch", "29s"});
  EXPECT_EQ(fast.code, 2);
  EXPECT_TRUE(has(fast.err, "at least 30s")) << fast.err;
  EXPECT_EQ(ddl_command({"export", "prometheus", run, "--textfile", path("none")}).code, 2);
  EXPECT_EQ(ddl_command({"export", "prometheus", run, "--textfile", path(""), "-o", path("x")}).code, 2);
  EXPECT_EQ(ddl_command({"export", "prometheus", run, "--steps", "1:2"}).code, 2);
}

TEST_F(Export, FoldedStacks) {
  const Result result = ddl_command({"export", "folded", write(job())});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  std::istringstream lines(result.out);
  size_t number = 0;
  for (std::string line; std::getline(lines, line); ++number)
    EXPECT_TRUE(std::regex_match(line, std::regex("rank [01](;[^;]+)+ [0-9]+"))) << line;
  EXPECT_GT(number, 2u);
}

TEST_F(Export, OneWorldAtATime) {
  write(job());
  const std::string run = write(job().ranks(3).world(0xbeef, 1_s, 2000));
  EXPECT_TRUE(has(ddl_command({"export", "perfetto", run}).out, "world 1 rank 2 on ")) << "the one with most ranks";
  EXPECT_TRUE(has(ddl_command({"export", "perfetto", run, "--world", "0"}).out, "world 0 rank 1 on "));
  const Json trace = Json::parse(ddl_command({"export", "chrome-json", run, "--world", "0", "--ranks", "0"}).out);
  EXPECT_EQ(trace["distributedInfo"]["world_size"], 2);
  EXPECT_EQ(trace["distributedInfo"]["pg_config"][0]["ranks"], Json({0, 1}));
  EXPECT_EQ(ddl_command({"export", "chrome-json", run, "--world", "2", "--ranks", "0"}).code, 2);
}

TEST_F(Export, ARunThatIsNotThere) {
  const Result result = ddl_command({"export", "csv", path("absent.ddl"), "--table", "v_step"});
  EXPECT_EQ(result.code, 3);
  EXPECT_TRUE(has(result.err, "\nddl: hint: ")) << result.err;
  EXPECT_EQ(result.out, "");
}

}  // namespace
}  // namespace ddl::cli
