// The emitted files as text. That their readers understand them is tested in tests/autotuner/emitted_files.py and
// openmpi_in_force.py.
#include "autotuner/emit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "tests/autotuner/tuned_samples.h"

namespace ddl::tune {
namespace {

namespace fs = std::filesystem;

class Emit : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "ddl-emit-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    place_ = name;
  }
  void TearDown() override { fs::remove_all(place_); }

  std::string read(const fs::path& path) const {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::map<std::string, std::string> all(const fs::path& directory) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(directory))
      files[entry.path().filename().string()] = read(entry.path());
    return files;
  }
  /// Without comments and empty lines.
  static std::string settings(const std::string& text) {
    std::istringstream lines(text);
    std::string line, result;
    while (std::getline(lines, line)) {
      if (!line.empty() && line[0] != '#') result += line + "\n";
    }
    return result;
  }
  fs::path place_;
};

TEST_F(Emit, EveryFileHasWhatWasTunedInItsOwnUnit) {
  emit(tuned_sample(), place_ / "tuned");
  auto files = all(place_ / "tuned");
  const std::string directory = (place_ / "tuned").string();
  EXPECT_EQ(files.size(), 13u);
  EXPECT_EQ(settings(files["mca-params.conf"]),
            "btl_vader_eager_limit = 8192\ncoll_tuned_use_dynamic_rules = 1\ncoll_tuned_dynamic_rules_filename = " +
                directory + "/allreduce.rules\ncoll_han_priority = 0\n");
  EXPECT_EQ(
      settings(files["nccl.conf"]),
      "NCCL_ALGO=allreduce:tree,ring;broadcast:ring\nNCCL_NTHREADS=256\nNCCL_TUNER_PLUGIN=/opt/ddl/lib/libnccl-tuner-ddl.so\n"
      "NCCL_TUNER_CONFIG_FILE=" +
          directory + "/nccl_tuner.csv\n");
  EXPECT_EQ(settings(files["nccl_tuner.csv"]),
            "allreduce,0,65535,tree,ll,2,2,4\nallreduce,65536,9223372036854775807,ring,simple,-1,2,4\n");
  EXPECT_NE(files["nccl_tuner.csv"].find("rules left out: 1,"), std::string::npos);
  EXPECT_EQ(settings(files["horovod.env"]), "HOROVOD_CYCLE_TIME=3.5\nHOROVOD_FUSION_THRESHOLD=33554432\n");
  EXPECT_EQ(settings(files["horovod.yaml"]), "params:\n  cycle_time_ms: 3.5\n  fusion_threshold_mb: 32\n");
  EXPECT_NE(files["ddp.py"].find("BUCKET_CAP_MB = 32\nBATCH_PER_RANK = 64\n"), std::string::npos);
  EXPECT_NE(files["ddp.py"].find(
                "LEARNING_RATE_FACTOR_LINEAR = 2\nLEARNING_RATE_FACTOR_SQRT = 1.41421\nWARM_UP_EPOCHS = 5\n"),
            std::string::npos);
  EXPECT_EQ(settings(files["mpich.env"]), "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=recursive_doubling\n");
  const auto deepspeed = nlohmann::ordered_json::parse(files["ds_config.json"]);
  EXPECT_EQ(deepspeed.begin().key(), "_comment");
  EXPECT_EQ(deepspeed["zero_optimization"]["reduce_bucket_size"], 8 << 20);
  EXPECT_EQ(deepspeed["train_micro_batch_size_per_gpu"], 64);
  EXPECT_NE(files["tuned.env0"].find(
                std::string("MESSAGE=a 'b' \"c\" $HOME `id` \\ \x1b[31m\nsecond line;#\0NCCL_ALGO=", 61)),
            std::string::npos);
}

