// What recording is said to cost, and what is cut when it costs too much: on a clock that only moves when
// it is read or told to.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include <set>

#include "tests/core/recorder_fixture.h"

namespace {

constexpr uint64_t kReadNs = 50;  ///< what a look at the clock takes
bool g_synthetic = false;
uint64_t g_now_ns = 1000000000;

void pass(uint64_t ns) { g_now_ns += ns; }

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  if (!g_synthetic || clock != CLOCK_MONOTONIC) return static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  g_now_ns += kReadNs;
  *now = {static_cast<time_t>(g_now_ns / 1000000000), static_cast<long>(g_now_ns % 1000000000)};
  return 0;
}

namespace ddl {
namespace {

// A call reads the clock twice and does nothing else that takes time here, so these are the prices that the recorder
// must find. Cold it takes no longer; the two reads around the measurement make it seem a little more.
constexpr double kCallNs = 2 * kReadNs * (129.0 / 128);
constexpr double kColdCallNs = 3 * kReadNs;

class BudgetTest : public RecorderTest {
 protected:
  void SetUp() override {
    RecorderTest::SetUp();
    options_.clock = "monotonic";
    options_.budget = 0.01;
  }

  /// As record(), on the synthetic clock; the accounts are settled at the end, as at a process's exit.
  void record_synthetic(const std::function<void()>& job) {
    g_synthetic = true;
    record([&] {
      job();
      write_clock();
    });
    g_synthetic = false;
  }

  static void collectives(uint32_t count, uint64_t gap_ns) {
    for (uint32_t i = 1; i <= count; ++i) {
      pass(gap_ns);
      call(kOp, 4, i, true);
    }
  }

  /// By this thread, of a processor.
  static double used_ns() {
    timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return 1e9 * static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec);
  }

