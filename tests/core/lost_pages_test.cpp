// SIGBUS under a recorder: about a page of the spool, and not.
#include "core/lost_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <csetjmp>
#include <csignal>
#include <cstring>

#include "tests/core/recorder_fixture.h"

namespace ddl {
namespace {

class LostPages : public RecorderTest {
 protected:
  /// Sanitizers take it as well.
  void SetUp() override {
    signal(SIGBUS, SIG_DFL);
    RecorderTest::SetUp();
  }

  void truncate_spool(off_t bytes) {
    for (const auto& entry : fs::directory_iterator(directory_)) ASSERT_EQ(truncate(entry.path().c_str(), bytes), 0);
  }

  /// A page of a file of the job's own that is empty. At `where`, if that is given.
  char* lost_page_of_the_job(void* where = nullptr) {
    const int fd = open((folder_ / "own").c_str(), O_RDWR | O_CREAT, 0600);
    void* page = mmap(where, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | (where ? MAP_FIXED : 0), fd, 0);
    close(fd);
    return static_cast<char*>(page);
  }

  static void dump_no_core() {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
  }
};

void calls(uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) end_call(begin_call(kOp, kSiteA, 0, true, i + 1, -1, 8), 8);
}

TEST_F(LostPages, OfATruncatedSpoolDoNotEndTheJob) {
  record([&] {
    calls(1000);
    truncate_spool(kPageBytes);  // the header stays
    calls(20000);
    if (lost_pages() == 0) _exit(1);
    write_clock();
  });
  const SpoolReader reader = spool();
  EXPECT_GT(reader.header().loss[kLossPages], 0u);
  std::vector<Record> kept, some;
  for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kEvents)) {
    reader.read_records(chunk, some, nullptr);
    kept.insert(kept.end(), some.begin(), some.end());
  }
  ASSERT_GT(kept.size(), 10000u) << "what was recorded into chunks that came later";
  EXPECT_EQ(kept.back().sequence, 20000u);
}

TEST_F(LostPages, OfAnEmptySpoolDoNotEndTheJob) {
  record([&] {
    calls(1000);
    truncate_spool(0);
    calls(20000);
    write_clock();
    if (lost_pages() < 2) _exit(1);
  });
}

TEST_F(LostPages, WhatIsTheJobsOwnEndsIt) {
  record(
      [&] {
        dump_no_core();
        calls(10);
        *lost_page_of_the_job() = 1;
      },
      SIGBUS);
}

TEST_F(LostPages, OfTheHeaderAreAsTheyWere) {
  record([&] {
    calls(5000);
    write_clock();
    const FileHeader before = *spool_header();
    truncate_spool(0);
    const FileHeader after = *spool_header();
    if (lost_pages() != 1 || after.begin.ticks != before.begin.ticks || after.log_bytes != before.log_bytes ||
        before.log_bytes == 0)
      _exit(1);
  });
}

sigjmp_buf g_back;
siginfo_t g_told;
bool g_in_force;
void on_signal(int signal, siginfo_t* info, void*) {
  g_told = *info;
  struct sigaction now;
  sigaction(signal, nullptr, &now);
  g_in_force = now.sa_sigaction == on_signal;
  siglongjmp(g_back, 1);
}

TEST_F(LostPages, WhatIsTheJobsOwnGoesToItsHandler) {
  record([&] {
    calls(1000);
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, nullptr);
    guard_against_lost_pages();  // as after MPI_Init, in which Open MPI takes the signal
    char* page = lost_page_of_the_job();
    if (sigsetjmp(g_back, 1) == 0) {
      *page = 1;
      _exit(1);
    }
    if (g_told.si_addr != page || g_told.si_code != BUS_ADRERR || !g_in_force) _exit(2);
    guard_against_lost_pages();
    if (sigsetjmp(g_back, 1) == 0) {
      raise(SIGBUS);
      _exit(3);
    }
    if (g_told.si_code != SI_TKILL || g_told.si_pid != getpid() || !g_in_force) _exit(4);
    guard_against_lost_pages();
    truncate_spool(0);  // and ours stay ours
    calls(20000);
    if (lost_pages() == 0) _exit(5);
  });
}

struct sigaction g_chained;
void chain(int signal, siginfo_t* info, void* context) { g_chained.sa_sigaction(signal, info, context); }

TEST_F(LostPages, AHandlerThatCallsTheOneBeforeItComesToAnEnd) {
  record(
      [&] {
        dump_no_core();
        struct sigaction action = {};
        action.sa_sigaction = chain;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGBUS, &action, &g_chained);  // ours
        guard_against_lost_pages();
        *lost_page_of_the_job() = 1;
      },
      SIGBUS);
}

TEST_F(LostPages, MissingRecordsAreTold) {
  record([&] {
    calls(1000);
    // The second page of records, as if it had been lost and written to the disk before.
    memset(reinterpret_cast<char*>(this_thread()->log_chunk) + kPageBytes, 0, kPageBytes);
  });
  const SpoolReader reader = spool();
  std::vector<Record> some;
  std::vector<Skip> skips;
  reader.read_records(reader.chunks(ChunkKind::kEvents)[0], some, &skips);
  ASSERT_EQ(skips.size(), 2u);
  EXPECT_EQ(skips[0].reason, "missing records");
  EXPECT_EQ(skips[0].bytes, 102 * sizeof(Record));  // whose word lies in that page
  EXPECT_EQ(skips[1].reason, "damaged records");
  EXPECT_EQ(skips[1].bytes, sizeof(Record));  // that begins in it
}

TEST_F(LostPages, AForkedChildHasNoneOfThem) {
  record([&] {
    dump_no_core();
    calls(10);
    void* guarded = this_thread()->ring_chunk;
    const pid_t child = fork();
    if (child == 0) {
      *lost_page_of_the_job(guarded) = 1;
      _exit(0);
    }
    int ended = 0;
    waitpid(child, &ended, 0);
    if (!WIFSIGNALED(ended) || WTERMSIG(ended) != SIGBUS) _exit(1);
  });
}

}  // namespace
}  // namespace ddl
