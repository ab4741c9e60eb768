// From an MPI_Request to the operation behind it, with place and time of its post, until some call completes
// it. Injected code.
//
// A hash table whose slots are the entries, one cache line each, with a chain behind those that share a slot; the
// chain's entries come from anonymous memory, so that any number of requests can be outstanding. Locks, striped, are
// taken only under MPI_THREAD_MULTIPLE.
//
// Under MPI_THREAD_MULTIPLE MPI may give a handle out again to another thread before the one that completed it comes
// back to us. So a completing call takes hold of its requests before it calls MPI (find_request), and a post that finds
// its handle held adds a second entry; the holder completes the held entry, not the newer one.
#pragma once

#include "interpose/communicators.h"
#include "interpose/payload.h"

namespace ddl {

/// Facts known at completion, beside those of the post.
enum class Fill : uint8_t {
  kNothing,
  kMessage,  ///< bytes, source and tag (receives)
  kBytes,    ///< bytes (files)
  /// the same for what a Isendrecv receives: its post is the half that sends, and the one that the profile counts
  kReceivedHalf,
  /// MPI_Comm_idup: `payload` is the key of what is duplicated, `new_comm` the duplicate, of use once complete
  kCommunicator,
};

/// Facts about an operation that its posting call knows beyond its own record.
struct Posted {
  uint64_t payload;
  uint32_t sequence;  ///< of a collective; tag of a message
  int32_t peer;
  Fill fill;
  bool collective;
  bool persistent;
  uint64_t numbered_key;  ///< persistent collectives: each start takes a number on this communicator; else 0
  MPI_Comm new_comm;      ///< Fill::kCommunicator
};

enum RequestFlag : uint8_t {
  kRequestNotKept = 1,  ///< the window does not keep it
  kRequestCollective = 2,
  kRequestPersistent = 4,
  kRequestActive = 8,  ///< persistent: started and not completed. Others: not known to be complete
  kRequestHeld = 16,   ///< a completing call is under way
};

struct alignas(64) RequestInfo {
  MPI_Request handle;    ///< key 0: free
  RequestInfo* next;     ///< with the same slot
  uint64_t start_ticks;  ///< enter of the post (persistent: of the last start)
  uint64_t payload;      ///< this and up to `peer` as in Record
  uint32_t comm;
  uint32_t context;
  uint32_t sequence;
  int32_t peer;
  uint16_t op;
  Fill fill;
  uint8_t flags;    ///< RequestFlag
  uint32_t thread;  ///< index of the one that posted
  union {
    uint64_t numbered_key;  ///< of persistent ones
    MPI_Comm new_comm;      ///< Fill::kCommunicator
    /// other ones that only the status tells the bytes of: the entry, of `thread`, that takes them
    ProfileEntry* received;
  };
};
static_assert(sizeof(RequestInfo) == 64);
constexpr size_t kRequestSays = 24;  ///< payload .. peer
static_assert(offsetof(RequestInfo, op) - offsetof(RequestInfo, payload) == kRequestSays);
static_assert(sizeof(Record) - offsetof(Record, payload) == kRequestSays);

/// op .. thread in one word, to be written and compared as such.
constexpr uint64_t request_kind(uint32_t op, Fill fill, uint32_t flags, uint32_t thread) {
  return op | static_cast<uint64_t>(fill) << 16 | static_cast<uint64_t>(flags) << 24 |
         static_cast<uint64_t>(thread) << 32;
}
static_assert(offsetof(RequestInfo, fill) - offsetof(RequestInfo, op) == 2 &&
              offsetof(RequestInfo, flags) - offsetof(RequestInfo, op) == 3 &&
              offsetof(RequestInfo, thread) - offsetof(RequestInfo, op) == 4);

constexpr uint32_t kRequestSlots = 1u << 14;
extern RequestInfo g_requests[kRequestSlots] __attribute__((visibility("hidden")));

inline RequestInfo* request_slot(MPI_Request handle) {
  return &g_requests[static_cast<uint32_t>(key_of(handle)) * 0x9e3779b1u >> (32 - 14)];
}
/// Stands for no operation, or for one that is complete.
inline bool is_no_request(MPI_Request handle) {
  return !key_of(handle) || handle == g_mpi.request_null || is_shared_request(handle);
}
/// Handles that is_no_request() knows find their slots taken, so that a free slot needs no such test; but not these.
inline bool is_one_of_many_shared([[maybe_unused]] MPI_Request handle) {
#ifdef OPEN_MPI
  return false;  // there is one
#else
  return is_shared_request(handle);
#endif
}
/// Before the first look-up, and once the handles are known.
void reserve_request_slots();

/// Remembers the operation that `call` posted as `handle`. A handle that stands for "already complete" is recorded as
/// such at once. `call` must have been recorded and have ended at `now`.
void post_request(MPI_Request handle, const OpenCall& call, uint64_t now, const Posted& posted);

/// post_as_recorded() where its slot is taken, threads are many, or the record may have been overwritten since (then
/// the request is lost).
void post_unusual(MPI_Request handle, const OpenCall& call, uint64_t now, Fill fill, bool collective);
/// The same where the call's record describes the operation completely: in nearly all posts.
DDL_HOT void post_as_recorded(MPI_Request handle, const OpenCall& call, uint64_t now, Fill fill, bool collective) {
  RequestInfo* slot = kept_address(request_slot(handle));
  const Record* record = call.record;
  const auto is_taken = [&] { return (key_of(slot->handle) | reinterpret_cast<uintptr_t>(slot->next)) != 0; };
  if (__builtin_expect(g_mpi.multiple, 0) || __builtin_expect(is_taken() || is_one_of_many_shared(handle), 0) ||
      __builtin_expect(record->start_ticks != call.start_ticks, 0)) {  // the ring went round during this call
    // A copy, whose address may be known. Values that only this needs come from the record, and are not
    // kept during the call.
    const OpenCall copy = {call.thread,     call.record,  call.slot, call.entry, call.start_ticks, record->payload,
                           record->context, record->comm, call.op,   call.keep,  call.outermost};
    return post_unusual(handle, copy, now, fill, collective);
  }
  const uint64_t kind = request_kind(
      call.op, fill, (call.keep ? 0 : kRequestNotKept) | (collective ? kRequestCollective : 0) | kRequestActive,
      call.thread->index);
  slot->handle = handle;
  slot->start_ticks = call.start_ticks;
  memcpy(&slot->payload, &record->payload, kRequestSays);
  memcpy(&slot->op, &kind, sizeof kind);
  slot->received = call.entry;
}

RequestInfo* find_request_in_chain(RequestInfo* slot, MPI_Request handle, bool hold);
/// The entry of a request, for the calls that complete it; NULL: not one that we follow. `hold`: it stays that
/// request's, whatever handle MPI gives out meanwhile, until complete_request() or release_request().
DDL_HOT RequestInfo* find_request(MPI_Request handle, bool hold) {
  if (is_no_request(handle)) return nullptr;
  RequestInfo* slot = request_slot(handle);
  if (__builtin_expect(!g_mpi.multiple && slot->handle == handle, 1)) return slot;
  return find_request_in_chain(slot, handle, hold);
}
void release_request(RequestInfo* request);

/// The same without MPI_THREAD_MULTIPLE, in the first place looked at. NULL: none, or find_request() has to look.
DDL_HOT RequestInfo* request_at_hand(MPI_Request handle) {
  RequestInfo* slot = kept_address(request_slot(handle));
  return __builtin_expect(slot->handle == handle, 1) ? slot : nullptr;
}

/// Completes the entry's operation by a call of `thread` (NULL: one that is not recorded) that returned at `now`.
/// Nothing happens where it was complete before (inactive persistent requests).
void complete_request(Thread* thread, RequestInfo* request, const MPI_Status& status, uint64_t now);
/// The same for an entry from request_at_hand().
DDL_HOT void complete_request_at_hand(Thread* thread, RequestInfo* info, const MPI_Status& status, uint64_t now) {
  // Active, not persistent, of this thread; its status says all of a message that has come, or nothing.
  constexpr uint64_t kMatters =
      request_kind(0, static_cast<Fill>(0xfe), kRequestActive | kRequestPersistent, UINT32_MAX);
  uint64_t kind;
  memcpy(&kind, &info->op, sizeof kind);
  const bool message = info->fill == Fill::kMessage;
  if (__builtin_expect(((kind ^ request_kind(0, Fill::kNothing, kRequestActive, thread->index)) & kMatters) != 0, 0) ||
      (message && __builtin_expect(is_cancelled(status) || status_bytes(status) > kMaxPayloadBytes, 0)))
    return complete_request(thread, info, status, now);
  Record* record = take_record(thread, !(info->flags & kRequestNotKept));
  record->start_ticks = info->start_ticks;
  if (message) {
    const uint64_t bytes = status_bytes(status);
    const uint64_t from =
        static_cast<uint32_t>(status.MPI_TAG) | static_cast<uint64_t>(static_cast<uint32_t>(status.MPI_SOURCE)) << 32;
    record->payload = info->payload | bytes << 16;  // which has the datatype
    memcpy(&record->comm, &info->comm, sizeof(info->comm) + sizeof(info->context));
    memcpy(&record->sequence, &from, sizeof from);
    info->received->bytes += bytes;
  } else {
    memcpy(&record->payload, &info->payload, kRequestSays);
  }
  const uint64_t duration = now - info->start_ticks;
  publish(record, (__builtin_expect(duration > kMaxDurationTicks, 0) ? kMaxDurationTicks : duration) << 16 |
                      static_cast<uint64_t>(RecordKind::kRequest) << 12 | info->op);
  info->handle = {};
}
/// MPI_Request_get_status says that it is done; the request itself lives on.
void observe_completion(Thread* thread, RequestInfo* request, const MPI_Status& status, uint64_t now);

void start_request(MPI_Request handle, uint64_t now);
/// MPI_Request_free: an active operation can no longer be followed.
void forget_request(MPI_Request handle);

/// How many are active now. Looks at every slot.
uint64_t outstanding_requests();
void reset_requests();

}  // namespace ddl
