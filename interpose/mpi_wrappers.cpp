// The wrappers that the table alone defines: collectives, messages, persistent operations, communicators.
//
// Each is: find the real function, pass through when nothing is recorded, open a record, call, close the record, remember the request.
// Nothing here looks at an argument before MPI would, or at one that MPI ignores.
#include "interpose/payload.h"
#include "interpose/requests.h"

namespace ddl {
namespace {

/// A collective is counted on its communicator whether or not this thread records, or the ranks' numbers would drift apart.
inline OpenCall begin_collective(uint32_t op, const void* site, Communicator* c, int root, uint64_t payload) {
  return begin_call(op, site, c->index, true, next_sequence(c), root, payload);
}

inline void end(const OpenCall& call, uint64_t payload) {
  if (call.thread) end_call(call, payload);
}

inline void end_receive(const OpenCall& call, int result, const MPI_Status& status, MPI_Datatype datatype) {
  if (!call.thread) return;
  uint64_t bytes = 0;
  if (result == MPI_SUCCESS) {
    bytes = received(status, payload_datatype(payload(1, datatype)));
    set_source(call, status.MPI_SOURCE, static_cast<uint32_t>(status.MPI_TAG));
  }
  end_call(call, bytes);
}

/// Posts: the call itself, then the request that it left behind.
inline void end_post(const OpenCall& call, int result, const MPI_Request* request, uint64_t call_payload, RequestInfo info) {
  if (!call.thread) return;
  const uint64_t now = end_call(call, call_payload);
  if (result == MPI_SUCCESS) post_request(*request, call, now, info);
}

}  // namespace
}  // namespace ddl

using namespace ddl;

