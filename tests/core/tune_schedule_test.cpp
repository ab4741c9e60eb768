// The schedule of an in-run tuning: whoever reads it, whenever, whatever else happens meanwhile, has the same
// values in the same step.
#include "core/tune_schedule.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace ddl {
namespace {

namespace fs = std::filesystem;

class TuneSchedule : public testing::Test {
 protected:
  TuneSchedule() {
    std::string name = (fs::temp_directory_path() / "schedule.XXXXXX").string();
    folder_ = mkdtemp(name.data());
    base_ = (folder_ / "values").string();
    EXPECT_TRUE(files_.begin(base_.c_str()));
  }
  ~TuneSchedule() override { fs::remove_all(folder_); }

  TuneBlock block(uint64_t number, uint64_t begin, uint64_t end, const std::string& text) const {
    TuneBlock made{.number = number, .begin = begin, .end = end, .filler_steps = 3, .patience_s = 60};
    std::memcpy(made.text, text.c_str(), text.size() + 1);
    return made;
  }
  static std::string value(const TuneBlock& block, const char* name) {
    char text[64] = "";
    return block.value_of(name, text, sizeof text) ? text : "none";
  }

  fs::path folder_;
  std::string base_;
  TuneFiles files_;
};

TEST_F(TuneSchedule, HasTheValuesOfEachStep) {
  ASSERT_EQ(files_.write(block(0, 0, 10, "x=1\nxy=a b\n")), 0);
  ASSERT_EQ(files_.write(block(1, 10, 12, "x=2\n")), 0);
  ASSERT_EQ(files_.write(block(2, 12, kTuneNoEnd, "")), 0);
  TuneFollower follower;
  ASSERT_TRUE(follower.begin(base_.c_str()));
  for (const auto& [step, x] : std::vector<std::pair<uint64_t, std::string>>{
           {0, "1"}, {9, "1"}, {10, "2"}, {11, "2"}, {12, "none"}, {1ull << 60, "none"}, {3, "1"}, {11, "2"}}) {
    ASSERT_EQ(follower.follow(step), 0) << step;
    EXPECT_EQ(value(follower.now(), "x"), x) << step;
  }
  ASSERT_EQ(follower.follow(5), 0);
  EXPECT_EQ(value(follower.now(), "xy"), "a b");
  EXPECT_EQ(value(follower.now(), "y"), "none");
  EXPECT_EQ(value(follower.now(), "xyz"), "none");
  char cut[3];
  EXPECT_TRUE(follower.now().value_of("xy", cut, sizeof cut));
  EXPECT_STREQ(cut, "a ");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 3)
      << "nothing is left beside the blocks";
}

TEST_F(TuneSchedule, ANumberIsGivenOnce) {
  ASSERT_EQ(files_.write(block(0, 0, 10, "x=1\n")), 0);
  EXPECT_EQ(files_.write(block(0, 0, 20, "x=2\n")), EEXIST);
  TuneBlock read;
  ASSERT_EQ(files_.read(0, &read), 0);
  EXPECT_EQ(read.end, 10u);
  EXPECT_EQ(value(read, "x"), "1");
  EXPECT_EQ(files_.read(1, &read), ENOENT);
}

TEST_F(TuneSchedule, WithoutTheTunerRanksGoOnWithWhatTheyHave) {
  ASSERT_EQ(files_.write(block(0, 0, 10, "x=1\n")), 0);
  TuneFollower ahead, behind;
  ASSERT_TRUE(ahead.begin(base_.c_str()) && behind.begin(base_.c_str()));
  ASSERT_EQ(ahead.follow(10), 0);
  EXPECT_EQ(ahead.now().end, 13u);
  EXPECT_TRUE(ahead.now().of_rank);
  ASSERT_EQ(ahead.follow(40), 0);  // one that skips steps
  EXPECT_EQ(ahead.now().begin, 13u);
  EXPECT_EQ(ahead.now().end, 41u);
  // The tuner comes after what was made, and one that comes later reads both.
  ASSERT_EQ(files_.write(block(2, 13, 20, "x=2\n")), EEXIST);
  ASSERT_EQ(files_.write(block(3, 41, 50, "x=2\n")), 0);
  ASSERT_EQ(behind.follow(40), 0);
  EXPECT_EQ(behind.now().number, 2u);
  EXPECT_EQ(value(behind.now(), "x"), "1");
  ASSERT_EQ(behind.follow(41), 0);
  ASSERT_EQ(ahead.follow(41), 0);
  EXPECT_EQ(value(behind.now(), "x"), "2");
  EXPECT_EQ(ahead.now().number, behind.now().number);
}

