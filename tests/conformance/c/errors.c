/* Calls that MPI refuses: every call with a null communicator, window or file, then counts, ranks, tags, roots, types,
 * operations and pointers that cannot be. The handler that is called, with which handle, and what the call returns.
 * conformance: ranks=2 threads=yes */
#include <setjmp.h>

#include "support/transcript.h"

#define NONE MPI_COMM_NULL
/* Where it crashes or ends the job by itself. */
#ifdef OPEN_MPI
#define NOT_IN_OPEN_MPI(CALL) (void)0
#define NOT_IN_MPICH(CALL) CALL
#else
#define NOT_IN_OPEN_MPI(CALL) CALL
#define NOT_IN_MPICH(CALL) (void)0
#endif
static __thread int a[64], b[64];
static __thread Count counts[4] = {1, 1, 1, 1};
static __thread Displacement displs[4] = {0, 1, 2, 3};
static __thread MPI_Aint bytes_displs[4] = {0, 4, 8, 12};
static __thread MPI_Datatype types[4];
static __thread MPI_Request request;
static __thread MPI_Status status;

static void null_communicator(void) {
  MPI_Message message;
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Group empty = MPI_GROUP_EMPTY;
  const int zero[2] = {0, 0}, one[2] = {1, 1};
  int flag = UNTOUCHED;
  note("== null communicator: messages");
  CALLC(MPI_Send, a, 1, MPI_INT, 0, 0, NONE);
  CALLC(MPI_Bsend, a, 1, MPI_INT, 0, 0, NONE);
  CALLC(MPI_Ssend, a, 1, MPI_INT, 0, 0, NONE);
  CALLC(MPI_Rsend, a, 1, MPI_INT, 0, 0, NONE);
  poison_statuses(&status, 1);
  CALLC(MPI_Recv, a, 1, MPI_INT, 0, 0, NONE, &status);
  note_status("status", &status, MPI_INT);
  CALLC(MPI_Recv, a, 1, MPI_INT, 0, 0, NONE, MPI_STATUS_IGNORE);
  CALLC(MPI_Isend, a, 1, MPI_INT, 0, 0, NONE, &request);
  CALLC(MPI_Ibsend, a, 1, MPI_INT, 0, 0, NONE, &request);
  CALLC(MPI_Issend, a, 1, MPI_INT, 0, 0, NONE, &request);
  CALLC(MPI_Irsend, a, 1, MPI_INT, 0, 0, NONE, &request);
  CALLC(MPI_Irecv, a, 1, MPI_INT, 0, 0, NONE, &request);
  CALLC(MPI_Send_init, a, 1, MPI_INT, 0, 0, NONE, &request);
  CALLC(MPI_Bsend_init, a, 1, MPI_INT, 0, 0, NONE, &request);
  CALLC(MPI_Ssend_init, a, 1, MPI_INT, 0, 0, NONE, &request);
  CALLC(MPI_Rsend_init, a, 1, MPI_INT, 0, 0, NONE, &request);
  CALLC(MPI_Recv_init, a, 1, MPI_INT, 0, 0, NONE, &request);
  CALLC(MPI_Sendrecv, a, 1, MPI_INT, 0, 0, b, 1, MPI_INT, 0, 0, NONE, &status);
  CALLC(MPI_Sendrecv_replace, a, 1, MPI_INT, 0, 0, 0, 0, NONE, &status);
#ifndef OPEN_MPI /* which calls the handler of MPI_COMM_NULL, and that is fatal */
  CALL(MPI_Probe, 0, 0, NONE, &status);
  CALL(MPI_Iprobe, 0, 0, NONE, &flag, &status);
  CALL(MPI_Mprobe, 0, 0, NONE, &message, &status);
  CALL(MPI_Improbe, 0, 0, NONE, &flag, &message, &status);
#else
  (void)message;
#endif
  note("  flag %d", flag);
  note_status("status", &status, MPI_INT);
  note("== null communicator: collectives");
  CALL(MPI_Barrier, NONE);
  CALLC(MPI_Bcast, a, 1, MPI_INT, 0, NONE);
  CALLC(MPI_Gather, a, 1, MPI_INT, b, 1, MPI_INT, 0, NONE);
  CALLC(MPI_Gatherv, a, 1, MPI_INT, b, counts, displs, MPI_INT, 0, NONE);
  CALLC(MPI_Scatter, a, 1, MPI_INT, b, 1, MPI_INT, 0, NONE);
  CALLC(MPI_Scatterv, a, counts, displs, MPI_INT, b, 1, MPI_INT, 0, NONE);
  NOT_IN_OPEN_MPI(CALLC(MPI_Allgather, a, 1, MPI_INT, b, 1, MPI_INT, NONE));
  CALLC(MPI_Allgatherv, a, 1, MPI_INT, b, counts, displs, MPI_INT, NONE);
  CALLC(MPI_Alltoall, a, 1, MPI_INT, b, 1, MPI_INT, NONE);
  CALLC(MPI_Alltoallv, a, counts, displs, MPI_INT, b, counts, displs, MPI_INT, NONE);
  CALLC(MPI_Alltoallw, a, counts, displs, types, b, counts, displs, types, NONE);
  CALLC(MPI_Reduce, a, b, 1, MPI_INT, MPI_SUM, 0, NONE);
  CALLC(MPI_Allreduce, a, b, 1, MPI_INT, MPI_SUM, NONE);
  CALLC(MPI_Reduce_scatter, a, b, counts, MPI_INT, MPI_SUM, NONE);
  CALLC(MPI_Reduce_scatter_block, a, b, 1, MPI_INT, MPI_SUM, NONE);
  CALLC(MPI_Scan, a, b, 1, MPI_INT, MPI_SUM, NONE);
  CALLC(MPI_Exscan, a, b, 1, MPI_INT, MPI_SUM, NONE);
  CALL(MPI_Ibarrier, NONE, &request);
  CALLC(MPI_Ibcast, a, 1, MPI_INT, 0, NONE, &request);
  CALLC(MPI_Igather, a, 1, MPI_INT, b, 1, MPI_INT, 0, NONE, &request);
  CALLC(MPI_Igatherv, a, 1, MPI_INT, b, counts, displs, MPI_INT, 0, NONE, &request);
  CALLC(MPI_Iscatter, a, 1, MPI_INT, b, 1, MPI_INT, 0, NONE, &request);
  CALLC(MPI_Iscatterv, a, counts, displs, MPI_INT, b, 1, MPI_INT, 0, NONE, &request);
  NOT_IN_OPEN_MPI(CALLC(MPI_Iallgather, a, 1, MPI_INT, b, 1, MPI_INT, NONE, &request));
  CALLC(MPI_Iallgatherv, a, 1, MPI_INT, b, counts, displs, MPI_INT, NONE, &request);
  CALLC(MPI_Ialltoall, a, 1, MPI_INT, b, 1, MPI_INT, NONE, &request);
  CALLC(MPI_Ialltoallv, a, counts, displs, MPI_INT, b, counts, displs, MPI_INT, NONE, &request);
  CALLC(MPI_Ialltoallw, a, counts, displs, types, b, counts, displs, types, NONE, &request);
  CALLC(MPI_Ireduce, a, b, 1, MPI_INT, MPI_SUM, 0, NONE, &request);
  CALLC(MPI_Iallreduce, a, b, 1, MPI_INT, MPI_SUM, NONE, &request);
  CALLC(MPI_Ireduce_scatter, a, b, counts, MPI_INT, MPI_SUM, NONE, &request);
  CALLC(MPI_Ireduce_scatter_block, a, b, 1, MPI_INT, MPI_SUM, NONE, &request);
  CALLC(MPI_Iscan, a, b, 1, MPI_INT, MPI_SUM, NONE, &request);
  CALLC(MPI_Iexscan, a, b, 1, MPI_INT, MPI_SUM, NONE, &request);
  note("== null communicator: neighbours");
  NOT_IN_OPEN_MPI(CALLC(MPI_Neighbor_allgather, a, 1, MPI_INT, b, 1, MPI_INT, NONE));
  CALLC(MPI_Neighbor_allgatherv, a, 1, MPI_INT, b, counts, displs, MPI_INT, NONE);
  CALLC(MPI_Neighbor_alltoall, a, 1, MPI_INT, b, 1, MPI_INT, NONE);
  CALLC(MPI_Neighbor_alltoallv, a, counts, displs, MPI_INT, b, counts, displs, MPI_INT, NONE);
  CALLC(MPI_Neighbor_alltoallw, a, counts, bytes_displs, types, b, counts, bytes_displs, types, NONE);
  NOT_IN_OPEN_MPI(CALLC(MPI_Ineighbor_allgather, a, 1, MPI_INT, b, 1, MPI_INT, NONE, &request));
  CALLC(MPI_Ineighbor_allgatherv, a, 1, MPI_INT, b, counts, displs, MPI_INT, NONE, &request);
  CALLC(MPI_Ineighbor_alltoall, a, 1, MPI_INT, b, 1, MPI_INT, NONE, &request);
  CALLC(MPI_Ineighbor_alltoallv, a, counts, displs, MPI_INT, b, counts, displs, MPI_INT, NONE, &request);
  CALLC(MPI_Ineighbor_alltoallw, a, counts, bytes_displs, types, b, counts, bytes_displs, types, NONE, &request);
  note("== null communicator: communicators");
  CALL(MPI_Comm_dup, NONE, &made);
  CALL(MPI_Comm_dup_with_info, NONE, MPI_INFO_NULL, &made);
  CALL(MPI_Comm_idup, NONE, &made, &request);
  CALL(MPI_Comm_split, NONE, 0, 0, &made);
  CALL(MPI_Comm_split_type, NONE, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made);
  CALL(MPI_Comm_create, NONE, empty, &made);
  CALL(MPI_Comm_create_group, NONE, empty, 0, &made);
  CALL(MPI_Cart_create, NONE, 1, one, zero, 0, &made);
  CALL(MPI_Cart_sub, NONE, one, &made);
  CALL(MPI_Graph_create, NONE, 1, one, zero, 0, &made);
  CALL(MPI_Dist_graph_create, NONE, 0, zero, zero, zero, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made);
  CALL(MPI_Dist_graph_create_adjacent, NONE, 0, zero, MPI_UNWEIGHTED, 0, zero, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made);
  CALL(MPI_Intercomm_create, NONE, 0, world, 0, 0, &made);
  CALL(MPI_Intercomm_merge, NONE, 0, &made);
  CALL(MPI_Comm_set_name, NONE, "nothing");
  CALL(MPI_Comm_free, &made);
  CALL(MPI_Comm_disconnect, &made);
  note("  made %s", made == MPI_COMM_NULL ? "nothing" : "something");
  note("== null communicator: processes");
  CALL(MPI_Comm_spawn, "nothing", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, NONE, &made, MPI_ERRCODES_IGNORE);
  CALL(MPI_Comm_accept, "nowhere", MPI_INFO_NULL, 0, NONE, &made);
  CALL(MPI_Comm_connect, "nowhere", MPI_INFO_NULL, 0, NONE, &made);
}

