// A directory of emitted files read back.
#include "autotuner/emitted.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "autotuner/emit.h"
#include "autotuner/goal.h"
#include "core/error.h"
#include "tests/autotuner/tuned_samples.h"

namespace ddl::tune {
namespace {

namespace fs = std::filesystem;

class EmittedDirectory : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "ddl-emitted-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    place_ = name;
  }
  void TearDown() override { fs::remove_all(place_); }
  std::string refusal(const fs::path& directory) const {
    try {
      read_emitted(directory);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kDataMissing);
      return error.what();
    }
    return "";
  }
  fs::path place_;
};

TEST_F(EmittedDirectory, IsWhatWasEmitted) {
  const Tuned tuned = tuned_sample();
  emit(tuned, place_ / "tuned");
  const Emitted read = read_emitted(place_ / "tuned/");
  EXPECT_TRUE(read.changes_anything);
  EXPECT_EQ(read.environment.front(), tuned.environment.front());  // with quotes, ESC and a line break
  EXPECT_EQ(read.environment.size(), tuned.environment.size() + 5);
  EXPECT_NE(read.allreduce_rules.find("\n16384 4 0 0"), std::string::npos);
  EXPECT_EQ(read.tuned.ranks, 4);
  ASSERT_TRUE(read.tuned.gain);
  EXPECT_EQ(read.tuned.gain->rounds, 12);
  EXPECT_DOUBLE_EQ(read.tuned.gain->noise_hi, 1.012);
  ASSERT_EQ(read.tuned.choices.size(), 2u);
  EXPECT_TRUE(read.tuned.choices[0].numeric);
  EXPECT_EQ(read.tuned.choices[1].default_value, "25");
  ASSERT_EQ(read.tuned.allreduce_rules.size(), 4u);
  EXPECT_EQ(read.tuned.allreduce_rules[2].segment_bytes, 131072);
  ASSERT_EQ(read.tuned.nccl_rules.size(), 3u);
  EXPECT_EQ(read.tuned.nccl_rules[1].max_bytes, -1);
  EXPECT_EQ(read.tuned.nccl_rules[2].algorithm, "");
  EXPECT_EQ(read.tuned.bucket_bytes, tuned.bucket_bytes);
  EXPECT_EQ(read.tuned.batch_per_rank, tuned.batch_per_rank);
  EXPECT_EQ(read.tuned.tuned_command.back(), "***");
}

TEST_F(EmittedDirectory, TellsTheGoalThatItWasTunedFor) {
  Goal loss, throughput;
  loss.target_loss = 0.123456789;
  throughput.raw_throughput = true;
  for (const Goal& goal : {loss, throughput, Goal{}}) {
    Tuned tuned = tuned_sample();
    tuned.goal = goal.words();
    Tuned older = tuned;  // the words alone
    tuned.goal_kind = goal.kind();
    tuned.target_loss = goal.target_loss;
    emit(tuned, place_ / goal.kind());
    for (const Tuned& one : {read_emitted(place_ / goal.kind()).tuned, older}) {
      const Goal read = goal_of(one);
      EXPECT_EQ(read.words(), goal.words());
      EXPECT_EQ(read.raw_throughput, goal.raw_throughput);
      EXPECT_EQ(read.target_loss.has_value(), goal.target_loss.has_value());
      EXPECT_NEAR(read.target_loss.value_or(0), goal.target_loss.value_or(0), one.goal_kind.empty() ? 1e-6 : 0);
    }
  }
}

TEST_F(EmittedDirectory, TellsTheMetricAndWhatTheDefaultRanWith) {
  Goal elapsed, metric;
  elapsed.elapsed = true;
  metric.metric = Metric{"s/it: ([0-9.]+)", "out \"of\" job.txt", true};
  for (const Goal& goal : {elapsed, metric}) {
    Tuned tuned = tuned_sample();
    tuned.goal = goal.words();
    tuned.goal_kind = goal.kind();
    tuned.metric = goal.metric;
    tuned.default_environment = {{"HOROVOD_CYCLE_TIME", "250"}, {"MESSAGE", "what it \n was"}};
    emit(tuned, place_ / goal.kind());
    const Tuned read = read_emitted(place_ / goal.kind()).tuned;
    EXPECT_EQ(goal_of(read).words(), goal.words());
    EXPECT_FALSE(goal_of(read).needs_steps());
    EXPECT_EQ(read.default_environment, tuned.default_environment);
  }
}