TEST_F(TuneSchedule, WithoutTheTunerForLongTheDefaultsComeBackForGood) {
  ASSERT_EQ(files_.write(block(0, 0, 2, "x=1\n")), 0);
  TuneBlock impatient = block(1, 2, 4, "x=2\n");
  impatient.patience_s = 0;
  ASSERT_EQ(files_.write(impatient), 0);
  TuneFollower follower;
  ASSERT_TRUE(follower.begin(base_.c_str()));
  ASSERT_EQ(follower.follow(3), 0);
  EXPECT_EQ(value(follower.now(), "x"), "2");
  usleep(1000);
  ASSERT_EQ(follower.follow(4), 0);
  EXPECT_EQ(value(follower.now(), "x"), "2")
      << "however long its block took, the tuner is missed from the block's end on";
  EXPECT_EQ(follower.now().end, 7u);
  usleep(1000);
  ASSERT_EQ(follower.follow(7), 0);
  EXPECT_EQ(value(follower.now(), "x"), "1");
  EXPECT_EQ(follower.now().end, kTuneNoEnd);
}

TEST_F(TuneSchedule, PatienceBeginsAnewWithEachBlockOfTheTuner) {
  const auto impatient = [&](uint64_t number, uint64_t begin, uint64_t end, const std::string& text) {
    TuneBlock made = block(number, begin, end, text);
    made.patience_s = 0;
    return made;
  };
  ASSERT_EQ(files_.write(impatient(0, 0, 2, "x=1\n")), 0);
  TuneFollower follower, behind;
  ASSERT_TRUE(follower.begin(base_.c_str()) && behind.begin(base_.c_str()));
  ASSERT_EQ(follower.follow(2), 0);
  ASSERT_EQ(files_.write(impatient(2, 5, 7, "x=2\n")), 0);
  usleep(1000);
  ASSERT_EQ(follower.follow(5), 0);
  EXPECT_EQ(value(follower.now(), "x"), "2");
  ASSERT_EQ(follower.follow(7), 0);
  EXPECT_EQ(value(follower.now(), "x"), "2");
  EXPECT_EQ(follower.now().end, 10u);
  // A rank that reads what others publish in the tuner's place misses the tuner as they do.
  ASSERT_EQ(behind.follow(7), 0);
  EXPECT_EQ(behind.now().number, follower.now().number);
  usleep(1000);
  ASSERT_EQ(behind.follow(10), 0);
  EXPECT_EQ(value(behind.now(), "x"), "1");
  EXPECT_EQ(behind.now().end, kTuneNoEnd);
}

TEST_F(TuneSchedule, WhatIsCutOrDamagedIsNoBlock) {
  ASSERT_EQ(files_.write(block(0, 0, 10, "x=1\nlong=value\n")), 0);
  std::ifstream stream(base_ + ".0");
  const std::string whole{std::istreambuf_iterator<char>(stream), {}};
  const auto read = [&](const std::string& text) {
    std::ofstream(base_ + ".1", std::ios::trunc) << text;
    TuneBlock block;
    return files_.read(1, &block);
  };
  std::string first = whole;
  first.replace(first.find("block 0"), 7, "block 1");
  ASSERT_EQ(read(first), 0) << first;
  EXPECT_EQ(read(whole), EILSEQ) << "the block of another number";
  for (size_t length = 0; length < first.size(); ++length) EXPECT_EQ(read(first.substr(0, length)), EILSEQ) << length;
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"steps 0 10", "steps 10 10"},
                                                        {"steps 0 10", "steps -1 10"},
                                                        {"steps 0 10", "steps 0 99999999999999999999999"},
                                                        {"fillers 3", "fillers 0"},
                                                        {"ddl-tune 1", "ddl-tune 2"},
                                                        {"value\n", std::string("val\0e\n", 6)}}) {
    std::string damaged = first;
    damaged.replace(damaged.find(from), from.size(), to);
    EXPECT_EQ(read(damaged), EILSEQ) << to;
  }
  // Nor is a FIFO, a link or a folder, and nobody waits for a writer.
  TuneBlock none;
  ASSERT_EQ(mkfifo((base_ + ".2").c_str(), 0600), 0);
  EXPECT_EQ(files_.read(2, &none), EILSEQ);
  fs::create_symlink("/dev/zero", base_ + ".3");
  EXPECT_EQ(files_.read(3, &none), ELOOP);
  fs::create_directory(base_ + ".4");
  EXPECT_EQ(files_.read(4, &none), EISDIR);
  // A rank that cannot know what the others do says so, and goes on saying so.
  ASSERT_EQ(read(first.substr(0, 20)), EILSEQ);
  TuneFollower follower;
  ASSERT_TRUE(follower.begin(base_.c_str()));
  EXPECT_EQ(follower.follow(3), 0);
  EXPECT_EQ(follower.follow(10), EILSEQ);
  EXPECT_EQ(follower.follow(3), EILSEQ);
}