static void windows(void) {
  MPI_Win win = MPI_WIN_NULL;
  void* base = NULL;
  int flag = UNTOUCHED;
  note("== windows on a null communicator");
  CALLC(MPI_Win_create, a, 8, 1, MPI_INFO_NULL, NONE, &win);
  CALLC(MPI_Win_allocate, 8, 1, MPI_INFO_NULL, NONE, &base, &win);
  CALLC(MPI_Win_allocate_shared, 8, 1, MPI_INFO_NULL, NONE, &base, &win);
  CALL(MPI_Win_create_dynamic, MPI_INFO_NULL, NONE, &win);
  CALLC(MPI_Win_create, a, -8, 1, MPI_INFO_NULL, world, &win);
  CALLC(MPI_Win_create, a, 8, 0, MPI_INFO_NULL, world, &win);
  note("== null window");
  win = MPI_WIN_NULL;
  CALLC(MPI_Put, a, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
  CALLC(MPI_Get, a, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
  CALLC(MPI_Accumulate, a, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win);
  CALLC(MPI_Get_accumulate, a, 1, MPI_INT, b, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win);
  CALL(MPI_Fetch_and_op, a, b, MPI_INT, 0, 0, MPI_SUM, win);
  CALL(MPI_Compare_and_swap, a, b, b + 1, MPI_INT, 0, 0, win);
  CALLC(MPI_Rput, a, 1, MPI_INT, 0, 0, 1, MPI_INT, win, &request);
  CALLC(MPI_Rget, a, 1, MPI_INT, 0, 0, 1, MPI_INT, win, &request);
  CALLC(MPI_Raccumulate, a, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win, &request);
  CALLC(MPI_Rget_accumulate, a, 1, MPI_INT, b, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win, &request);
  CALL(MPI_Win_fence, 0, win);
  CALL(MPI_Win_post, MPI_GROUP_EMPTY, 0, win);
  CALL(MPI_Win_start, MPI_GROUP_EMPTY, 0, win);
  CALL(MPI_Win_complete, win);
  CALL(MPI_Win_wait, win);
  CALL(MPI_Win_test, win, &flag);
  CALL(MPI_Win_lock, MPI_LOCK_SHARED, 0, 0, win);
  CALL(MPI_Win_unlock, 0, win);
  CALL(MPI_Win_lock_all, 0, win);
  CALL(MPI_Win_unlock_all, win);
  CALL(MPI_Win_flush, 0, win);
  CALL(MPI_Win_flush_all, win);
  CALL(MPI_Win_flush_local, 0, win);
  CALL(MPI_Win_flush_local_all, win);
  CALL(MPI_Win_sync, win);
  CALL(MPI_Win_attach, win, a, 4);
  CALL(MPI_Win_detach, win, a);
  CALL(MPI_Win_set_name, win, "nothing");
  CALL(MPI_Win_free, &win);
  note("  flag %d", flag);

  note("== a window, refused");
  CALLC(MPI_Win_create, a, sizeof a, sizeof(int), MPI_INFO_NULL, world, &win);
  CALL(MPI_Win_set_name, win, "errors");
  tell_win_errors(win);
  CALL(MPI_Win_fence, 0, win);
  CALLC(MPI_Put, b, -1, MPI_INT, 0, 0, 1, MPI_INT, win);
  CALLC(MPI_Put, b, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_INT, win);
  CALLC(MPI_Put, b, 1, MPI_INT, 99, 0, 1, MPI_INT, win);
  CALLC(MPI_Put, b, 1, MPI_INT, 0, -1, 1, MPI_INT, win);
  CALLC(MPI_Get, b, 1, MPI_INT, -7, 0, 1, MPI_INT, win);
  CALLC(MPI_Accumulate, b, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_OP_NULL, win);
  CALL(MPI_Win_fence, 0, win);
  CALL(MPI_Win_lock, 4711, 0, 0, win);
  CALL(MPI_Win_lock, MPI_LOCK_SHARED, 99, 0, win);
  CALL(MPI_Win_unlock, 99, win);
  CALL(MPI_Win_free, &win);
}

static void files(void) {
  MPI_File file = MPI_FILE_NULL;
  note("== null file");
  CALLC(MPI_File_read, file, a, 1, MPI_INT, &status);
  CALLC(MPI_File_write, file, a, 1, MPI_INT, &status);
  CALLC(MPI_File_read_at, file, 0, a, 1, MPI_INT, &status);
  CALLC(MPI_File_write_at, file, 0, a, 1, MPI_INT, &status);
  CALLC(MPI_File_read_all, file, a, 1, MPI_INT, &status);
  CALLC(MPI_File_write_all, file, a, 1, MPI_INT, &status);
  CALLC(MPI_File_read_at_all, file, 0, a, 1, MPI_INT, &status);
  CALLC(MPI_File_write_at_all, file, 0, a, 1, MPI_INT, &status);
  CALLC(MPI_File_read_shared, file, a, 1, MPI_INT, &status);
  CALLC(MPI_File_write_shared, file, a, 1, MPI_INT, &status);
  CALLC(MPI_File_read_ordered, file, a, 1, MPI_INT, &status);
  CALLC(MPI_File_write_ordered, file, a, 1, MPI_INT, &status);
  CALLC(MPI_File_iread, file, a, 1, MPI_INT, &request);
  CALLC(MPI_File_iwrite, file, a, 1, MPI_INT, &request);
  CALLC(MPI_File_iread_at, file, 0, a, 1, MPI_INT, &request);
  CALLC(MPI_File_iwrite_at, file, 0, a, 1, MPI_INT, &request);
  CALLC(MPI_File_iread_all, file, a, 1, MPI_INT, &request);
  CALLC(MPI_File_iwrite_all, file, a, 1, MPI_INT, &request);
  CALLC(MPI_File_iread_at_all, file, 0, a, 1, MPI_INT, &request);
  CALLC(MPI_File_iwrite_at_all, file, 0, a, 1, MPI_INT, &request);
  CALLC(MPI_File_iread_shared, file, a, 1, MPI_INT, &request);
  CALLC(MPI_File_iwrite_shared, file, a, 1, MPI_INT, &request);
  CALLC(MPI_File_read_all_begin, file, a, 1, MPI_INT);
  CALL(MPI_File_read_all_end, file, a, &status);
  CALLC(MPI_File_write_all_begin, file, a, 1, MPI_INT);
  CALL(MPI_File_write_all_end, file, a, &status);
  CALLC(MPI_File_read_at_all_begin, file, 0, a, 1, MPI_INT);
  CALL(MPI_File_read_at_all_end, file, a, &status);
  CALLC(MPI_File_write_at_all_begin, file, 0, a, 1, MPI_INT);
  CALL(MPI_File_write_at_all_end, file, a, &status);
  CALLC(MPI_File_read_ordered_begin, file, a, 1, MPI_INT);
  CALL(MPI_File_read_ordered_end, file, a, &status);
  CALLC(MPI_File_write_ordered_begin, file, a, 1, MPI_INT);
  CALL(MPI_File_write_ordered_end, file, a, &status);
  CALL(MPI_File_set_view, file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  CALL(MPI_File_set_size, file, 0);
  CALL(MPI_File_preallocate, file, 0);
  CALL(MPI_File_sync, file);
  CALL(MPI_File_seek_shared, file, 0, MPI_SEEK_SET);
  CALL(MPI_File_set_atomicity, file, 0);
  CALL(MPI_File_set_info, file, MPI_INFO_NULL);
  CALL(MPI_File_close, &file);

  note("== a file, refused");
  CALL(MPI_File_open, NONE, "errors", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
  CALL(MPI_File_open, world, "is-not-there", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
  CALL(MPI_File_open, world, "errors", MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
  CALL(MPI_File_delete, "is-not-there", MPI_INFO_NULL);
  CALL(MPI_File_open, MPI_COMM_SELF,
       me       ? thread ? "3" : "2"
       : thread ? "1"
                : "0",
       MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
  if (file == MPI_FILE_NULL) return;
  tell_file_errors(file);
  CALLC(MPI_File_read, file, a, 1, MPI_INT, &status);
  CALLC(MPI_File_read_at, file, 0, a, 1, MPI_INT, &status);
  CALLC(MPI_File_write, file, a, -1, MPI_INT, &status);
  CALLC(MPI_File_write, file, a, 1, MPI_DATATYPE_NULL, &status);
  CALLC(MPI_File_write_at, file, 0, a, 1, MPI_INT, &status);
  CALL(MPI_File_close, &file);
}

static void arguments(void) {
  note("== counts, types, ranks, tags");
  CALLC(MPI_Send, a, -1, MPI_INT, 0, 0, world);
  CALLC(MPI_Send, a, 1, MPI_DATATYPE_NULL, 0, 0, world);
  CALLC(MPI_Send, a, 1, MPI_INT, 2, 0, world);
  CALLC(MPI_Send, a, 1, MPI_INT, -77, 0, world);
  CALLC(MPI_Send, a, 1, MPI_INT, 0, -5, world);
  CALLC(MPI_Send, a, 1, MPI_INT, MPI_ANY_SOURCE, 0, world);
  CALLC(MPI_Isend, a, -1, MPI_INT, 0, 0, world, &request);
  CALLC(MPI_Isend, a, 1, MPI_INT, 2, 0, world, &request);
  poison_statuses(&status, 1);
  CALLC(MPI_Recv, a, -1, MPI_INT, 0, 0, world, &status);
  CALLC(MPI_Recv, a, 1, MPI_DATATYPE_NULL, 0, 0, world, &status);
  CALLC(MPI_Recv, a, 1, MPI_INT, 2, 0, world, &status);
  CALLC(MPI_Recv, a, 1, MPI_INT, 0, -5, world, &status);
  CALLC(MPI_Irecv, a, 1, MPI_INT, 2, 0, world, &request);
  CALLC(MPI_Irecv, a, -1, MPI_INT, 0, 0, world, &request);
  CALLC(MPI_Send_init, a, 1, MPI_INT, 2, 0, world, &request);
  CALLC(MPI_Recv_init, a, -1, MPI_INT, 0, 0, world, &request);
  CALLC(MPI_Sendrecv, a, 1, MPI_INT, 2, 0, b, 1, MPI_INT, 0, 0, world, &status);
  CALLC(MPI_Sendrecv, a, 1, MPI_INT, 0, 0, b, -1, MPI_INT, 0, 0, world, &status);
  CALL(MPI_Probe, 2, 0, world, &status);
  note_status("status", &status, MPI_INT);
  MPI_Datatype uncommitted;
  PMPI_Type_contiguous(3, MPI_INT, &uncommitted);
  CALLC(MPI_Send, a, 1, uncommitted, 0, 0, world);
  CALLC(MPI_Bcast, a, 1, uncommitted, 0, world);
  PMPI_Type_free(&uncommitted);
  note("== roots, operations");
  CALLC(MPI_Bcast, a, 1, MPI_INT, 2, world);
  CALLC(MPI_Bcast, a, 1, MPI_INT, -1, world);
  CALLC(MPI_Bcast, a, -1, MPI_INT, 0, world);
  CALLC(MPI_Bcast, a, 1, MPI_DATATYPE_NULL, 0, world);
  CALLC(MPI_Gather, a, 1, MPI_INT, b, 1, MPI_INT, 2, world);
  CALLC(MPI_Gather, a, -1, MPI_INT, b, 1, MPI_INT, 0, world);
  CALLC(MPI_Scatter, a, 1, MPI_INT, b, 1, MPI_INT, 2, world);
  CALLC(MPI_Gatherv, a, 1, MPI_INT, b, counts, displs, MPI_INT, 2, world);
  CALLC(MPI_Scatterv, a, counts, displs, MPI_INT, b, 1, MPI_INT, 2, world);
  CALLC(MPI_Reduce, a, b, 1, MPI_INT, MPI_SUM, 2, world);
  CALLC(MPI_Reduce, a, b, 1, MPI_INT, MPI_OP_NULL, 0, world);
  NOT_IN_MPICH(CALLC(MPI_Reduce, a, b, -1, MPI_INT, MPI_SUM, 0, world));
  CALLC(MPI_Allreduce, a, b, 1, MPI_INT, MPI_OP_NULL, world);
  NOT_IN_MPICH(CALLC(MPI_Allreduce, a, b, -1, MPI_INT, MPI_SUM, world));
  CALLC(MPI_Allreduce, a, b, 1, MPI_DATATYPE_NULL, MPI_SUM, world);
  CALLC(MPI_Allreduce, a, b, 1, MPI_FLOAT, MPI_BXOR, world);
  CALLC(MPI_Allgather, a, -1, MPI_INT, b, 1, MPI_INT, world);
  CALLC(MPI_Alltoall, a, 1, MPI_INT, b, -1, MPI_INT, world);
  NOT_IN_MPICH(CALLC(MPI_Reduce_scatter_block, a, b, -1, MPI_INT, MPI_SUM, world));
  CALLC(MPI_Scan, a, b, 1, MPI_INT, MPI_OP_NULL, world);
  NOT_IN_MPICH(CALLC(MPI_Exscan, a, b, -1, MPI_INT, MPI_SUM, world));
  CALLC(MPI_Ibcast, a, 1, MPI_INT, 2, world, &request);
  CALLC(MPI_Iallreduce, a, b, 1, MPI_INT, MPI_OP_NULL, world, &request);
  CALLC(MPI_Ialltoall, a, -1, MPI_INT, b, 1, MPI_INT, world, &request);
}

/* Pointers to nothing, where MPI looks before it reads. */
static void pointers(void) {
  int index = UNTOUCHED, flag = UNTOUCHED, done = UNTOUCHED, indices[4];
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Request none = MPI_REQUEST_NULL, several[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  note("== null requests");
  CALL(MPI_Start, &none);
  CALL(MPI_Startall, 2, several);
  CALL(MPI_Cancel, &none);
  CALL(MPI_Request_free, &none);
  CALL(MPI_Grequest_complete, none);
  note("== pointers to nothing");
  CALL(MPI_Wait, NULL, &status);
  CALL(MPI_Waitall, 2, NULL, MPI_STATUSES_IGNORE);
  CALL(MPI_Waitany, 2, NULL, &index, &status);
  CALL(MPI_Waitsome, 2, NULL, &done, indices, MPI_STATUSES_IGNORE);
  CALL(MPI_Test, NULL, &flag, &status);
  CALL(MPI_Testall, 2, NULL, &flag, MPI_STATUSES_IGNORE);
  CALL(MPI_Testany, 2, NULL, &index, &flag, &status);
  CALL(MPI_Testsome, 2, NULL, &done, indices, MPI_STATUSES_IGNORE);
  CALL(MPI_Start, NULL);
  CALL(MPI_Startall, 2, NULL);
  CALL(MPI_Cancel, NULL);
  CALL(MPI_Request_free, NULL);
  CALL(MPI_Waitall, -1, several, MPI_STATUSES_IGNORE);
  CALL(MPI_Testany, -1, several, &index, &flag, &status);
  note("  index %s flag %d outcount %d",
       index == MPI_UNDEFINED ? "undefined"
       : index == UNTOUCHED   ? "untouched"
                              : "set",
       flag, done);
  CALLC(MPI_Isend, a, 1, MPI_INT, 0, 0, world, NULL);
  CALLC(MPI_Irecv, a, 1, MPI_INT, 0, 0, world, NULL);
  CALL(MPI_Comm_dup, world, NULL);
  CALL(MPI_Comm_split, world, 0, 0, NULL);
  NOT_IN_OPEN_MPI(CALL(MPI_Comm_free, NULL));
  CALL(MPI_Comm_create, world, MPI_GROUP_NULL, &made);
#ifdef OPEN_MPI /* MPICH reads them */
  CALLC(MPI_Gatherv, a, 1, MPI_INT, b, NULL, displs, MPI_INT, me, MPI_COMM_SELF);
  CALLC(MPI_Gatherv, MPI_IN_PLACE, 1, MPI_INT, b, NULL, displs, MPI_INT, 0, MPI_COMM_SELF);
  CALLC(MPI_Scatterv, a, NULL, displs, MPI_INT, b, 1, MPI_INT, 0, MPI_COMM_SELF);
  CALLC(MPI_Alltoallv, a, NULL, displs, MPI_INT, b, counts, displs, MPI_INT, world);
  CALLC(MPI_Alltoallw, a, counts, displs, NULL, b, counts, displs, types, world);
  CALLC(MPI_Reduce_scatter, a, b, NULL, MPI_INT, MPI_SUM, world);
#endif
  NOT_IN_OPEN_MPI(CALLC(MPI_Bcast, NULL, 1, MPI_INT, 0, world));
}

static void communicators(void) {
  const int much[1] = {99}, zero[1] = {0}, negative[1] = {-3};
  MPI_Comm made = MPI_COMM_NULL, predefined = MPI_COMM_WORLD;
  note("== communicators");
  CALL(MPI_Cart_create, world, 1, much, zero, 0, &made);
  CALL(MPI_Cart_create, world, 1, negative, zero, 0, &made);
  CALL(MPI_Cart_sub, world, zero, &made);
  CALL(MPI_Graph_create, world, 99, much, zero, 0, &made);
  CALL(MPI_Comm_split, world, -9, 0, &made);
  CALL(MPI_Comm_split_type, world, 4711, 0, MPI_INFO_NULL, &made);
  CALL(MPI_Intercomm_create, world, 99, world, 0, 0, &made);
  NOT_IN_MPICH(CALL(MPI_Intercomm_merge, world, 0, &made));
  CALL(MPI_Comm_free, &predefined);
  NOT_IN_MPICH(CALL(MPI_Comm_disconnect, &predefined));
  note("  made %s", made == MPI_COMM_NULL ? "nothing" : "something");
  CALLC(MPI_Neighbor_allgather, a, 1, MPI_INT, b, 1, MPI_INT, world);
  CALLC(MPI_Ineighbor_alltoall, a, 1, MPI_INT, b, 1, MPI_INT, world, &request);
}

static __thread jmp_buf back;
static void jumps(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  note("  jumping out of a handler: %s", code_text(*code));
  longjmp(back, 1);
}

static void counts_messages(MPI_Comm* comm, int* code, ...) {
  int flag = 0;
  note("  handler that calls MPI: %s", code_text(*code));
  CALL(MPI_Iprobe, MPI_ANY_SOURCE, MPI_ANY_TAG, *comm, &flag, MPI_STATUS_IGNORE);
  CALLC(MPI_Send, a, 1, MPI_INT, MPI_PROC_NULL, 0, *comm);
}

/* Whose handler is called, and what a handler may do. */
static void handlers(void) {
  MPI_Comm own, inherits;
  MPI_Errhandler handler;
  note("== handlers");
  CALL(MPI_Comm_dup, world, &own);
  CALL(MPI_Comm_set_name, own, "its own");
  PMPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
  CALLC(MPI_Send, a, 1, MPI_INT, 2, 0, own);
  CALL(MPI_Comm_dup, own, &inherits);
  CALLC(MPI_Bcast, a, 1, MPI_INT, 2, inherits);
  tell_comm_errors(own);
  CALLC(MPI_Send, a, 1, MPI_INT, 2, 0, own);
  CALLC(MPI_Send, a, 1, MPI_INT, 2, 0, inherits);
  CALLC(MPI_Send, a, 1, MPI_INT, 2, 0, MPI_COMM_SELF);
  CALL(MPI_Comm_free, &inherits);
#ifdef OPEN_MPI /* MPICH holds its lock while a handler runs */
  PMPI_Comm_create_errhandler(counts_messages, &handler);
  PMPI_Comm_set_errhandler(own, handler);
  PMPI_Errhandler_free(&handler);
  CALLC(MPI_Send, a, 1, MPI_INT, 2, 0, own);
  CALLC(MPI_Ibcast, a, 1, MPI_INT, 2, own, &request);
  PMPI_Comm_create_errhandler(jumps, &handler);
  PMPI_Comm_set_errhandler(own, handler);
  PMPI_Errhandler_free(&handler);
  for (volatile int i = 0; i < 3; ++i) {
    if (setjmp(back) == 0) {
      MPI_Allreduce(a, b, 1, MPI_INT, MPI_OP_NULL, own); /* not counted: nobody sees it return */
      note("  not reached");
    }
    CALL(MPI_Barrier, own);
  }
#else
  (void)handler, (void)jumps, (void)counts_messages, (void)back;
#endif
  CALL(MPI_Comm_free, &own);
}

/* Nothing of the above has broken anything. */
static void still_works(void) {
  int sum = 0;
  a[0] = me + 1;
  CALLC(MPI_Allreduce, a, &sum, 1, MPI_INT, MPI_SUM, world);
  note("  sum %d", sum);
}

static void body(void) {
  for (int i = 0; i < 4; ++i) types[i] = MPI_INT;
  poison_statuses(&status, 1);
  request = MPI_REQUEST_NULL;
  null_communicator();
  still_works();
  arguments();
  still_works();
  pointers();
  still_works();
  communicators();
  windows();
  files();
  handlers();
  still_works();
}

int main(int argc, char** argv) {
  one_after_the_other = 1; /* windows and files */
  return conformance(&argc, &argv, body);
}
