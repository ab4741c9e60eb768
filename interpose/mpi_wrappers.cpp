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

/// Sendrecv: the call is the send. What it received is a record of its own, of kind request, as if it had been posted and completed within
/// the call; the profile does not count it.
inline void end_exchange(const OpenCall& call, int result, uint64_t sent, const MPI_Status& status, MPI_Datatype datatype) {
  if (!call.thread) return;
  const uint64_t now = end_call(call, sent);
  if (result != MPI_SUCCESS) return;
  Record half;
  half.start_ticks = call.start_ticks;
  half.word = record_word(RecordKind::kRequest, call.op, now - call.start_ticks);
  half.payload = received(status, payload_datatype(payload(1, datatype)));
  half.comm = call.comm;
  half.context = call.context;
  half.sequence = static_cast<uint32_t>(status.MPI_TAG);
  half.peer = status.MPI_SOURCE;
  write_record(call.thread, call.keep, half);
}

/// Posts: the call itself, then the request that it left behind.
inline void end_post(const OpenCall& call, int result, const MPI_Request* request, uint64_t call_payload, RequestInfo info) {
  if (!call.thread) return;
  const uint64_t now = end_call(call, call_payload);
  if (result == MPI_SUCCESS) post_request(*request, call, now, info);
}

/// What a post leaves behind, as far as the call's arguments tell.
inline RequestInfo posted_collective(uint64_t payload, const Communicator* c, int root) {
  RequestInfo info = {};
  info.payload = payload;
  info.collective = true;
  info.sequence = c->sequence;
  info.peer = root;
  return info;
}

inline RequestInfo posted_message(uint64_t payload, int peer, int tag, bool receive, bool persistent) {
  RequestInfo info = {};
  info.payload = payload;
  info.receive = receive;
  info.persistent = persistent;
  info.sequence = static_cast<uint32_t>(tag);
  info.peer = peer;
  return info;
}

inline OpenCall begin_message(uint32_t op, const void* site, const Communicator* c, int peer, int tag, uint64_t payload) {
  return begin_call(op, site, c->index, false, static_cast<uint32_t>(tag), peer, payload);
}

}  // namespace
}  // namespace ddl

using namespace ddl;

// clang-format off
#define DDL_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM, BEFORE, AFTER) \
  DDL_EXPORT int NAME PARAMETERS {                                    \
    DDL_REAL(NAME);                                                   \
    if (!mpi_recording(site)) return real ARGUMENTS;                  \
    Communicator* c = find_communicator(COMM);                        \
    BEFORE;                                                           \
    const int result = real ARGUMENTS;                                \
    AFTER;                                                            \
    return result;                                                    \
  }

#define DDL_MPI_COLLECTIVE(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, ROOT, PAYLOAD)             \
  DDL_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM,                                                \
              const uint64_t sent = PAYLOAD;                                                    \
              const OpenCall call = begin_collective(kOp_##NAME, site, c, ROOT, sent),          \
              end(call, sent))

#define DDL_MPI_ICOLLECTIVE(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, ROOT, PAYLOAD)            \
  DDL_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM,                                                \
              const uint64_t sent = PAYLOAD;                                                    \
              const OpenCall call = begin_collective(kOp_##NAME, site, c, ROOT, sent);          \
              const RequestInfo info = posted_collective(sent, c, ROOT),                        \
              end_post(call, result, request, sent, info))

#define DDL_MPI_SEND(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, PAYLOAD)              \
  DDL_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM,                                                \
              const uint64_t sent = PEER == MPI_PROC_NULL ? 0 : PAYLOAD;                        \
              const OpenCall call = begin_message(kOp_##NAME, site, c, PEER, TAG, sent),        \
              end(call, sent))

#define DDL_MPI_EXCHANGE(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, PAYLOAD, DATATYPE) \
  DDL_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM,                                                \
              MPI_Status own;                                                                   \
              if (status == MPI_STATUS_IGNORE) status = &own;                                   \
              const uint64_t sent = PEER == MPI_PROC_NULL ? 0 : PAYLOAD;                        \
              const OpenCall call = begin_message(kOp_##NAME, site, c, PEER, TAG, sent),        \
              end_exchange(call, result, sent, *status, DATATYPE))

#define DDL_MPI_ISEND(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, PAYLOAD)             \
  DDL_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM,                                                \
              const uint64_t sent = PEER == MPI_PROC_NULL ? 0 : PAYLOAD;                        \
              const OpenCall call = begin_message(kOp_##NAME, site, c, PEER, TAG, sent);        \
              const RequestInfo info = posted_message(sent, PEER, TAG, false, false),           \
              end_post(call, result, request, sent, info))

#define DDL_MPI_RECV(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, DATATYPE)             \
  DDL_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM,                                                \
              MPI_Status own;                                                                   \
              if (status == MPI_STATUS_IGNORE) status = &own;                                   \
              const OpenCall call = begin_message(kOp_##NAME, site, c, PEER, TAG, 0),           \
              end_receive(call, result, *status, DATATYPE))

// The payload of one element carries the datatype; the bytes come with the status.
#define DDL_MPI_IRECV(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, DATATYPE)            \
  DDL_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM,                                                \
              const OpenCall call = begin_message(kOp_##NAME, site, c, PEER, TAG, 0);           \
              const RequestInfo info = posted_message(payload(1, DATATYPE), PEER, TAG, true, false), \
              end_post(call, result, request, 0, info))

#define DDL_MPI_PERSISTENT(NAME, CLASS, RECEIVE, PARAMETERS, ARGUMENTS, COMM, PEER, TAG, PAYLOAD) \
  DDL_WRAPPER(NAME, PARAMETERS, ARGUMENTS, COMM,                                                \
              const OpenCall call = begin_message(kOp_##NAME, site, c, PEER, TAG, 0);           \
              const RequestInfo info = posted_message(PEER == MPI_PROC_NULL ? 0 : PAYLOAD, PEER, TAG, RECEIVE, true), \
              end_post(call, result, request, 0, info))

#define DDL_MPI_COMMUNICATOR(NAME, PARAMETERS, ARGUMENTS, PARENT, NEW, COLLECTIVE, TAG)         \
  DDL_WRAPPER(NAME, PARAMETERS, ARGUMENTS, PARENT,                                              \
              const OpenCall call = COLLECTIVE ? begin_collective(kOp_##NAME, site, c, -1, 0)   \
                                               : begin_message(kOp_##NAME, site, c, -1, 0, 0),  \
              end(call, 0);                                                                     \
              if (result == MPI_SUCCESS) add_communicator(*NEW, c, kOp_##NAME, #NAME, TAG))

// clang-format on

#include "interpose/mpi_calls.def"