  static std::set<uint32_t> sequences(const SpoolReader& reader) {
    std::set<uint32_t> kept;
    for (const Record& r : records(reader)) kept.insert(r.sequence);
    return kept;
  }
};

TEST_F(BudgetTest, SaysWhatKnownCallsCost) {
  for (const uint64_t gap_ns : {uint64_t{1000}, uint64_t{20000}, uint64_t{1000000}}) {
    constexpr uint32_t kCalls = 200000;
    options_.budget = 0;
    record_synthetic([&] { collectives(kCalls, gap_ns); });
    const double away = std::min(1.0, static_cast<double>(gap_ns + 2 * kReadNs) / 200000);
    const double expected = kCalls * (kCallNs + (kColdCallNs - kCallNs) * away);
    const double found = static_cast<double>(spool().header().overhead_ticks);
    // Beside the calls: the start (prices are found), the chunks and the clock pairs.
    EXPECT_GT(found, expected);
    EXPECT_LT(found, 1.01 * expected) << gap_ns;
    fs::remove_all(directory_);
  }
}

TEST_F(BudgetTest, CoarsensUntilTheLogCostsNoMoreThanItMay) {
  constexpr uint32_t kCalls = 4000000;
  // 17 % of the time to record all, 1.05 % for every 16th, 0.5 % for every 32nd
  record_synthetic([] { collectives(kCalls, 500); });
  const SpoolReader reader = spool();
  EXPECT_EQ(reader.header().keep_level, 5u);
  EXPECT_EQ(profiled_calls(reader, kOp), kCalls);
  const std::set<uint32_t> kept = sequences(reader);
  const double elapsed_ns = kCalls * (500 + 2 * kReadNs);
  EXPECT_LT(static_cast<double>(kept.size()) * kCallNs, 0.01 * elapsed_ns + 0.01 * 1e9 + 7000 * kCallNs);
  EXPECT_GT(*kept.rbegin(), kCalls - 64 * 32);
  for (const uint32_t sequence : kept) {
    if (sequence > kCalls / 2) {
      ASSERT_EQ(sequence / 64 % 32, 0u);
    }
  }
}

TEST_F(BudgetTest, LeavesAnOrdinaryTrainingJobAlone) {
  record_synthetic([] { collectives(300000, 100000); });  // ten thousand a second, for half a minute
  EXPECT_EQ(spool().header().keep_level, 0u);
  EXPECT_EQ(sequences(spool()).size(), 300000u);
}

TEST_F(BudgetTest, ABurstIsPaidFromWhatWasSavedUp) {
  record_synthetic([] {
    for (uint32_t burst = 0; burst < 5; ++burst) {
      for (uint32_t i = 1; i <= 50000; ++i) {  // 5 ms for us in 10 ms
        pass(100);
        call(kOp, 4, 50000 * burst + i, true);
      }
      pass(1000000000);
    }
  });
  EXPECT_EQ(spool().header().keep_level, 0u);
}

TEST_F(BudgetTest, RanksThatThinOutDifferentlyKeepCollectivesInCommon) {
  record_synthetic([] { collectives(2000000, 500); });
  const uint32_t fast_level = spool().header().keep_level;
  const std::set<uint32_t> fast = sequences(spool());
  fs::remove_all(directory_);
  record_synthetic([] { collectives(2000000, 2000); });
  const uint32_t slow_level = spool().header().keep_level;
  const std::set<uint32_t> slow = sequences(spool());
  ASSERT_GT(fast_level, slow_level);
  ASSERT_GT(slow_level, 0u);
  uint64_t late = 0;
  for (const uint32_t sequence : fast) {
    if (sequence < 1000000) continue;
    ++late;
    ASSERT_TRUE(slow.count(sequence)) << sequence;
  }
  EXPECT_GT(late, 10000u);
}

TEST_F(BudgetTest, PollsBeyondTheBudgetAreCountedAndTheirTimeIsSampled) {
  constexpr uint64_t kPolls = 20000000, kPollNs = 150;
  record_synthetic([] {
    push_range(2, "waiting", 0);
    for (uint64_t i = 0; i < kPolls; ++i) {
      pass(20);
      const OpenPoll poll = begin_poll();
      pass(kPollNs - (poll.start_ticks ? kReadNs : 0));  // the same time whether or not anybody looks at the clock
      end_poll(poll, kOp, kSiteA, 0, -1, i == kPolls - 1);
    }
    pop_range(2);
  });
  const SpoolReader reader = spool();
  const std::vector<ProfileEntry> entries = profile(reader);
  ASSERT_EQ(entries.size(), 2u);
  for (const ProfileEntry& e : entries) {
    if (e.op == kOp) {
      const uint64_t timed = timed_calls(e);
      EXPECT_EQ(all_calls(e), kPolls);
      EXPECT_LT(timed, kPolls / 20);
      EXPECT_EQ(e.ticks, timed * kPollNs);
      EXPECT_EQ(e.min_ticks, kPollNs);
      EXPECT_EQ(e.max_ticks, kPollNs);
    } else {
      EXPECT_NEAR(static_cast<double>(e.bytes), static_cast<double>(kPolls * kPollNs),
                  0.02 * static_cast<double>(kPolls * kPollNs));
    }
  }
  std::vector<uint64_t> found;
  for (const Record& r : records(reader)) {
    if (record_kind(r.word) == RecordKind::kCall) found.push_back(record_duration_ticks(r.word));
  }
  EXPECT_EQ(found.size(), 1u);
}

TEST_F(BudgetTest, WithoutABudgetNothingIsCut) {
  options_.budget = 0;
  record_synthetic([] {
    collectives(500000, 100);
    for (int i = 0; i < 1000000; ++i) end_poll(begin_poll(), kOp + 1, kSiteA, 0, -1, false);
  });
  const SpoolReader reader = spool();
  EXPECT_EQ(reader.header().keep_level, 0u);
  for (const ProfileEntry& e : profile(reader)) EXPECT_EQ(e.untimed_calls, 0U);
}

TEST_F(BudgetTest, OnARealClockAPriceIsFound) {
  options_.clock = nullptr;
  void* const shared = mmap(nullptr, sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  double& calls_ns = *static_cast<double*>(shared);
  record([&] {
    const double before = used_ns();
    collectives(200000, 0);
    calls_ns = used_ns() - before;
    write_clock();
  });
  const SpoolReader reader = spool();
  const FileHeader& h = reader.header();
  const double ticks = static_cast<double>(h.latest.ticks - h.begin.ticks);
  const double ticks_per_ns = ticks / static_cast<double>(h.latest.monotonic_ns - h.begin.monotonic_ns);
  // What these calls took the processor is ours, and recording makes up most of it: nine tenths where nothing else
  // runs. While others run they may take ten times as long by the clock, and what we do between two calls, which is
  // timed by the clock, may take as long as all of it.
  const double found = static_cast<double>(h.overhead_ticks);
  EXPECT_GT(found, calls_ns * ticks_per_ns / 5);
  EXPECT_LT(found, 2 * ticks);
  munmap(shared, sizeof(double));
}

}  // namespace
}  // namespace ddl
