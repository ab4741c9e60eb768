// Tunables: how they are named, how their values get into a job; the sweep's rows and the rules that follow;
// what a trial is worth.
#include "autotuner/tunables.h"

#include <SQLiteCpp/Database.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "autotuner/goal.h"
#include "autotuner/sweep.h"
#include "autotuner/trial_log.h"
#include "core/error.h"
#include "tests/autotuner/sweep_sample.h"

namespace ddl::tune {
namespace {

const std::vector<std::string> kCommand = {"mpirun", "-np", "4", "./train", "--batch={batch}", "--x", "{mine}:{mine}"};

TEST(Tunables, TheCommandNamesThoseThatAreKnown) {
  const std::vector<JobTunable> mine = {parse_tunable("mine=a,b", kCommand)};
  EXPECT_EQ(mine[0].how, How::kCommand);
  const std::vector<JobTunable> found = tunables_of_command(kCommand, mine);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "batch");
  EXPECT_TRUE(found[0].numeric);
  EXPECT_EQ(found[0].values[0], "32");
  EXPECT_THROW(tunables_of_command(kCommand, {}), Error) << "{mine} has no values";
}

TEST(Tunables, ValuesGoWhereTheyAreNamedElseIntoTheEnvironment) {
  const std::vector<JobTunable> tunables = {parse_tunable("batch=8,16", kCommand), parse_tunable("mine=a,b", kCommand),
                                            parse_tunable("MY_VARIABLE=unset,x y", kCommand),
                                            parse_tunable("nccl_algo=default;Ring,Tree", kCommand)};
  const PlacedJob job = place(kCommand, tunables,
                              {{"batch", "16"}, {"mine", "b"}, {"MY_VARIABLE", "x y"}, {"nccl_algo", "Ring,Tree"}}, "");
  EXPECT_EQ(job.command, (std::vector<std::string>{"mpirun", "-np", "4", "./train", "--batch=16", "--x", "b:b"}));
  EXPECT_EQ(job.environment, (Environment{{"MY_VARIABLE", "x y"}, {"NCCL_ALGO", "Ring,Tree"}}));
  EXPECT_TRUE(job.unset.empty());
  const PlacedJob left = place(kCommand, tunables,
                               {{"batch", "8"}, {"mine", "a"}, {"MY_VARIABLE", "unset"}, {"nccl_algo", "default"}}, "");
  EXPECT_TRUE(left.environment.empty());
  EXPECT_EQ(left.unset, std::vector<std::string>{"MY_VARIABLE"}) << "the user's shell may have it";
  EXPECT_EQ(not_in_run(tunables[2]), "");
  EXPECT_NE(not_in_run(parse_tunable("MY_VARIABLE=x,unset", kCommand)), "");
}

TEST(Tunables, OpenMpiIsToldThatAlgorithmsAreForced) {
  const std::vector<JobTunable> tunables = {
      {"algorithm", How::kOpenmpiAllreduce, "", false, {"default", "rules", "segmented_ring:128K"}}};
  EXPECT_EQ(place(kCommand, tunables, {{"algorithm", "segmented_ring:128K"}}, "/r").environment,
            (Environment{{"OMPI_MCA_coll_tuned_use_dynamic_rules", "1"},
                         {"OMPI_MCA_coll_han_priority", "0"},
                         {"OMPI_MCA_coll_tuned_allreduce_algorithm", "segmented_ring"},
                         {"OMPI_MCA_coll_tuned_allreduce_algorithm_segmentsize", "131072"}}));
  EXPECT_EQ(place(kCommand, tunables, {{"algorithm", "rules"}}, "/r").environment,
            (Environment{{"OMPI_MCA_coll_tuned_use_dynamic_rules", "1"},
                         {"OMPI_MCA_coll_han_priority", "0"},
                         {"OMPI_MCA_coll_tuned_dynamic_rules_filename", "/r"}}));
  EXPECT_TRUE(place(kCommand, tunables, {{"algorithm", "default"}}, "/r").environment.empty());
}

TEST(Tunables, PresetsOfTheAlgorithmAreFilesOfRules) {
  const JobTunable algorithm = parse_tunable("algorithm=default,baidu_ring,gloo", {"mpirun", "x"});
  const PlacedJob job = place({"mpirun", "x"}, {algorithm}, {{"algorithm", "gloo"}}, "/t/allreduce.rules");
  EXPECT_EQ(job.environment, (Environment{{"OMPI_MCA_coll_tuned_use_dynamic_rules", "1"},
                                          {"OMPI_MCA_coll_han_priority", "0"},
                                          {"OMPI_MCA_coll_tuned_dynamic_rules_filename", "/t/gloo.rules"}}));
}

TEST(Tunables, PlacesOfRanksHaveNames) {
  const std::vector<std::string> command = {"srun", "--distribution={distribution}", "x"};
  const std::vector<JobTunable> found = tunables_of_command(command, {});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(place(command, found, {{"distribution", "cyclic"}}, "").command[1], "--distribution=cyclic");
  EXPECT_EQ(tunables_of_command({"mpirun", "--map-by", "{map_by}", "x"}, {})[0].values,
            (std::vector<std::string>{"slot", "node"}));
  EXPECT_THROW(tunables_of_command({"x", "--dims", "{dims}"}, {}), Error)
      << "nobody but the user knows how many ranks there are";
  EXPECT_EQ(parse_tunable("dims=8,4x2", {"x", "--dims", "{dims}"}).how, How::kCommand);
  EXPECT_TRUE(tunables_of_command({"x", "-hosts", "{hosts}"}, {}, true).empty());
  EXPECT_THROW(tunables_of_command({"x", "-hosts", "{hosts}"}, {}), Error);
}

TEST(Tunables, AKnownNameAloneHasItsOwnValues) {
  const JobTunable cycle = parse_tunable("horovod_cycle_ms", kCommand);
  EXPECT_EQ(cycle.variable, "HOROVOD_CYCLE_TIME");
  EXPECT_EQ(cycle.values.front(), "1") << "what Horovod runs with";
  EXPECT_TRUE(cycle.guessed);
  EXPECT_EQ(parse_tunable("horovod_fusion", kCommand).values.front(), std::to_string(128 << 20));
}

TEST(Tunables, WhatCannotDoAnythingIsSaid) {
  const JobTunable hierarchical = parse_tunable("horovod_hierarchical", kCommand);
  EXPECT_NE(without_effect(hierarchical, 1), "");
  EXPECT_EQ(without_effect(hierarchical, 2), "");
  EXPECT_NE(without_effect(parse_tunable("HOROVOD_HIERARCHICAL_ALLGATHER=0,1", kCommand), 1), "");
  EXPECT_EQ(without_effect(parse_tunable("horovod_cycle_ms", kCommand), 1), "");
}

TEST(Tunables, WordsThatAreNoneAreRefused) {
  for (const char* text : {"nccl_algo", "mine", "=1,2", "1x=2", "batch=", "batch=8,,16", "batch=0", "batch=1e99",
                           "bucket_mb=1,2", "OMP_NUM_THREADS=1,1"})
    EXPECT_THROW(parse_tunable(text, kCommand), Error) << text;
}

TEST(Tunables, SecretsAreNotTuned) {
  const auto refused = [](const std::string& tunable, const std::vector<std::string>& command) {
    try {
      refuse_secrets(command, {parse_tunable(tunable, command)});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_EQ(std::string(error.what()).find("hunter2"), std::string::npos);
      return true;
    }
    return false;
  };
  EXPECT_TRUE(refused("WANDB_API_KEY=hunter2,b", {"x"}));
  EXPECT_TRUE(refused("who=hunter2,b", {"x", "--password", "{who}"}));
  EXPECT_TRUE(refused("who=hunter2,b", {"x", "{who}", "--api-key={who}"})) << "one of two places is enough";
  EXPECT_FALSE(refused("who=a,b", {"x", "--max-tokens", "{who}"}));
  EXPECT_FALSE(refused("NCCL_ALGO=Ring,Tree", {"x"}));
  // In values.
  EXPECT_TRUE(refused("store=redis://a/0,redis://:hunter2@b/0", {"x", "--store", "{store}"}));
  EXPECT_TRUE(refused("STORE=redis://:hunter2@a/0,unset", {"x"}));
  EXPECT_TRUE(refused("HEADER=X-Api-Key: hunter2,unset", {"x"}));
  EXPECT_TRUE(refused("options=--password hunter2,--fast", {"x", "{options}"}));
  EXPECT_TRUE(refused("who=me:hunter2,me", {"curl", "-u", "{who}"}));
  EXPECT_FALSE(refused("who=me:hunter2,me", {"x", "--layers", "{who}"}));
  EXPECT_FALSE(refused("bucket=a,b", {"x", "https://u:hush@h/{bucket}"})) << "the secret beside it stays as it is";
  EXPECT_FALSE(refused("host=a:80,b:80", {"x", "--url=tcp://{host}"}));
  EXPECT_FALSE(refused("algorithm=ring:128K,default", {"x"}));
}

TEST(Tunables, AlgorithmsAreReadFromOmpiInfo) {
  const auto ids = openmpi_algorithms(
      "mca:coll:tuned:param:coll_tuned_allreduce_algorithm:enumerator:value:0:ignore\n"
      "mca:coll:tuned:param:coll_tuned_allreduce_algorithm:enumerator:value:6:rabenseifner\n"
      "mca:coll:tuned:param:coll_tuned_bcast_algorithm:enumerator:value:2:chain\n",
      "coll_tuned_allreduce_algorithm");
  EXPECT_EQ(ids, (std::map<std::string, int64_t>{{"ignore", 0}, {"rabenseifner", 6}}));
}

TEST(Tunables, AlgorithmsThatOpenMpiHasNotAreRefused) {
  const std::map<std::string, int64_t> ids = {
      {"ignore", 0}, {"recursive_doubling", 3}, {"ring", 4}, {"segmented_ring", 5}, {"rabenseifner", 6}};
  EXPECT_NO_THROW(check_algorithms(
      {"default", "unset", "rules", "gloo", "baidu_ring", "ring", "3", "segmented_ring:128K", "5:1M"}, ids));
  EXPECT_NO_THROW(check_algorithms({"default"}, {})) << "nothing is asked of Open MPI";
  for (const char* value : {"rnig", "9", "ignore", "0", "ring:many", "ring:", "", "horovod"}) try {
      check_algorithms({"default", value}, ids);
      ADD_FAILURE() << value;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage) << value;
    }
  EXPECT_THROW(check_algorithms({"default", "gloo"}, {{"ring", 4}}), Error);
  EXPECT_THROW(check_algorithms({"default", "ring"}, {}), Error);
  const auto three = forced_rule("3", ids), segments = forced_rule("5:1M", ids);
  ASSERT_TRUE(three && segments);
  EXPECT_EQ(three->algorithm, 3);
  EXPECT_EQ(three->algorithm_name, "recursive_doubling");
  EXPECT_EQ(segments->algorithm, 5);
  EXPECT_EQ(segments->segment_bytes, 1 << 20);
  EXPECT_FALSE(forced_rule("rules", ids));
}

