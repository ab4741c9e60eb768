// Questions about places and links: of files, and of runs on several hosts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "analyzer/models/allreduce_cost.h"
#include "tests/cli/ddl_command.h"
#include "tests/support/synthetic_run.h"

namespace ddl::cli {
namespace {

using namespace test::literals;

class ModelTopology : public testing::Test {
 protected:
  std::string write(const test::SyntheticRun& job) {
    job.write(folder_ / "job.ddl");
    return (folder_ / "job.ddl").string();
  }
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  std::string contents(const std::string& name) {
    std::ifstream stream(folder_ / name);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  Json asked(Arguments arguments) {
    arguments.insert(arguments.begin(), "model");
    arguments.push_back("--json");
    const Result result = ddl_command(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return Json::parse(result.out, nullptr, false);
  }
  test::ScratchFolder folder_;
};

// Four ranks on two hosts: pairs within them follow one law, pairs across them another.
TEST_F(ModelTopology, EachTierIsFittedToWhatStaysWithinIt) {
  const models::Link inner = {3e-6, 1 / 8e9, 0}, outer = {20e-6, 1 / 1e9, 0};
  auto job = test::run().ranks(4).steps(10).hosts(2, 0).split("inner", 2).split("outer", 2, true);
  for (const int64_t bytes : {4_KiB, 64_KiB, 1_MiB, 16_MiB}) {
    const auto took = [&](const models::Link& link) {
      return std::llround(allreduce_seconds(models::Algorithm::kRing, 2, static_cast<double>(bytes), link) * 1e9);
    };
    job.compute(1_ms)
        .on_comm("inner")
        .allreduce(bytes, took(inner))
        .compute(1_ms)
        .on_comm("outer")
        .allreduce(bytes, took(outer));
  }
  const Json tiers = asked({"fit", write(job)})["tiers"];
  ASSERT_EQ(tiers.size(), 2u);
  EXPECT_EQ(tiers[0]["tier"], "host");
  EXPECT_EQ(tiers[0]["joins"], 2);
  EXPECT_NEAR(tiers[0]["alpha_ns"].get<double>(), 3000, 60);
  EXPECT_NEAR(tiers[0]["bandwidth_bytes_per_second"].get<double>(), 8e9, 0.02 * 8e9);
  EXPECT_EQ(tiers[1]["tier"], "network");
  EXPECT_EQ(tiers[1]["joins"], 4);
  EXPECT_NEAR(tiers[1]["alpha_ns"].get<double>(), 20000, 400);
  EXPECT_NEAR(tiers[1]["bandwidth_bytes_per_second"].get<double>(), 1e9, 0.02 * 1e9);
}

// Replicas meet across hosts: partners belong on one.
TEST_F(ModelTopology, DataParallelRunsArePlacedByTheirCollectives) {
  auto job = test::run().ranks(8).steps(10).hosts(2, 0).split("replicas", 4, true);
  job.compute(1_ms).on_comm("replicas").allreduce(1_MiB, 1_ms);
  const std::string run = write(job);
  const std::string out = (folder_ / "placed").string();
  const Json json = asked({"mapping", run, "--tier", "host=80,network=12.5", "--emit", out});
  EXPECT_EQ(json["given"]["places"], 8);
  // 10 allreduces of four pairs, each of which sends its partner all of it: 40 MiB leave a host on its link.
  const double pair = json["given"]["collective_bytes"].get<double>() / 8;
  EXPECT_NEAR(json["mapping"][0]["busiest_ns"].get<double>(), 4 * pair / 12.5, 2);
  EXPECT_NEAR(json["mapping"][1]["busiest_ns"].get<double>(), pair / 80, 2) << "nothing leaves a host";
  std::vector<std::string> hosts;
  for (const Json& row : json["places"])
    hosts.push_back(row["best"].get<std::string>().substr(0, row["best"].get<std::string>().find('/')));
  for (size_t rank = 0; rank < 4; ++rank) EXPECT_EQ(hosts[rank], hosts[rank + 4]);
  // What launchers read says the same.
  std::string hostfile;
  for (const std::string& host : hosts) hostfile += host + "\n";
  EXPECT_EQ(contents("placed/hostfile"), hostfile);
  EXPECT_TRUE(has(contents("placed/rankfile"), "rank 0=" + hosts[0] + " slot="));
  EXPECT_TRUE(has(contents("placed/slurm.sh"), "SLURM_HOSTFILE="));
  EXPECT_TRUE(has(contents("placed/slurm.sh"), "SLURM_DISTRIBUTION=arbitrary"));
  EXPECT_TRUE(contents("placed/places.csv").starts_with("rank,place,host,slot\n0,"));
  // Other algorithms send otherwise; of two ranks a parameter server sends as much as a tree.
  EXPECT_EQ(
      asked({"mapping", run, "--tier", "host=80,network=12.5", "--algorithm", "tree"})["given"]["collective_bytes"],
      json["given"]["collective_bytes"]);
}

TEST_F(ModelTopology, WhatNobodySaysIsAskedFor) {
  const std::string run = write(test::run().ranks(4).steps(10).hosts(2, 0).compute(1_ms).allreduce(1_MiB, 1_ms));
  const Result asks = ddl_command({"model", "mapping", run});
  EXPECT_EQ(asks.code, 3);
  EXPECT_TRUE(has(asks.err, "the bandwidth of a link of tier 'host' is not known")) << asks.err;
  EXPECT_EQ(ddl_command({"model", "mapping", run, "--tier", "rack=3"}).code, 2);
  EXPECT_EQ(ddl_command({"model", "mapping", run, "--tier", "host=x"}).code, 2);
  EXPECT_EQ(ddl_command({"model", "mapping", run, "--host", "file"}).code, 2);
}

// Any number of tiers, by hand: 6 messages and 1.5 n at 80 GB/s, 30 and 1.875 n/4 at 10, 4 and 4/3 n/64 at 4.
TEST_F(ModelTopology, PlansOfThreeTiers) {
  const Json json = asked({"allreduce", "--tiers", "4:80:2,16:10:5,3:4:9", "--bytes", "100MB"});
  EXPECT_EQ(json["given"]["ranks"], 192);
  EXPECT_EQ(
      json["allreduce"][0]["hierarchical_ns"],
      std::llround(1e9 * (6 * 2e-6 + 1.5e8 / 80e9 + 30 * 5e-6 + 1.875e8 / 4 / 10e9 + 4 * 9e-6 + 4e8 / 3 / 64 / 4e9)));
  EXPECT_LE(json["allreduce"][0]["multi_ring_ns"], json["allreduce"][0]["hierarchical_ns"]);
  EXPECT_EQ(json["plans"][0]["time_ns"], json["allreduce"][0]["multi_ring_ns"]);
  for (const char* bad : {"4", "4:80", "4:80:2,", "0:80:2", "4:0:2", "4:80:-1", "70000:80:2", "4:80:2:3"})
    EXPECT_EQ(ddl_command({"model", "allreduce", "--tiers", bad, "--bytes", "1MB"}).code, 2) << bad;
}

// IBM's two figures (Cho, 2018) as a table: ResNet-50, 32 samples a GPU, hosts of four GPUs on 10 GB/s in racks of 16.
TEST_F(ModelTopology, OverheadAndEfficiencyOverLearners) {
  const std::string racks =
      file("topology.conf",
           "SwitchName=r1 Nodes=a[1-16]\nSwitchName=r2 Nodes=b[1-16]\nSwitchName=r3 Nodes=c[1-16]\n"
           "SwitchName=core Switches=r[1-3]\n");
  const Json json = asked({"allreduce", "--links", racks, "--per-host", "4", "--tier",
                           "host=40:3,leaf switch=10:5,switch level 2=10:5", "--bytes", "102MB", "--compute-ms", "150",
                           "--learners", "1,4,8,64,128,192"});
  const Json& rows = json["learners"];
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[0]["rings_efficiency_ratio"], 1.0);
  // Four: one host, a ring over 40 GB/s. 6 messages and 1.5 n.
  const double four = (6 * 3e-6 + 1.5 * 102e6 / 40e9) / 0.15;
  EXPECT_NEAR(rows[1]["baidu_overhead_ratio"].get<double>(), four, 1e-9);
  EXPECT_NEAR(rows[1]["baidu_efficiency_ratio"].get<double>(), 1 / (1 + four), 1e-9);
  // 192: a flat ring has 382 messages, one at a time on a host's link. Rings by tiers share that link, and
  // have fewer messages.
  const double ring = (2 * 191 * 5e-6 + 2 * 191.0 / 192 * 102e6 / 10e9) / 0.15;
  EXPECT_NEAR(rows[5]["baidu_overhead_ratio"].get<double>(), ring, 1e-9);
  EXPECT_LE(rows[5]["rings_overhead_ratio"].get<double>(), ring);
  EXPECT_TRUE(rows[5]["mpi_overhead_ratio"].is_null()) << "192 ranks fold";
  EXPECT_EQ(rows[5]["gloo_overhead_ratio"], rows[5]["baidu_overhead_ratio"]) << "beyond 4 MB Gloo goes around a ring";
  for (size_t i = 2; i < rows.size(); ++i)
    EXPECT_LE(rows[i]["rings_efficiency_ratio"], rows[i - 1]["rings_efficiency_ratio"]) << i;
  EXPECT_EQ(ddl_command({"model", "allreduce", "--links", racks, "--per-host", "4", "--tier",
                         "host=40:3,leaf switch=10:5,switch level 2=10:5", "--bytes", "102MB", "--compute-ms", "150",
                         "--learners", "6"})
                .code,
            2);
  EXPECT_EQ(ddl_command({"model", "allreduce", "--links", racks, "--bytes", "1MB"}).code, 3) << "no latency is known";
}

}  // namespace
}  // namespace ddl::cli
