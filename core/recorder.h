// The recorder: what wrappers and collectors call. Injected code: no exceptions, no allocation and no lock on the hot
// path.
//
// A call is recorded in two halves. begin_call() takes the thread's next slot in the spool and stores an *open* record
// there; end_call() turns it into a finished one in place. The same cache line is event and current position of the
// thread, so a killed or hung process leaves its last call behind without a second write.
//
// Two tiers: every finished call is added to the thread's profile table (exact, bounded); its record goes to the log
// while the window keeps it, else to a ring of the most recent ones.
//
// What the window keeps is a function of the step, or of the collective's number, that is the same on all ranks; a rank
// that fills its cap may only coarsen it (every 2nd, 4th, ... unit), so that collectives keep all their members as far
// as possible. See keep() below.
//
// Threads: any thread may call anything here between activate() and process end; before, after and in forked children
// the thread pointer is NULL and calls do nothing.
#pragma once

#include <stdint.h>
#include <string.h>

#include "core/clock.h"
#include "core/format.h"
#include "core/spool_file.h"

namespace ddl {

constexpr uint32_t kMaxRangeDepth = 64;
constexpr uint32_t kCallSlots = 256;
constexpr uint32_t kNameSlots = 64;
/// 0 is annotate.h, the last the hooks', the others NVTX domains: ranges nest per owner, not among owners
constexpr uint32_t kRangeOwners = 32;
constexpr uint32_t kHookedRanges = kRangeOwners - 1;  ///< owner: steps that hooks into a framework see, not the program

/// A reading of the thread's counters. `known`: a bit for each that could be read.
struct CounterValues {
  uint64_t value[kMaxCounters];
  uint32_t known;
};

struct OpenRange {
  uint32_t kind;  ///< ContextKind; 0: only its place on the stack counts
  uint32_t owner;
  uint32_t outer_context;
  uint32_t context;
  ProfileEntry* entry;  ///< its own one; NULL: to be looked up
  uint64_t start_ticks;
  uint64_t call_ticks;  ///< Thread::call_ticks at the begin
  uint64_t step;
  RangeNumbers numbers;
  bool keep_step;  ///< steps: decided at the begin, so that a begin never lacks its end
};

/// Cache of the last range that this thread opened with a name; a hit needs no table.
struct NameSlot {
  const char* name;  ///< the program's pointer; its text is compared with `text` on every hit
  const char* text;  ///< ours
  uint32_t outer;    ///< context in which it was opened
  uint32_t meaning;  ///< as opened: a ContextKind of annotate.h, or a number of NVTX's beyond those
  uint32_t kind;     ///< as in OpenRange, and so are these
  uint32_t context;
  ProfileEntry* entry;
};

/// A call's arguments that determine its payload, as given; equal keys mean equal payloads, and only the wrapper
/// interprets them. In point-to-point calls `reduction` is the communicator's handle.
struct PayloadKey {
  constexpr PayloadKey(int64_t count_ = 0, uint64_t type_ = 0, uint64_t reduction_ = 0)
      : count(count_), type(type_), reduction(reduction_) {}
  int64_t count;
  uint64_t type;
  uint64_t reduction;
};
/// Instead of a payload that is known only after the call has succeeded.
constexpr uint64_t kAskLater = UINT64_MAX;

/// Cache of a call site, for when it makes the same call again: one cache line.
struct alignas(64) CallSlot {
  uint64_t caller;  ///< caller_of(), and kAsksLater; 0: none
  PayloadKey key;
  uint64_t payload;  ///< as in Record, as are the next two; or kAskLater
  uint32_t comm;
  uint32_t context;
  /// of calls of this size; where the size is known only at the end, of the last one. Entries never move
  ProfileEntry* entry;
  uint32_t outer;    ///< context of the innermost range
  uint32_t handles;  ///< Process::handles when this was filled
};
static_assert(sizeof(CallSlot) == 64);

struct ScratchPages;

/// A thread's part of the live file (live.cpp). Guarded by the lock.
struct LivePart {
  uint64_t offset;          ///< of its ring; 0: none yet
  uint64_t written;         ///< records ever written into it
  const Record* log_begin;  ///< of the log's chunk that `log_read` counts in
  uint64_t log_read, ring_read;
};

/// Per-thread state: anonymous memory, handed on to a later thread when its thread ends.
struct alignas(64) Thread {
  // The first line is what every call touches.
  Record* log_next;
  Record* log_end;
  uint64_t call_ticks;  ///< time inside outermost calls so far
  uint64_t call;        ///< stack frame of the outermost call that was entered and not left; kLongWay
  uint32_t context;     ///< innermost open range
  uint32_t poll_mask;   ///< polls are timed whose number has none of these bits
  Record* ring_next;
  Record* ring_end;
  ChunkHeader* ring_chunk;