TEST(Sweep, RulesNameWhatWasFasterBeyondDoubt) {
  const Sweep sweep = read_sweep(test::sweep_text());
  EXPECT_EQ(sweep.ranks, 4);
  EXPECT_EQ(sweep.nodes, 2);
  EXPECT_EQ(sweep.library, "Open MPI v4.1.4");
  EXPECT_NEAR(curve_of(sweep, SweptAlgorithm{"default", 0}).seconds(64), 2e-3, 1e-9);
  const std::vector<AllreduceRule> rules = rules_of(sweep, {{"ring", 4}});
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0].from_bytes, 0);
  EXPECT_EQ(rules[0].algorithm, 4);
  EXPECT_EQ(rules[1].from_bytes, 512);  // the geometric mean of 64 and 4096
  EXPECT_EQ(rules[1].algorithm, 0);
  const Curve curve = curve_of(sweep, rules);
  EXPECT_NEAR(curve.seconds(64), 1e-3, 1e-9);
  EXPECT_NEAR(curve.seconds(4096), 4e-3, 1e-9);
  EXPECT_TRUE(rules_of(sweep, {{"rabenseifner", 6}}).empty()) << "the library does not have ring";
}

TEST(Sweep, WhatIsNoSweepIsRefusedWithItsLine) {
  for (const char* text : {"", "default,0,64,0\n", "default,0,64,0,fast\n", "default,0,64,0,-1\n",
                           "default,0,64,0,nan\n", "openmpi:ring,0,64,0,1\n"})
    EXPECT_THROW(read_sweep(text), Error) << text;
}

