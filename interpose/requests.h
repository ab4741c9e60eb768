// From an MPI_Request to the operation behind it: what was posted where and when, until some call completes it. Injected code.
//
// A hash table whose slots are the entries, one cache line each, with a chain behind those that share a slot; the chain's entries come from
// anonymous memory, so that any number of requests can be outstanding. Locks, striped, are taken only under MPI_THREAD_MULTIPLE.
//
// Under MPI_THREAD_MULTIPLE MPI may give a handle out again to another thread before the one that completed it comes back to us. So a
// completing call takes hold of its requests before it calls MPI (find_request), and a post that finds its handle held adds a second entry;
// the holder completes what it holds, not what has the handle by then.
#pragma once

#include "interpose/communicators.h"
#include "interpose/payload.h"

namespace ddl {

/// What completing adds to what is known since the post.
enum class Fill : uint8_t {
  kNothing,
  kBytes,         ///< bytes (files)
  kMessage,       ///< bytes, source and tag (receives)
  kReceivedHalf,  ///< the same for what a Isendrecv receives: its post is the half that sends, and the one that the profile counts
  kCommunicator,  ///< MPI_Comm_idup: `payload` is the key of what is duplicated, `new_comm` the duplicate, of use once complete
};

/// What the poster of an operation knows of it beyond the call's own record.
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
  kRequestKept = 1,  ///< the window keeps it
  kRequestCollective = 2,
  kRequestPersistent = 4,
  kRequestActive = 8,  ///< persistent: started and not completed. Others: not known to be complete
  kRequestHeld = 16,   ///< a completing call is under way
};

struct alignas(64) RequestInfo {
  MPI_Request handle;    ///< key 0: free
  RequestInfo* next;     ///< with the same slot
  uint64_t start_ticks;  ///< enter of the post (persistent: of the last start)
  uint64_t payload;
  uint32_t comm;
  uint32_t context;
  uint32_t sequence;
  int32_t peer;
  uint16_t op;
  Fill fill;
  uint8_t flags;    ///< RequestFlag
  uint32_t thread;  ///< index of the one that posted
  union {
    uint64_t numbered_key;   ///< of persistent ones
    MPI_Comm new_comm;       ///< Fill::kCommunicator
    ProfileEntry* received;  ///< other ones that only the status tells the bytes of: the entry, of `thread`, that takes them
  };
};
static_assert(sizeof(RequestInfo) == 64);

constexpr uint32_t kRequestSlots = 1u << 14;
extern RequestInfo g_requests[kRequestSlots] __attribute__((visibility("hidden")));

inline RequestInfo* request_slot(MPI_Request handle) { return &g_requests[key_of(handle) * 0x9e3779b97f4a7c15ull >> (64 - 14)]; }
/// Stands for no operation, or for one that is complete.
inline bool is_no_request(MPI_Request handle) { return !key_of(handle) || handle == g_mpi.request_null || is_shared_request(handle); }

RequestInfo* claim_request_in_chain(MPI_Request handle);
/// An entry for what MPI has just named `handle`, to be filled in; NULL: no memory, which is counted.
DDL_HOT RequestInfo* claim_request(MPI_Request handle) {
  RequestInfo* slot = request_slot(handle);
  if (__builtin_expect(g_mpi.multiple || key_of(slot->handle) || slot->next, 0)) return claim_request_in_chain(handle);
  slot->handle = handle;
  return slot;
}

