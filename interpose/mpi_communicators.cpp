// Calls on communicators, windows and files that the table cannot express: the non-blocking duplicate, ends and names.
#include "interpose/payload.h"
#include "interpose/requests.h"
#include "interpose/wrapper.h"

namespace ddl {
namespace {

/// `call_real` posts the duplication.
template <class CallReal>
DDL_INLINE int post_duplicate(uint32_t op, const void* site, MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request,
                              CallReal call_real) {
  Communicator* c = find_communicator(key_of(comm));
  Posted info = {};
  info.payload = key_of(comm);
  info.fill = Fill::kCommunicator;
  info.collective = true;
  info.sequence = next_sequence(c);
  info.peer = -1;
  const OpenCall call = begin_call(op, site, c->index, true, info.sequence, -1, 0);
  const int result = call_real();
  // MPI libraries name the duplicate at once, and Fortran layers rely on it: what newcomm points to may be gone
  // when it is complete.
  if (result == MPI_SUCCESS) info.new_comm = *newcomm;
  if (call.thread) {
    const uint64_t now = end_call(call, 0);
    if (result == MPI_SUCCESS) post_request(*request, call, now, info);
  }
  return result;
}

template <class Real>
DDL_INLINE int MPI_Comm_idup_recorded(Real real, const void* site, MPI_Comm comm, MPI_Comm* newcomm,
                                      MPI_Request* request) {
  return post_duplicate(kOp_MPI_Comm_idup, site, comm, newcomm, request, [&] { return real(comm, newcomm, request); });
}

#if DDL_MPI4
template <class Real>
DDL_INLINE int MPI_Comm_idup_with_info_recorded(Real real, const void* site, MPI_Comm comm, MPI_Info mpi_info,
                                                MPI_Comm* newcomm, MPI_Request* request) {
  return post_duplicate(kOp_MPI_Comm_idup_with_info, site, comm, newcomm, request,
                        [&] { return real(comm, mpi_info, newcomm, request); });
}
#endif

/// The handle is taken out of our table first: MPI may give it to another communicator as soon as the real
/// call has let it go.
template <class Real, class Handle>
DDL_INLINE int end_of(Real real, uint32_t op, const void* site, Handle* handle) {
  const uint64_t key = handle ? key_of(*handle) : 0;
  const OpenCall call = begin_call(op, site, find_communicator(key)->index, false, kNoSequence, -1, 0);
  Communicator* const removed = remove_communicator(key);
  const int result = real(handle);
  if (result != MPI_SUCCESS) restore_communicator(removed, key);
  if (call.thread) end_call(call, 0);
  return result;
}

template <class Real>
DDL_INLINE int MPI_Comm_free_recorded(Real real, const void* site, MPI_Comm* comm) {
  return end_of(real, kOp_MPI_Comm_free, site, comm);
}
template <class Real>
DDL_INLINE int MPI_Comm_disconnect_recorded(Real real, const void* site, MPI_Comm* comm) {
  return end_of(real, kOp_MPI_Comm_disconnect, site, comm);
}
template <class Real>
DDL_INLINE int MPI_Win_free_recorded(Real real, const void* site, MPI_Win* win) {
  return end_of(real, kOp_MPI_Win_free, site, win);
}
template <class Real>
DDL_INLINE int MPI_File_close_recorded(Real real, const void* site, MPI_File* fh) {
  return end_of(real, kOp_MPI_File_close, site, fh);
}

template <class Real, class Handle>
DDL_INLINE int set_name(Real real, uint32_t op, const void* site, Handle handle, const char* name) {
  const uint32_t index = find_communicator(key_of(handle))->index;
  const OpenCall call = begin_call(op, site, index, false, kNoSequence, -1, 0);
  const int result = real(handle, name);
  if (call.thread) end_call(call, 0);
  if (result == MPI_SUCCESS && index != kNoComm) write_communicator_name(index, name);
  return result;
}

template <class Real>
DDL_INLINE int MPI_Comm_set_name_recorded(Real real, const void* site, MPI_Comm comm, const char* name) {
  return set_name(real, kOp_MPI_Comm_set_name, site, comm, name);
}
template <class Real>
DDL_INLINE int MPI_Win_set_name_recorded(Real real, const void* site, MPI_Win win, const char* name) {
  return set_name(real, kOp_MPI_Win_set_name, site, win, name);
}

template <class Real>
DDL_INLINE int MPI_File_open_recorded(Real real, const void* site, MPI_Comm comm, const char* filename, int amode,
                                      MPI_Info info, MPI_File* fh) {
  Communicator* c = find_communicator(key_of(comm));
  const OpenCall call = begin_call(kOp_MPI_File_open, site, c->index, true, next_sequence(c), -1, 0);
  const int result = real(comm, filename, amode, info, fh);
  if (call.thread) end_call(call, 0);
  if (result == MPI_SUCCESS) add_file(*fh, c, kOp_MPI_File_open, "MPI_File_open", filename);
  return result;
}

template <class Real>
DDL_INLINE int MPI_Win_test_recorded(Real real, const void* site, MPI_Win win, int* flag) {
  const OpenPoll poll = begin_poll();
  const int result = real(win, flag);
  end_poll(poll, kOp_MPI_Win_test, site, find_communicator(key_of(win))->index, -1, result == MPI_SUCCESS && *flag);
  return result;
}

}  // namespace
}  // namespace ddl

using namespace ddl;

// clang-format off
DDL_EXPORTS(MPI_Comm_idup, (MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request), (comm, newcomm, request))
#if DDL_MPI4
DDL_EXPORTS(MPI_Comm_idup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm, MPI_Request* request), (comm, info, newcomm, request))
#endif
DDL_EXPORTS(MPI_Comm_free, (MPI_Comm* comm), (comm))
DDL_EXPORTS(MPI_Comm_disconnect, (MPI_Comm* comm), (comm))
DDL_EXPORTS(MPI_Comm_set_name, (MPI_Comm comm, const char* name), (comm, name))
DDL_EXPORTS(MPI_Win_free, (MPI_Win* win), (win))
DDL_EXPORTS(MPI_Win_set_name, (MPI_Win win, const char* name), (win, name))
DDL_EXPORTS(MPI_Win_test, (MPI_Win win, int* flag), (win, flag))
DDL_EXPORTS(MPI_File_open, (MPI_Comm comm, const char* filename, int amode, MPI_Info info, MPI_File* fh), (comm, filename, amode, info, fh))
DDL_EXPORTS(MPI_File_close, (MPI_File* fh), (fh))
// clang-format on