/// What the default ran with, and the winner does not, has to go from the shell that starts the job.
TEST_F(EmittedDirectory, TakesAwayVariablesThatTheWinnerRunsWithout) {
  Tuned tuned = tuned_sample();
  tuned.environment = {{"NCCL_PROTO", "LL"}};
  tuned.unset = {"NCCL_ALGO", "HOROVOD_CYCLE_TIME"};
  tuned.default_unset = {"NCCL_PROTO"};
  emit(tuned, place_ / "unset");
  const auto text = [&](const char* file) {
    std::ostringstream read;
    read << std::ifstream(place_ / "unset" / file).rdbuf();
    return read.str();
  };
  EXPECT_NE(text("tuned.env").find("\nunset NCCL_ALGO HOROVOD_CYCLE_TIME\n"), std::string::npos) << text("tuned.env");
  EXPECT_NE(text("horovod.env").find("\nunset HOROVOD_CYCLE_TIME\n"), std::string::npos) << text("horovod.env");
  EXPECT_NE(text("nccl.conf").find("where the job's environment has it: unset NCCL_ALGO (tuned.env does)"),
            std::string::npos);
  const Tuned read = read_emitted(place_ / "unset").tuned;
  EXPECT_EQ(read.unset, tuned.unset);
  EXPECT_EQ(read.default_unset, tuned.default_unset);
  tuned.gain.reset();
  emit(tuned, place_ / "kept");
  EXPECT_TRUE(read_emitted(place_ / "kept").tuned.unset.empty());
}

TEST_F(EmittedDirectory, SaysWhyTheDefaultIsKept) {
  emit(default_sample(), place_ / "kept");
  const Emitted read = read_emitted(place_ / "kept");
  EXPECT_EQ(read.tuned.kept, default_sample().kept);
  EXPECT_FALSE(read.changes_anything);
}

TEST(Overridden, ByRulesIsSaid) {
  Tuned tuned = tuned_sample();
  EXPECT_TRUE(overridden_by_rules(tuned).empty());
  tuned.choices.push_back({"OMPI_MCA_coll_tuned_allreduce_algorithm", "4", "unset", false});
  tuned.choices.push_back({"OMPI_MCA_coll_tuned_bcast_algorithm", "5", "unset", false});
  ASSERT_EQ(overridden_by_rules(tuned).size(), 1U);
  EXPECT_EQ(
      overridden_by_rules(tuned)[0],
      "OMPI_MCA_coll_tuned_allreduce_algorithm=4 was tuned as well, and is in no file: the rules for MPI_Allreduce decide in its place");
  tuned.allreduce_rules.clear();
  EXPECT_TRUE(overridden_by_rules(tuned).empty());
}

TEST_F(EmittedDirectory, OfTheDefaultsChangesNothing) {
  emit(default_sample(), place_ / "default");
  const Emitted read = read_emitted(place_ / "default");
  EXPECT_FALSE(read.changes_anything);
  EXPECT_FALSE(read.tuned.gain);
  EXPECT_TRUE(read.environment.empty());
}

TEST_F(EmittedDirectory, ThatIsNotAsItWasWrittenIsRefused) {
  EXPECT_NE(refusal(place_ / "nothing").find("has no manifest.json"), std::string::npos);
  emit(tuned_sample(), place_ / "tuned");
  fs::copy(place_ / "tuned", place_ / "moved");
  EXPECT_NE(refusal(place_ / "moved").find("was written as " + (place_ / "tuned").string()), std::string::npos);
  std::ofstream(place_ / "tuned" / "allreduce.rules", std::ios::app) << "# mine\n";
  EXPECT_NE(refusal(place_ / "tuned").find("allreduce.rules was changed after ddl tune wrote it"), std::string::npos);
  emit(tuned_sample(), place_ / "tuned");
  EXPECT_EQ(refusal(place_ / "tuned"), "");
  fs::remove(place_ / "tuned" / "ddp.py");
  EXPECT_NE(refusal(place_ / "tuned").find("cannot read"), std::string::npos);
  for (const char* text : {"", "{}", "[1]", "{\"schema\": 2}", "{\"schema\": 1, \"directory\": 3}", "{\"schema\": 1"}) {
    std::ofstream(place_ / "tuned" / "manifest.json") << text;
    EXPECT_NE(refusal(place_ / "tuned"), "") << text;
  }
}

}  // namespace
}  // namespace ddl::tune