TEST(Sweep, BytesInShort) {
  for (const int64_t bytes : {0, 1, 1000, 1024, 131072, 1 << 20, 3 << 20})
    EXPECT_EQ(bytes_of(short_bytes(bytes)), bytes);
  EXPECT_EQ(short_bytes(131072), "128K");
  EXPECT_THROW(bytes_of("1G5"), Error);
}

TEST(Goal, SamplesCountByTheirEfficiency) {
  TrialFacts facts;
  facts.ranks = 4;
  facts.step_s = 0.5;
  facts.samples = 256;
  Goal goal;
  EXPECT_NEAR(*outcome_of(facts, goal, {}).cost, 0.5 / 256, 1e-12);
  goal.noise_scale = 128;
  goal.base_samples = 128;  // (128 + 128) / (128 + 256) of them count
  EXPECT_NEAR(*outcome_of(facts, goal, {}).cost, 0.5 / (256 * 2.0 / 3), 1e-12);
  goal.raw_throughput = true;
  EXPECT_NEAR(*outcome_of(facts, goal, {}).cost, 0.5 / 256, 1e-12);
  facts.samples.reset();
  EXPECT_NEAR(*outcome_of(facts, goal, 16).cost, 0.5 / 64, 1e-12) << "the batch that the command was given";
}

