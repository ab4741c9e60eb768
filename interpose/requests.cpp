#include "interpose/requests.h"

#include <sched.h>
#include <string.h>

#include "core/lock_and_pages.h"
#include "interpose/payload.h"

namespace ddl {

RequestInfo g_requests[kRequestSlots];

namespace {

constexpr uint32_t kStripes = 64;
constexpr size_t kPoolBytes = 64 * 1024;

struct alignas(64) Stripe {
  bool locked;
  RequestInfo* free;  ///< entries for chains
};
Stripe g_stripes[kStripes];

Stripe& stripe_of(const RequestInfo* slot) { return g_stripes[static_cast<uint64_t>(slot - g_requests) % kStripes]; }

class StripeLock {
 public:
  explicit StripeLock(const RequestInfo* slot) : stripe_(g_mpi.multiple ? &stripe_of(slot) : nullptr) {
    while (stripe_ && __atomic_test_and_set(&stripe_->locked, __ATOMIC_ACQUIRE)) sched_yield();
  }
  ~StripeLock() {
    if (stripe_) __atomic_clear(&stripe_->locked, __ATOMIC_RELEASE);
  }
  StripeLock(const StripeLock&) = delete;
  StripeLock& operator=(const StripeLock&) = delete;

 private:
  Stripe* stripe_;
};

/// The entry of `handle` that no completing call holds.
RequestInfo* find(RequestInfo* slot, MPI_Request handle) {
  RequestInfo* info = slot;
  while (info && (info->handle != handle || (info->flags & kRequestHeld))) info = info->next;
  return info;
}

RequestInfo* take_chained(RequestInfo* slot) {
  Stripe& stripe = stripe_of(slot);
  if (!stripe.free) {
    RequestInfo* entries = static_cast<RequestInfo*>(take_pages(kPoolBytes));
    if (!entries) return nullptr;
    for (size_t i = 0; i < kPoolBytes / sizeof(RequestInfo); ++i) {
      entries[i].next = stripe.free;
      stripe.free = &entries[i];
    }
  }
  RequestInfo* info = stripe.free;
  stripe.free = info->next;
  info->next = slot->next;
  slot->next = info;
  return info;
}

__attribute__((noinline)) void remove_from_chain(RequestInfo* slot, RequestInfo* info) {
  RequestInfo* before = slot;
  while (before->next && before->next != info) before = before->next;
  if (before->next) before->next = info->next;
  Stripe& stripe = stripe_of(slot);
  info->next = stripe.free;
  stripe.free = info;
}

/// An entry that is not in use may be the slot itself, whose chain stays.
DDL_HOT void remove(RequestInfo* info) {
  RequestInfo* slot = request_slot(info->handle);
  info->handle = {};
  if (__builtin_expect(info != slot, 0)) remove_from_chain(slot, info);
}

/// Bytes of what is posted without knowing them join the row of the posting call when they are known.
void add_bytes(Thread* thread, const RequestInfo& info, uint64_t bytes) {
  if (bytes == 0) return;
  const bool is_own =
      info.thread == thread->index && !(info.flags & kRequestPersistent) && info.fill != Fill::kCommunicator;
  ProfileEntry* entry =
      __builtin_expect(is_own, 1) ? info.received : profile_entry(thread, info.context, info.comm, info.op, 0);
  entry->bytes += bytes;
}

DDL_HOT void write_completion(Thread* thread, const RequestInfo& info, const MPI_Status& status, uint64_t now) {
  Record record;
  record.start_ticks = info.start_ticks;
  record.word = record_word(RecordKind::kRequest, info.op, now - info.start_ticks);
  record.payload = info.fill == Fill::kCommunicator ? 0 : info.payload;
  record.comm = info.comm;
  record.context = info.context;
  record.sequence = info.sequence;
  record.peer = info.peer;
  if (info.fill == Fill::kMessage || info.fill == Fill::kReceivedHalf || info.fill == Fill::kBytes) {
    const uint32_t datatype = payload_datatype(info.payload);
    record.payload = info.fill == Fill::kBytes ? was_read(status, datatype) : received(status, datatype);
    // MPICH 4.0 leaves the status of an Isendrecv as it was: it is asked only for what was not said at the post.
    const bool ask = info.fill == Fill::kMessage;
    if (ask || (info.fill == Fill::kReceivedHalf && info.peer == MPI_ANY_SOURCE)) record.peer = source_of(status);
    if (ask || (info.fill == Fill::kReceivedHalf && info.sequence == static_cast<uint32_t>(MPI_ANY_TAG)))
      record.sequence = static_cast<uint32_t>(status.MPI_TAG);
    if (info.fill != Fill::kReceivedHalf) add_bytes(thread, info, payload_bytes(record.payload));
  }
  write_record(thread, !(info.flags & kRequestNotKept), record);
}

/// Persistent ones stay, to be started again. No completing call holds it any more.
DDL_HOT void end_request(RequestInfo* info) {
  if (info->flags & kRequestPersistent) {
    info->flags &= static_cast<uint8_t>(~(kRequestActive | kRequestHeld));
  } else {
    remove(info);
  }
}

/// An entry for what MPI has just named `handle`, to be filled in; NULL: no memory, which is counted.
RequestInfo* claim_request(MPI_Request handle) {
  RequestInfo* slot = request_slot(handle);
  const StripeLock lock(slot);
  RequestInfo* info = find(slot, handle);
  if (info) {
    // MPI gave the handle out again without our having seen its end (completed through a call that we do not wrap).
    if (info->flags & kRequestActive) count_loss(kLossRequests);
  } else {
    info = key_of(slot->handle) ? take_chained(slot) : slot;
    if (!info) {
      count_loss(kLossRequests);
      return nullptr;
    }
  }
  info->handle = handle;
  info->flags = 0;
  return info;
}

}  // namespace

void post_request(MPI_Request handle, const OpenCall& call, uint64_t now, const Posted& posted) {
  if (is_no_request(handle)) {
    if (posted.persistent) return;
    const uint64_t payload =
        // a receive that is complete by then is one from MPI_PROC_NULL
        posted.fill == Fill::kNothing ? posted.payload : 0;
    return write_record(call.thread, call.keep,
                        {.start_ticks = call.start_ticks,
                         .word = record_word(RecordKind::kRequest, call.op, now - call.start_ticks),
                         .payload = payload,
                         .comm = call.comm,
                         .context = call.context,
                         .sequence = posted.sequence,
                         .peer = posted.peer});
  }
  RequestInfo* info = claim_request(handle);
  if (!info) return;
  info->start_ticks = call.start_ticks;
  info->payload = posted.payload;
  info->comm = call.comm;
  info->context = call.context;
  info->sequence = posted.sequence;
  info->peer = posted.peer;
  info->op = call.op;
  info->fill = posted.fill;
  info->flags = (call.keep ? 0 : kRequestNotKept) | (posted.collective ? kRequestCollective : 0) |
                (posted.persistent ? kRequestPersistent : kRequestActive);
  info->thread = call.thread->index;
  if (posted.fill == Fill::kCommunicator) {
    info->new_comm = posted.new_comm;
  } else if (posted.persistent) {
    info->numbered_key = posted.numbered_key;
  } else {
    info->received = call.entry;
  }
}

void post_unusual(MPI_Request handle, const OpenCall& call, uint64_t now, Fill fill, bool collective) {
  if (call.record->start_ticks != call.start_ticks) return count_loss(kLossRequests);
  Posted posted = {};
  posted.payload = call.record->payload;
  posted.sequence = call.record->sequence;
  posted.peer = call.record->peer;
  posted.fill = fill;
  posted.collective = collective;
  post_request(handle, call, now, posted);
}

RequestInfo* find_request_in_chain(RequestInfo* slot, MPI_Request handle, bool hold) {
  const StripeLock lock(slot);
  RequestInfo* info = find(slot, handle);
  if (info && hold && g_mpi.multiple) info->flags |= kRequestHeld;
  return info;
}

void release_request(RequestInfo* request) {
  if (!request || !g_mpi.multiple) return;
  const StripeLock lock(request_slot(request->handle));
  request->flags &= static_cast<uint8_t>(~kRequestHeld);
}

void complete_request(Thread* thread, RequestInfo* request, const MPI_Status& status, uint64_t now) {
  RequestInfo copy;
  const RequestInfo* info = request;
  const bool multiple = g_mpi.multiple;
  if (__builtin_expect(multiple, 0)) {
    const StripeLock lock(request_slot(request->handle));
    copy = *request;
    info = &copy;
    end_request(request);
  }
  if (thread && info->flags & kRequestActive) {
    write_completion(thread, *info, status, now);
    if (__builtin_expect(info->fill == Fill::kCommunicator, 0))
      add_communicator(info->new_comm, find_communicator(info->payload), info->op, "MPI_Comm_idup", 0);
  }
  if (!multiple) end_request(request);
}

void observe_completion(Thread* thread, RequestInfo* request, const MPI_Status& status, uint64_t now) {
  if (!(request->flags & kRequestActive)) return;
  {
    const StripeLock lock(request_slot(request->handle));
    request->flags &= static_cast<uint8_t>(~kRequestActive);
  }
  write_completion(thread, *request, status, now);
}

void start_request(MPI_Request handle, uint64_t now) {
  RequestInfo info;
  {
    if (is_no_request(handle)) return;
    RequestInfo* slot = request_slot(handle);
    const StripeLock lock(slot);
    RequestInfo* request = find(slot, handle);
    if (!request || (request->flags & (kRequestPersistent | kRequestActive)) != kRequestPersistent) return;
    if (request->numbered_key) {
      Communicator* c = find_communicator(request->numbered_key);
      request->sequence = c->index == request->comm ? next_sequence(c) : kNoSequence;
    }
    request->flags |= kRequestActive;
    request->start_ticks = now;
    info = *request;
  }
  if (Thread* thread = this_thread(); thread && info.fill == Fill::kNothing)
    add_bytes(thread, info, payload_bytes(info.payload));
}

void forget_request(MPI_Request handle) {
  if (is_no_request(handle)) return;
  RequestInfo* slot = request_slot(handle);
  const StripeLock lock(slot);
  RequestInfo* info = find(slot, handle);
  if (!info) return;
  if (info->flags & kRequestActive) count_loss(kLossRequests);
  remove(info);
}

uint64_t outstanding_requests() {
  uint64_t active = 0;
  for (RequestInfo& slot : g_requests) {
    const StripeLock lock(&slot);
    for (const RequestInfo* info = &slot; info; info = info->next)
      active += key_of(info->handle) && info->flags & kRequestActive;
  }
  return active;
}

void reserve_request_slots() {
  const MPI_Request nobody = MPI_Request(UINTPTR_MAX);
  request_slot({})->handle = request_slot(g_mpi.request_null)->handle = nobody;
#ifdef OPEN_MPI
  request_slot(g_mpi.request_empty)->handle = nobody;
#endif
}

void reset_requests() {
  memset(static_cast<void*>(g_stripes), 0, sizeof g_stripes);
  for (RequestInfo& slot : g_requests) {  // most were never used, and stay pages that nobody has
    if (key_of(slot.handle) || slot.next) memset(static_cast<void*>(&slot), 0, sizeof slot);
  }
  reserve_request_slots();
}

}  // namespace ddl
