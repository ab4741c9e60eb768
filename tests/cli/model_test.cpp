// ddl model in this process: the command line, the JSON, questions to a virtual run.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "analyzer/models/allreduce_cost.h"
#include "cli/verbs.h"
#include "tests/support/synthetic_run.h"

namespace ddl::cli {
namespace {

using namespace test::literals;
using Json = nlohmann::json;

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

Json answer(Arguments arguments) {
  arguments.insert(arguments.begin(), "model");
  arguments.push_back("--json");
  const Result result = ddl_command(arguments);
  EXPECT_EQ(result.code, 0) << result.err;
  return Json::parse(result.out, nullptr, false);
}

class Model : public testing::Test {
 protected:
  std::string write(const test::SyntheticRun& job) {
    job.write(folder_ / "job.ddl");
    return (folder_ / "job.ddl").string();
  }
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  test::ScratchFolder folder_;
};

TEST_F(Model, HelpListsEveryQuestionAndEachHasHelp) {
  const Result help = ddl_command({"model", "--help"});
  EXPECT_EQ(help.code, 0);
  const auto lines = [&] {
    std::vector<std::string> names;
    std::istringstream text(help.out);
    for (std::string line; std::getline(text, line);)
      if (line.starts_with("  ") && line.size() > 2 && line[2] != ' ' && !line.starts_with("  ddl"))
        names.push_back(line.substr(2, line.find(' ', 2) - 2));
    return names;
  }();
  EXPECT_GE(lines.size(), 2u);
  for (const std::string& name : lines) {
    const Result one = ddl_command({"model", name, "--help"});
    EXPECT_EQ(one.code, 0) << name;
    EXPECT_TRUE(has(one.out, "usage: ddl model " + name)) << one.out;
    EXPECT_TRUE(has(one.out, "example:\n  ddl model " + name)) << one.out;
  }
}

TEST_F(Model, MistakesAreUsageErrors) {
  EXPECT_EQ(ddl_command({"model"}).code, 2);
  EXPECT_TRUE(has(ddl_command({"model", "alreduce"}).err, "did you mean allreduce?"));
  EXPECT_TRUE(has(ddl_command({"model", "allreduce", "--bytes", "1MB"}).err, "--ranks is needed"));
  EXPECT_TRUE(has(ddl_command({"model", "allreduce", "--ranks", "4", "--bytes", "1MB"}).err, "--alpha-us is needed"));
  for (const char* bytes : {"1 MB", "-1", "MB", "1e30", "1XB", ""})
    EXPECT_EQ(ddl_command({"model", "allreduce", "--ranks", "4", "--alpha-us", "1", "--bandwidth", "1", "--bytes", bytes}).code, 2)
        << bytes;
  for (const char* number : {"0", "-1", "nan", "inf"})
    EXPECT_EQ(ddl_command({"model", "allreduce", "--ranks", "4", "--alpha-us", "1", "--bandwidth", number, "--bytes", "1"}).code, 2)
        << number;
  EXPECT_EQ(ddl_command({"model", "allreduce", "--ranks", "0", "--alpha-us", "1", "--bandwidth", "1", "--bytes", "1"}).code, 2);
  EXPECT_EQ(
      ddl_command({"model", "allreduce", "--ranks", "10", "--per-node", "4", "--alpha-us", "1", "--bandwidth", "1", "--bytes", "1"}).code,
      2);
}

TEST_F(Model, AllreduceFromNumbers) {
  const Json json =
      answer({"allreduce", "--ranks", "16", "--bytes", "100MB,1KiB", "--alpha-us", "5", "--bandwidth", "12.5", "--reduce", "100"});
  EXPECT_EQ(json["model"], "allreduce");
  EXPECT_EQ(json["given"]["alpha_ns"], 5000);
  EXPECT_EQ(json["allreduce"][0]["rabenseifner_ns"], 15977500);
  EXPECT_EQ(json["allreduce"][0]["ring_ns"], 16087500);
  EXPECT_EQ(json["allreduce"][0]["best"], "rabenseifner");
  EXPECT_EQ(json["allreduce"][1]["bytes"], 1024);
  EXPECT_EQ(json["allreduce"][1]["best"], "butterfly");
}

TEST_F(Model, AllreduceOnNodes) {
  const Json json = answer({"allreduce", "--ranks", "256", "--per-node", "4", "--bytes", "100MB", "--alpha-us", "10", "--bandwidth", "12.5",
                            "--reduce", "100", "--inner-alpha-us", "3", "--inner-bandwidth", "80"});
  EXPECT_EQ(json["allreduce"][0]["hierarchical_ns"], 8086594);
  EXPECT_EQ(json["plans"].size(), 5u);
  EXPECT_EQ(json["plans"][0]["time_ns"], json["allreduce"][0]["multi_ring_ns"]);
}

test::SyntheticRun fit_job(const models::Link& link) {
  auto job = test::run().ranks(4).steps(10).slow(1, 30_ms);
  for (const int64_t bytes : {4_KiB, 64_KiB, 1_MiB, 16_MiB})
    job.compute(1_ms).allreduce(bytes,
                                std::llround(allreduce_seconds(models::Algorithm::kRing, 4, static_cast<double>(bytes), link) * 1e9));
  return job;
}

TEST_F(Model, AllreduceOfARunUsesItsLinkItsSizesAndItsRanks) {
  const std::string run = write(fit_job({50e-6, 1e-9, 0}));
  const Json json = answer({"allreduce", run});
  EXPECT_EQ(json["given"]["ranks"], 4);
  EXPECT_NEAR(json["given"]["alpha_ns"].get<double>(), 50000, 50);
  ASSERT_EQ(json["allreduce"].size(), 4u);
  for (const Json& row : json["allreduce"])
    EXPECT_NEAR(row["measured_ns"].get<double>(), row["ring_ns"].get<double>(), 0.001 * row["ring_ns"].get<double>());
  const Json other = answer({"allreduce", run, "--ranks", "64", "--bytes", "1MiB"});
  EXPECT_TRUE(other["allreduce"][0]["measured_ns"].is_null());
  EXPECT_TRUE(has(ddl_command({"model", "allreduce", run}).out, "(fitted, R2 1.000)"));
}

TEST_F(Model, FitOfARunAndOfACsv) {
  const Json json = answer({"fit", write(fit_job({50e-6, 1e-9, 0}))});
  EXPECT_NEAR(json["fit"][0]["alpha_ns"].get<double>(), 50000, 50);
  EXPECT_NEAR(json["fit"][0]["bandwidth_bytes_per_second"].get<double>(), 1e9, 1e6);
  EXPECT_EQ(json["points"].size(), 4u);

  const std::string csv = file("t.csv", "bytes,time_us\n1000,102\n10000,120\n100000,300\n1000000,2100\n");  // p = 2: 2 alpha + n beta
  const Json two = answer({"fit", "--csv", csv, "--ranks", "2"});
  EXPECT_EQ(two["fit"][0]["alpha_ns"], 50000);
  EXPECT_NEAR(two["fit"][0]["bandwidth_bytes_per_second"].get<double>(), 5e8, 1);
}

TEST_F(Model, FitRefusesWithExitCode3) {
  const Result result = ddl_command({"model", "fit", write(test::run().ranks(2).steps(8).compute(1_ms).allreduce(1_MiB, 1_ms))});
  EXPECT_EQ(result.code, 3);
  EXPECT_TRUE(has(result.err, "1 distinct sizes")) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(ddl_command({"model", "fit"}).code, 2);
}

}  // namespace
}  // namespace ddl::cli
