// A recorder in a forked child each time (it lives once per process), read back by the reader, which shares only
// the format with it.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/reader.h"
#include "core/recorder.h"

namespace ddl {

namespace fs = std::filesystem;

constexpr uint32_t kOp = 20;  // any operation; the recorder does not know them
inline const char kSiteA[16] = {}, kSiteB[16] = {};

class RecorderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "ddl-recorder-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    directory_ = (folder_ / "run.ddl").string();
    options_.directory = directory_.c_str();
    options_.cap_bytes = 64 << 20;
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Runs `job` in a child that records; the child must end with `status` as wait() tells it.
  void record(const std::function<void()>& job, int status = 0) {
    const pid_t child = fork();
    if (child == 0) {
      int error = 0;
      if (const char* why = activate(options_, &error)) {
        fprintf(stderr, "activate: %s\n", why);
        _exit(99);
      }
      job();
      _exit(0);
    }
    int ended = -1;
    ASSERT_EQ(waitpid(child, &ended, 0), child);
    ASSERT_EQ(ended, status);
  }

  SpoolReader spool() {
    std::vector<fs::path> spools;
    for (const auto& entry : fs::directory_iterator(directory_)) spools.push_back(entry.path());
    EXPECT_EQ(spools.size(), 1u);
    return SpoolReader(spools.at(0).string());
  }

  static std::vector<Record> records(const SpoolReader& reader, ChunkKind kind = ChunkKind::kEvents) {
    std::vector<Record> all, some;
    std::vector<Skip> skips;
    for (const SpoolChunk& chunk : reader.chunks(kind)) {
      reader.read_records(chunk, some, &skips);
      all.insert(all.end(), some.begin(), some.end());
    }
    EXPECT_TRUE(skips.empty()) << skips[0].reason;
    return all;
  }

  static std::vector<ProfileEntry> profile(const SpoolReader& reader) {
    std::vector<ProfileEntry> all, some;
    for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kProfile)) {
      reader.read_profile(chunk, some);
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

  static uint64_t profiled_calls(const SpoolReader& reader, uint32_t op) {
    uint64_t calls = 0;
    for (const ProfileEntry& e : profile(reader)) calls += e.op == op ? all_calls(e) : 0;
    return calls;
  }

  fs::path folder_;
  std::string directory_;
  RecorderOptions options_ = {};
};

inline void call(uint32_t op, uint64_t bytes, uint32_t sequence = 0, bool collective = false,
                 const void* site = kSiteA) {
  const OpenCall open = begin_call(op, site, 1, collective, sequence, -1, record_payload(bytes, 14, 1));
  if (open.thread) end_call(open, record_payload(bytes, 14, 1));
}

}  // namespace ddl
