// The short way of a call that its thread has made before, from the same place and with the same arguments: its call
// slot has everything. Injected code.
//
// Where a function call might be needed (a new thread or communicator, a full chunk, a window that decides
// event by event, a clock without TSC), begin_repeated_call() declines before doing anything, and the wrapper
// takes the long way, begin_call(). So the compiler saves nothing around unlikely calls: arguments stay in
// their registers until MPI gets them.
#pragma once

#include "core/recorder.h"

namespace ddl {

/// ticks() with the TSC, which the short way has checked.
DDL_HOT uint64_t tsc_ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  __builtin_unreachable();
#endif
}

/// Whether the thread is outside of all calls and may take the short way. If so, this stays true until it enters a call
/// itself: MPI_Finalize, which forbids that way to all threads, must not overlap another thread's MPI call.
DDL_HOT bool may_repeat(const Thread* thread) { return call_of(thread) == 0; }

/// The next slot of log (`kept`) or ring; false: none at hand, and nothing was taken.
DDL_HOT bool take_record_at_hand(Thread* thread, Record** record, bool* kept) {
  Keep answer;
  __atomic_load(&g_process.keep, &answer, __ATOMIC_RELAXED);
  *kept = __builtin_expect_with_probability(answer == Keep::kAll, 1, 0.5);  // neither way should lie aside
  if (*kept) {
    *record = thread->log_next;
    if (__builtin_expect(*record == thread->log_end, 0)) return false;
    thread->log_next = *record + 1;
    return true;
  }
  *record = thread->ring_next;
  if (__builtin_expect(answer != Keep::kNone || *record == thread->ring_end, 0)) return false;
  thread->ring_next = *record + 1;
  ++thread->ring_chunk->ring_written;
  __atomic_store_n(&(*record)->word, 0, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);  // nobody may see the old word with new fields
  return true;
}

constexpr size_t kSlotSays = 16;  ///< payload .. context
static_assert(offsetof(CallSlot, entry) - offsetof(CallSlot, payload) == kSlotSays);
static_assert(offsetof(Record, sequence) - offsetof(Record, payload) == kSlotSays);

/// As begin_call_of(). False: no record at hand, and nothing was done.
template <class Sequence>
DDL_HOT bool open_repeated_call(Thread* thread, CallSlot* slot, uint32_t op, int32_t peer, Sequence sequence,
                                OpenCall* call) {
  Record* record;
  bool kept;
  if (__builtin_expect(!take_record_at_hand(thread, &record, &kept), 0)) return false;
  const uint64_t start = tsc_ticks();
  set_call(thread, this_frame());
  // Read before anything is written to the record, or the compiler has to read it again.
  *call = {
      thread, record, slot, slot->entry, start, slot->payload, slot->context, slot->comm, static_cast<uint16_t>(op),
      kept,   true};
  const uint64_t to = sequence() | static_cast<uint64_t>(static_cast<uint32_t>(peer)) << 32;
  record->start_ticks = start;
  memcpy(&record->payload, &slot->payload, kSlotSays);
  memcpy(&record->sequence, &to, sizeof to);
  publish(record, record_word(RecordKind::kOpen, op, 0));
  return true;
}

/// As begin_call(); `sequence()` is called only for such a call. False: not one, and nothing was done.
template <class Sequence>
DDL_HOT bool begin_repeated_call(Thread* thread, uint32_t op, const void* site, uint32_t comm, int32_t peer,
                                 PayloadKey key, Sequence sequence, OpenCall* call) {
  CallSlot* slot = call_slot_of(thread, site, key);
  return __builtin_expect(is_slot_of(slot, thread, caller_of(site, op), comm, key), 1) &&
         open_repeated_call(thread, slot, op, peer, sequence, call);
}
/// The same for a message.
DDL_HOT bool begin_repeated_message(Thread* thread, uint32_t op, const void* site, int32_t peer, uint32_t tag,
                                    PayloadKey key, OpenCall* call) {
  CallSlot* slot = call_slot_of(thread, site, key);
  return __builtin_expect(is_slot_of_message(slot, thread, caller_of(site, op), key), 1) &&
         open_repeated_call(
             thread, slot, op, peer, [&] { return tag; }, call);
}