#define DDL_MPI_COLLECTIVE(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, ROOT, PAYLOAD) \
  DDL_EXPORT int NAME PARAMETERS {                                                  \
    DDL_REAL(NAME);                                                                 \
    if (!mpi_recording(site)) return real ARGUMENTS;                                \
    Communicator* c = find_communicator(COMM);                                      \
    const uint64_t sent = PAYLOAD;                                                  \
    const OpenCall call = begin_collective(kOp_##NAME, site, c, ROOT, sent);        \
    const int result = real ARGUMENTS;                                              \
    end(call, sent);                                                                \
    return result;                                                                  \
  }

#define DDL_MPI_ICOLLECTIVE(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, ROOT, PAYLOAD) \
  DDL_EXPORT int NAME PARAMETERS {                                                   \
    DDL_REAL(NAME);                                                                  \
    if (!mpi_recording(site)) return real ARGUMENTS;                                 \
    Communicator* c = find_communicator(COMM);                                       \
    const uint64_t sent = PAYLOAD;                                                   \
    const OpenCall call = begin_collective(kOp_##NAME, site, c, ROOT, sent);         \
    RequestInfo info = {};                                                           \
    info.payload = sent;                                                             \
    info.collective = true;                                                          \
    info.sequence = c->sequence;                                                     \
    info.peer = ROOT;                                                                \
    const int result = real ARGUMENTS;                                               \
    end_post(call, result, request, sent, info);                                     \
    return result;                                                                   \
  }

#define DDL_MPI_SEND(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, PAYLOAD)                               \
  DDL_EXPORT int NAME PARAMETERS {                                                                               \
    DDL_REAL(NAME);                                                                                              \
    if (!mpi_recording(site)) return real ARGUMENTS;                                                             \
    Communicator* c = find_communicator(COMM);                                                                   \
    const uint64_t sent = PEER == MPI_PROC_NULL ? 0 : PAYLOAD;                                                   \
    const OpenCall call = begin_call(kOp_##NAME, site, c->index, false, static_cast<uint32_t>(TAG), PEER, sent); \
    const int result = real ARGUMENTS;                                                                           \
    end(call, sent);                                                                                             \
    return result;                                                                                               \
  }

#define DDL_MPI_ISEND(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, PAYLOAD)                              \
  DDL_EXPORT int NAME PARAMETERS {                                                                               \
    DDL_REAL(NAME);                                                                                              \
    if (!mpi_recording(site)) return real ARGUMENTS;                                                             \
    Communicator* c = find_communicator(COMM);                                                                   \
    const uint64_t sent = PEER == MPI_PROC_NULL ? 0 : PAYLOAD;                                                   \
    const OpenCall call = begin_call(kOp_##NAME, site, c->index, false, static_cast<uint32_t>(TAG), PEER, sent); \
    RequestInfo info = {};                                                                                       \
    info.payload = sent;                                                                                         \
    info.sequence = static_cast<uint32_t>(TAG);                                                                  \
    info.peer = PEER;                                                                                            \
    const int result = real ARGUMENTS;                                                                           \
    end_post(call, result, request, sent, info);                                                                 \
    return result;                                                                                               \
  }

#define DDL_MPI_RECV(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, DATATYPE)                           \
  DDL_EXPORT int NAME PARAMETERS {                                                                            \
    DDL_REAL(NAME);                                                                                           \
    if (!mpi_recording(site)) return real ARGUMENTS;                                                          \
    MPI_Status own;                                                                                           \
    if (status == MPI_STATUS_IGNORE) status = &own;                                                           \
    Communicator* c = find_communicator(COMM);                                                                \
    const OpenCall call = begin_call(kOp_##NAME, site, c->index, false, static_cast<uint32_t>(TAG), PEER, 0); \
    const int result = real ARGUMENTS;                                                                        \
    end_receive(call, result, *status, DATATYPE);                                                             \
    return result;                                                                                            \
  }

#define DDL_MPI_IRECV(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, DATATYPE)                          \
  DDL_EXPORT int NAME PARAMETERS {                                                                            \
    DDL_REAL(NAME);                                                                                           \
    if (!mpi_recording(site)) return real ARGUMENTS;                                                          \
    Communicator* c = find_communicator(COMM);                                                                \
    const OpenCall call = begin_call(kOp_##NAME, site, c->index, false, static_cast<uint32_t>(TAG), PEER, 0); \
    RequestInfo info = {};                                                                                    \
    info.payload = payload(1, DATATYPE); /* for its datatype; the bytes come with the status */               \
    info.receive = true;                                                                                      \
    info.sequence = static_cast<uint32_t>(TAG);                                                               \
    info.peer = PEER;                                                                                         \
    const int result = real ARGUMENTS;                                                                        \
    end_post(call, result, request, 0, info);                                                                 \
    return result;                                                                                            \
  }

#define DDL_MPI_PERSISTENT(NAME, CLASS, RECEIVE, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, PAYLOAD)             \
  DDL_EXPORT int NAME PARAMETERS {                                                                            \
    DDL_REAL(NAME);                                                                                           \
    if (!mpi_recording(site)) return real ARGUMENTS;                                                          \
    Communicator* c = find_communicator(COMM);                                                                \
    const OpenCall call = begin_call(kOp_##NAME, site, c->index, false, static_cast<uint32_t>(TAG), PEER, 0); \
    RequestInfo info = {};                                                                                    \
    info.payload = PEER == MPI_PROC_NULL ? 0 : PAYLOAD;                                                       \
    info.receive = RECEIVE;                                                                                   \
    info.persistent = true;                                                                                   \
    info.sequence = static_cast<uint32_t>(TAG);                                                               \
    info.peer = PEER;                                                                                         \
    const int result = real ARGUMENTS;                                                                        \
    end_post(call, result, request, 0, info);                                                                 \
    return result;                                                                                            \
  }

#define DDL_MPI_COMMUNICATOR(NAME, PARAMETERS, ARGUMENTS, PARENT, NEW, COLLECTIVE, TAG)                                                \
  DDL_EXPORT int NAME PARAMETERS {                                                                                                     \
    DDL_REAL(NAME);                                                                                                                    \
    if (!mpi_recording(site)) return real ARGUMENTS;                                                                                   \
    Communicator* c = find_communicator(PARENT);                                                                                       \
    const OpenCall call =                                                                                                              \
        COLLECTIVE ? begin_collective(kOp_##NAME, site, c, -1, 0) : begin_call(kOp_##NAME, site, c->index, false, kNoSequence, -1, 0); \
    const int result = real ARGUMENTS;                                                                                                 \
    end(call, 0);                                                                                                                      \
    if (result == MPI_SUCCESS) add_communicator(*NEW, c, kOp_##NAME, #NAME, TAG);                                                      \
    return result;                                                                                                                     \
  }

#include "interpose/mpi_calls.def"
