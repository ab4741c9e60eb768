// From an MPI_Request to the operation behind it: what was posted where and when, until some call completes it. Injected code.
//
// A chained hash table in striped sections. The stripe's lock is taken only under MPI_THREAD_MULTIPLE; the nodes come from anonymous
// memory, so that any number of requests can be outstanding.
#pragma once

#include "interpose/communicators.h"

namespace ddl {

struct RequestInfo {
  MPI_Request handle;
  RequestInfo* next;
  uint64_t start_ticks;  ///< enter of the post (persistent: of the last start)
  uint64_t payload;
  MPI_Comm parent;     ///< MPI_Comm_idup: what is duplicated ...
  MPI_Comm* new_comm;  ///< ... and where the duplicate appears; else NULL
  uint32_t comm;
  uint32_t context;
  uint32_t sequence;  ///< of a collective; tag of a message
  int32_t peer;
  uint16_t op;
  bool keep;
  bool collective;
  bool receive;
  bool persistent;
  bool active;  ///< persistent: started and not completed. Others: always true
};

/// Remembers what `call` has posted and MPI has named `handle`. A handle that stands for "already complete" is recorded as such at once.
/// `call` must have been recorded and have ended at `now`.
void post_request(MPI_Request handle, const OpenCall& call, uint64_t now, RequestInfo info);

/// The waiting calls ask this first, because MPI overwrites the handle. False: not a request that we follow.
bool look_up_request(MPI_Request handle, RequestInfo* copy);

/// A completing call returned at `now` and says that `handle` is done. Nothing happens if we do not follow it.
void complete_request(MPI_Request handle, const MPI_Status& status, uint64_t now);
void start_request(MPI_Request handle, uint64_t now);
/// MPI_Request_free: what is still active can no longer be followed.
void forget_request(MPI_Request handle);

uint64_t outstanding_requests();
void reset_requests();

}  // namespace ddl
