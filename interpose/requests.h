// From an MPI_Request to the operation behind it: what was posted where and when, until some call completes it. Injected code.
//
// A chained hash table in striped sections. The stripe's lock is taken only under MPI_THREAD_MULTIPLE; the nodes come from anonymous
// memory, so that any number of requests can be outstanding.
//
// Under MPI_THREAD_MULTIPLE MPI may give a handle out again to another thread before the one that completed it comes back to us. So a
// completing call takes hold of its requests before it calls MPI (hold_request), and a post that finds its handle held adds a second entry;
// the holder completes what it holds, not what has the handle by then.
#pragma once

#include "interpose/communicators.h"

namespace ddl {

/// What the status of a completed operation adds to what is known since its post.
enum class Fill : uint8_t {
  kNothing,
  kBytes,         ///< bytes (files)
  kMessage,       ///< bytes, source and tag (receives)
  kReceivedHalf,  ///< the same for what a Isendrecv receives: its post is the half that sends, and the one that the profile counts
};

struct RequestInfo {
  MPI_Request handle;
  RequestInfo* next;
  uint64_t start_ticks;  ///< enter of the post (persistent: of the last start)
  uint64_t payload;
  MPI_Comm parent;        ///< MPI_Comm_idup: what is duplicated ...
  MPI_Comm new_comm;      ///< ... and the duplicate, of use once complete; else no handle
  uint64_t numbered_key;  ///< persistent collectives: each start takes a number on this communicator; else 0
  uint32_t comm;
  uint32_t context;
  uint32_t sequence;  ///< of a collective; tag of a message
  int32_t peer;
  uint16_t op;
  Fill fill;
  bool keep;
  bool collective;
  bool persistent;
  bool active;  ///< persistent: started and not completed. Others: not known to be complete
  bool held;    ///< a completing call is under way
};

/// Remembers what `call` has posted and MPI has named `handle`. A handle that stands for "already complete" is recorded as such at once.
/// `call` must have been recorded and have ended at `now`.
void post_request(MPI_Request handle, const OpenCall& call, uint64_t now, RequestInfo info);

/// The entry of a request, for the calls that complete it; NULL: not one that we follow. `hold`: it stays that request's, whatever handle
/// MPI gives out meanwhile, until complete_request() or release_request().
RequestInfo* find_request(MPI_Request handle, bool hold);
void release_request(RequestInfo* request);

/// The entry's operation is done, as a call that returned at `now` says. False: it was done before (inactive persistent requests).
bool is_active(const RequestInfo* request);
void complete_request(RequestInfo* request, const MPI_Status& status, uint64_t now);
/// MPI_Request_get_status says that it is done; the request itself lives on.
void observe_completion(RequestInfo* request, const MPI_Status& status, uint64_t now);

void start_request(MPI_Request handle, uint64_t now);
/// MPI_Request_free: what is still active can no longer be followed.
void forget_request(MPI_Request handle);

uint64_t outstanding_requests();
void reset_requests();

}  // namespace ddl
