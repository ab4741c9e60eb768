// What recording costs this process, as an estimate that costs next to nothing itself, and what is done when that is
// more than the budget.
//
// A call is not timed to find out what its recording took: that would double it. Instead the price of a call is
// measured once, at the start, on a thread state of nobody's: hot, many times in a row, and cold, with every line that
// it touches flushed. What is done rarely (a chunk, a pair of clocks, a thread's first call, the start itself) is timed
// each time it is done. A thread settles its account when a chunk or its ring is full, with the clocks, every 65,536
// polls and at its end: calls since the last time, at a price between hot and cold by how long the thread was away from
// us between two of them on average (kColdAfterNs).
//
// The price is that of begin_call(); what a thread repeats costs a little less (repeated_call.h).
//
// Not covered: the wrappers' part of a call (which communicator, datatype, request this is), what our cache lines
// displace of the program's, and disk writes that the kernel does later.
//
// The budget is a share of a thread's time. Two things are cut when it is exceeded:
//   events  The log is allowed what has been saved up, at most a second's worth. A thread that has used that up when
//           its chunk is full coarsens the window (keep_level): see update_keep() in recorder.cpp. The profile goes on,
//           at its own price.
//   polls   Fewer of the polls that find nothing are timed, every 2nd, 4th ... 64th; all are counted. Taken back
//           when they get rarer.
#include <string.h>
#include <sys/mman.h>

#include "core/recorder_internal.h"

namespace ddl {

namespace {

constexpr double kColdAfterNs = 200000;  ///< time enough to replace a few megabytes of cache
constexpr double kSavedUpNs = 1e9;
constexpr uint32_t kMaxPollMask = 63;
/// where lines cannot be flushed: a call from cold caches takes 10 to 20 times one from hot ones
constexpr double kColdToHot = 15;

struct Prices {
  double hot_call, cold_call;  // ticks
  double timed_poll, counted_poll;
};
Prices g_price;
double g_ticks_per_ns;
double g_budget;  // 0: no limit

/// A thread state that nobody has, with room for records that nobody reads.
struct Scratch {
  static constexpr int kRecords = 64;
  Thread thread;
  Record records[kRecords];
  ProfileEntry entry;
};

const char kNowhere[1] = {};
constexpr uint32_t kNoOp = 0xfff;

void rewind(Scratch& scratch) {
  scratch.thread.log_next = scratch.records;
  scratch.thread.log_end = scratch.records + Scratch::kRecords;
}

__attribute__((noinline)) void one_call() {
  const OpenCall call = begin_call(kNoOp, kNowhere, 1, true, 1, -1, 0);
  end_call(call, 0);
}

__attribute__((noinline)) void one_poll() { end_poll(begin_poll(), kNoOp, kNowhere, 1, -1, false); }

double hot_price(Scratch& scratch, void (*once)()) {
  uint64_t least = UINT64_MAX;
  for (int round = 0; round < 8; ++round) {
    rewind(scratch);
    const uint64_t begin = ticks();
    for (int i = 0; i < Scratch::kRecords; ++i) once();
    const uint64_t taken = ticks() - begin;
    if (taken < least) least = taken;
  }
  return static_cast<double>(least) / Scratch::kRecords;
}

#if defined(__x86_64__)
void flush(const void* begin, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 64) __builtin_ia32_clflush(static_cast<const char*>(begin) + at);
}

/// The middle one of nine.
double cold_price(Scratch& scratch) {
  constexpr int kTimes = 9;
  constexpr size_t kCodeBytes = 1024;
  uint64_t sorted[kTimes];
  for (int i = 0; i < kTimes; ++i) {
    rewind(scratch);
    flush(&scratch, sizeof scratch);
    flush(&g_process, 64);
    flush(reinterpret_cast<const void*>(&one_call), kCodeBytes);
    __builtin_ia32_mfence();
    const uint64_t begin = ticks();
    one_call();
    const uint64_t taken = ticks() - begin;
    int at = i;
    for (; at > 0 && sorted[at - 1] > taken; --at) sorted[at] = sorted[at - 1];
    sorted[at] = taken;
  }
  return static_cast<double>(sorted[kTimes / 2]);
}
#endif

double least_of(double a, double b) { return a < b ? a : b; }

double savings_limit() { return g_budget * kSavedUpNs * g_ticks_per_ns; }

void add_overhead(uint64_t ticks) {
  if (FileHeader* header = internal::g_file.header())
    __atomic_fetch_add(&header->overhead_ticks, ticks, __ATOMIC_RELAXED);
}

}  // namespace

