// ddl scaling in this process: published tables, and virtual runs of which the truth is known.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/ddl_command.h"
#include "tests/support/synthetic_run.h"

namespace ddl::cli {
namespace {

using namespace test::literals;

class Scaling : public testing::Test {
 protected:
  std::string write(const std::string& name, const test::SyntheticRun& job) {
    job.write(folder_ / name);
    return (folder_ / name).string();
  }
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  Json answer(Arguments arguments) {
    arguments.insert(arguments.begin(), "scaling");
    arguments.push_back("--json");
    const Result result = ddl_command(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return Json::parse(result.out, nullptr, false);
  }
  test::ScratchFolder folder_;
};

TEST_F(Scaling, PublishedTableOfDdl) {
  const Result result = ddl_command({"scaling", DDL_SOURCE_DIR "/tests/published/ddl_resnet50_scaling.csv"});
  EXPECT_EQ(result.code, 0) << result.err;
  std::istringstream lines(result.out);
  std::string efficiencies;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    double gpus = 0, nodes = 0;
    std::string speedup, efficiency;
    if (cells >> gpus >> nodes >> speedup >> efficiency) efficiencies += " " + efficiency;
  }
  EXPECT_EQ(efficiencies, " 1.00 1.00 0.98 0.99 0.97 0.95 0.95");
  EXPECT_TRUE(has(result.out, "base 1 node = 4 GPUs")) << result.out;
  EXPECT_TRUE(has(result.out, "rises from 0.98 to 0.99"));
  EXPECT_TRUE(has(result.out, "101.3%"));  // 0.9875 / 0.975
  EXPECT_TRUE(has(result.out, "LINT-11  weak or strong scaling is not said"));
}

TEST(ScalingLint, WhatIsSaidIsHeldAgainstBatchesAndBases) {
  test::ScratchFolder folder;
  const std::string csv = (folder / "two.csv").string();
  std::ofstream(csv) << "series,gpus,nodes,images_per_s,global_batch,scaling\n"
                        "IBM,4,1,100,256,strong\nIBM,256,64,6080,16384,strong\n"  // 95 % against 4 GPUs, 89 % against 8
                        "Facebook,8,1,200,256,weak\nFacebook,256,32,5696,8192,weak\n";
  const Result result = ddl_command({"scaling", csv});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(has(result.out, "LINT-11  strong scaling is said, but by the batches it is weak")) << result.out;
  EXPECT_TRUE(
      has(result.out,
          "LINT-12  efficiencies of series with different bases cannot be compared: 1 node = 4 GPUs, 1 node = 8 GPUs"))
      << result.out;
}

/// A step of 10 ms of computing, an allreduce that a ring over the link takes, and a rank that is late.
test::SyntheticRun job(int ranks, int64_t compute_ns, int64_t late_ns, double samples_per_rank) {
  auto job = test::run().ranks(ranks).steps(20).compute(compute_ns).value("samples", samples_per_rank).slow(0, late_ns);
  for (const int64_t bytes : {64_KiB, 256_KiB, 1_MiB, 4_MiB}) {
    const double p = ranks;  // 50 us, 1 GB/s
    job.allreduce(bytes, std::llround(2 * (p - 1) * 50e3 + 2 * (p - 1) / p * static_cast<double>(bytes)));
  }
  return job;
}

TEST_F(Scaling, ATableNeedsNoEndingAndARunThatFailedIsNoPoint) {
  EXPECT_EQ(ddl_command({"scaling", file("table.txt", "nodes,gpus,throughput\n1,8,100\n2,16,190\n")}).code, 0);
  const Result words = ddl_command({"scaling", file("notes", "dear diary\n")});
  EXPECT_NE(words.code, 0);
  EXPECT_FALSE(has(words.err, "delete")) << words.err;
  const auto short_job = [](int ranks) {
    return test::run().ranks(ranks).steps(2).no_steps().compute(10_ms).allreduce(1_MiB, 1_ms);
  };
  const std::string well = write("n4.ddl", short_job(4).job_json(0)),
                    failed = write("n2.ddl", short_job(2).job_json(1));
  const Result refused = ddl_command({"scaling", failed, well, "--strong"});
  EXPECT_TRUE(has(refused.err, "n2.ddl: the job failed and marks no steps: how long it ran says nothing"))
      << refused.err;
}

TEST_F(Scaling, WeakRunsLoseWhatWasMadeSlow) {
  const std::string small = write("n2.ddl", job(2, 10_ms, 0, 32)), large = write("n8.ddl", job(8, 10_ms, 3_ms, 32));
  const Json json = answer({large, small});
  EXPECT_EQ(json["given"]["scaling"], "weak");
  EXPECT_EQ(json["given"]["base"], "2 ranks");  // of one node both: nodes are not a unit
  const auto transfer_ms = [](double p) {
    return 4 * 2 * (p - 1) * 0.05 + 2 * (p - 1) / p * (65536 + 262144 + 1048576 + 4194304) * 1e-6;
  };
  // The late rank is in its own step what waiting is in the others'.
  const double step2 = 10 + transfer_ms(2), step8 = 13 + transfer_ms(8);
  EXPECT_EQ(json["scaling"][0]["workers"], 2);
  EXPECT_NEAR(json["scaling"][1]["efficiency"].get<double>(), step2 / step8, 1e-6);
  EXPECT_EQ(json["scaling"][1]["global_batch"], 256);
  const Json& loss = json["loss"][1];
  EXPECT_NEAR(loss["transfer_ratio"].get<double>(), (transfer_ms(8) - transfer_ms(2)) / step8, 1e-6);
  EXPECT_NEAR(loss["wait_ratio"].get<double>(), 3.0 * 7 / 8 / step8, 1e-6);
  EXPECT_NEAR(loss["compute_ratio"].get<double>(), 3.0 / 8 / step8, 1e-6);
  EXPECT_NEAR(loss["loss_ratio"].get<double>(), 1 - step2 / step8, 1e-6);
  double sum = 0;
  for (const char* part : {"transfer_ratio", "wait_ratio", "copy_ratio", "idle_ratio", "compute_ratio"})
    sum += loss[part].get<double>();
  EXPECT_NEAR(sum, loss["loss_ratio"].get<double>(), 1e-12);
  // One of eight computes 13 instead of 10 ms: computing costs 83 / 80 of what it did.
  const Json& pop = json["pop"][1];
  EXPECT_NEAR(pop["computation_scaling"].get<double>(), 80.0 / 83, 1e-6);
  EXPECT_NEAR(pop["parallel_efficiency"].get<double>(), 83.0 / 8 / step8, 1e-6);
  EXPECT_NEAR(pop["global_efficiency"].get<double>(), 10 / step8, 1e-6);
}

TEST_F(Scaling, TheBaseOfComputingIsTheBaseThatWasAsked) {
  // Perfect scaling: the efficiency is 1 on 2 ranks as well as on the base of 4, though rank 0 of 2 computes
  // what is 2 ms more.
  const auto perfect = [](int ranks, int64_t compute_ns) {
    return test::run()
        .ranks(ranks)
        .steps(12)
        .compute(compute_ns)
        .value("samples", 32)
        .allreduce(1_MiB, 20_ms - compute_ns);
  };
  const Json json = answer({write("n2.ddl", perfect(2, 12_ms)), write("n4.ddl", perfect(4, 10_ms)), "--base", "4"});
  EXPECT_EQ(json["scaling"][0]["efficiency"], 1);
  EXPECT_EQ(json["scaling"][1]["efficiency"], 1);
  EXPECT_NEAR(json["pop"][0]["computation_scaling"].get<double>(), 10.0 / 12, 1e-6);
  EXPECT_NEAR(json["pop"][1]["computation_scaling"].get<double>(), 1, 1e-9);
}

TEST_F(Scaling, StrongRunsAreToldByTheirBatches) {
  const Json json = answer({write("n2.ddl", job(2, 40_ms, 0, 128)), write("n8.ddl", job(8, 10_ms, 0, 32))});
  EXPECT_EQ(json["given"]["scaling"], "strong");
  const auto transfer_ms = [](double p) {
    return 4 * 2 * (p - 1) * 0.05 + 2 * (p - 1) / p * (65536 + 262144 + 1048576 + 4194304) * 1e-6;
  };
  const double efficiency = (40 + transfer_ms(2)) / (10 + transfer_ms(8)) / 4;
  EXPECT_NEAR(json["scaling"][1]["efficiency"].get<double>(), efficiency, 1e-6);
  EXPECT_NEAR(json["loss"][1]["transfer_ratio"].get<double>(),
              (transfer_ms(8) - transfer_ms(2) / 4) / (10 + transfer_ms(8)), 1e-6);
  EXPECT_NEAR(json["loss"][1]["compute_ratio"].get<double>(), 0, 1e-6);
  EXPECT_NEAR(json["pop"][1]["computation_scaling"].get<double>(), 1, 1e-6);  // 2 x 40 ms, then 8 x 10 ms
}

TEST_F(Scaling, ProjectsTheLinkOfTheLargestRun) {
  const Json json =
      answer({write("n2.ddl", job(2, 10_ms, 0, 32)), write("n8.ddl", job(8, 10_ms, 0, 32)), "--project", "64"});
  const auto transfer_ms = [](double p) {
    return 4 * 2 * (p - 1) * 0.05 + 2 * (p - 1) / p * (65536 + 262144 + 1048576 + 4194304) * 1e-6;
  };
  const Json& at = json["projection"][0];
  EXPECT_EQ(at["workers"], 64);
  EXPECT_EQ(at["from"], "latency and bandwidth");
  EXPECT_NEAR(at["efficiency"].get<double>(), (10 + transfer_ms(2)) / (10 + transfer_ms(64)), 1e-4);
  EXPECT_LE(at["efficiency_lo"].get<double>(), at["efficiency"].get<double>());
}

TEST_F(Scaling, RunsWithoutSamplesNeedAWord) {
  const auto silent = [](int ranks, int64_t compute_ns) {
    return test::run().ranks(ranks).steps(12).compute(compute_ns).allreduce(1_MiB, 1_ms);
  };
  const std::string small = write("n2.ddl", silent(2, 19_ms)), large = write("n4.ddl", silent(4, 19_ms));
  const Result refused = ddl_command({"scaling", small, large});
  EXPECT_EQ(refused.code, 3);
  EXPECT_TRUE(has(refused.err, "does not report its samples")) << refused.err;
  EXPECT_NEAR(answer({small, large, "--weak"})["scaling"][1]["efficiency"].get<double>(), 1, 1e-6);
  EXPECT_NEAR(answer({small, large, "--strong"})["scaling"][1]["efficiency"].get<double>(), 0.5, 1e-6);
  EXPECT_EQ(ddl_command({"scaling", small, large, "--strong", "--weak"}).code, 2);
}

TEST_F(Scaling, RunsThatReportTheirSamplesNeedNone) {
  EXPECT_EQ(
      ddl_command({"scaling", write("n2.ddl", job(2, 10_ms, 0, 32)), write("n4.ddl", job(4, 10_ms, 0, 32)), "--weak"})
          .code,
      2);
}

TEST_F(Scaling, StatementsSilenceTheLint) {
  const std::string csv =
      file("t.csv", "gpus,throughput,local_batch,precision\n1,100.0,32,fp16\n2,190.0,32,fp16\n4,370.0,32,fp32\n");
  const auto codes = [&](const Json& json) {
    std::string text;
    for (const Json& row : json["lint"]) text += row["code"].get<std::string>().substr(5) + " ";
    return text;
  };
  EXPECT_EQ(codes(answer({csv})), "01 03 04 05 06 07 09 10 10 ");
  EXPECT_EQ(codes(answer({csv, "--state", "precision=fp32,hardware=P100,data=real,scope=application"})),
            "01 03 09 10 10 ");
  EXPECT_EQ(codes(answer({csv, "--base", "2", "--state", "precision=fp32,hardware=P100,data=real,scope=application"})),
            "01 03 09 10 10 12 ");
  EXPECT_EQ(ddl_command({"scaling", csv, "--state", "precison=fp32"}).code, 2);
  EXPECT_TRUE(has(ddl_command({"scaling", csv, "--state", "precison=fp32"}).err, "did you mean precision?"));
}

TEST_F(Scaling, MistakesAreClear) {
  EXPECT_EQ(ddl_command({"scaling"}).code, 2);
  EXPECT_EQ(ddl_command({"scaling", file("a.csv", "gpus,speedup\n1,1\n"), "--base", "4"}).code, 3);
  EXPECT_EQ(ddl_command({"scaling", file("a.csv", "gpus,speedup\n1,1\n"), "--map", "gpus"}).code, 2);
  EXPECT_EQ(ddl_command({"scaling", file("a.csv", "gpus,speedup\n1,1\n"), "--map", "gpus=nodes"}).code, 2);
  const Result name = ddl_command({"scaling", file("a.csv", "gpus,rate\n1,1\n"), "--map", "troughput=rate"});
  EXPECT_EQ(name.code, 2);
  EXPECT_TRUE(has(name.err, "did you mean throughput?")) << name.err;
  EXPECT_EQ(ddl_command({"scaling", file("a.csv", "gpus,rate\n1,1\n"), "--map", "throughput=rate"}).code, 0);
  EXPECT_EQ(ddl_command({"scaling", file("a.csv", "gpus,speedup\n1,0e" + std::string(400, '9') + "\n")}).code, 3);
  const Result few = ddl_command({"scaling", file("a.csv", "gpus,speedup\n1,1\n2,1.9\n"), "--project", "8"});
  EXPECT_EQ(few.code, 3);
  EXPECT_TRUE(has(few.err, "too few distinct sizes for a projection: 2")) << few.err;
  const Result number = ddl_command({"scaling", file("b.csv", "gpus,speedup\n1,1\n2,fast\n")});
  EXPECT_TRUE(has(number.err, "b.csv:3: invalid number 'fast' in column 'speedup'")) << number.err;
}

}  // namespace
}  // namespace ddl::cli