/// Leaves the call that has lasted from `start` to `now`.
DDL_HOT void leave_repeated(Thread* thread, uint64_t start, uint64_t now) {
  set_call(thread, 0);
  thread->call_ticks += now - start;
  if (__builtin_expect(is_clock_old(now), 0)) refresh_clock(now);
}

/// `entry`: of calls of this size. `kind`: kCall or kCompleteCall.
DDL_HOT uint64_t end_repeated_call(const OpenCall& call, ProfileEntry* entry, uint64_t bytes, RecordKind kind) {
  const uint64_t now = tsc_ticks();
  const uint64_t duration = now - call.start_ticks;
  uint64_t said = duration;
  if (!is_usual(entry, duration)) {
    make_usual(entry, duration);
    if (duration > kMaxDurationTicks) said = kMaxDurationTicks;
  }
  if (__builtin_expect(call.record->start_ticks == call.start_ticks, 1))  // else: the ring went round during this call
    publish(call.record, said << 16 | static_cast<uint64_t>(kind) << 12 | call.op);
  add_usual_to_profile(entry, bytes, duration);
  leave_repeated(call.thread, call.start_ticks, now);
  return now;
}
/// As end_call(), of the payload that it began with.
DDL_HOT uint64_t end_repeated_call(const OpenCall& call, RecordKind kind = RecordKind::kCall) {
  return end_repeated_call(call, call.entry, payload_bytes(call.payload), kind);
}
/// The same for a wait, which has no payload.
DDL_HOT uint64_t end_repeated_wait(const OpenCall& call) {
  return end_repeated_call(call, call.entry, 0, RecordKind::kCall);
}
/// The same for a payload known only now.
DDL_HOT uint64_t end_repeated_call(const OpenCall& call, uint64_t payload) {
  if (call.record->start_ticks == call.start_ticks) call.record->payload = payload;
  return end_repeated_call(call, entry_for(call, payload_bytes(payload)), payload_bytes(payload), RecordKind::kCall);
}

/// As begin_poll(), except for a poll that is timed for others or settles the account. False: not a repeated one, and
/// nothing was done. Ends with end_repeated_poll(), or with count_repeated_poll() and end_poll().
DDL_HOT bool begin_repeated_poll(Thread* thread, uint32_t op, const void* site, uint32_t comm, OpenPoll* poll,
                                 ProfileEntry** entry) {
  const CallSlot* slot = call_slot_of(thread, site, PayloadKey());
  if (__builtin_expect(!is_slot_of(slot, thread, caller_of(site, op), comm, PayloadKey()), 0)) return false;
  const uint32_t mask = thread->poll_mask;
  if (__builtin_expect(((thread->polls + 1) & (mask ? mask : kPollsPerSettlement - 1)) == 0, 0)) return false;
  set_call(thread, this_frame());
  *entry = slot->entry;
  *poll = {thread, mask ? 0 : tsc_ticks(), true};
  return true;
}
/// Only after the library's own work: what is stored just before it is waited for where that has barriers.
DDL_HOT void count_repeated_poll(const OpenPoll& poll) { ++poll.thread->polls; }
/// As end_poll(), where nothing was found.
DDL_HOT void end_repeated_poll(const OpenPoll& poll, ProfileEntry* entry) {
  if (poll.start_ticks == 0) {
    count_repeated_poll(poll);
    ++entry->untimed_calls;
    return set_call(poll.thread, 0);
  }
  const uint64_t now = tsc_ticks();
  count_repeated_poll(poll);
  add_to_profile(entry, 0, now - poll.start_ticks);
  leave_repeated(poll.thread, poll.start_ticks, now);
}

}  // namespace ddl
