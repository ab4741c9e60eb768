// ddl model in this process: the command line, the JSON, questions to a virtual run.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "analyzer/models/allreduce_cost.h"
#include "analyzer/models/network_table.h"
#include "analyzer/models/printed.h"
#include "cli/model.h"
#include "tests/cli/ddl_command.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/training_job.h"

namespace ddl::cli {
namespace {

using namespace test::literals;
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

/// A screen of 24 lines of 100 characters.
void expect_one_screen(const std::string& help) {
  EXPECT_LE(std::count(help.begin(), help.end(), '\n'), 24) << help;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST_F(Model, HelpListsEveryQuestionAndEachHasHelp) {
  const Result help = ddl_command({"model", "--help"});
  EXPECT_EQ(help.code, 0);
  expect_one_screen(help.out);
  constexpr size_t kName = 13;  // behind the kind, which the first of its questions shows
  std::vector<std::string> names;
  std::istringstream text(help.out);
  for (std::string line; std::getline(text, line) && line != "example:";)
    if (line.starts_with("  ") && line.size() > kName)
      names.push_back(line.substr(kName, line.find(' ', kName) - kName));
  EXPECT_EQ(names, model_questions());
  EXPECT_EQ(names.size(), 19u);
  for (const std::string& name : names) {
    const Result one = ddl_command({"model", name, "--help"});
    EXPECT_EQ(one.code, 0) << name;
    EXPECT_TRUE(has(one.out, "usage: ddl model " + name)) << one.out;
    EXPECT_TRUE(has(one.out, "example:\n  ddl model " + name)) << one.out;
    expect_one_screen(one.out);
  }
}

/// Four ranks of eight samples that train the network of a table, layer by layer, and reduce gradients in several
/// sizes.
test::SyntheticRun training(const std::string& network) {
  const auto layers =
      models::find_network_table(network, std::string(DDL_SOURCE_DIR) + "/workloads/network/tables").layers;
  test::SyntheticRun job = test::run().ranks(4).steps(10).slow(2, 3_ms).value("samples", 8).value("loss", 1);
  for (const auto& layer : layers) job.forward(layer.name, 100_us);
  for (size_t i = layers.size(); i-- > 0;) job.backward(layers[i].name, 200_us);
  double parameters = 0;
  for (const auto& layer : layers) parameters += layer.parameters;
  const int64_t rest = 4 * std::llround(parameters) - 4_KiB - 64_KiB - 1_MiB;
  for (const int64_t bytes : {4_KiB, 64_KiB, 1_MiB, rest}) job.allreduce(bytes, 100_us + bytes);
  return job.phase("update").compute(1_ms).end_phase();
}

test::SyntheticRun pipelines(int stages, int replicas, int micro_batches, int64_t hop_ns = 1);

TEST_F(Model, EveryExampleOfHelpRuns) {
  const std::filesystem::path published = std::filesystem::path(DDL_SOURCE_DIR) / "tests/published";
  std::filesystem::copy_file(published / "param_tensors_resnet50.csv", folder_ / "tensors.csv");
  std::filesystem::copy_file(published / "pipedream_profile_vgg16.csv", folder_ / "vgg16.csv");
  file("links.csv", "from,to,gb_per_s\na0,a1,80\nb0,b1,80\na1,b0,12.5\n");
  file("traffic.csv", "from,to,bytes\n0,2,80e9\n2,0,80e9\n1,3,80e9\n3,1,80e9\n");
  file("kernels.csv", "micro_batch,time_ms,workspace_bytes\n256,30,67108864\n128,16,33554432\n64,9,1\n");
  file("epochs.csv", "batch,epochs\n1024,60\n4096,62\n16384,66\n65536,86\n");
  file("errors.csv", "samples,error\n1e4,0.31698\n1e5,0.2\n1e6,0.126191\n1e7,0.0796214\n");
  file("allreduce.csv", "bytes,time_us\n4096,20\n65536,80\n1048576,1000\n16777216,15900\n");
  file("sweep.csv", "bytes,time_us\n4096,20\n65536,80\n1048576,1000\n16777216,15900\n134217728,140000\n");
  file("topology.conf", "SwitchName=leaf Nodes=node[0-1]\n");
  file("topo.txt", "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n");
  training("resnet50").write(folder_ / "slow.ddl");
  training("resnet50").write(folder_ / "job.ddl");
  pipelines(2, 1, 4).write(folder_ / "pipe.ddl");
  test::run().ranks(4).steps(10).compute(1_ms).halo(1_MiB, 100_us).write(folder_ / "halo.ddl");
  test::write_training_job(test::draw_training_job(7, {test::Fault::kHostBound}), folder_ / "gpus.ddl");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(std::filesystem::path(folder_ / "."));
  int ran = 0;
  for (const std::string& question : model_questions()) {
    std::istringstream help(ddl_command({"model", question, "--help"}).out);
    bool examples = false;
    for (std::string line; std::getline(help, line);) {
      examples = examples || line == "example:";
      if (!examples || !line.starts_with("  ddl ")) continue;
      std::istringstream words(line.substr(6, line.find(" #") - 6));
      Arguments arguments;
      for (std::string word; words >> word;) arguments.push_back(word);
      const Result result = ddl_command(arguments);
      EXPECT_EQ(result.code, 0) << line << "\n" << result.err;
      ++ran;
    }
  }
  std::filesystem::current_path(before);
  EXPECT_GE(ran, 40);
}

TEST_F(Model, OperatorsOfGpusAreReplayed) {
  const std::string run = (folder_ / "gpus.ddl").string();
  test::write_training_job(test::draw_training_job(7, {test::Fault::kHostBound}), run);
  const Json json = answer({"whatif", run, "--operator", "gemm", "--scale", "0"});
  const double step_ns = json["given"]["replayed_step_ns"], left_ns = json["whatif"][1]["step_ns"],
               saved_ns = json["whatif"][1]["saving_ns"];
  EXPECT_NEAR(step_ns / json["given"]["recorded_step_ns"].get<double>(), 1, 0.01);
  EXPECT_NEAR(left_ns + saved_ns, step_ns, 2);
  EXPECT_LT(saved_ns, 0.05 * step_ns) << "its host comes late";
  const Result unknown = ddl_command({"model", "whatif", run, "--operator", "gem"}),
               longer = ddl_command({"model", "whatif", run, "--operator", "gemm", "--scale", "2"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(has(unknown.err, "did you mean gemm?")) << unknown.err;
  EXPECT_EQ(longer.code, 2);
  EXPECT_TRUE(has(longer.err, "0 to 1")) << longer.err;
}

TEST_F(Model, TensorsOfImpossibleSizesAreRefused) {  // found by tools/fuzz profile: their sum is beyond 64 bits
  for (const char* bytes : {"1e19", "-9223372036854775808", "-1", "1e300"}) {
    const std::string tensors = file("tensors.csv", std::string("name,bytes\na,") + bytes + "\nb," + bytes + "\n");
    const Result result = ddl_command({"model", "fusion", "--tensors", tensors, "--forward-ms", "60", "--backward-ms",
                                       "120", "--ranks", "16", "--alpha-us", "20", "--bandwidth", "1.25"});
    EXPECT_EQ(result.code, 3) << bytes;
    EXPECT_TRUE(has(result.err, "bytes of row 2 is out of range")) << result.err;
  }
}

TEST_F(Model, MistakesAreUsageErrors) {
  EXPECT_EQ(ddl_command({"model"}).code, 2);
  EXPECT_TRUE(has(ddl_command({"model", "alreduce"}).err, "did you mean allreduce?"));
  EXPECT_TRUE(has(ddl_command({"model", "allreduce", "--bytes", "1MB"}).err, "--ranks is needed"));
  EXPECT_TRUE(has(ddl_command({"model", "allreduce", "--ranks", "4", "--bytes", "1MB"}).err, "--alpha-us is needed"));
  for (const char* bytes : {"1 MB", "-1", "MB", "1e30", "1XB", ""})
    EXPECT_EQ(
        ddl_command({"model", "allreduce", "--ranks", "4", "--alpha-us", "1", "--bandwidth", "1", "--bytes", bytes})
            .code,
        2)
        << bytes;
  for (const char* number : {"0", "-1", "nan", "inf"})
    EXPECT_EQ(
        ddl_command({"model", "allreduce", "--ranks", "4", "--alpha-us", "1", "--bandwidth", number, "--bytes", "1"})
            .code,
        2)
        << number;
  EXPECT_EQ(
      ddl_command({"model", "allreduce", "--ranks", "0", "--alpha-us", "1", "--bandwidth", "1", "--bytes", "1"}).code,
      2);
  EXPECT_EQ(ddl_command({"model", "allreduce", "--ranks", "10", "--per-node", "4", "--alpha-us", "1", "--bandwidth",
                         "1", "--bytes", "1"})
                .code,
            2);
}

TEST_F(Model, AllreduceFromNumbers) {
  const Json json = answer({"allreduce", "--ranks", "16", "--bytes", "100MB,1KiB", "--alpha-us", "5", "--bandwidth",
                            "12.5", "--reduce", "100"});
  EXPECT_EQ(json["model"], "allreduce");
  EXPECT_EQ(json["given"]["alpha_ns"], 5000);
  EXPECT_EQ(json["allreduce"][0]["rabenseifner_ns"], 15977500);
  EXPECT_EQ(json["allreduce"][0]["ring_ns"], 16087500);
  EXPECT_EQ(json["allreduce"][0]["best"], "rabenseifner");
  EXPECT_EQ(json["allreduce"][1]["bytes"], 1024);
  EXPECT_EQ(json["allreduce"][1]["best"], "butterfly");
}

TEST_F(Model, AllreduceOnNodes) {
  const Json json =
      answer({"allreduce", "--ranks", "256", "--per-node", "4", "--bytes", "100MB", "--alpha-us", "10", "--bandwidth",
              "12.5", "--reduce", "100", "--inner-alpha-us", "3", "--inner-bandwidth", "80"});
  EXPECT_EQ(json["allreduce"][0]["hierarchical_ns"], 8086594);
  EXPECT_EQ(json["plans"].size(), 5u);
  EXPECT_EQ(json["plans"][0]["time_ns"], json["allreduce"][0]["multi_ring_ns"]);
}

test::SyntheticRun fit_job(const models::Link& link) {
  auto job = test::run().ranks(4).steps(10).slow(1, 30_ms);
  for (const int64_t bytes : {4_KiB, 64_KiB, 1_MiB, 16_MiB})
    job.compute(1_ms).allreduce(
        bytes, std::llround(allreduce_seconds(models::Algorithm::kRing, 4, static_cast<double>(bytes), link) * 1e9));
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
  EXPECT_TRUE(has(ddl_command({"model", "allreduce", run}).out, " R2 1.000)"));
}

TEST_F(Model, QuotedTrainingTimesAreChecked) {  // 13.2 and 35.2 days: IBM's slides on DDL (Cho, 2018)
  const auto said = [](Arguments more) {
    Arguments arguments = {"model", "train", "--batch", "32", "--step-ms", "300", "--epochs", "100"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ddl_command(arguments).out;
  };
  const auto train = [](Arguments more) {
    more.insert(more.begin(), "train");
    return answer(more)["train"][0];
  };
  const Arguments images = {"--batch", "32", "--step-ms", "300", "--epochs", "100"};
  for (const auto& [option, number, days, decimals] : {std::tuple("--samples", "1.2e6", "13.02", 2),
                                                       {"--iterations", "38000", "13.19", 2},
                                                       {"--samples", "7.5e6", "81.4", 1}}) {
    Arguments arguments = images;
    arguments.insert(arguments.end(), {option, number});
    EXPECT_EQ(models::half_up(train(arguments)["days"], decimals), days) << number;
  }
  // 480 at a time, 120 s each
  const Json pod = train({"--samples", "300000", "--batch", "480", "--step-ms", "120000", "--epochs", "1"});
  EXPECT_EQ(models::half_up(pod["hours"], 2), "20.83");
  EXPECT_TRUE(has(said({"--samples", "7.5e6", "--quoted-days", "35.2"}),
                  "The quoted 35.2 days do not follow from these numbers, which make 2.31 times as many."));
  EXPECT_TRUE(has(said({"--samples", "1.2e6", "--quoted-days", "13.2"}), "do not follow"));
  EXPECT_TRUE(has(said({"--iterations", "38000", "--quoted-days", "13.2"}), "The quoted 13.2 days follow."));
  EXPECT_EQ(ddl_command({"model", "train", "--samples", "1", "--batch", "1", "--step-ms", "1", "--epochs", "1",
                         "--quoted-days", "0"})
                .code,
            2);
}

TEST_F(Model, MappingPutsPartnersTogether) {
  const std::string links = file("links.csv", "from,to,gb_per_s\na0,a1,80\nb0,b1,80\na1,b0,12.5\n");
  const std::string traffic = file("traffic.csv", "from,to,bytes\n0,2,80e9\n2,0,80e9\n1,3,80e9\n3,1,80e9\n");
  const Json json = answer({"mapping", "--links", links, "--traffic", traffic});
  EXPECT_EQ(json["mapping"][0]["busiest_ns"], 12800000000);  // 160 GB through the slow link, one direction
  EXPECT_EQ(json["mapping"][1]["busiest_ns"], 1000000000);
  const auto node = [&](size_t rank) { return json["places"][rank]["best"].get<std::string>()[0]; };
  EXPECT_EQ(node(0), node(2));
  EXPECT_EQ(node(1), node(3));
  // For a run: rank 0 sends to rank 1 only.
  const std::string run = write(test::run().ranks(2).steps(12).compute(1_ms).message(0, 1, 1_MiB, 100_us));
  EXPECT_EQ(answer({"mapping", run, "--links", links})["mapping"][0]["busiest_ns"].get<double>(),
            std::round(12.0 * 1048576 / 80));
  EXPECT_EQ(ddl_command({"model", "mapping", "--links", links}).code, 2);
  EXPECT_EQ(
      ddl_command({"model", "mapping", "--links", links, "--traffic", file("t.csv", "from,to,bytes\n0,999,1\n")}).code,
      3);
  std::string many = "from,to,gb_per_s\n";
  for (int i = 0; i < 2000; ++i) many += "p" + std::to_string(i) + ",p" + std::to_string(i + 1) + ",1\n";
  const Result refused = ddl_command({"model", "mapping", "--links", file("many.csv", many), "--traffic", traffic});
  EXPECT_EQ(refused.code, 3);  // at once: n^2 routes would be made before
  EXPECT_TRUE(has(refused.err, "too many places: 2001, at most 128 are searched")) << refused.err;
}

// A, B, C, D to all over a square: 200 ms, where one route each would take 300
TEST_F(Model, MappingRoutesTheExampleOfTheDocument) {
  const std::string square = file("square.csv", "from,to,gb_per_s\nA,B,10\nB,C,10\nC,D,10\nD,A,10\n");
  std::string bytes = "from,to,bytes\n";
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j)
      if (i != j) bytes += std::to_string(i) + "," + std::to_string(j) + ",1e9\n";
  const std::string all = file("all.csv", bytes);
  const Json json = answer({"mapping", "--links", square, "--traffic", all});
  EXPECT_EQ(json["mapping"][0]["busiest_ns"], 200000000);
  EXPECT_EQ(json["mapping"][1]["busiest_ns"], 200000000);
  EXPECT_EQ(json["given"]["bound_ns"], 200000000);
  EXPECT_TRUE(
      has(ddl_command({"model", "mapping", "--links", square, "--traffic", all}).out, "No other mapping is better."));
  // The same four around a switch: nobody sits on it, though the file names it first.
  const std::string star =
      file("star.csv", "from,to,gb_per_s\nswitch:s,A,10\nswitch:s,B,10\nC,switch:s,10\nD,switch:s,10\n");
  const Json around = answer({"mapping", "--links", star, "--traffic", all});
  EXPECT_EQ(around["given"]["places"], 4);
  EXPECT_EQ(around["given"]["switches"], 1);
  EXPECT_EQ(around["mapping"][1]["busiest_ns"], 300000000);  // each sends three times 1 GB through its one link
  for (const Json& row : around["places"]) EXPECT_FALSE(row["best"].get<std::string>().starts_with("switch:"));
}

TEST_F(Model, LimitsOfARunAndOfNumbers) {
  const std::string run =
      write(test::run().ranks(4).steps(16).compute(4_ms).allreduce(1_MiB, 6_ms).value("samples", 32));
  const Json json = answer({"limits", run, "--safe-batch", "64"});
  EXPECT_EQ(json["given"]["global_batch"], 128);
  ASSERT_EQ(json["limits"].size(), 2u);
  EXPECT_EQ(json["limits"][0]["limit"], "communication");  // 6 of 10 ms
  EXPECT_EQ(json["limits"][1]["limit"], "recipe");
  EXPECT_EQ(json["notes"].size(), 1u);  // memory was not checked
  EXPECT_EQ(answer({"limits", run, "--ranks", "256", "--global-batch", "128"})["limits"][0]["limit"], "samples");
  // A batch per rank or per step: which of them stays with other ranks, the run does not tell.
  const Json elsewhere = answer({"limits", run, "--ranks", "256", "--safe-batch", "64"});
  EXPECT_FALSE(elsewhere["given"].contains("global_batch"));
  EXPECT_EQ(elsewhere["limits"].size(), 0u);
  EXPECT_EQ(answer({"limits", run, "--ranks", "4"})["given"]["global_batch"], 128);
  EXPECT_EQ(ddl_command({"model", "limits", "--global-batch", "8"}).code, 2);
  EXPECT_EQ(ddl_command({"model", "limits", "--ranks", "8", "--transfer-share", "2"}).code, 2);
  EXPECT_TRUE(has(ddl_command({"model", "limits", "--ranks", "8"}).out, "None of the limits that could be checked."));
}

TEST_F(Model, WhatIfOfAStragglingRun) {
  const std::string run = write(test::run().ranks(4).steps(16).compute(10_ms).allreduce(1_MiB, 4_ms).slow(2, 6_ms));
  const Json json = answer({"whatif", run, "--network", "4", "--batch", "3"});
  EXPECT_EQ(json["given"]["recorded_step_ns"], 20000000);
  EXPECT_EQ(json["given"]["replayed_step_ns"], 20000000);
  EXPECT_EQ(json["given"]["ideal_step_ns"], 15500000);
  EXPECT_EQ(json["given"]["fixed_by_ranks_ratio"], 1.0);
  const std::pair<const char*, int64_t> scenarios[] = {
      {"as recorded", 20000000},          {"network x4", 17000000},
      {"rank 2 as the others", 14000000}, {"all computing at its mean", 15500000},
      {"transfers hidden", 16000000},     {"batch x3", 52000000}};
  ASSERT_EQ(json["whatif"].size(), std::size(scenarios));
  for (size_t i = 0; i < std::size(scenarios); ++i) {
    EXPECT_EQ(json["whatif"][i]["scenario"], scenarios[i].first);
    EXPECT_EQ(json["whatif"][i]["step_ns"], scenarios[i].second) << scenarios[i].first;
  }
  EXPECT_NEAR(json["whatif"][5]["throughput_factor"].get<double>(), 3 * 20.0 / 52, 1e-12);
  EXPECT_EQ(json["slowdown"][1]["what"], "only compute");
  EXPECT_NEAR(json["slowdown"][0]["slowdown"].get<double>(), 20 / 15.5, 1e-9);
  EXPECT_TRUE(has(ddl_command({"model", "whatif", run}).out, "rank 2 would repair 100.0% of the slowness (M_W)"));
  EXPECT_EQ(ddl_command({"model", "whatif", run, "--healthy", "4"}).code, 2);
  EXPECT_EQ(ddl_command({"model", "whatif", run, "--network", "0"}).code, 2);
}

/// A replay knows bounds of non-blocking transfers only: what mending the rank saves is what its finding says.
TEST_F(Model, WhatIfSaysWhatTheFindingSays) {
  const std::string run =
      write(test::run().ranks(4).steps(16).compute(5_ms).iallreduce(1_MiB, 2_ms).compute(5_ms).waitall().slow(2, 6_ms));
  const Json found = Json::parse(ddl_command({"report", run, "--json"}).out)["findings"][0];
  ASSERT_EQ(found["rank"], 2);
  for (const std::vector<std::string>& healthy : {std::vector<std::string>{}, {"--healthy", "2"}}) {
    std::vector<std::string> arguments = {"whatif", run};
    arguments.insert(arguments.end(), healthy.begin(), healthy.end());
    const Json rows = answer(arguments)["whatif"];
    EXPECT_EQ(rows[2]["scenario"], "rank 2 as the others");
    EXPECT_NEAR(rows[0]["step_ns"].get<double>() - rows[2]["step_ns"].get<double>(), found["saving_ns"].get<double>(),
                1.0);
  }
}

TEST_F(Model, FitOfARunAndOfACsv) {
  const Json json = answer({"fit", write(fit_job({50e-6, 1e-9, 0}))});
  EXPECT_NEAR(json["fit"][0]["alpha_ns"].get<double>(), 50000, 50);
  EXPECT_NEAR(json["fit"][0]["bandwidth_bytes_per_second"].get<double>(), 1e9, 1e6);
  EXPECT_EQ(json["points"].size(), 4u);

  // p = 2: 2 alpha + n beta
  const std::string csv = file("t.csv", "bytes,time_us\n1000,102\n10000,120\n100000,300\n1000000,2100\n");
  const Json two = answer({"fit", "--csv", csv, "--ranks", "2"});
  EXPECT_EQ(two["fit"][0]["alpha_ns"], 50000);
  EXPECT_NEAR(two["fit"][0]["bandwidth_bytes_per_second"].get<double>(), 5e8, 1);
}

TEST_F(Model, FitRefusesWithExitCode3) {
  const Result result =
      ddl_command({"model", "fit", write(test::run().ranks(2).steps(8).compute(1_ms).allreduce(1_MiB, 1_ms))});
  EXPECT_EQ(result.code, 3);
  EXPECT_TRUE(has(result.err, "1 distinct sizes")) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(ddl_command({"model", "fit"}).code, 2);
}

std::string published(const std::string& name) {
  return std::string(DDL_SOURCE_DIR) + "/tests/published/" + name + ".csv";
}

TEST_F(Model, FusionFromNumbers) {
  const Json json = answer({"fusion", "--tensors", published("param_tensors_resnet50"), "--forward-ms", "60",
                            "--backward-ms", "120", "--ranks", "16", "--alpha-us", "20", "--bandwidth", "1.25"});
  EXPECT_EQ(json["given"]["tensors"], 161);
  EXPECT_EQ(json["given"]["bytes"], 102228128);
  std::vector<int> buckets;
  for (const Json& row : json["fusion"]) buckets.push_back(row["buckets"]);
  EXPECT_EQ(buckets, (std::vector<int>{161, 66, 32, 8, 5, 2, 1}));
  for (const Json& row : json["fusion"]) {
    EXPECT_EQ(row["overlapped_step_ns"], 180000000 + row["exposed_ns"].get<int64_t>());
    EXPECT_LE(std::abs(row["blocking_step_ns"].get<int64_t>() - 180000000 - row["comm_ns"].get<int64_t>()), 1);
  }
}

TEST_F(Model, FusionOfARunReplaysWhatItWasRecordedWith) {
  // Blocking and not fused is what the run did: the model's first row must be its step. Rank 1 is late; the others'
  // waiting is not in it.
  const models::Link link = {50e-6, 1e-9, 0};
  auto job = test::run().ranks(4).steps(10).compute(4_ms).slow(1, 10_ms);
  for (const int64_t bytes : {4_KiB, 64_KiB, 1_MiB, 4_MiB})
    job.compute(2_ms).allreduce(
        bytes, std::llround(allreduce_seconds(models::Algorithm::kRing, 4, static_cast<double>(bytes), link) * 1e9));
  const Json json = answer({"fusion", write(job.compute(1_ms)), "--thresholds", "0,8MiB"});
  EXPECT_EQ(json["given"]["tensors"], 4);
  EXPECT_EQ(json["given"]["compute_ns"], 23000000);  // 4 + 10 + 4 x 2 + 1 ms
  EXPECT_NEAR(json["fusion"][0]["blocking_step_ns"].get<double>(), json["given"]["measured_ns"].get<double>(), 20000);
  EXPECT_EQ(json["fusion"][0]["buckets"], 4);
  EXPECT_EQ(json["fusion"][1]["buckets"], 1);
  // All four in one bucket: 6 x 50 us + 1.5 x 5.0667 MiB x 1 ns. The 1 ms behind it is the update, which needs the
  // sums: nothing hides there.
  const double bytes = static_cast<double>(4_KiB + 64_KiB + 1_MiB + 4_MiB);
  EXPECT_EQ(json["given"]["update_ns"], 1000000);
  EXPECT_NEAR(json["fusion"][1]["exposed_ns"].get<double>(), 300e3 + 1.5 * bytes, 20000);
}

int64_t ring_ns(int64_t bytes, const models::Link& link) {
  return std::llround(allreduce_seconds(models::Algorithm::kRing, 2, static_cast<double>(bytes), link) * 1e9);
}

TEST_F(Model, FusionOfARunThatOverlaps) {
  // Layers d to a of 1 ms each in backward, whose gradients are posted as they are ready; the update waits
  // for them one by one.
  const models::Link link = {50e-6, 1e-9, 0};
  const std::pair<const char*, int64_t> layers[] = {{"d", 5_MiB}, {"c", 4_MiB}, {"b", 3_MiB}, {"a", 2_MiB}};
  auto job = test::run().ranks(2).steps(12).phase("forward").compute(4_ms).end_phase().phase("backward");
  for (const auto& [name, bytes] : layers) job.layer(name, 1_ms).iallreduce(bytes, ring_ns(bytes, link));
  job.end_phase().phase("update").wait().wait().wait().wait().compute(3_ms).end_phase();
  const Json json = answer({"fusion", write(job), "--thresholds", "0,16MiB"});
  EXPECT_EQ(json["given"]["readiness"], "(as posted)");
  EXPECT_NEAR(json["given"]["alpha_ns"].get<double>(), 50000, 3000);
  EXPECT_NEAR(json["given"]["update_ns"].get<double>(), 3e6, 1e4);
  EXPECT_NEAR(json["given"]["beside_ratio"].get<double>(), 1, 0.01);
  // Ready at 5 ms, the transfers queue up behind it: that is the recorded step.
  int64_t sum_ns = 0;
  for (const auto& [name, bytes] : layers) sum_ns += ring_ns(bytes, link);
  EXPECT_NEAR(json["given"]["measured_ns"].get<double>(), 5e6 + static_cast<double>(sum_ns) + 3e6, 5e4);
  EXPECT_NEAR(json["fusion"][0]["overlapped_step_ns"].get<double>(), json["given"]["measured_ns"].get<double>(), 5e4);
  // In one bucket: ready at 8 ms, and nothing is hidden.
  EXPECT_NEAR(json["fusion"][1]["overlapped_step_ns"].get<double>(),
              8e6 + static_cast<double>(ring_ns(14_MiB, link)) + 3e6, 1e5);
  EXPECT_GT(json["fusion"][1]["exposed_ns"], 14e6);
}

TEST_F(Model, FusionTakesReadinessFromLayersOfBackward) {
  // The same computing, recorded with blocking allreduces behind backward: one for each layer; then all in one, with a
  // table of the layers.
  const models::Link link = {50e-6, 1e-9, 0};
  const std::pair<const char*, int64_t> layers[] = {{"d", 5_MiB}, {"c", 4_MiB}, {"b", 3_MiB}, {"a", 2_MiB}};
  const auto computing = [&] {
    auto job = test::run().ranks(2).steps(12).phase("forward").compute(4_ms).end_phase().phase("backward");
    for (const auto& [name, bytes] : layers) job.layer(name, 1_ms);
    return job.end_phase().phase("reduce");
  };
  auto each = computing(), one = computing();
  for (const auto& [name, bytes] : layers) each.allreduce(bytes, ring_ns(bytes, link));
  each.end_phase().phase("update").compute(3_ms).end_phase();
  one.allreduce(14_MiB, ring_ns(14_MiB, link)).end_phase().phase("update").compute(3_ms).end_phase();
  double sum_ms = 0;
  for (const auto& [name, bytes] : layers) sum_ms += 1e-6 * static_cast<double>(ring_ns(bytes, link));
  const Json of_each = answer({"fusion", write(each), "--thresholds", "0,16MiB"});
  EXPECT_EQ(of_each["given"]["readiness"], "(ends of layers in backward)");
  EXPECT_NEAR(of_each["fusion"][0]["overlapped_step_ns"].get<double>(), 1e6 * (5 + sum_ms + 3), 5e4);
  EXPECT_NEAR(of_each["fusion"][0]["blocking_step_ns"].get<double>(), of_each["given"]["measured_ns"].get<double>(),
              5e4);

  one.write(folder_ / "one.ddl");
  const std::string run = (folder_ / "one.ddl").string();
  const Result refused = ddl_command({"model", "fusion", run});
  EXPECT_EQ(refused.code, 3);
  EXPECT_TRUE(has(refused.err, "--sweep FILE")) << refused.err;
  std::string csv = "layer,params,fwd_macs_per_sample,act_out_elems_per_sample\n", sweep = "bytes,time_us\n";
  for (size_t i = std::size(layers); i-- > 0;)
    csv += std::string(layers[i].first) + "," + std::to_string(layers[i].second / 4) + ",1,1\n";
  for (const int64_t bytes : {2_MiB, 3_MiB, 4_MiB, 5_MiB, 14_MiB})
    sweep += std::to_string(bytes) + "," + std::to_string(1e-3 * static_cast<double>(ring_ns(bytes, link))) + "\n";
  const std::string swept = file("sweep.csv", sweep);
  const Json unknown = answer({"fusion", run, "--sweep", swept, "--thresholds", "0"});
  EXPECT_TRUE(unknown["fusion"][0]["overlapped_step_ns"].is_null());  // when the gradients in it were ready is not told
  const Json with_table =
      answer({"fusion", run, "--table", file("net.csv", csv), "--sweep", swept, "--thresholds", "0,16MiB"});
  EXPECT_EQ(with_table["given"]["tensors"], 4);
  for (size_t row = 0; row < 2; ++row)
    EXPECT_NEAR(with_table["fusion"][row]["overlapped_step_ns"].get<double>(),
                of_each["fusion"][row]["overlapped_step_ns"].get<double>(), 5e4);
  EXPECT_EQ(ddl_command({"model", "fusion", run, "--table", "resnet50", "--sweep", swept}).code, 3);
  const Result no_table = ddl_command({"model", "fusion", run, "--table", "resnet49", "--sweep", swept});
  EXPECT_EQ(no_table.code, 2);
  EXPECT_TRUE(has(no_table.err, "resnet50, ")) << no_table.err;
}

TEST_F(Model, PipelineFromNumbers) {
  const Json json = answer({"pipeline", "--stages", "4", "--micro-batches", "8,16", "--forward-ms", "10",
                            "--backward-ms", "10", "--weight-ms", "8"});
  EXPECT_NEAR(json["pipeline"][0]["bubble_of_total_ratio"].get<double>(), 0.272727, 1e-6);
  EXPECT_EQ(json["pipeline"][0]["bubble_of_ideal_ratio"], 0.375);
  EXPECT_EQ(json["pipeline"][0]["bubble_ns"], 84000000);
  EXPECT_EQ(json["pipeline"][0]["zb_h1_bubble_ns"], 36000000);
  EXPECT_EQ(json["pipeline"][0]["zb_h2_bubble_ns"], 12000000);
  EXPECT_EQ(ddl_command({"model", "pipeline", "--stages", "4", "--micro-batches", "6", "--chunks", "2"}).code, 2);
  EXPECT_EQ(ddl_command({"model", "pipeline", "--stages", "4", "--micro-batches", "0"}).code, 2);
  EXPECT_EQ(ddl_command({"model", "pipeline", "--micro-batches", "4"}).code, 2);
}

/// `replicas` pipelines of `stages` stages, GPipe, and an allreduce of each stage over the replicas. 5 ms forward and
/// 10 ms backward for a micro-batch; messages take 1 ns, or what `hop_ns` says.
test::SyntheticRun pipelines(int stages, int replicas, int micro_batches, int64_t hop_ns) {
  test::SyntheticRun job = test::run().ranks(stages * replicas).steps(12).split("stage", stages, true);
  for (const bool forward : {true, false}) {
    job.phase(forward ? "forward" : "backward");
    for (int i = 0; i < micro_batches; ++i)
      for (int replica = 0; replica < replicas; ++replica)
        for (int k = 0; k < stages; ++k) {
          const int s = forward ? k : stages - 1 - k, next = forward ? s + 1 : s - 1, first = replica * stages;
          job.on_rank(first + s).compute(forward ? 5_ms : 10_ms);
          if (next >= 0 && next < stages) job.message(first + s, first + next, 1_MiB, hop_ns);
        }
    job.end_phase();
  }
  return job.on_comm("stage").allreduce(1_MiB, 1_ms).phase("update").compute(2_ms).end_phase();
}

TEST_F(Model, PipelineOfARunOfTwoStagesAndTwoReplicas) {
  const std::string run = write(pipelines(2, 2, 4));
  const Json json = answer({"pipeline", run, "--micro-batches", "1,4,8,1000"});
  EXPECT_EQ(json["given"]["stages"], 2);
  EXPECT_EQ(json["given"]["replicas"], 2);
  EXPECT_EQ(json["given"]["micro_batches"], 4);
  EXPECT_EQ(json["given"]["step_ns"].get<int64_t>() / 10000, 7800);     // (4 + 1) x 15 + 1 + 2 ms
  const double expected_ms[] = {120 + 3, 75 + 3, 67.5 + 3, 60.06 + 3};  // 60 ms x (M + 1) / M
  for (size_t i = 0; i < std::size(expected_ms); ++i)
    EXPECT_NEAR(json["pipeline"][i]["step_ns"].get<double>(), 1e6 * expected_ms[i], 1e4) << i;
  EXPECT_NEAR(json["pipeline"][2]["speedup"].get<double>(), 78 / 70.5, 1e-3);
  ASSERT_EQ(json["stages"].size(), 2U);
  EXPECT_EQ(json["stages"][1]["forward_ns"], 20000000);
  EXPECT_EQ(json["stages"][1]["backward_ns"], 40000000);
  EXPECT_EQ(json["stages"][1]["other_ns"], 2000000);
  // Taken for four stages the schedule would be shorter than what one stage computes: no answer, instead of a wrong
  // one.
  const Result wrong = ddl_command({"model", "pipeline", run, "--stages", "4", "--now", "1", "--micro-batches", "8"});
  EXPECT_EQ(wrong.code, 3);
  EXPECT_TRUE(has(wrong.err, "one stage alone computes")) << wrong.err;
  EXPECT_EQ(ddl_command({"model", "pipeline", run, "--now", "4", "--micro-batches", "8"}).code, 2);
  EXPECT_EQ(ddl_command({"model", "pipeline", run}).code, 2);
}

TEST_F(Model, PipelineOfARunCountsItsMessages) {  // three stages, 30 ms each; every message takes 2 ms
  const Json json = answer({"pipeline", write(pipelines(3, 1, 2, 2_ms)), "--micro-batches", "2,8"});
  EXPECT_EQ(json["given"]["stages"], 3);
  EXPECT_NEAR(json["given"]["hop_ns"].get<double>(), 2e6, 1e4);
  // two hops there, two back
  EXPECT_NEAR(json["pipeline"][0]["schedule_ns"].get<double>(), 1e6 * (30.0 * 4 / 2 + 8), 1e5);
  EXPECT_NEAR(json["pipeline"][1]["schedule_ns"].get<double>(), 1e6 * (30.0 * 10 / 8 + 8), 1e5);
}

TEST_F(Model, PipelineThatWasNotRecognised) {
  // Two ranks that compute 40 ms a step; with 2 micro-batches the schedule takes 20 x (2 + 1) = 60 ms. The step takes
  // 70.
  const std::string run = write(test::run().ranks(2).steps(12).compute(40_ms).barrier(30_ms));
  const Result unknown = ddl_command({"model", "pipeline", run, "--micro-batches", "8"});
  EXPECT_EQ(unknown.code, 3);
  EXPECT_TRUE(has(unknown.err, "--stages K --now M")) << unknown.err;
  const Json json = answer({"pipeline", run, "--stages", "2", "--now", "2", "--micro-batches", "2,8"});
  EXPECT_EQ(json["given"]["rest_ns"], 10000000);
  EXPECT_EQ(json["pipeline"][0]["step_ns"], 70000000);
  EXPECT_EQ(json["pipeline"][1]["schedule_ns"], 45000000);
  EXPECT_EQ(json["pipeline"][1]["step_ns"], 55000000);
  EXPECT_NEAR(json["pipeline"][1]["idle_ratio"].get<double>(), 15.0 / 55, 1e-9);
}

TEST_F(Model, PartitionOfVgg16) {
  const Json json = answer({"partition", "--profile", published("pipedream_profile_vgg16"), "--stages", "2,4,8"});
  EXPECT_EQ(json["given"]["total_ns"], 672535000);
  EXPECT_EQ(json["partition"][0]["bottleneck_ns"], 370931000);
  EXPECT_EQ(json["partition"][1]["bottleneck_ns"], 216450000);
  EXPECT_EQ(json["partition"][2]["bottleneck_ns"], 159531000);
  EXPECT_EQ(json["stages_4"].size(), 4u);
  const Json replicas = answer(
      {"partition", "--profile", published("pipedream_profile_vgg16"), "--workers", "16", "--bandwidth", "1.25"});
  EXPECT_LT(replicas["partition"][0]["bottleneck_ns"], replicas["given"]["data_parallel_ns"]);
}

TEST_F(Model, PartitionOfARun) {
  auto job = test::run()
                 .ranks(2)
                 .steps(6)
                 .forward("a", 10_ms)
                 .forward("b", 10_ms)
                 .forward("c", 10_ms)
                 .backward("c", 20_ms)
                 .backward("b", 20_ms)
                 .backward("a", 20_ms);
  const Json json = answer({"partition", write(job.allreduce(1_MiB, 1_ms)), "--stages", "2,3"});
  EXPECT_EQ(json["given"]["total_ns"], 90000000);
  EXPECT_EQ(json["partition"][0]["bottleneck_ns"], 60000000);
  EXPECT_EQ(json["partition"][1]["bottleneck_ns"], 30000000);
  EXPECT_EQ(json["stages_3"][1]["first"], "b");
}

TEST_F(Model, MicroBatchesOfACsv) {
  std::string csv = "layer,micro_batch,time_ms,workspace_bytes,kernel\n";
  for (const char* layer : {"a", "b"})
    for (const int b : {1, 2, 4})
      csv += std::string(layer) + "," + std::to_string(b) + "," + std::to_string(b + 1) + "," +
             std::to_string(100 * b) + ",k\n";
  const std::string path = file("kernels.csv", csv);
  EXPECT_EQ(answer({"microbatch", "--csv", path, "--batch", "8"})["microbatch"].size(), 6u);
  const Json json = answer({"microbatch", "--csv", path, "--batch", "8", "--workspace", "600"});
  ASSERT_EQ(json["microbatch"].size(), 2u);  // 400 + 200: 10 + 12 ms; 8 samples as 2 x 4 and 4 x 2
  EXPECT_EQ(json["microbatch"][0]["time_ns"].get<int64_t>() + json["microbatch"][1]["time_ns"].get<int64_t>(),
            22000000);
  EXPECT_EQ(ddl_command({"model", "microbatch", "--csv", path, "--batch", "8", "--workspace", "100"}).code, 3);
}

TEST_F(Model, MemoryOfVgg16) {
  const Json json = answer({"memory", "--profile", published("pipedream_profile_vgg16")});
  EXPECT_NEAR(json["memory"].back()["total_bytes"].get<double>() / 0x1p30, 28.38, 0.005);
  EXPECT_EQ(
      ddl_command({"model", "memory", "--profile", published("pipedream_profile_vgg16"), "--optimizer", "adm"}).code,
      2);
}

TEST_F(Model, LayersOfShippedTables) {
  const Json memory = answer({"memory", "--table", "resnet50", "--batch", "32", "--optimizer", "adam"});
  EXPECT_EQ(memory["memory"].back()["parameter_bytes"], 2 * 4 * 25557032LL);  // layer_totals.csv
  EXPECT_EQ(memory["memory"].back()["optimizer_bytes"], 2 * 4 * 25557032LL);
  const Json cut = answer(
      {"partition", "--table", "vgg16", "--batch", "128", "--tflops", "10", "--workers", "16", "--bandwidth", "1.25"});
  EXPECT_NEAR(cut["given"]["total_ns"].get<double>(), 3 * 2 * 15470264320.0 * 128 / 10e12 * 1e9,
              // its multiply-adds, forward and twice back
              1e6);
  EXPECT_EQ(ddl_command({"model", "memory", "--table", "resnet50"}).code, 2);  // a batch
  // how fast
  EXPECT_EQ(ddl_command({"model", "partition", "--table", "resnet50", "--batch", "8", "--stages", "2"}).code, 2);
  EXPECT_EQ(ddl_command({"model", "memory"}).code, 2);
}

TEST_F(Model, LayersOfARunWithTheSizesOfItsTable) {
  const std::string table = file(
      "net.csv", "layer,params,fwd_macs_per_sample,act_out_elems_per_sample\na,1000,1,10\nb,2000,1,20\nc,3000,1,30\n");
  auto job =
      test::run().ranks(2).steps(6).forward("a", 10_ms).forward("b", 10_ms).forward("relu", 1_ms).forward("c", 10_ms);
  const std::string run =
      write(job.backward("c", 20_ms).backward("b", 20_ms).backward("a", 20_ms).barrier(1_ms).value("samples", 8));
  const Json memory = answer({"memory", run, "--table", table});
  EXPECT_EQ(memory["given"]["batch"], 8);
  EXPECT_EQ(memory["memory"].back()["parameter_bytes"], 2 * 4 * 6000);
  EXPECT_EQ(memory["memory"].back()["activation_bytes"], 2 * 4 * 8 * 60);
  const Json cut = answer({"partition", run, "--table", table, "--workers", "2", "--bandwidth", "100"});
  EXPECT_EQ(cut["given"]["total_ns"], 91000000);
  EXPECT_EQ(ddl_command({"model", "memory", run}).code, 3);                         // sizes are not known
  EXPECT_EQ(ddl_command({"model", "memory", run, "--table", "resnet50"}).code, 3);  // of another network
  EXPECT_EQ(ddl_command({"model", "partition", run, "--workers", "2", "--bandwidth", "1"}).code, 2);
}

/// So many steps take that many means: a median says nothing of the stall in every tenth.
TEST_F(Model, TimeToTrainIsThatOfTheMeanStep) {
  auto job = test::run().ranks(2).steps(105).compute(10_ms).allreduce(1_MiB, 2_ms);
  job.every(10).compute(200_ms);
  const std::string run = write(job);
  const Json json = answer({"train", run, "--iterations", "1000", "--epochs", "1"});
  EXPECT_NEAR(json["given"]["step_ns"].get<double>(), 12e6 + 20e6, 0.1e6);
  EXPECT_NEAR(json["train"][0]["epoch_ns"].get<double>(), 32e9, 0.1e9);
  EXPECT_TRUE(has(ddl_command({"model", "train", run, "--iterations", "1000", "--epochs", "1"}).out,
                  "mean of the run's steady steps"));
}

TEST_F(Model, TimeToTrainAndItsPrice) {
  const Json json = answer({"train", "--samples", "1.2e6", "--batch", "32", "--step-ms", "300", "--epochs", "100",
                            "--machines", "4", "--price", "3"});
  EXPECT_EQ(json["train"][0]["iterations_per_epoch"], 37500);
  EXPECT_NEAR(json["train"][0]["days"].get<double>(), 13.0208, 1e-4);
  EXPECT_NEAR(json["train"][0]["price"].get<double>(), 312.5 * 12, 1e-6);
  EXPECT_NEAR(answer({"train", "--iterations", "38000", "--step-ms", "300", "--epochs", "100"})["train"][0]["days"]
                  .get<double>(),
              13.19, 0.005);
  EXPECT_EQ(ddl_command({"model", "train", "--samples", "100", "--step-ms", "1", "--epochs", "1"}).code, 2);
}

TEST_F(Model, TimeToTrainOfARun) {
  const std::string run =
      write(test::run().ranks(4).steps(12).compute(19_ms).allreduce(1_MiB, 1_ms).value("samples", 32));
  const Json json = answer({"train", run, "--samples", "1280", "--epochs", "2"});
  EXPECT_EQ(json["given"]["batch"], 128);
  EXPECT_EQ(json["given"]["step_ns"], 20000000);
  EXPECT_EQ(json["train"][0]["iterations_per_epoch"], 10);
  EXPECT_EQ(json["train"][0]["epoch_ns"], 200000000);
  EXPECT_EQ(answer({"train", run, "--samples", "1280", "--epochs", "2", "--batch", "128"})["train"][0]["epoch_ns"],
            200000000);
  // The step of another batch takes another time.
  const Result other = ddl_command({"model", "train", run, "--samples", "1280", "--epochs", "2", "--batch", "1024"});
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(has(other.err, "one of 128 samples, not of --batch 1024") && has(other.err, "whatif RUN --batch 8"))
      << other.err;
  const Json given = answer({"train", run, "--samples", "1280", "--epochs", "2", "--batch", "640", "--step-ms", "90"});
  EXPECT_EQ(given["train"][0]["epoch_ns"], 180000000);
}

TEST_F(Model, EpochsOfACsv) {
  const std::string path = file("e.csv", "batch,epochs\n1000,33\n10000,60\n20000,90\n");  // 30 (1 + B / 10000)
  const Json json = answer({"epochs", "--csv", path, "--batch", "30000"});
  EXPECT_NEAR(json["fit"][0]["knee_batch"].get<double>(), 10000, 1e-6);
  EXPECT_NEAR(json["epochs"][0]["epochs"].get<double>(), 120, 1e-9);
  const Json train =
      answer({"train", "--epochs-csv", path, "--batch", "30000", "--samples", "30000", "--step-ms", "1000"});
  EXPECT_NEAR(train["train"][0]["hours"].get<double>(), 120.0 / 3600, 1e-9);
  EXPECT_EQ(ddl_command({"model", "epochs", "--csv", file("two.csv", "batch,epochs\n1,2\n3,4\n")}).code, 3);
}

TEST_F(Model, CompressionLeavesWaitingAlone) {
  EXPECT_NEAR(answer({"compression", "--fraction", "0.5", "--speedup", "2"})["compression"][0]["speedup"].get<double>(),
              1 / 0.75, 1e-12);
  // Step 100 ms: 60 computing, 10 transfer, and 30 that rank 1 alone computes while the others wait.
  const Json json = answer(
      {"compression", write(test::run().ranks(4).steps(12).compute(60_ms).slow(1, 30_ms).allreduce(1_MiB, 10_ms))});
  EXPECT_NEAR(json["given"]["fraction_ratio"].get<double>(), 0.1, 1e-9);
  ASSERT_EQ(json["compression"].size(), 4U);
  EXPECT_EQ(ddl_command({"model", "compression", "--fraction", "1.5"}).code, 2);
}

TEST_F(Model, DataThatAnErrorNeeds) {
  std::string csv = "samples,error\n";
  for (double m = 1e4; m < 1e7; m *= 3) csv += fmt::format("{},{}\n", m, 2 * std::pow(m, -0.2) + 0.05);
  const std::string path = file("errors.csv", csv);
  const Json json = answer({"dataset", "--csv", path, "--error", "0.1", "--samples", "1e6"});
  EXPECT_NEAR(json["fit"][0]["b"].get<double>(), -0.2, 1e-4);
  EXPECT_NEAR(json["dataset"][0]["samples"].get<double>() / std::pow(40, 5), 1, 1e-2);
  EXPECT_NEAR(json["dataset"][1]["error"].get<double>(), 2 * std::pow(1e6, -0.2) + 0.05, 1e-6);
  EXPECT_EQ(ddl_command({"model", "dataset", "--csv", path, "--error", "0.04"}).code, 3);
  const Json one = answer({"dataset", "--csv", path, "--error", "0.1,0.04"})["dataset"];  // the other is answered
  ASSERT_EQ(one.size(), 2u);
  EXPECT_NEAR(one[0]["samples"].get<double>() / std::pow(40, 5), 1, 1e-2);
  EXPECT_TRUE(one[1]["samples"].is_null());
  EXPECT_EQ(ddl_command({"model", "dataset", "--csv", path, "--error", "x"}).code, 2);
  EXPECT_EQ(ddl_command({"model", "dataset"}).code, 2);
}

TEST_F(Model, LinksAreThePublishedOnesOfEachDirection) {  // links.csv
  const Json json = answer({"links", "--bytes", "1GB"});
  const auto rate = [&](const std::string& name, const char* column) {
    for (const Json& row : json["links"])
      if (row["link"] == name) return row[column].get<double>() * 1e-9;
    return 0.0;
  };
  EXPECT_NEAR(rate("PCIe 3.0 x16", "direction_bytes_per_second"), 15.754, 5e-4);
  EXPECT_NEAR(rate("PCIe 3.0 x16", "both_bytes_per_second"), 31.508, 1e-3);
  EXPECT_EQ(rate("NVLink 1.0 x4", "direction_bytes_per_second"), 80);
  EXPECT_EQ(rate("NVLink 2.0 x6", "both_bytes_per_second"), 300);
  EXPECT_EQ(rate("HDR InfiniBand", "direction_bytes_per_second"), 25);
  EXPECT_EQ(rate("10 Gb/s Ethernet", "both_bytes_per_second"), 2.5);
  EXPECT_NEAR(rate("NVLink 1.0 x4", "direction_bytes_per_second") / rate("PCIe 3.0 x16", "direction_bytes_per_second"),
              5.1, 0.05);
  EXPECT_NEAR(rate("NVLink 2.0 x6", "direction_bytes_per_second") / rate("PCIe 3.0 x16", "direction_bytes_per_second"),
              9.5, 0.05);
}

TEST_F(Model, CompressionTakesPairsOfSpeedUps) {
  // The shares for which the published pairs hold (sources of sparcml_speedups.csv), and back.
  for (const auto& [whole, comm, share] : {std::tuple("1.55", "3.31", 0.508),
                                           {"1.30", "1.36", 0.872},
                                           {"3.65", "4.53", 0.932},
                                           {"19.12", "22.97", 0.991}}) {
    const Json json = answer({"compression", "--speedup", comm, "--whole", whole});
    EXPECT_NEAR(json["given"]["fraction_ratio"].get<double>(), share, 5e-4) << whole;
    EXPECT_NEAR(json["compression"][0]["speedup"].get<double>(), std::stod(whole), 1e-9);
  }
  EXPECT_EQ(ddl_command({"model", "compression", "--speedup", "2", "--whole", "3"}).code, 2);
  EXPECT_EQ(ddl_command({"model", "compression", "--speedup", "2,3", "--whole", "1.5"}).code, 2);
  for (const char* speedup : {"0.5", "x", "1.5x", ""})
    EXPECT_EQ(ddl_command({"model", "compression", "--fraction", "0.5", "--speedup", speedup}).code, 2) << speedup;
}

TEST_F(Model, CompressionByLayerOfARun) {  // step 20 ms: 10 computing, 6 and 4 of transfer in two layers
  const Json json = answer({"compression",
                            write(test::run()
                                      .ranks(2)
                                      .steps(12)
                                      .compute(10_ms)
                                      .layer("fc")
                                      .allreduce(6_MiB, 6_ms)
                                      .end_layer()
                                      .layer("conv")
                                      .allreduce(2_MiB, 4_ms)
                                      .end_layer()),
                            "--speedup", "4"});
  ASSERT_EQ(json["layers"].size(), 2U);
  EXPECT_EQ(json["layers"][0]["layer"], "fc");
  EXPECT_EQ(json["layers"][0]["bytes"], 6_MiB);
  EXPECT_NEAR(json["layers"][0]["fraction_ratio"].get<double>(), 0.3, 1e-6);
  EXPECT_NEAR(json["layers"][0]["speedup"].get<double>(), 1 / (0.7 + 0.3 / 4), 1e-6);
  EXPECT_NEAR(json["layers"][1]["transfer_ns"].get<double>(), 4e6, 1);
}

}  // namespace
}  // namespace ddl::cli
