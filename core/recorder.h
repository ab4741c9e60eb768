// The recorder: what wrappers and collectors call. Injected code: no exceptions, no allocation and no lock on the hot path.
//
// A call is recorded in two halves. begin_call() takes the thread's next slot in the spool and stores an *open* record there; end_call()
// turns it into a finished one in place. So the same cache line serves as event and as "where does this thread sit right now", and a killed
// or hung process leaves its last call behind without anybody having written it down a second time.
//
// Two tiers: every finished call is added to the thread's profile table (exact, bounded); its record goes to the log while the window keeps
// it, else to a ring of the most recent ones.
//
// What the window keeps is a function of the step, or of the collective's number, that is the same on all ranks; a rank that fills its cap
// may only coarsen it (every 2nd, 4th, ... unit), so that collectives keep all their members as far as possible. See keep() in
// recorder.cpp.
//
// Threads: everything here may be called by any thread at any time between activate() and process end; before, after and in forked children
// the thread pointer is NULL and calls do nothing.
#pragma once

#include <stdint.h>

#include "core/clock.h"
#include "core/format.h"
#include "core/spool_file.h"

namespace ddl {

constexpr uint32_t kMaxRangeDepth = 64;
constexpr uint32_t kCacheEntries = 64;

struct OpenRange {
  uint32_t kind;
  uint32_t outer_context;
  uint32_t context;
  uint64_t start_ticks;
  uint64_t call_ticks;  ///< Thread::call_ticks at the begin
  uint64_t step;
  bool keep_step;  ///< steps: decided at the begin, so that a begin never lacks its end
};

/// Per-thread state: anonymous memory, handed on to a later thread when its thread ends.
struct Thread {
  Record* log_next;
  Record* log_end;
  Record* ring_begin;
  Record* ring_next;
  Record* ring_end;
  ChunkHeader* ring_chunk;
  ChunkHeader* log_chunk;
  ProfileEntry* profile;
  ChunkHeader* profile_chunk;
  uint32_t profile_capacity;
  uint32_t profile_used;
  uint32_t context;        ///< innermost open range
  uint32_t call_depth;     ///< calls entered and not left
  const void* call_frame;  ///< stack frame of the outermost of them
  uint64_t call_ticks;     ///< time inside outermost calls so far
  uint32_t index;
  uint32_t log_chunk_bytes;  ///< of the next event chunk
  uint32_t range_depth;
  uint32_t range_overflow;  ///< ranges begun beyond kMaxRangeDepth and not yet ended
  Thread* next_free;
  struct {
    const void* site;
    uint32_t outer;
    uint32_t context;
  } sites[kCacheEntries];
  struct {
    const char* name;  ///< the program's pointer; its text is compared with `text` on every hit
    const char* text;  ///< ours
    uint32_t outer;
    uint32_t kind;
    uint32_t context;
  } names[kCacheEntries];
  OpenRange ranges[kMaxRangeDepth];
};

/// Process-wide state that the hot path reads.
struct Process {
  bool active;             ///< records are being taken
  bool restricted;         ///< keep() must be asked
  uint64_t latest_ticks;   ///< of the last refreshed clock pair
  uint64_t refresh_ticks;  ///< about a second
};
extern Process g_process;
extern __thread Thread* t_thread __attribute__((tls_model("initial-exec")));

/// What activate() needs to know. Strings must stay.
struct RecorderOptions {
  const char* directory;
  const char* clock;   ///< "monotonic" or NULL
  uint64_t cap_bytes;  ///< of event chunks per process
  bool has_steps;      ///< keep only steps first_step .. last_step
  uint64_t first_step, last_step;
  uint64_t after_ns;  ///< keep only what starts this long after activate() ...
  uint64_t for_ns;    ///< ... and not later than that; 0 = no end
  uint64_t world_key;
};

/// Starts recording. NULL: done; else a few words why not. Once per process (and once more in a forked child).
const char* activate(const RecorderOptions& options);
/// In a forked child: drop everything that belongs to the parent. Async-signal-safe.
void forget_after_fork();
FileHeader* spool_header();

Thread* attach_thread();
/// The calling thread's state; NULL when nothing is to be recorded.
inline Thread* this_thread() {
  if (__builtin_expect(!g_process.active, 0)) return nullptr;
  Thread* thread = t_thread;
  return __builtin_expect(thread != nullptr, 1) ? thread : attach_thread();
}

// ------------------------------------------------------------------------------------------------- hot path

struct OpenCall {
  Thread* thread;  ///< NULL: not recorded
  Record* record;
  uint64_t start_ticks;
  uint32_t context;
  uint32_t comm;
  uint16_t op;
  bool keep;
};

uint32_t site_context_slow(Thread* thread, const void* site);
Record* next_log_record(Thread* thread);
bool keep(bool collective, uint32_t sequence, uint64_t start_ticks);
void refresh_clock(uint64_t now_ticks);
ProfileEntry* new_profile_entry(Thread* thread, uint32_t context, uint32_t comm, uint32_t op, uint32_t size_class, uint64_t hash);

inline uint32_t site_context(Thread* thread, const void* site) {
  const auto& entry = thread->sites[(reinterpret_cast<uintptr_t>(site) >> 2 ^ thread->context) % kCacheEntries];
  if (__builtin_expect(entry.site == site && entry.outer == thread->context, 1)) return entry.context;
  return site_context_slow(thread, site);
}

/// The next slot, not yet visible to a reader: its word is zero.
inline Record* take_record(Thread* thread, bool to_log) {
  Record* record = nullptr;
  if (__builtin_expect(to_log, 1)) {
    record = __builtin_expect(thread->log_next != thread->log_end, 1) ? thread->log_next : next_log_record(thread);
    if (record) thread->log_next = record + 1;
  }
  if (!record) {
    if (thread->ring_next == thread->ring_end) thread->ring_next = thread->ring_begin;
    record = thread->ring_next++;
    ++thread->ring_chunk->ring_written;
    __atomic_store_n(&record->word, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);  // nobody may see the old word with new fields
  }
  return record;
}

inline void publish(Record* record, uint64_t word) { __atomic_store_n(&record->word, word, __ATOMIC_RELEASE); }

inline ProfileEntry* profile_entry(Thread* thread, uint32_t context, uint32_t comm, uint32_t op, uint64_t bytes) {
  const uint32_t size_class = size_class_of(bytes);
  const uint64_t key = (static_cast<uint64_t>(context) << 32 | comm) * 0x9e3779b97f4a7c15ull ^ (op << 8 | size_class);
  const uint64_t hash = (key ^ key >> 29) * 0xbf58476d1ce4e5b9ull >> 20;
  const uint32_t mask = thread->profile_capacity - 1;
  for (uint32_t i = static_cast<uint32_t>(hash) & mask;; i = (i + 1) & mask) {
    ProfileEntry* entry = &thread->profile[i];
    if (__builtin_expect(entry->op == op && entry->context == context && entry->comm == comm && entry->size_class == size_class, 1))
      return entry;
    if (entry->op == 0) return new_profile_entry(thread, context, comm, op, size_class, hash);
  }
}

inline void add_to_profile(ProfileEntry* entry, uint64_t bytes, uint64_t duration_ticks) {
  entry->bytes += bytes;
  entry->ticks += duration_ticks;
  if (duration_ticks < entry->min_ticks) entry->min_ticks = duration_ticks;
  if (duration_ticks > entry->max_ticks) entry->max_ticks = duration_ticks;
  ++entry->histogram[histogram_bucket(duration_ticks)];
  ++entry->timed_calls;
  __atomic_store_n(&entry->calls, entry->calls + 1, __ATOMIC_RELEASE);  // last: a kill in between loses time, not truth about calls
}

/// The thread is inside a call. The frame tells calls made from inside it from calls made after it was left by longjmp.
__attribute__((always_inline)) inline void enter(Thread* thread) {
  if (__builtin_expect(thread->call_depth++ == 0, 1)) thread->call_frame = __builtin_dwarf_cfa();
}

/// Enters a call. `sequence`: number of a collective, tag of a message. `payload`: record_payload() as far as it is known now.
inline OpenCall begin_call(uint32_t op, const void* site, uint32_t comm, bool collective, uint32_t sequence, int32_t peer,
                           uint64_t payload) {
  Thread* thread = this_thread();
  if (__builtin_expect(!thread, 0)) return {};
  OpenCall call;
  call.thread = thread;
  call.context = site_context(thread, site);
  call.comm = comm;
  call.op = static_cast<uint16_t>(op);
  call.start_ticks = ticks();
  call.keep = __builtin_expect(!g_process.restricted, 1) || keep(collective, sequence, call.start_ticks);
  Record* record = call.record = take_record(thread, call.keep);
  enter(thread);
  record->start_ticks = call.start_ticks;
  record->payload = payload;
  record->comm = comm;
  record->context = call.context;
  record->sequence = sequence;
  record->peer = peer;
  publish(record, record_word(RecordKind::kOpen, op, 0));
  return call;
}

/// A receive knows its actual source and tag only now.
inline void set_source(const OpenCall& call, int32_t source, uint32_t tag) {
  if (call.record->start_ticks != call.start_ticks) return;
  call.record->peer = source;
  call.record->sequence = tag;
}

/// Leaves it. `payload` is final. Returns the moment of leaving.
inline uint64_t end_call(const OpenCall& call, uint64_t payload) {
  const uint64_t now = ticks();
  const uint64_t duration = now - call.start_ticks;
  Thread* thread = call.thread;
  if (__builtin_expect(call.record->start_ticks == call.start_ticks, 1)) {  // else: the ring went round during this call
    call.record->payload = payload;
    publish(call.record, record_word(RecordKind::kCall, call.op, duration));
  }
  if (--thread->call_depth == 0) thread->call_ticks += duration;
  add_to_profile(profile_entry(thread, call.context, call.comm, call.op, payload_bytes(payload)), payload_bytes(payload), duration);
  if (__builtin_expect(now - g_process.latest_ticks > g_process.refresh_ticks, 0)) refresh_clock(now);
  return now;
}

/// A polling call (Test, Iprobe): it never blocks, so its record is never open; the thread still counts as inside a call meanwhile.
struct OpenPoll {
  Thread* thread;  ///< NULL: not recorded
  uint64_t start_ticks;
};

inline OpenPoll begin_poll() {
  Thread* thread = this_thread();
  if (__builtin_expect(thread != nullptr, 1)) enter(thread);
  return {thread, ticks()};
}

/// Leaves it. What found nothing is counted and timed, no event: such polls come in millions. Returns the moment of leaving.
inline uint64_t end_poll(const OpenPoll& poll, uint32_t op, const void* site, uint32_t comm, int32_t peer, bool found,
                         uint32_t tag = kNoSequence) {
  const uint64_t now = ticks();
  Thread* thread = poll.thread;
  if (__builtin_expect(!thread, 0)) return now;
  const uint64_t duration = now - poll.start_ticks;
  const uint32_t context = site_context(thread, site);
  if (--thread->call_depth == 0) thread->call_ticks += duration;
  if (found) {
    Record* record = take_record(thread, __builtin_expect(!g_process.restricted, 1) || keep(false, kNoSequence, poll.start_ticks));
    record->start_ticks = poll.start_ticks;
    record->payload = 0;
    record->comm = comm;
    record->context = context;
    record->sequence = tag;
    record->peer = peer;
    publish(record, record_word(RecordKind::kCall, op, duration));
  }
  add_to_profile(profile_entry(thread, context, comm, op, 0), 0, duration);
  if (__builtin_expect(now - g_process.latest_ticks > g_process.refresh_ticks, 0)) refresh_clock(now);
  return now;
}

/// Writes one finished record that was never open (requests, polls that found something).
void write_record(Thread* thread, bool to_log, const Record& record);

// ------------------------------------------------------------------------------------------------- the rest

/// Ranges: see include/ddl/annotate.h.
void push_range(uint32_t kind, const char* name, uint64_t index);
void pop_range(uint32_t kind);
void record_value(const char* name, double value);

void count_loss(LossKind kind, uint64_t count = 1);

/// Descriptive entries. All serialise on one lock; none is on the hot path. `length` < 0: terminated string.
void write_operation(uint32_t op, OpClass op_class, bool nonblocking, const char* name);
void write_communicator(const CommunicatorMeta& meta, const RankRun* runs);
void write_communicator_name(uint32_t index, const char* name);
void write_communicator_topology(uint32_t index, const char* topology);
void write_fact(const char* key, const char* value);
void write_modules();
void write_clock();

}  // namespace ddl