TEST_F(Emit, WhereTheDefaultsWonNothingIsChanged) {
  for (const EmittedFile& file : emit(default_sample(), place_ / "default")) EXPECT_FALSE(file.changes) << file.name;
  auto files = all(place_ / "default");
  EXPECT_EQ(files.size(), 13u);
  EXPECT_EQ(settings(files["allreduce.rules"]), "0  # collectives\n");
  EXPECT_EQ(settings(files["horovod.yaml"]), "params: {}\n");
  EXPECT_EQ(files["tuned.env0"], "");
  for (const char* name :
       {"mca-params.conf", "nccl.conf", "nccl_tuner.csv", "horovod.env", "mpich.env", "tuned.env", "slurm.sh"})
    EXPECT_EQ(settings(files[name]), "") << name;
  for (auto& [name, text] : files) {
    if (name != "tuned.env0" && name != "manifest.json") {
      EXPECT_NE(text.find("nothing is changed: " + default_sample().kept), std::string::npos) << name;
    }
  }
  EXPECT_EQ(nlohmann::json::parse(files["manifest.json"])["gain"], nullptr);
}

TEST_F(Emit, AFileThatIsNotConcernedSaysSo) {
  emit(other_sample(), place_ / "other");
  auto files = all(place_ / "other");
  for (auto& [name, text] : files) {
    if (name == "tuned.env0" || name == "manifest.json") continue;
    EXPECT_NE(text.find("This file changes nothing."), std::string::npos) << name;
    EXPECT_EQ(text.find("undo"), std::string::npos) << name;
  }
  EXPECT_NE(files["slurm.sh"].find("#   mpirun -np 2 train --threads 2\n"), std::string::npos);
}

TEST_F(Emit, EveryTextFileBeginsWithWhereItComesFrom) {
  emit(tuned_sample(), place_ / "tuned");
  for (auto& [name, text] : all(place_ / "tuned")) {
    if (name == "tuned.env0" || name == "manifest.json") continue;
    EXPECT_TRUE(text[0] == '#' || name == "ds_config.json") << name;
    for (const char* part : {"tune-train.ddl, 2026-11-22T00:10:00Z", "node1, node2",
                             "Open MPI v4.1.4; 4 ranks on 2 nodes", "1.104 times the default's samples per second",
                             "1.061", "1.148", "12 paired rounds", "0.991", "1.012", "undo:"})
      EXPECT_NE(text.find(part), std::string::npos) << name << ": " << part;
    EXPECT_NE(text.find("added in another order"), std::string::npos) << name;
    EXPECT_NE(text.find("(batch)"), std::string::npos) << name;
    const size_t beyond = text.find("256 samples a step are beyond the safe batch"),
                 factor = text.find("the learning rate times 2");
    EXPECT_LT(beyond, factor) << name;
    EXPECT_NE(factor, std::string::npos) << name;
    EXPECT_EQ(text.find("hunter2"), std::string::npos) << name;
    for (size_t line = 0; name == "nccl_tuner.csv" && line < text.size(); line = text.find('\n', line) + 1)
      EXPECT_LE(text.find('\n', line) - line, 250u) << "NCCL's example reads 255 bytes at a time";
  }
}

TEST_F(Emit, ANonblockingRingWarnsOfOperationsThatDoNotCommute) {
  const auto files_with = [&](const std::string& algorithm) {
    Tuned tuned = other_sample();
    tuned.environment = {{"OMPI_MCA_coll_libnbc_iallreduce_algorithm", algorithm}};
    emit(tuned, place_ / "tuned");
    return all(place_ / "tuned");
  };
  for (const char* algorithm : {"ring", "1", "rabenseifner", "3"}) {
    auto files = files_with(algorithm);
    for (const char* name : {"tuned.env", "mca-params.conf"})
      EXPECT_NE(files[name].find("WRONG"), std::string::npos) << algorithm << name;
    for (const char* name : {"nccl.conf", "horovod.env"})
      EXPECT_EQ(files[name].find("WRONG"), std::string::npos) << algorithm << name;
  }
  for (const char* algorithm : {"binomial", "recursive_doubling", "2"})
    for (const auto& [name, text] : files_with(algorithm))
      EXPECT_EQ(text.find("WRONG"), std::string::npos) << algorithm << name;
}

