// ddl model consistency, parallel and largebatch: the command line, the JSON, questions to a virtual run.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/cli/ddl_command.h"
#include "tests/support/synthetic_run.h"

namespace ddl::cli {
namespace {

using namespace test::literals;

Json form_answer(Arguments arguments) {
  arguments.insert(arguments.begin(), "model");
  arguments.push_back("--json");
  const Result result = ddl_command(arguments);
  EXPECT_EQ(result.code, 0) << result.err;
  return Json::parse(result.out, nullptr, false);
}

class ModelForms : public testing::Test {
 protected:
  std::string write(const test::SyntheticRun& job) {
    job.write(folder_ / "job.ddl");
    return (folder_ / "job.ddl").string();
  }
  test::ScratchFolder folder_;
};

const Json& row_of(const Json& table, const char* key, const std::string& name) {
  const auto at = std::find_if(table.begin(), table.end(), [&](const Json& row) { return row[key] == name; });
  EXPECT_NE(at, table.end()) << name;
  return *at;
}

TEST_F(ModelForms, ConsistencyOfARun) {  // 10 ms of computing, 16 on rank 2; 4 ms of transfer
  const std::string run = write(test::run().ranks(4).steps(16).compute(10_ms).allreduce(1_MiB, 4_ms).slow(2, 6_ms));
  const Json json =
      form_answer({"consistency", run, "--rules", "sync,ssp:0,ssp:4,local:4,async,easgd:2,gossip,partial:1"});
  EXPECT_NEAR(json["given"]["recorded_step_ns"].get<double>(), 20e6, 1e4);
  EXPECT_EQ(json["given"]["bytes"], 1_MiB);
  const auto step_ns = [&](const char* rule) {
    return row_of(json["consistency"], "rule", rule)["step_ns"].get<double>();
  };
  EXPECT_NEAR(step_ns("sync"), json["given"]["recorded_step_ns"].get<double>(), 1e4);
  EXPECT_NEAR(step_ns("ssp:0"), step_ns("sync"), 1);
  EXPECT_NEAR(step_ns("local:4"), 17e6, 1e4);
  EXPECT_EQ(row_of(json["staleness"], "rule", "sync")["most"], 0);
  EXPECT_EQ(row_of(json["staleness"], "rule", "ssp:4")["most"], 4);
  EXPECT_EQ(row_of(json["consistency"], "rule", "sync")["sent_bytes"], 3 * 1_MiB / 2);  // a ring of four
  EXPECT_EQ(row_of(json["consistency"], "rule", "async")["server_bytes"], 4_MiB);
  EXPECT_TRUE(has(json["notes"].dump(), "unknown: the run reports no losses"));
  for (const char* rules : {"ssp", "ssp:", "ssp:-1", "async:0", "local:0", "partial:4", "bsp", "gossip:2", "easgd:x"})
    EXPECT_EQ(ddl_command({"model", "consistency", run, "--rules", rules}).code, 2) << rules;
  EXPECT_EQ(ddl_command({"model", "consistency", run, "--compute-ms", "1"}).code, 2);
}

/// Three workers push one after the other to rank 0 and pull from it.
TEST_F(ModelForms, AParameterServerIsNoWorker) {
  auto job = test::run().ranks(4).steps(12);
  for (int worker = 1; worker < 4; ++worker) job.on_rank(worker).compute(10_ms);
  for (int worker = 1; worker < 4; ++worker) job.message(worker, 0, 4_MiB, 5_ms);
  for (int worker = 1; worker < 4; ++worker) job.message(0, worker, 4_MiB, 5_ms);
  const Json json = form_answer({"consistency", write(job)});
  EXPECT_EQ(json["given"]["servers"], "rank 0");
  EXPECT_EQ(json["given"]["ranks"], 3);
  EXPECT_EQ(json["given"]["bytes"], 4_MiB);
}

TEST_F(ModelForms, AChainOfThreeRanksIsNoServer) {
  auto job = test::run().ranks(3).steps(12).compute(10_ms);
  for (const auto& [from, to] : {std::pair(0, 1), {1, 0}, {1, 2}, {2, 1}}) job.message(from, to, 1_MiB, 1_ms);
  EXPECT_FALSE(form_answer({"consistency", write(job)})["given"].contains("servers"));
}

TEST_F(ModelForms, CodesByLayer) {  // VGG-16's fc7: 4096 x 4096 and 4096 biases, on eight ranks of 32 samples
  const Json json =
      form_answer({"compression", "--table", "vgg16", "--ranks", "8", "--batch", "32", "--ratio", "0.001"});
  const Json& fc7 = row_of(json["codes"], "layer", "fc7");
  const int64_t n = 16781312;
  EXPECT_EQ(fc7["none_bytes"], 2 * 7 * 4 * n / 8);
  EXPECT_EQ(fc7["q8_bytes"], 2 * 7 * (n / 8 + 4 * (n / 8 / 512)));
  EXPECT_EQ(fc7["topk_bytes"], 7 * 8 * 16782);
  EXPECT_EQ(fc7["sparcml_bytes"], 3 * 4 + 8 * 16782 * (1 + 2 + 4));
  EXPECT_EQ(fc7["top16_q4_bytes"], 7 * (n / 512) * 44);
  EXPECT_EQ(fc7["factors_bytes"], 7 * 4 * 32 * (4096 + 4096));
  EXPECT_EQ(fc7["lossless"], "factors");
  EXPECT_TRUE(row_of(json["codes"], "layer", "conv1")["factors_bytes"].is_null());
  EXPECT_EQ(ddl_command({"model", "compression", "--table", "vgg16"}).code, 2);
}

// NVIDIA's table: 104 and 487.5 TB; 166 days on one DGX-1V, 16 (truncated) on ten
TEST_F(ModelForms, FleetsOfTheDeck) {
  const Json json = form_answer(
      {"fleet", "--cars", "100", "--share", "0.0005", "--machine-tb-per-day", "0.62650602", "--machines", "1,10"});
  EXPECT_NEAR(json["given"]["data_tb"].get<double>(), 104, 1e-9);
  EXPECT_NEAR(json["fleet"][0]["days"].get<double>(), 166, 1e-3);
  EXPECT_NEAR(json["fleet"][1]["days"].get<double>(), 16.6, 1e-3);
  EXPECT_TRUE(has(json["notes"].dump(), "assumed to scale perfectly"));
  const Json large =
      form_answer({"fleet", "--cars", "125", "--tb-per-hour", "1.5", "--hours", "10", "--days", "325", "--share",
                   "0.0008", "--machine-tb-per-day", "0.62650602", "--machines", "1,10", "--efficiency", "0.5"});
  EXPECT_NEAR(large["given"]["data_tb"].get<double>(), 487.5, 1e-9);
  EXPECT_NEAR(large["fleet"][0]["days"].get<double>(), 778, 0.5);
  EXPECT_NEAR(large["fleet"][1]["days"].get<double>(), 155.6, 0.1);
  // A run of 20 ms steps with 4 x 32 samples: 6400 a second.
  const std::string run =
      write(test::run().ranks(4).steps(12).compute(19_ms).allreduce(1_MiB, 1_ms).value("samples", 32));
  const Json measured =
      form_answer({"fleet", run, "--cars", "100", "--share", "0.0005", "--sample-bytes", "1MB", "--epochs", "10"});
  EXPECT_NEAR(measured["given"]["machine_tb_per_day"].get<double>(), 6400 * 86400.0 * 1e-6 / 10, 0.1);
  EXPECT_EQ(ddl_command({"model", "fleet"}).code, 2);
  EXPECT_EQ(ddl_command({"model", "fleet", "--cars", "1", "--share", "2"}).code, 2);
}

TEST_F(ModelForms, LargeBatchesAsPublished) {
  const Json json = form_answer({"largebatch", "--base-batch", "256", "--rate", "0.1", "--batch", "8192,65536",
                                 "--network", "resnet50", "--samples", "1281167", "--noise-scale", "70000"});
  EXPECT_NEAR(json["rates"][0]["linear"].get<double>(), 3.2, 1e-12);
  EXPECT_NEAR(json["rates"][0]["square_root"].get<double>(), 0.5657, 5e-5);
  EXPECT_EQ(json["rates"][0]["warm_up_steps"], 782);  // 5 x 1281167 / 8192
  EXPECT_EQ(json["rates"][0]["published_rules"], "linear, LARS");
  EXPECT_EQ(json["rates"][1]["published_rules"], "none");
  EXPECT_EQ(json["rates"][1]["noise_safe"], "yes");
  EXPECT_TRUE(
      has(json["given"]["beyond"].get<std::string>(), "65536 is more than 8192, the largest published that did"));
  EXPECT_EQ(json["rules"].size(), 5u);
  const std::string text =
      ddl_command({"model", "largebatch", "--base-batch", "256", "--batch", "65536", "--noise-scale", "10000"}).out;
  EXPECT_LT(text.find("BEYOND THE SAFE BATCH"), text.find("learning rate")) << text;
  EXPECT_FALSE(
      has(ddl_command({"model", "largebatch", "--base-batch", "256", "--batch", "512", "--noise-scale", "10000"}).out,
          "BEYOND"));
  EXPECT_EQ(ddl_command({"model", "largebatch", "--batch", "512"}).code, 2);
  const std::string run =
      write(test::run().ranks(4).steps(12).compute(10_ms).allreduce(1_MiB, 1_ms).value("samples", 32));
  EXPECT_EQ(form_answer({"largebatch", run, "--batch", "512"})["given"]["base_batch"], 128.0);
}

TEST_F(ModelForms, ParallelFormsOfATable) {
  const Json json = form_answer({"parallel", "--table", "vgg16", "--ranks", "4", "--batch", "8", "--form", "spatial",
                                 "--tflops", "1", "--alpha-us", "0", "--bandwidth", "10"});
  ASSERT_EQ(json["layers"].size(), 16u);
  // conv2: 64 channels, 224 columns, a row of padding to each of two neighbours, there and back; 8 samples.
  EXPECT_EQ(json["layers"][1]["layer"], "conv2");
  EXPECT_EQ(json["layers"][1]["forward_bytes"], 2 * 1 * 224 * 64 * 4 * 8);
  EXPECT_EQ(json["layers"][1]["backward_bytes"], json["layers"][1]["forward_bytes"]);
  EXPECT_EQ(json["layers"][1]["gradient_bytes"], 36928 * 4);
  EXPECT_EQ(json["layers"][13]["form"], "replicated");
  const auto step_ns = [&](const char* form) { return row_of(json["forms"], "form", form)["step_ns"].get<double>(); };
  for (const char* form : {"sample", "spatial", "channel", "filter", "tensor"})
    EXPECT_LE(step_ns("best mix"), step_ns(form) * (1 + 1e-9)) << form;
  // All ranks compute as much whatever the form, but for what is replicated.
  EXPECT_NEAR(row_of(json["forms"], "form", "sample")["compute_ns"].get<double>(),
              6 * 15470264320.0 * 8 / 1e12 / 4 * 1e9, 1e3);
}

TEST_F(ModelForms, ParallelFormsWithinAMemoryLimit) {
  // A fast link: samples are best, whose weights are whole on each rank.
  const Arguments question = {"parallel", "--table",     "resnet50", "--ranks",    "4", "--batch",
                              "8",        "--bandwidth", "1000",     "--alpha-us", "1"};
  const auto ask = [&](const std::string& limit) {
    Arguments arguments = question;
    arguments.insert(arguments.end(), {"--memory", limit});
    return arguments;
  };
  const Json free = form_answer(question);
  const double wanted = row_of(free["forms"], "form", "best mix")["memory_bytes"].get<double>();
  const std::string limit = fmt::format("{:.0f}", 0.9 * wanted);
  const Json tight = form_answer(ask(limit));
  const Json& best = row_of(tight["forms"], "form", "best mix");
  EXPECT_LE(best["memory_bytes"].get<double>(), 0.9 * wanted);
  EXPECT_GE(best["step_ns"].get<double>(), row_of(free["forms"], "form", "best mix")["step_ns"].get<double>());
  EXPECT_TRUE(has(form_answer(ask("1MB"))["notes"].dump(), "No mix of forms fits"));
  EXPECT_EQ(ddl_command({"model", "parallel", "--table", "vgg16", "--ranks", "4", "--group", "3"}).code, 2);
  EXPECT_EQ(ddl_command({"model", "parallel", "--ranks", "4"}).code, 2);
}

// 8 samples a rank: 30 ms in the layers that the table has, both ways
TEST_F(ModelForms, ParallelFormsTakeTimesOfARun) {
  auto job = test::run().ranks(2).steps(12);
  for (int layer = 1; layer <= 13; ++layer) job.forward(fmt::format("conv{}", layer), 1_ms);
  for (int layer = 13; layer >= 1; --layer) job.backward(fmt::format("conv{}", layer), 1_ms);
  job.backward("fc6", 4_ms).value("samples", 8).allreduce(1_MiB, 1_ms);
  const std::string run = write(job);
  const Json json = form_answer({"parallel", run, "--table", "vgg16", "--bandwidth", "10", "--alpha-us", "0"});
  EXPECT_EQ(json["given"]["ranks"], 2);
  EXPECT_EQ(json["given"]["batch"], 16.0);
  EXPECT_NEAR(row_of(json["forms"], "form", "sample")["compute_ns"].get<double>(), 30e6, 1e4);
}

}  // namespace
}  // namespace ddl::cli