DDL_HOT void fill_request(RequestInfo* info, const OpenCall& call, const Posted& posted) {
  info->start_ticks = call.start_ticks;
  info->payload = posted.payload;
  info->comm = call.comm;
  info->context = call.context;
  info->sequence = posted.sequence;
  info->peer = posted.peer;
  info->op = call.op;
  info->fill = posted.fill;
  info->flags = (call.keep ? kRequestKept : 0) | (posted.collective ? kRequestCollective : 0) |
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

/// Remembers what `call` has posted and MPI has named `handle`. A handle that stands for "already complete" is recorded as such at once.
/// `call` must have been recorded and have ended at `now`.
DDL_HOT void post_request(MPI_Request handle, const OpenCall& call, uint64_t now, const Posted& posted) {
  if (__builtin_expect(is_no_request(handle), 0)) {
    if (posted.persistent) return;
    Record record;
    record.start_ticks = call.start_ticks;
    record.word = record_word(RecordKind::kRequest, call.op, now - call.start_ticks);
    record.payload = posted.fill == Fill::kNothing ? posted.payload : 0;  // a receive that is complete by then is one from MPI_PROC_NULL
    record.comm = call.comm;
    record.context = call.context;
    record.sequence = posted.sequence;
    record.peer = posted.peer;
    write_record(call.thread, call.keep, record);
    return;
  }
  RequestInfo* info = claim_request(handle);
  if (__builtin_expect(info != nullptr, 1)) fill_request(info, call, posted);
}

RequestInfo* find_request_in_chain(RequestInfo* slot, MPI_Request handle, bool hold);
/// The entry of a request, for the calls that complete it; NULL: not one that we follow. `hold`: it stays that request's, whatever handle
/// MPI gives out meanwhile, until complete_request() or release_request().
DDL_HOT RequestInfo* find_request(MPI_Request handle, bool hold) {
  if (is_no_request(handle)) return nullptr;
  RequestInfo* slot = request_slot(handle);
  if (__builtin_expect(!g_mpi.multiple && slot->handle == handle, 1)) return slot;
  return find_request_in_chain(slot, handle, hold);
}
void release_request(RequestInfo* request);

/// The same without MPI_THREAD_MULTIPLE, where it is found at first sight (or there is none: NULL). False: find_request() has to look.
DDL_HOT bool request_at_hand(MPI_Request handle, RequestInfo** entry) {
  RequestInfo* slot = kept_address(request_slot(handle));
  const bool there = __builtin_expect(slot->handle == handle, 1) && __builtin_expect(key_of(handle) != 0, 1);
  *entry = there ? slot : nullptr;
  return there || is_no_request(handle);
}

/// The entry's operation is done, as a call of `thread` (NULL: one that is not recorded) that returned at `now` says. Nothing happens where
/// it was done before (inactive persistent requests).
void complete_request(Thread* thread, RequestInfo* request, const MPI_Status& status, uint64_t now);
/// The same for an entry from request_at_hand().
DDL_HOT void complete_request_at_hand(Thread* thread, RequestInfo* info, const MPI_Status& status, uint64_t now) {
  const bool message = info->fill == Fill::kMessage;
  const bool usual = (info->flags & (kRequestActive | kRequestPersistent)) == kRequestActive && (message || info->fill == Fill::kNothing) &&
                     info->thread == thread->index;
  if (__builtin_expect(!usual, 0)) return complete_request(thread, info, status, now);
  Record* record = take_record(thread, info->flags & kRequestKept);
  record->start_ticks = info->start_ticks;
  memcpy(&record->comm, &info->comm, sizeof(info->comm) + sizeof(info->context));
  if (message) {
    record->payload = received(status, payload_datatype(info->payload));
    record->sequence = static_cast<uint32_t>(status.MPI_TAG);
    record->peer = source_of(status);
    info->received->bytes += payload_bytes(record->payload);
  } else {
    record->payload = info->payload;
    record->sequence = info->sequence;
    record->peer = info->peer;
  }
  publish(record, record_word(RecordKind::kRequest, info->op, now - info->start_ticks));
  info->handle = {};
}
/// MPI_Request_get_status says that it is done; the request itself lives on.
void observe_completion(Thread* thread, RequestInfo* request, const MPI_Status& status, uint64_t now);

void start_request(MPI_Request handle, uint64_t now);
/// MPI_Request_free: what is still active can no longer be followed.
void forget_request(MPI_Request handle);

/// How many are active now. Looks at every slot.
uint64_t outstanding_requests();
void reset_requests();

}  // namespace ddl