TEST_F(Emit, HostileTextStaysInItsComment) {
  emit(tuned_sample(), place_ / "tuned");
  for (auto& [name, text] : all(place_ / "tuned")) {
    // tuned.env and tuned.env0 hold a value with these: quoted, and raw as the format is.
    if (name != "tuned.env" && name != "tuned.env0") {
      EXPECT_EQ(text.find('\x1b'), std::string::npos) << name;
      EXPECT_EQ(text.find("\nof evil"), std::string::npos) << name;
      EXPECT_EQ(text.find("\n<script>"), std::string::npos) << name;
    }
  }
}

TEST_F(Emit, TheManifestKnowsEveryFileByItsHash) {
  const std::vector<EmittedFile> emitted = emit(tuned_sample(), place_ / "tuned");
  const auto json = nlohmann::json::parse(read(place_ / "tuned" / "manifest.json"));
  ASSERT_EQ(json["files"].size(), 12u);
  for (size_t i = 0; i < emitted.size(); ++i) {
    EXPECT_EQ(json["files"][i]["name"], emitted[i].name);
    EXPECT_EQ(json["files"][i]["sha256"], emitted[i].sha256);
    EXPECT_EQ(json["files"][i]["bytes"], fs::file_size(place_ / "tuned" / emitted[i].name));
  }
  EXPECT_DOUBLE_EQ(json["gain"]["lo"], 1.0612);
  EXPECT_EQ(json["changes_order_of_sums"], true);
}

TEST_F(Emit, TheOrderOfSumsChangesByWhatDiffersFromTheDefault) {
  const auto changes = [&](const decltype(Tuned::environment)& tuned_with,
                           const decltype(Tuned::environment)& default_with) {
    Tuned tuned = other_sample();
    tuned.environment = tuned_with, tuned.default_environment = default_with;
    emit(tuned, place_ / "tuned");
    return nlohmann::json::parse(read(place_ / "tuned" / "manifest.json"))["changes_order_of_sums"].get<bool>();
  };
  EXPECT_TRUE(changes({{"HOROVOD_FUSION_THRESHOLD", "1048576"}}, {}));
  EXPECT_TRUE(changes({{"HOROVOD_HIERARCHICAL_ALLREDUCE", "1"}}, {{"HOROVOD_HIERARCHICAL_ALLREDUCE", "0"}}));
  EXPECT_TRUE(changes({}, {{"NCCL_ALGO", "Ring"}}));
  EXPECT_FALSE(changes({{"NCCL_ALGO", "Ring"}, {"THREADS", "2"}}, {{"NCCL_ALGO", "Ring"}, {"THREADS", "1"}}));
  Tuned tuned = other_sample();
  tuned.choices.push_back({"algorithm", "ring", "ring", false});
  tuned.allreduce_rules = {{0, 4, "ring", 0}};
  emit(tuned, place_ / "tuned");
  EXPECT_EQ(nlohmann::json::parse(read(place_ / "tuned" / "manifest.json"))["changes_order_of_sums"], false);
}

TEST_F(Emit, ABucketIsWrittenAsItWasGiven) {
  Tuned tuned = other_sample();
  tuned.choices.push_back({"bucket_mb", "0.4", "25", false});
  tuned.bucket_bytes = 419430;
  tuned.default_bucket_bytes = 25 << 20;
  emit(tuned, place_ / "tuned");
  EXPECT_NE(read(place_ / "tuned" / "ddp.py").find("BUCKET_CAP_MB = 0.4\n"), std::string::npos);
}