// Ranks that run at different speeds and stop now and then, and a tuner that writes whenever it likes.
TEST_F(TuneSchedule, AllRanksHaveTheSameValuesInTheSameStep) {
  constexpr uint64_t kRanks = 5, kSteps = 1500;
  ASSERT_EQ(files_.write(block(0, 0, 5, "x=0\n")), 0);
  const size_t bytes = kRanks * kSteps * sizeof(uint32_t);
  auto* values =
      static_cast<uint32_t*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(values, MAP_FAILED);
  std::vector<pid_t> ranks;
  for (uint64_t rank = 0; rank < kRanks; ++rank) {
    const pid_t pid = fork();
    if (pid != 0) {
      ranks.push_back(pid);
      continue;
    }
    std::mt19937 random(static_cast<unsigned>(rank));
    static TuneFollower follower;
    if (!follower.begin(base_.c_str())) _exit(1);
    for (uint64_t step = 0; step < kSteps; ++step) {
      if (follower.follow(step) != 0) _exit(2);
      values[rank * kSteps + step] = static_cast<uint32_t>(atoi(value(follower.now(), "x").c_str())) + 1;
      if (random() % 16 == 0) usleep(static_cast<useconds_t>(random() % 400));
    }
    _exit(0);
  }
  std::mt19937 random(99);
  uint64_t number = 1, made_by_ranks = 0, made_by_tuner = 0;
  TuneBlock last = block(0, 0, 5, "");
  for (size_t running = kRanks; running > 0;) {
    for (; files_.read(number, &last) == 0; ++number) ++made_by_ranks;
    for (uint64_t ahead = random() % 4; ahead > 0; --ahead) {
      const TuneBlock next =
          block(number, last.end, last.end + 1 + random() % 6, "x=" + std::to_string(1 + random() % 1000) + "\n");
      const int failed = files_.write(next);
      ASSERT_TRUE(failed == 0 || failed == EEXIST) << failed;
      if (failed != 0) break;
      last = next;
      ++number;
      ++made_by_tuner;
    }
    if (random() % 3 == 0) usleep(static_cast<useconds_t>(random() % 1000));
    int status = 0;
    while (running > 0 && waitpid(-1, &status, WNOHANG) > 0) {
      EXPECT_EQ(status, 0);
      --running;
    }
  }
  EXPECT_GT(made_by_tuner, 10u);
  EXPECT_GT(made_by_ranks, 10u);
  // The truth: the files, one after the other.
  TuneBlock now;
  ASSERT_EQ(files_.read(0, &now), 0);
  for (uint64_t step = 0; step < kSteps; ++step) {
    if (step >= now.end) {
      ASSERT_EQ(files_.read(now.number + 1, &now), 0);
    }
    const auto expected = static_cast<uint32_t>(atoi(value(now, "x").c_str())) + 1;
    for (uint64_t rank = 0; rank < kRanks; ++rank)
      ASSERT_EQ(values[rank * kSteps + step], expected) << "rank " << rank << ", step " << step;
  }
  munmap(values, bytes);
}

}  // namespace
}  // namespace ddl
