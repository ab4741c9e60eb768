// A directory of emitted files read back.
#include "autotuner/emitted.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "autotuner/emit.h"
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
  EXPECT_NE(refusal(place_ / "tuned").find("allreduce.rules is not as ddl tune wrote it"), std::string::npos);
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
