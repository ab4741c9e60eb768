// The live file: what a reader on another host may rely on. The run directory seems to lie on NFS here.
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "tests/core/recorder_fixture.h"

/// In place of libc's, for the recorder in this program.
extern "C" int fstatfs(int fd, struct statfs* status) noexcept {
  const auto real = reinterpret_cast<int (*)(int, struct statfs*)>(dlsym(RTLD_NEXT, "fstatfs"));
  const int result = real(fd, status);
  status->f_type = std::getenv("DDL_TEST_LOCAL_DISK") != nullptr ? status->f_type : 0x6969;
  return result;
}

namespace ddl {
namespace {

class LiveFileTest : public RecorderTest {
 protected:
  fs::path file(const char* extension) const {
    for (const auto& entry : fs::directory_iterator(directory_)) {
      if (entry.path().extension() == extension) return entry.path();
    }
    return {};
  }
  struct Seen {
    std::vector<uint32_t> sequences;  ///< of what the rings hold, in their order
    uint64_t written = 0, missed = 0;
    std::vector<FollowPosition::Open> open;
  };
  static Seen look(const SpoolReader& reader) {
    Seen seen;
    seen.missed = reader.header().loss[kLossLive];
    for (const SpoolChunk& chunk : reader.all_chunks()) {
      if (chunk.header.kind != static_cast<uint32_t>(ChunkKind::kRing)) continue;
      const uint64_t slots = (chunk.header.bytes - sizeof(ChunkHeader)) / sizeof(Record);
      FollowPosition position;
      position.read = chunk.header.ring_written > slots ? chunk.header.ring_written - slots : 0;
      std::vector<Record> records;
      reader.follow_records(chunk, position, records);
      for (const Record& r : records) seen.sequences.push_back(r.sequence);
      seen.written += chunk.header.ring_written;
      seen.open.insert(seen.open.end(), position.open.begin(), position.open.end());
    }
    return seen;
  }
};

TEST_F(LiveFileTest, HoldsWhatHadHappenedWhenTheClocksWereRead) {
  record([] {
    for (uint32_t i = 1; i <= 100; ++i) call(kOp, 8, i, true);
    write_operation(kOp, OpClass::kAllToAll, false, "MPI_Allreduce");
    write_clock();
    for (uint32_t i = 101; i <= 150; ++i) call(kOp, 8, i, true);
  });
  const SpoolReader live(file(".live").string());
  EXPECT_TRUE(live.skipped().empty());
  const Seen seen = look(live);
  ASSERT_EQ(seen.sequences.size(), 100u);
  for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(seen.sequences[i], i + 1);
  struct Names : MetaVisitor {
    void on_operation(const OperationMeta&, std::string_view name) override { names.emplace_back(name); }
    std::vector<std::string> names;
  } names;
  live.read_meta(names);
  EXPECT_EQ(names.names, std::vector<std::string>{"MPI_Allreduce"});
  EXPECT_GT(live.header().latest.ticks, live.header().begin.ticks);
}

/// Over many chunks of the log: every record once, in order, and no more room than a ring.
TEST_F(LiveFileTest, FollowsTheLogFromChunkToChunk) {
  constexpr uint32_t kCalls = 60'000;
  record([] {
    for (uint32_t i = 1; i <= kCalls; ++i) call(kOp, 8, i, true);
    write_clock();
  });
  const SpoolReader live(file(".live").string());
  const Seen seen = look(live);
  EXPECT_EQ(seen.written, kCalls);
  EXPECT_EQ(seen.missed, 0u);
  ASSERT_GT(seen.sequences.size(), 6000u);
  for (size_t i = 0; i < seen.sequences.size(); ++i)
    ASSERT_EQ(seen.sequences[i], kCalls - seen.sequences.size() + i + 1);
  EXPECT_LT(live.file_bytes(), 512u * 1024);
}

/// What the log does not keep goes to the ring; what that had lost by then is counted.
TEST_F(LiveFileTest, FollowsTheRingToo) {
  options_.has_steps = true;  // none is marked: nothing is kept
  options_.last_step = 0;
  record([] {
    for (uint32_t i = 1; i <= 500; ++i) call(kOp, 8, i, true);
    write_clock();
    for (uint32_t i = 501; i <= 5500; ++i) call(kOp, 8, i, true);
    write_clock();
  });
  const Seen seen = look(SpoolReader(file(".live").string()));
  ASSERT_FALSE(seen.sequences.empty());
  EXPECT_EQ(seen.sequences.front(), 1u);
  EXPECT_EQ(seen.sequences.back(), 5500u);
  EXPECT_EQ(seen.written + seen.missed, 5500u);
  EXPECT_GT(seen.missed, 3000u);
}

TEST_F(LiveFileTest, ShowsACallThatHasNotReturned) {
  record([] {
    call(kOp, 8, 1, true);
    begin_call(kOp + 1, kSiteB, 3, true, 42, 2, record_payload(77, 0, 0));
    write_clock();
  });
  const Seen seen = look(SpoolReader(file(".live").string()));
  EXPECT_EQ(seen.sequences, std::vector<uint32_t>{1});
  ASSERT_EQ(seen.open.size(), 1u);
  EXPECT_EQ(seen.open[0].record.sequence, 42u);
  EXPECT_EQ(seen.written, 2u);
}

TEST_F(LiveFileTest, ACallThatHasReturnedTakesThePlaceOfTheOpenOne) {
  record([] {
    const OpenCall open = begin_call(kOp, kSiteB, 3, true, 42, 2, record_payload(77, 0, 0));
    write_clock();
    end_call(open, record_payload(77, 0, 0));
    call(kOp, 8, 43, true);
    write_clock();
  });
  const Seen seen = look(SpoolReader(file(".live").string()));
  EXPECT_EQ(seen.sequences, (std::vector<uint32_t>{42, 43}));
  EXPECT_TRUE(seen.open.empty());
}

TEST_F(LiveFileTest, NoRoomEndsItAndNothingElse) {
  constexpr uint32_t kCalls = 3000;
  record([] {
    call(kOp, 8, 1, true);
    rlimit limit = {8192, RLIM_INFINITY};  // SIGXFSZ would kill this process
    setrlimit(RLIMIT_FSIZE, &limit);
    write_clock();
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    for (uint32_t i = 2; i <= kCalls; ++i) call(kOp, 8, i, true);
    write_clock();
  });
  EXPECT_EQ(records(SpoolReader(file(".spool").string())).size(), kCalls);
  EXPECT_TRUE(look(SpoolReader(file(".live").string())).sequences.empty());
}

/// Opening a FIFO for writing waits for a reader, and this is the job's thread.
TEST_F(LiveFileTest, AFifoInItsPlaceEndsItAndNothingElse) {
  record([&] {
    alarm(20);  // does not return if it waits
    call(kOp, 8, 1, true);
    write_clock();
    const fs::path live = file(".live");
    if (unlink(live.c_str()) != 0 || mkfifo(live.c_str(), 0600) != 0) _exit(99);
    for (uint32_t i = 2; i <= 100; ++i) call(kOp, 8, i, true);
    write_clock();
  });
  EXPECT_EQ(records(SpoolReader(file(".spool").string())).size(), 100u);
}

TEST_F(LiveFileTest, ThereIsNoneOnALocalDisk) {
  setenv("DDL_TEST_LOCAL_DISK", "1", 1);
  record([] {
    call(kOp, 8, 1, true);
    write_clock();
  });
  unsetenv("DDL_TEST_LOCAL_DISK");
  EXPECT_EQ(file(".live"), fs::path());
  EXPECT_NE(file(".spool"), fs::path());
}

/// A child of fork() has nothing to write, least of all into its parent's file.
TEST_F(LiveFileTest, AForkedChildLeavesItAlone) {
  record([] {
    call(kOp, 8, 1, true);
    write_clock();
    const pid_t child = fork();
    if (child == 0) {
      forget_after_fork();
      write_clock();
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    call(kOp, 8, 2, true);
    write_clock();
  });
  EXPECT_EQ(look(SpoolReader(file(".live").string())).sequences, (std::vector<uint32_t>{1, 2}));
}

}  // namespace
}  // namespace ddl