namespace internal {

void set_budget(double budget, double ticks_per_ns) {
  g_budget = budget;
  g_ticks_per_ns = ticks_per_ns;
  Scratch* scratch = static_cast<Scratch*>(take_pages(sizeof(Scratch)));
  if (!scratch) return;
  Thread* const own = t_thread;
  const Keep keep = g_process.keep;
  const uint64_t refresh_at_ticks = g_process.refresh_at_ticks;
  g_process.keep = Keep::kAll;
  g_process.refresh_at_ticks = UINT64_MAX;
  t_thread = &scratch->thread;
  *call_slot_of(t_thread, kNowhere, {}) = {caller_of(kNowhere, kNoOp), {}, 0, 1, 0, &scratch->entry, 0, 0};
  g_price.hot_call = g_price.cold_call = hot_price(*scratch, one_call);
  g_price.timed_poll = hot_price(*scratch, one_poll);
  scratch->thread.poll_mask = UINT32_MAX;
  g_price.counted_poll = least_of(hot_price(*scratch, one_poll), g_price.timed_poll);
#if defined(__x86_64__)
  const double cold = cold_price(*scratch);
#else
  const double cold = kColdToHot * g_price.hot_call;
#endif
  if (cold > g_price.hot_call) g_price.cold_call = cold;
  t_thread = own;
  g_process.keep = keep;
  g_process.refresh_at_ticks = refresh_at_ticks;
  munmap(scratch, sizeof *scratch);
}

OwnTime::~OwnTime() {
  const uint64_t taken = ticks() - begin_;
  add_overhead(taken);
  if (payer_) payer_->saved_up -= static_cast<double>(taken);
}

void open_account(Thread* thread) {
  thread->settled_at = ticks();
  thread->saved_up = savings_limit();
}

bool over_budget(Thread* thread) {
  if (g_budget == 0 || thread->saved_up >= 0) return false;
  thread->saved_up = 0;
  return true;
}

}  // namespace internal

void settle_account(Thread* thread, uint64_t now) {
  const uint64_t logged = thread->log_before + static_cast<uint64_t>(thread->log_next - thread->log_begin);
  uint64_t in_ring = thread->ring_chunk->ring_written;
  if (in_ring < thread->settled_ring) in_ring = thread->settled_ring;  // its page was lost
  const double log_records = static_cast<double>(logged - thread->settled_log);
  const double records = log_records + static_cast<double>(in_ring - thread->settled_ring);
  const double polls = static_cast<double>(thread->polls - thread->settled_polls);
  if (records + polls == 0 || now <= thread->settled_at) return;
  const double elapsed = static_cast<double>(now - thread->settled_at);
  thread->settled_log = logged;
  thread->settled_ring = in_ring;
  thread->settled_polls = thread->polls;
  thread->settled_at = now;

  const double away = elapsed / (records + polls) / (kColdAfterNs * g_ticks_per_ns);
  const double coldness = (g_price.cold_call - g_price.hot_call) * least_of(away, 1);
  const double timing = (g_price.timed_poll - g_price.counted_poll) * polls / (thread->poll_mask + 1.0);
  add_overhead(static_cast<uint64_t>(records * (g_price.hot_call + coldness) +
                                     polls * (g_price.counted_poll + coldness) + timing));
  if (g_budget == 0) return;
  const double earned = g_budget * elapsed;
  thread->saved_up = least_of(thread->saved_up + earned, savings_limit()) - log_records * (g_price.hot_call + coldness);
  if (timing > earned && thread->poll_mask < kMaxPollMask) thread->poll_mask = 2 * thread->poll_mask + 1;
  if (timing < earned / 4) thread->poll_mask /= 2;
}

}  // namespace ddl
