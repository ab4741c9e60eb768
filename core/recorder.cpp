#include "core/recorder.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/recorder_internal.h"

extern "C" int __cxa_thread_atexit_impl(void (*)(void*), void*, void*);
extern "C" void* __dso_handle;

namespace ddl {

Process g_process = {};
__thread Thread* t_thread __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

__thread bool t_refused __attribute__((tls_model("initial-exec"))) = false;

RecorderOptions g_options;
Thread* g_threads = nullptr;
uint64_t g_long_way = kLongWay;  // of all threads. Guarded by the lock
Thread* g_free_threads = nullptr;
uint32_t g_thread_count = 0;
uint64_t g_after_ticks, g_until_ticks;  // 0: no such bound
uint64_t g_second_ticks = 1000000000;
bool g_log_full = false;             // the cap is reached
uint64_t g_growth_failed_ticks = 0;  // when the spool could not grow; 0: it could, the last time

// The current step. Written by the thread that opens steps, read by all.
bool g_steps_seen = false;
bool g_step_open = false;
bool g_keep_step = true;
uint32_t g_step_thread = 0;  // its tid

constexpr uint32_t kRingBytes = kMinChunkBytes;
constexpr uint32_t kFirstProfileEntries = 256;
// what reserve() in spool_file.cpp writes, and the page cache holds, in one piece
constexpr uint32_t kMaxLogChunkBytes = 1024 * 1024;
// jobs without steps are thinned by blocks of this many collectives
constexpr uint32_t kSequencesPerUnit = 64;
constexpr uint32_t kMaxKeepLevel = 30;
constexpr uint64_t kSlices = 32;
constexpr size_t kMaxThreadName = 255;
constexpr uint64_t kRefreshTicks = 2000000000;  // 0.5 to 1 s of TSC, 2 s of CLOCK_MONOTONIC

template <class T>
T relaxed(const T& value) {
  return __atomic_load_n(&value, __ATOMIC_RELAXED);
}
template <class T>
void store_relaxed(T& value, T to) {
  __atomic_store_n(&value, to, __ATOMIC_RELAXED);
}

bool unit_kept(uint64_t unit) {
  const uint32_t level = relaxed(internal::g_file.header()->keep_level);
  return (unit & ((1ull << level) - 1)) == 0;
}

/// What holds for every event until the log, the step or the level changes.
Keep what_is_kept() {
  if (relaxed(g_log_full)) return Keep::kNone;
  if (g_after_ticks || g_until_ticks) return Keep::kAsk;
  if (relaxed(g_steps_seen) || g_options.has_steps) {
    const bool kept = relaxed(g_step_open) ? relaxed(g_keep_step) : !g_options.has_steps && unit_kept(1);
    return kept ? Keep::kAll : Keep::kNone;
  }
  return unit_kept(1) ? Keep::kAll : Keep::kAsk;
}

/// To be called after each such change. Two threads may do so at once: whoever stores last looks again.
void update_keep() {
  Keep kept;
  do {
    kept = what_is_kept();
    __atomic_store(&g_process.keep, &kept, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
  } while (kept != what_is_kept());
}

/// Records start behind the header, at a multiple of 8.
Record* first_record(ChunkHeader* chunk) { return reinterpret_cast<Record*>(chunk + 1); }
constexpr uint32_t record_count(uint32_t chunk_bytes) {
  return (chunk_bytes - static_cast<uint32_t>(sizeof(ChunkHeader))) / static_cast<uint32_t>(sizeof(Record));
}

/// Half as much from now on. The caller holds the lock.
void coarsen() {
  FileHeader* header = internal::g_file.header();
  if (header->keep_level < kMaxKeepLevel) store_relaxed(header->keep_level, header->keep_level + 1);
  update_keep();
}

bool add_log_chunk(Thread* thread) {
  uint32_t bytes = thread->log_chunk_bytes;
  ChunkHeader* chunk = internal::grow_log(ChunkKind::kEvents, &bytes, thread->index);
  if (!chunk) {  // maybe later, and a small one
    if (!relaxed(g_log_full)) thread->log_chunk_bytes = kMinChunkBytes;
    return false;
  }
  if (thread->log_chunk) internal::publish_before_unmap(thread);
  if (thread->log_begin) thread->log_before += static_cast<uint64_t>(thread->log_next - thread->log_begin);
  // The old chunk may hold the open record of an enclosing call; then it stays mapped for good (rare: events
  // inside an MPI call).
  if (thread->log_chunk && !is_in_call(thread)) SpoolFile::unmap(thread->log_chunk);
  thread->log_chunk = chunk;
  thread->log_begin = thread->log_next = first_record(chunk);
  thread->log_end = thread->log_next + record_count(bytes);
  thread->log_chunk_bytes = internal::next_log_chunk_bytes(thread->log_chunk_bytes);
  return true;
}

/// The caller holds the lock.
void describe_thread(const Thread* thread, const char* name) {
  const ThreadMeta meta = {thread->index, thread->tid, static_cast<uint32_t>(strnlen(name, kMaxThreadName)), 0};
  const internal::Bytes parts[] = {{&meta, sizeof meta}, {name, meta.name_length}};
  internal::write_meta(MetaKind::kThread, parts, 2);
}

uint32_t own_tid() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

Thread* new_thread() {
  Thread* thread = static_cast<Thread*>(take_pages(sizeof(Thread)));
  if (!thread) return nullptr;
  thread->index = g_thread_count;
  thread->call = g_long_way;
  thread->log_chunk_bytes = kMinChunkBytes;
  uint32_t ring_bytes = kRingBytes;
  if (internal::add_profile_table(thread, kFirstProfileEntries))
    thread->ring_chunk = internal::grow_spool(ChunkKind::kRing, &ring_bytes, thread->index);
  if (!thread->ring_chunk) {
    internal::drop_profile(thread);
    give_back_pages(thread, sizeof(Thread));
    return nullptr;
  }
  thread->ring_begin = thread->ring_next = first_record(thread->ring_chunk);
  thread->ring_end = thread->ring_begin + record_count(kRingBytes);
  add_log_chunk(thread);  // without one the ring takes everything
  internal::open_account(thread);
  thread->next = g_threads;
  g_threads = thread;
  ++g_thread_count;
  return thread;
}

void release_thread(void* pointer) {
  Thread* thread = static_cast<Thread*>(pointer);
  if (t_thread != thread || !g_process.active) return;  // a forked child: it is not ours
  settle_account(thread, ticks());
  internal::forget_counters(thread);
  t_thread = nullptr;
  const Lock lock;
  if (!lock) return;
  leave_all_calls(thread);
  thread->range_depth = thread->tid = 0;
  memset(thread->owner_depth, 0, sizeof thread->owner_depth);
  thread->hooked_step = {};
  memset(thread->owner_overflow, 0, sizeof thread->owner_overflow);
  thread->context = 0;
  thread->nccl_call = {};
  memset(thread->names, 0, sizeof thread->names);  // the next user's pointers mean other texts
  thread->next_free = g_free_threads;
  g_free_threads = thread;
}

/// Time since its construction, but for what the caller had no CPU in, if it was told to make room: ranks that
/// start together on few cores take turns, which is no cost of recording. Blocked in a system call (a slow file
/// system) it counts.
class StartTime {
 public:
  StartTime() : begin_(ticks()) { getrusage(RUSAGE_THREAD, &usage_); }
  uint64_t taken(double ticks_per_ns) const {
    const uint64_t elapsed = ticks() - begin_;
    rusage now = {};
    if (getrusage(RUSAGE_THREAD, &now) != 0 || now.ru_nivcsw == usage_.ru_nivcsw) return elapsed;
    const auto on_cpu =
        static_cast<uint64_t>(static_cast<double>(microseconds(now) - microseconds(usage_)) * 1000 * ticks_per_ns);
    return on_cpu < elapsed ? on_cpu : elapsed;  // ticks may be those of a clock that a test moves
  }

 private:
  static int64_t microseconds(const rusage& u) {
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * int64_t{1000000} + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
  }

  uint64_t begin_;
  rusage usage_ = {};
};

}  // namespace

const char* activate(const RecorderOptions& options, int* error) {
  const Lock lock;
  if (!lock || g_process.active) return nullptr;
  g_options = options;
  if (g_options.cap_bytes < 4 * kMinChunkBytes) g_options.cap_bytes = 4 * kMinChunkBytes;
  const ClockKind clock = choose_clock(options.clock);
  const StartTime start;
  internal::reset_meta();
  internal::reset_contexts();
  internal::reset_device();
  internal::reset_started_ranges();
  if (!internal::g_file.create(options.directory, clock)) {
    *error = internal::g_file.error();
    return internal::g_file.why();
  }
  FileHeader* header = internal::g_file.header();
  header->world_key = options.world_key;
  header->launch_rank = options.launch_rank;
  header->launch_size = options.launch_size;
  g_threads = g_free_threads = nullptr;
  g_long_way = kLongWay;
  g_thread_count = 0;
  g_log_full = false;
  g_growth_failed_ticks = 0;
  g_steps_seen = g_step_open = false;
  g_step_thread = 0;
  g_keep_step = !options.has_steps;
  const double ticks_per_ns = clock == ClockKind::kMonotonic ? 1.0 : estimate_ticks_per_ns();
  const uint64_t begin = header->begin.ticks;
  g_after_ticks =
      options.after_ns ? begin + static_cast<uint64_t>(static_cast<double>(options.after_ns) * ticks_per_ns) : 0;
  g_until_ticks =
      options.for_ns
          ? begin + static_cast<uint64_t>(static_cast<double>(options.after_ns + options.for_ns) * ticks_per_ns)
          : 0;
  g_second_ticks = static_cast<uint64_t>(1e9 * ticks_per_ns);
  internal::set_budget(options.budget, ticks_per_ns);
  g_process.refresh_ticks = kRefreshTicks;
  internal::reset_clocks(begin + kRefreshTicks);
  update_keep();
  const int saved_errno = errno;
  madvise(&g_process, sizeof g_process, MADV_WIPEONFORK);
  errno = saved_errno;
  header->overhead_ticks = start.taken(ticks_per_ns);
  internal::begin_live();
  __atomic_store_n(&g_process.active, true, __ATOMIC_RELEASE);
  return nullptr;
}

void forget_after_fork() {
  g_process.active = false;
  t_thread = nullptr;
  internal::g_file.forget();
  internal::g_live.end();
  Lock::reset();
}

uint64_t second_ticks() { return g_second_ticks; }

FileHeader* spool_header() { return internal::g_file.header(); }

Thread* attach_thread() {
  if (!g_process.active || (t_refused && !internal::may_grow())) return nullptr;
  const int saved_errno = errno;
  Thread* thread = nullptr;
  {
    const internal::OwnTime own_time;
    const Lock lock;
    if (!lock) return nullptr;
    // The first thread, which may come late, is found by its id, with what it did: not in the place of one that has
    // ended.
    thread = own_tid() == static_cast<uint32_t>(getpid()) ? nullptr : g_free_threads;
    if (thread) {
      g_free_threads = thread->next_free;
      thread->settled_at = ticks();
    } else {
      thread = new_thread();
    }
    if (thread) {
      char name[17] = {};
      prctl(PR_GET_NAME, name);
      thread->tid = own_tid();
      describe_thread(thread, name);
    } else if (!t_refused) {
      t_refused = true;
      count_loss(kLossThreads);
    }
  }
  t_thread = thread;
  if (thread) __cxa_thread_atexit_impl(release_thread, thread, &__dso_handle);
  errno = saved_errno;
  return thread;
}

uint64_t ticks_in_calls(uint32_t tid) {
  const Lock lock;
  const Thread* thread = lock ? g_threads : nullptr;
  while (thread && thread->tid != tid) thread = thread->next;
  return thread ? relaxed(thread->call_ticks) - relaxed(thread->told_ticks) : 0;
}

uint32_t step_thread() { return relaxed(g_step_thread); }

void allow_short_way(bool allowed) {
  const Lock lock;
  if (!lock) return;
  g_long_way = allowed && g_clock_is_tsc ? 0 : kLongWay;
  for (Thread* thread = g_threads; thread; thread = thread->next) {
    g_long_way ? __atomic_fetch_or(&thread->call, kLongWay, __ATOMIC_RELAXED)
               : __atomic_fetch_and(&thread->call, ~kLongWay, __ATOMIC_RELAXED);
  }
}

void name_thread(uint32_t tid, const char* name) {
  if (tid == own_tid()) this_thread();
  const int saved_errno = errno;
  {
    const Lock lock;
    const Thread* thread = lock ? g_threads : nullptr;
    while (thread && thread->tid != tid) thread = thread->next;
    if (thread) describe_thread(thread, name);
  }
  errno = saved_errno;
}

Record* next_log_record(Thread* thread) {
  if (relaxed(g_log_full) || !internal::may_grow()) return nullptr;
  settle_account(thread, ticks());
  const internal::OwnTime own_time(thread);
  const Lock lock;
  if (!lock || g_log_full) return nullptr;
  if (internal::over_budget(thread)) coarsen();
  return add_log_chunk(thread) ? thread->log_next : nullptr;
}

Record* next_ring_record(Thread* thread) {
  settle_account(thread, ticks());
  return thread->ring_begin;
}

bool ask_keep(bool collective, uint32_t sequence, uint64_t start_ticks) {
  if (relaxed(g_log_full)) return false;
  if (g_after_ticks && start_ticks < g_after_ticks) return false;
  if (g_until_ticks && start_ticks >= g_until_ticks) return false;
  if (relaxed(g_steps_seen) || g_options.has_steps)
    return relaxed(g_step_open) ? relaxed(g_keep_step) : !g_options.has_steps && unit_kept(1);
  if (collective) return unit_kept(sequence / kSequencesPerUnit);
  return unit_kept(1);  // what has no number common to all ranks is kept only while everything is
}

void count_loss(LossKind kind, uint64_t count) {
  FileHeader* header = internal::g_file.header();
  if (header) __atomic_fetch_add(&header->loss[kind], count, __ATOMIC_RELAXED);
}

namespace internal {

Thread* all_threads() { return g_threads; }

bool enter_step(uint64_t step) {
  if (t_thread) store_relaxed(g_step_thread, t_thread->tid);
  const bool keep_step = !relaxed(g_log_full) && unit_kept(step);
  store_relaxed(g_keep_step,
                keep_step && (!g_options.has_steps || (step >= g_options.first_step && step <= g_options.last_step)));
  store_relaxed(g_steps_seen, true);
  store_relaxed(g_step_open, true);
  update_keep();
  return keep_step;
}

void leave_step() {
  store_relaxed(g_step_open, false);
  update_keep();
}

ChunkHeader* grow_spool(ChunkKind kind, uint32_t* bytes, uint32_t thread) {
  if (!may_grow()) return nullptr;
  ChunkHeader* chunk = g_file.add_chunk(kind, bytes, thread);
  store_relaxed(g_growth_failed_ticks, chunk ? 0 : ticks());
  if (chunk) return chunk;
  FileHeader* header = g_file.header();
  if (!(header->flags & kCannotGrow)) header->grow_errno = g_file.error();
  __atomic_fetch_or(&header->flags, kCannotGrow, __ATOMIC_RELEASE);
  return nullptr;
}

ChunkHeader* grow_log(ChunkKind kind, uint32_t* bytes, uint32_t thread) {
  FileHeader* header = g_file.header();
  const uint64_t cap = g_options.cap_bytes;
  // Half of the cap is for everything. Then equal slices for every second unit, every fourth, every eighth ...: a slice
  // lasts twice as long as the one before, so a run may be thousands of times longer than what the first half holds and
  // still leave something of its end.
  const uint64_t slice = cap / kSlices > *bytes ? cap / kSlices : *bytes;
  while (header->log_bytes + *bytes > cap / 2 + header->keep_level * slice && header->keep_level < kMaxKeepLevel)
    coarsen();
  if (header->log_bytes + *bytes > cap) {
    store_relaxed(g_log_full, true);
    update_keep();
    return nullptr;
  }
  ChunkHeader* chunk = grow_spool(kind, bytes, thread);
  if (chunk) header->log_bytes += *bytes;
  g_file.keep_header();
  return chunk;
}

uint32_t next_log_chunk_bytes(uint32_t bytes) {
  const uint64_t cap = g_options.cap_bytes;
  const uint64_t largest = cap / kSlices < kMaxLogChunkBytes ? cap / kSlices : kMaxLogChunkBytes;
  return 2ull * bytes <= largest ? 2 * bytes : bytes;
}

bool is_log_full() { return relaxed(g_log_full); }

bool may_grow() {
  const uint64_t failed = relaxed(g_growth_failed_ticks);
  return failed == 0 || ticks() - failed > kRefreshTicks;
}

}  // namespace internal
}  // namespace ddl