  uint64_t polls;       ///< so far
  uint64_t told_ticks;  ///< of call_ticks: in calls that hooks tell of (leave_told_call())
  uint32_t index;
  Record* ring_begin;
  ChunkHeader* log_chunk;
  Record* log_begin;    ///< of log_chunk
  uint64_t log_before;  ///< records in the chunks before it
  Thread* next;         ///< of all
  Thread* next_free;
  // The account as of its last settlement (budget.cpp).
  uint64_t settled_at, settled_log, settled_ring, settled_polls;
  double saved_up;             ///< ticks that may still be spent on the log
  uint32_t log_chunk_bytes;    ///< of the next event chunk
  ProfileEntry* profile_next;  ///< the next entry that is free, in the newest table
  ProfileEntry* profile_end;
  uint32_t profile_capacity;  ///< of all tables together
  uint32_t profile_used;
  ProfileEntry** profile_index;  ///< open addressing, in anonymous memory; NULL = free
  uint32_t profile_index_slots;
  uint32_t range_depth;
  uint32_t tid;
  int32_t counter_set;                    ///< of the collector that reads counters; 0: none yet
  CounterValues* counted;                 ///< at the begin of each open range; NULL: no counters requested
  uint16_t owner_depth[kRangeOwners];     ///< ranges of each owner on the stack
  uint16_t owner_overflow[kRangeOwners];  ///< begun beyond kMaxRangeDepth and not yet ended
  struct {
    uint64_t end_ticks;   ///< of the last; 0: there was none
    uint64_t call_ticks;  ///< at that moment
    bool follows;         ///< the one that is being opened begins there
  } hooked_step;
  struct {
    uint32_t comm;      ///< kNoComm: not inside an NCCL call that launches
    uint32_t sequence;  ///< the collective, the first of its group; kNoSequence: only messages
    /// set by NCCL's wrappers, read by CUPTI's callback: launches of the thread meanwhile belong to this collective
  } nccl_call;
  CallSlot slots[kCallSlots];
  NameSlot names[kNameSlots];
  OpenRange ranges[kMaxRangeDepth];
  ProfileEntry nowhere;  ///< takes what no table has room for; its calls are counted as lost
  LivePart live;
  ScratchPages* scratch;  ///< of its calls (scratch.h)
};

constexpr uint64_t kLongWay = 1;  ///< Thread::call: no call is a repeated one (repeated_call.h) as things are

/// The window's decision on an event that starts now.
enum class Keep : uint8_t {
  kAll,
  kNone,
  kAsk,  ///< keep() decides event by event
};

/// Process-wide state that the hot path reads: one line. On a page of its own, which the kernel clears in a child of
/// any kind of fork: also where no handler of pthread_atfork runs, an annotation sees that nothing is active.
struct alignas(kPageBytes) Process {
  uint64_t refresh_at_ticks;  ///< when the clocks are due to be read again
  uint64_t refresh_ticks;     ///< how far apart that is: about a second
  Keep keep;
  bool active;            ///< records are being taken
  uint32_t training_tid;  ///< for which other threads communicate; 0: there is none, as far as is known
  uint32_t watched_tid;   ///< that one, or a thread that may be: it made no calls of late. 0: it communicates itself
  uint32_t handles;       ///< changes whenever a handle may mean another communicator than before
};
extern Process g_process __attribute__((visibility("hidden")));
extern __thread Thread* t_thread __attribute__((tls_model("initial-exec")));

/// Input of activate(). Strings must outlive the process.
struct RecorderOptions {
  const char* directory;
  const char* clock;   ///< "monotonic" or NULL
  uint64_t cap_bytes;  ///< of event chunks per process
  bool has_steps;      ///< keep only steps first_step .. last_step
  uint64_t first_step, last_step;
  uint64_t after_ns;  ///< keep only what starts this long after activate() ...
  uint64_t for_ns;    ///< ... and not later than that; 0 = no end
  double budget;      ///< share of a thread's time that recording may take, see budget.cpp; 0 = no limit
  uint64_t world_key;
  int32_t launch_rank, launch_size;  ///< FileHeader
};

/// Starts recording. Returns NULL, or the reason why not, with errno in `error` (0: none). Once per process (and once
/// more in a forked child).
const char* activate(const RecorderOptions& options, int* error);
/// In a forked child: drop everything that belongs to the parent. Async-signal-safe.
void forget_after_fork();
/// Whether calls may be recorded the short way (repeated_call.h); not until the first time.
void allow_short_way(bool allowed);
FileHeader* spool_header();

Thread* attach_thread();
/// The calling thread's state; NULL when nothing is to be recorded.
inline Thread* this_thread() {
  Thread* thread = t_thread;
  return __builtin_expect(thread != nullptr, 1) ? thread : attach_thread();
}

// ------------------------------------------------------------------------------------------------- hot path

#define DDL_HOT __attribute__((always_inline)) inline

/// To the compiler a new pointer: it keeps the address instead of computing it from its parts again and again.
template <class T>
DDL_HOT T* kept_address(T* address) {
  __asm__("" : "+r"(address));
  return address;
}

struct OpenCall {
  Thread* thread;  ///< NULL: not recorded, and of the rest only what the call was given is true
  Record* record;
  CallSlot* slot;
  ProfileEntry* entry;
  uint64_t start_ticks;
  uint64_t payload;
  uint32_t context;
  uint32_t comm;
  uint16_t op;
  bool keep;
  bool outermost;  ///< not made from inside another one
};

CallSlot* fill_call_slot(Thread* thread, CallSlot* slot, const void* site, uint32_t comm, uint32_t op, PayloadKey key,
                         uint64_t payload);
Record* next_log_record(Thread* thread);
Record* next_ring_record(Thread* thread);
void settle_account(Thread* thread, uint64_t now_ticks);
bool ask_keep(bool collective, uint32_t sequence, uint64_t start_ticks);
void refresh_clock(uint64_t now_ticks);
void sample_training_thread();
/// Samples the training thread when a background thread of its process enters a collective: before the call opens,
/// whose time this would be.
DDL_HOT void before_collective() {
  if (__builtin_expect(__atomic_load_n(&g_process.watched_tid, __ATOMIC_RELAXED) != 0, 0)) sample_training_thread();
}
DDL_HOT bool is_clock_old(uint64_t now_ticks) {
  return now_ticks > __atomic_load_n(&g_process.refresh_at_ticks, __ATOMIC_RELAXED);
}
/// Never NULL. For what has no call slot: ranges, and what is known only when a call has ended.
ProfileEntry* profile_entry(Thread* thread, uint32_t context, uint32_t comm, uint32_t op, uint64_t bytes);
/// The call's entry, of another size. The call slot keeps it for the next one.
ProfileEntry* entry_of_other_size(const OpenCall& call, uint64_t bytes);

DDL_HOT CallSlot* call_slot_of(Thread* thread, const void* site, PayloadKey key) {
  static_assert(kCallSlots == 1 << (32 - 24));
  const uint64_t sum =
      reinterpret_cast<uintptr_t>(site) + static_cast<uint64_t>(key.count) + key.type + thread->context;
  const size_t offset = (static_cast<uint32_t>(sum) * 0x9e3779b1u >> 24) * sizeof(CallSlot);
  return reinterpret_cast<CallSlot*>(kept_address(reinterpret_cast<char*>(thread) + offset) + offsetof(Thread, slots));
}

/// Call site and operation in one word: addresses of programs leave the highest bits free.
DDL_HOT uint64_t caller_of(const void* site, uint32_t op) {
  return reinterpret_cast<uintptr_t>(site) ^ static_cast<uint64_t>(op) << 51;
}
constexpr uint64_t kAsksLater = 1ull << 63;  ///< the slot's payload is kAskLater

/// Not 0: a slot's `there` is not `wanted`. A constant 0 holds for all calls of the operation, which `caller`
/// compares already.
DDL_HOT uint64_t differs(uint64_t there, uint64_t wanted) {
  return __builtin_constant_p(wanted) && wanted == 0 ? 0 : there ^ wanted;
}
DDL_HOT uint64_t differs(const CallSlot* slot, const Thread* thread, uint64_t caller, PayloadKey key) {
  return (slot->caller ^ caller) | differs(static_cast<uint64_t>(slot->key.count), static_cast<uint64_t>(key.count)) |
         differs(slot->key.type, key.type) | differs(slot->key.reduction, key.reduction) |
         (slot->outer ^ thread->context);
}
DDL_HOT bool is_slot_of(const CallSlot* slot, const Thread* thread, uint64_t caller, uint32_t comm, PayloadKey key) {
  return (differs(slot, thread, caller, key) | (slot->comm ^ comm)) == 0;
}
/// For a message, whose key has the communicator's handle.
DDL_HOT bool is_slot_of_message(const CallSlot* slot, const Thread* thread, uint64_t caller, PayloadKey key) {
  return (differs(slot, thread, caller, key) |
          (slot->handles ^ __atomic_load_n(&g_process.handles, __ATOMIC_RELAXED))) == 0;
}

/// `payload_of(key)` is asked only where the slot holds another call.
template <class PayloadOf>
DDL_HOT CallSlot* call_slot(Thread* thread, const void* site, uint32_t comm, uint32_t op, PayloadKey key,
                            PayloadOf payload_of) {
  CallSlot* slot = call_slot_of(thread, site, key);
  const uint64_t caller = caller_of(site, op) | (slot->caller & kAsksLater);
  if (__builtin_expect(is_slot_of(slot, thread, caller, comm, key), 1)) return slot;
  return fill_call_slot(thread, slot, site, comm, op, key, payload_of(key));
}

/// payload_of() of calls whose payload is as good a key as any.
DDL_HOT uint64_t payload_is_key(PayloadKey key) { return key.type; }

DDL_HOT bool keep(bool collective, uint32_t sequence, uint64_t start_ticks) {
  Keep answer;
  __atomic_load(&g_process.keep, &answer, __ATOMIC_RELAXED);
  return __builtin_expect(answer == Keep::kAll, 1) ||
         (answer == Keep::kAsk && ask_keep(collective, sequence, start_ticks));
}

/// The next slot, not yet visible to a reader: its word is zero.
DDL_HOT Record* take_record(Thread* thread, bool to_log) {
  Record* record = thread->log_next;
  if (__builtin_expect(to_log, 1)) {
    if (__builtin_expect(record != thread->log_end, 1) || (record = next_log_record(thread))) {
      thread->log_next = record + 1;
      return record;
    }
  }
  record = thread->ring_next;
  if (__builtin_expect(record == thread->ring_end, 0)) record = next_ring_record(thread);
  thread->ring_next = record + 1;
  ++thread->ring_chunk->ring_written;
  __atomic_store_n(&record->word, 0, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);  // nobody may see the old word with new fields
  return record;
}

DDL_HOT void publish(Record* record, uint64_t word) {
  __atomic_thread_fence(__ATOMIC_RELEASE);
  // one aligned store; the atomic builtin makes g++ 12 keep its address in a register
  const_cast<volatile uint64_t&>(record->word) = word;
}

/// Whether a duration falls into the same bucket of the histogram as the one before, between the extremes so far, as
/// most do. A guessed bucket costs less than a computed one, which would wait for the clock just read. Never true of
/// one that is longer than a record can say.
DDL_HOT bool is_usual(const ProfileEntry* entry, uint64_t duration_ticks) {
  return __builtin_expect(duration_ticks - entry->usual_ticks <= entry->usual_span, 1);
}
/// Makes a duration the usual one: its bucket, and the extremes with it.
void make_usual(ProfileEntry* entry, uint64_t duration_ticks);

/// The duration is usual.
DDL_HOT void add_usual_to_profile(ProfileEntry* entry, uint64_t bytes, uint64_t duration_ticks) {
  entry->bytes += bytes;
  entry->ticks += duration_ticks;
  __atomic_signal_fence(__ATOMIC_RELEASE);
  ++entry->histogram[entry->bucket];  // last, for this counts the call
}
DDL_HOT void add_to_profile(ProfileEntry* entry, uint64_t bytes, uint64_t duration_ticks) {
  if (!is_usual(entry, duration_ticks)) make_usual(entry, duration_ticks);
  add_usual_to_profile(entry, bytes, duration_ticks);
}

/// The word of a finished call, a kCall or kCompleteCall. Longer than a record can say are calls of a day and more.
DDL_HOT uint64_t call_word(uint32_t op, uint64_t duration, RecordKind kind = RecordKind::kCall) {
  if (__builtin_expect(duration > kMaxDurationTicks, 0)) duration = kMaxDurationTicks;
  return duration << 16 | static_cast<uint64_t>(kind) << 12 | op;
}

/// Thread::call, whose kLongWay another thread may change.
DDL_HOT uint64_t call_of(const Thread* thread) { return __atomic_load_n(&thread->call, __ATOMIC_RELAXED); }
DDL_HOT void set_call(Thread* thread, uint64_t call) { __atomic_store_n(&thread->call, call, __ATOMIC_RELAXED); }
DDL_HOT bool is_in_call(const Thread* thread) { return call_of(thread) > kLongWay; }
DDL_HOT void leave_all_calls(Thread* thread) { set_call(thread, call_of(thread) & kLongWay); }

DDL_HOT void leave_call(Thread* thread, bool outermost, uint64_t now, uint64_t duration) {
  if (__builtin_expect(outermost, 1)) {
    leave_all_calls(thread);
    thread->call_ticks += duration;
  }
  if (__builtin_expect(is_clock_old(now), 0)) refresh_clock(now);
}

/// The stack frame of whoever this is inlined into. It tells calls made from inside a call from calls made after that
/// was left by longjmp: it must be the wrapper's own, so all between it and the wrapper is inlined.
DDL_HOT uint64_t this_frame() { return reinterpret_cast<uintptr_t>(__builtin_dwarf_cfa()); }
/// The thread is inside a call. True: this is the outermost one.
DDL_HOT bool enter(Thread* thread) {
  const uint64_t before = call_of(thread);
  if (__builtin_expect(before > kLongWay, 0)) return false;
  set_call(thread, before | this_frame());
  return true;
}

/// `payload`: record_payload(), or kAskLater.
DDL_HOT OpenCall begin_call_of(Thread* thread, CallSlot* slot, uint32_t op, uint32_t comm, bool collective,
                               uint32_t sequence, int32_t peer, uint64_t payload) {
  const uint64_t start = ticks();
  const bool kept = keep(collective, sequence, start);
  Record* record = take_record(thread, kept);
  const bool outermost = enter(thread);
  record->start_ticks = start;
  record->payload = __builtin_expect(payload == kAskLater, 0) ? 0 : payload;
  memcpy(&record->comm, &slot->comm, sizeof(slot->comm) + sizeof(slot->context));
  record->sequence = sequence;
  record->peer = peer;
  publish(record, record_word(RecordKind::kOpen, op, 0));
  return {thread, record,   slot, slot->entry, start, payload, slot->context, comm, static_cast<uint16_t>(op),
          kept,   outermost};
}
DDL_HOT OpenCall not_recorded(uint32_t comm, uint32_t op) {
  return {nullptr, nullptr, nullptr, nullptr, 0, 0, 0, comm, static_cast<uint16_t>(op), false, false};
}

/// Enters a call. `sequence`: number of a collective, tag of a message. `payload_of(key)`:
/// record_payload(), or kAskLater.
template <class PayloadOf>
DDL_HOT OpenCall begin_call(uint32_t op, const void* site, uint32_t comm, bool collective, uint32_t sequence,
                            int32_t peer, PayloadKey key, PayloadOf payload_of) {
  Thread* thread = this_thread();
  if (__builtin_expect(!thread, 0)) return not_recorded(comm, op);
  CallSlot* slot = call_slot(thread, site, comm, op, key, payload_of);
  return begin_call_of(thread, slot, op, comm, collective, sequence, peer, slot->payload);
}
/// The same, of a payload that is known as far as it goes before the end.
DDL_HOT OpenCall begin_call(uint32_t op, const void* site, uint32_t comm, bool collective, uint32_t sequence,
                            int32_t peer, uint64_t payload) {
  Thread* thread = this_thread();
  if (__builtin_expect(!thread, 0)) return not_recorded(comm, op);
  CallSlot* slot = call_slot(thread, site, comm, op, PayloadKey(0, payload), payload_is_key);
  return begin_call_of(thread, slot, op, comm, collective, sequence, peer, payload);
}

/// A receive knows its actual source and tag only now.
inline void set_source(const OpenCall& call, int32_t source, uint32_t tag) {
  if (call.record->start_ticks != call.start_ticks) return;
  call.record->peer = source;
  call.record->sequence = tag;
}

DDL_HOT ProfileEntry* entry_for(const OpenCall& call, uint64_t bytes) {
  return __builtin_expect(call.entry->size_class == size_class_of(bytes), 1) ? call.entry
                                                                             : entry_of_other_size(call, bytes);
}

/// Leaves it. `payload` is final, `kind` as in call_word(). Returns the moment of leaving.
DDL_HOT uint64_t end_call(const OpenCall& call, uint64_t payload, RecordKind kind = RecordKind::kCall) {
  const uint64_t now = ticks();
  const uint64_t duration = now - call.start_ticks;
  // else: the ring went round during this call
  if (__builtin_expect(call.record->start_ticks == call.start_ticks, 1)) {
    if (payload != call.payload) call.record->payload = payload;
    publish(call.record, call_word(call.op, duration, kind));
  }
  add_to_profile(entry_for(call, payload_bytes(payload)), payload_bytes(payload), duration);
  leave_call(call.thread, call.outermost, now, duration);
  return now;
}

/// A polling call (Test, Iprobe): it never blocks, so its record is never open; the thread still counts as
/// inside a call meanwhile.
struct OpenPoll {
  Thread* thread;        ///< NULL: not recorded
  uint64_t start_ticks;  ///< 0: not timed, because polls are so many that a sample has to do (budget.cpp)
  bool outermost;        ///< as in OpenCall
};

DDL_HOT OpenPoll begin_poll() {
  Thread* thread = this_thread();
  if (__builtin_expect(!thread, 0)) return {};
  const bool outermost = enter(thread);
  return {thread, __builtin_expect((++thread->polls & thread->poll_mask) == 0, 1) ? ticks() : 0, outermost};
}

constexpr uint64_t kPollsPerSettlement = 65536;

/// Leaves it. Polls that found nothing come in millions: counted and timed, no event. Returns the moment of leaving;
/// when nothing was found and the poll was not timed, 0.
DDL_HOT uint64_t end_poll(const OpenPoll& poll, uint32_t op, const void* site, uint32_t comm, int32_t peer, bool found,
                          uint32_t tag = kNoSequence) {
  Thread* thread = poll.thread;
  if (__builtin_expect(!thread, 0)) return ticks();
  const bool timed = __builtin_expect(poll.start_ticks != 0, 1);
  const uint64_t now = timed || found ? ticks() : 0;
  const uint64_t start = timed ? poll.start_ticks : now;
  const CallSlot* slot = call_slot(thread, site, comm, op, PayloadKey(), payload_is_key);
  if (found) {
    Record* record = take_record(thread, keep(false, kNoSequence, start));
    record->start_ticks = start;
    record->payload = 0;
    memcpy(&record->comm, &slot->comm, sizeof(slot->comm) + sizeof(slot->context));
    record->sequence = tag;
    record->peer = peer;
    publish(record, call_word(op, now - start));
  }
  if (!timed) {
    if (poll.outermost) leave_all_calls(thread);
    ++slot->entry->untimed_calls;
    return now;
  }
  add_to_profile(slot->entry, 0, now - start);
  if (__builtin_expect((thread->polls & (kPollsPerSettlement - 1)) == 0, 0)) settle_account(thread, now);
  // it stands for those that were not timed
  leave_call(thread, poll.outermost, now, (now - start) * (thread->poll_mask + 1));
  return now;
}

/// Writes one finished record that was never open (requests).
DDL_HOT void write_record(Thread* thread, bool to_log, const Record& record) {
  Record* slot = take_record(thread, to_log);
  slot->start_ticks = record.start_ticks;
  slot->payload = record.payload;
  slot->comm = record.comm;
  slot->context = record.context;
  slot->sequence = record.sequence;
  slot->peer = record.peer;
  publish(slot, record.word);
}

// ------------------------------------------------------------------------------------------------- the rest

/// Ranges: see include/ddl/annotate.h.
void push_range(uint32_t kind, const char* name, uint64_t index);
void pop_range(uint32_t kind);
void record_value(const char* name, double value);
void record_value(const char* name, size_t length, double value);

/// Ranges of others. Until it is closed, calls and kernels of this thread are booked to it. `entry`:
/// own_profile_entry().
void open_range(Thread* thread, uint32_t owner, uint32_t kind, uint32_t context, ProfileEntry* entry, uint64_t step,
                const RangeNumbers& numbers);
/// Closes the owner's innermost; false: it has none, which is counted.
bool close_range(Thread* thread, uint32_t owner);
/// Steps that hooks into a framework see. They count as long as the program marks none itself: its first one ends them,
/// for good. `follows`: it begins where the thread's last one ended.
void begin_hooked_step(uint64_t number, bool follows);
void end_hooked_step();
/// How many ranges the owner has open on the thread.
inline uint32_t open_ranges(const Thread* thread, uint32_t owner) {
  return thread->owner_depth[owner] + thread->owner_overflow[owner];
}
/// A range that is on no stack, because another thread may end it: nothing is booked to it but its time. 0: no room,
/// which is counted.
uint64_t start_range(Thread* thread, uint32_t kind, uint32_t context, uint64_t step, const RangeNumbers& numbers);
/// False: no such range is open, which is counted. `thread` is the one that ends it.
bool end_range(Thread* thread, uint64_t id);
/// The profile entry of a range; NULL if the table is full and what there is stands for others too.
ProfileEntry* own_profile_entry(Thread* thread, uint32_t context, uint32_t kind);

DDL_HOT NameSlot* name_slot(Thread* thread, const char* name, uint32_t meaning) {
  return &thread->names[(reinterpret_cast<uintptr_t>(name) ^ reinterpret_cast<uintptr_t>(name) >> 6 ^
                         thread->context * 7 ^ meaning) %
                        kNameSlots];
}
DDL_HOT bool is_hit(const Thread* thread, const NameSlot& slot, const char* name, uint32_t meaning) {
  return slot.name == name && slot.outer == thread->context && slot.meaning == meaning && slot.text &&
         strcmp(slot.text, name) == 0;
}

/// Counters, read where steps, phases and layers begin and end, on their thread. `read` fills in what it can.
struct CounterSource {
  void (*read)(Thread* thread, CounterValues& values);
  void (*release)(Thread* thread);  ///< the thread ends
};
void use_counters(const CounterSource* source);

/// Contexts and names for collectors.
uint32_t intern_name(const char* text, size_t length);
uint32_t range_context(uint32_t outer, ContextKind kind, uint32_t name);
/// The ranges around a context. String ids; 0: none.
struct RangePath {
  bool step;
  uint32_t phase;  ///< innermost
  uint32_t layer;  ///< innermost, else the outermost operator
};
RangePath range_path(uint32_t context);
/// The name of a thread of this process that has recorded something, or does so now.
void name_thread(uint32_t tid, const char* name);

void count_loss(LossKind kind, uint64_t count = 1);

/// Descriptive entries. All serialise on one lock; none is on the hot path. `length` < 0: terminated string.
void write_operation(uint32_t op, OpClass op_class, bool nonblocking, const char* name);
void write_communicator(const CommunicatorMeta& meta, const RankRun* runs);
void write_communicator_name(uint32_t index, const char* name);
void write_communicator_topology(uint32_t index, const char* topology);
void write_communicator_name(const CommNameMeta& meta);
void write_communicator_split(const CommSplitMeta& meta);
void write_fact(const char* key, const char* value);
void write_modules();
void write_clock();
void write_clock_sync(const ClockSyncMeta& meta);
void write_device_clock(const DeviceClockMeta& meta);
void write_graph_node(const GraphNodeMeta& meta);
void write_sample(const SampleMeta& meta, const SampleValue* values);
/// `call` comes after each refresh_clock(), on whatever thread that was; NULL: no more.
void each_clock(void (*call)());
/// `take` comes before a collective of a background thread, and at the end of a call or range, once the moment
/// has come that it returned before (ticks; at first: at once), on whatever thread that was, maybe on two at a
/// time. NULL: no more.
void sample_threads(uint64_t (*take)(Thread* caller, uint64_t now_ticks));
/// Ticks that a thread has spent in calls; 0: it has recorded nothing.
uint64_t ticks_in_calls(uint32_t tid);
/// Leaves a call that hooks tell of, the outermost one, which end_call() was told was an inner one: the thread
/// communicates beside background threads then, which is no reason not to sample it. Only now, as end_call()
/// may take a sample.
inline void leave_told_call(Thread* thread, uint64_t duration) {
  leave_all_calls(thread);
  __atomic_store_n(&thread->told_ticks, thread->told_ticks + duration, __ATOMIC_RELAXED);
  thread->call_ticks += duration;
}
/// The thread that opened the last step; 0: none yet.
uint32_t step_thread();
/// Ticks of a second, within about a percent.
uint64_t second_ticks();

/// GPU activities (device.cpp), from any thread but the job's own: they take turns. Losses are counted.
void write_device_record(const DeviceRecord& record);
/// String id of a name that comes again and again.
uint32_t intern_name(const char* name);

}  // namespace ddl
