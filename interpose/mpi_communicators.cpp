// Communicator calls that the table cannot express: the non-blocking duplicate, the end of a communicator, its name.
#include "interpose/requests.h"

using namespace ddl;

DDL_EXPORT int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request) {
  DDL_REAL(MPI_Comm_idup);
  if (!mpi_recording(site)) return real(comm, newcomm, request);
  Communicator* c = find_communicator(comm);
  const uint32_t sequence = next_sequence(c);
  const OpenCall call = begin_call(kOp_MPI_Comm_idup, site, c->index, true, sequence, -1, 0);
  RequestInfo info = {};
  info.collective = true;
  info.sequence = sequence;
  info.peer = -1;
  info.parent = comm;
  info.new_comm = newcomm;
  const int result = real(comm, newcomm, request);
  if (call.thread) {
    const uint64_t now = end_call(call, 0);
    if (result == MPI_SUCCESS) post_request(*request, call, now, info);
  }
  return result;
}

namespace {

/// The handle is taken out of our table first: MPI may give it to another communicator as soon as the real call has let it go.
template <class Real>
int end_communicator(Real real, uint32_t op, const void* site, MPI_Comm* comm) {
  const OpenCall call = begin_call(op, site, comm ? find_communicator(*comm)->index : kNoComm, false, kNoSequence, -1, 0);
  if (comm) remove_communicator(*comm);
  const int result = real(comm);
  if (call.thread) end_call(call, 0);
  return result;
}

}  // namespace

DDL_EXPORT int MPI_Comm_free(MPI_Comm* comm) {
  DDL_REAL(MPI_Comm_free);
  return mpi_recording(site) ? end_communicator(real, kOp_MPI_Comm_free, site, comm) : real(comm);
}

DDL_EXPORT int MPI_Comm_disconnect(MPI_Comm* comm) {
  DDL_REAL(MPI_Comm_disconnect);
  return mpi_recording(site) ? end_communicator(real, kOp_MPI_Comm_disconnect, site, comm) : real(comm);
}

DDL_EXPORT int MPI_Comm_set_name(MPI_Comm comm, const char* name) {
  DDL_REAL(MPI_Comm_set_name);
  if (!mpi_recording(site)) return real(comm, name);
  const Communicator* c = find_communicator(comm);
  const OpenCall call = begin_call(kOp_MPI_Comm_set_name, site, c->index, false, kNoSequence, -1, 0);
  const int result = real(comm, name);
  if (call.thread) end_call(call, 0);
  if (result == MPI_SUCCESS && c->index != kNoComm) write_communicator_name(c->index, name);
  return result;
}