TEST_F(Emit, ValuesThatAFormatCannotHoldAreLeftOutAndNamed) {
  Tuned tuned = tuned_sample();
  tuned.environment = {
      {"NCCL_DEBUG_FILE", "two\nlines"}, {"NCCL_ALGO", " ring"}, {"OMPI_MCA_x", ""}, {"HOROVOD_CYCLE_TIME", "fast"}};
  tuned.bucket_bytes = 1000;
  tuned.nccl_rules.clear();
  emit(tuned, place_ / "tuned");
  auto files = all(place_ / "tuned");
  EXPECT_EQ(settings(files["nccl.conf"]), "");
  EXPECT_NE(files["nccl.conf"].find("NCCL_DEBUG_FILE, NCCL_ALGO (tuned.env has it)"), std::string::npos)
      << files["nccl.conf"];
  EXPECT_NE(files["mca-params.conf"].find("OMPI_MCA_x (tuned.env has it)"), std::string::npos);
  EXPECT_EQ(settings(files["horovod.yaml"]), "params: {}\n");
  EXPECT_NE(files["horovod.yaml"].find("HOROVOD_CYCLE_TIME, HOROVOD_FUSION_THRESHOLD"), std::string::npos)
      << files["horovod.yaml"];
  EXPECT_NE(files["ddp.py"].find("BUCKET_CAP_MB = 0.00095367431640625\n"), std::string::npos);
}

TEST_F(Emit, HorovodsSwitchesAreYesAndNoInYaml) {
  Tuned tuned = other_sample();
  tuned.environment = {{"HOROVOD_HIERARCHICAL_ALLREDUCE", "1"},
                       {"HOROVOD_HIERARCHICAL_ALLGATHER", "0"},
                       {"HOROVOD_TORUS_ALLREDUCE", "maybe"}};
  emit(tuned, place_ / "tuned");
  auto files = all(place_ / "tuned");
  EXPECT_EQ(settings(files["horovod.yaml"]),
            "params:\n  hierarchical_allreduce: true\n  hierarchical_allgather: false\n");
  EXPECT_NE(files["horovod.yaml"].find("HOROVOD_TORUS_ALLREDUCE"), std::string::npos);
}

TEST_F(Emit, RefusesWhatIsNoVariable) {
  for (const auto& [name, value] : {std::pair<std::string, std::string>{"A B", "1"},
                                    {"1A", "1"},
                                    {"", "1"},
                                    {"A=B", "1"},
                                    {"A", std::string("x\0y", 3)},
                                    {"API_TOKEN", "hunter2"},
                                    {"STORE", "redis://:hunter2@cache/0"}}) {
    Tuned tuned = other_sample();
    tuned.environment = {{name, value}};
    EXPECT_THROW(emit(tuned, place_ / "tuned"), Error) << name;
    EXPECT_FALSE(fs::exists(place_ / "tuned"));
  }
}

TEST_F(Emit, NeverFollowsASymbolicLink) {
  fs::create_directory(place_ / "elsewhere");
  fs::create_directory_symlink(place_ / "elsewhere", place_ / "link");
  for (const char* name : {"link", "link/"}) EXPECT_THROW(emit(other_sample(), place_ / name), CannotWrite);
  EXPECT_TRUE(fs::is_empty(place_ / "elsewhere"));
  std::ofstream(place_ / "victim") << "mine";
  fs::create_directory(place_ / "tuned");
  fs::create_symlink(place_ / "victim", place_ / "tuned" / "tuned.env");
  emit(tuned_sample(), place_ / "tuned");
  EXPECT_EQ(read(place_ / "victim"), "mine");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(place_ / "tuned" / "tuned.env")));
}

TEST_F(Emit, AFullDiskLeavesWhatWasThere) {
  emit(other_sample(), place_ / "tuned");
  const auto before = all(place_ / "tuned");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{1200, old.rlim_max};  // some files fit
  setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    emit(tuned_sample(), place_ / "tuned");
  } catch (const CannotWrite& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_NE(message.find("cannot write " + (place_ / "tuned").string() + "/"), std::string::npos) << message;
  EXPECT_NE(message.find("File too large"), std::string::npos) << message;
  EXPECT_EQ(all(place_ / "tuned"), before);
}

TEST_F(Emit, SaysWhereItCannotWrite) {
  std::ofstream(place_ / "file") << "x";
  EXPECT_THROW(emit(other_sample(), place_ / "file"), CannotWrite);
  EXPECT_THROW(emit(other_sample(), place_ / "file" / "below"), CannotWrite);
  EXPECT_THROW(emit(other_sample(), place_ / "line\nbreak"), Error);
  EXPECT_EQ(read(place_ / "file"), "x");
}

}  // namespace
}  // namespace ddl::tune