TEST(Goal, ALossThatIsNotReachedIsAFailure) {
  Goal goal;
  goal.target_loss = 0.1;
  TrialFacts facts;
  facts.steps = 20;
  EXPECT_FALSE(outcome_of(facts, goal, {}).cost);
  EXPECT_NE(outcome_of(facts, goal, {}).why.find("0.1 in 20 steps"), std::string::npos);
  facts.target_s = 3;
  EXPECT_EQ(*outcome_of(facts, goal, {}).cost, 3);
}

TEST(TrialLog, ReplaysTheSameSearchAndForgetsTheRestOfAnother) {
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / "trial_log_test.sqlite";
  std::filesystem::remove(file);
  const std::map<std::string, std::string> question = {{"command", "x"}};
  {
    TrialLog log(file, question);
    EXPECT_FALSE(log.replay(0, Stage::kCalibrate, "a=1"));
    log.add({.round = 0, .stage = "calibrate", .point = "a=1", .cost = 2.5, .step_s = 1, .wall_s = 3});
    log.add({.round = 1, .stage = "explore", .point = "a=2", .why = "exit code 1"});
    log.add({.round = 1, .stage = "explore", .point = "a=3", .cost = 1.5});
    EXPECT_FALSE(log.sweep());
    log.keep_sweep("swept");
  }
  {
    TrialLog log(file, question);
    EXPECT_EQ(log.replay(0, Stage::kCalibrate, "a=1")->cost, 2.5);
    EXPECT_EQ(log.replay(1, Stage::kExplore, "a=2")->why, "exit code 1");
    EXPECT_FALSE(log.replay(1, Stage::kExplore, "a=4")) << "another point: what came after is no longer of this search";
    log.add({.round = 1, .stage = "explore", .point = "a=4", .cost = 1.0});
    EXPECT_EQ(log.resumed(), 2U);
    EXPECT_EQ(log.sweep(), "swept");
  }
  TrialLog log(file, question);
  EXPECT_TRUE(log.replay(0, Stage::kCalibrate, "a=1") && log.replay(1, Stage::kExplore, "a=2") &&
              log.replay(1, Stage::kExplore, "a=4"));
  EXPECT_THROW(TrialLog(file, {{"command", "y"}}), Error);
  std::filesystem::remove(file);
}

TEST(TrialLog, IsWrittenWhileOthersRead) {
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / "trial_log_read.sqlite";
  std::filesystem::remove(file);
  TrialLog log(file, {{"command", "x"}});
  log.add({.stage = "calibrate", .point = "a=1", .cost = 1});
  SQLite::Database reader(file.string(), SQLite::OPEN_READWRITE);
  reader.exec("BEGIN; SELECT count(*) FROM trial");
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    reader.exec("COMMIT");
  });
  EXPECT_NO_THROW(log.add({.stage = "calibrate", .point = "a=2", .cost = 1}));
  ends.join();
  EXPECT_EQ(reader.execAndGet("SELECT count(*) FROM trial").getInt(), 2);
  reader.exec("DROP TABLE trial");
  EXPECT_THROW(log.add({.stage = "calibrate", .point = "a=3", .cost = 1}), CannotWrite);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace ddl::tune
