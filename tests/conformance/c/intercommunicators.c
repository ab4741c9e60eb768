/* Intercommunicators: made, copied, split, merged, and every collective on them, with MPI_ROOT and MPI_PROC_NULL.
 * conformance: ranks=3 threads=yes unsteady=mpich */
#include "support/transcript.h"

#define MAX 3
#define EACH 2

static __thread int send[MAX * EACH], recv[MAX * EACH];
static __thread Count counts[MAX];
static __thread Displacement displs[MAX], bytes_displs[MAX];
static __thread MPI_Datatype types[MAX];

static void fill(void) {
  for (int i = 0; i < MAX * EACH; ++i) send[i] = 1000 * (me + 1) + i;
  POISON(recv);
  for (int i = 0; i < MAX; ++i) {
    counts[i] = EACH;
    displs[i] = i * EACH;
    bytes_displs[i] = i * EACH * (int)sizeof(int);
    types[i] = MPI_INT;
  }
}

/* A collective that blocks, and the same with a request. */
#define BOTH(BLOCKING, IMMEDIATE, ...)       \
  do {                                       \
    MPI_Request request;                     \
    fill();                                  \
    CALLC(BLOCKING, __VA_ARGS__);            \
    DATA(recv);                              \
    fill();                                  \
    CALLC(IMMEDIATE, __VA_ARGS__, &request); \
    wait_for_collective(&request);           \
    DATA(recv);                              \
  } while (0)

/* From one rank of group `mine` to the other group, or the other way. */
static void rooted(MPI_Comm inter, int local, int i_am_rooting) {
  const int root = i_am_rooting ? (local == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0;
  note("-- root %s", root == MPI_ROOT ? "me" : root == MPI_PROC_NULL ? "beside me" : "there");
  BOTH(MPI_Bcast, MPI_Ibcast, i_am_rooting ? send : recv, EACH, MPI_INT, root, inter);
  BOTH(MPI_Gather, MPI_Igather, send, EACH, MPI_INT, recv, EACH, MPI_INT, root, inter);
  BOTH(MPI_Gatherv, MPI_Igatherv, send, EACH, MPI_INT, recv, counts, displs, MPI_INT, root, inter);
  BOTH(MPI_Scatter, MPI_Iscatter, send, EACH, MPI_INT, recv, EACH, MPI_INT, root, inter);
  BOTH(MPI_Scatterv, MPI_Iscatterv, send, counts, displs, MPI_INT, recv, EACH, MPI_INT, root, inter);
  BOTH(MPI_Reduce, MPI_Ireduce, send, recv, EACH, MPI_INT, MPI_SUM, root, inter);
}

static void rootless(MPI_Comm inter, int local_size) {
  MPI_Request request;
  note("-- all");
  CALL(MPI_Barrier, inter);
  CALL(MPI_Ibarrier, inter, &request);
  wait_for_collective(&request);
  BOTH(MPI_Allgather, MPI_Iallgather, send, EACH, MPI_INT, recv, EACH, MPI_INT, inter);
  BOTH(MPI_Allgatherv, MPI_Iallgatherv, send, EACH, MPI_INT, recv, counts, displs, MPI_INT, inter);
  BOTH(MPI_Alltoall, MPI_Ialltoall, send, EACH, MPI_INT, recv, EACH, MPI_INT, inter);
  BOTH(MPI_Alltoallv, MPI_Ialltoallv, send, counts, displs, MPI_INT, recv, counts, displs, MPI_INT, inter);
  BOTH(MPI_Alltoallw, MPI_Ialltoallw, send, counts, bytes_displs, types, recv, counts, bytes_displs, types, inter);
  BOTH(MPI_Allreduce, MPI_Iallreduce, send, recv, EACH, MPI_INT, MPI_SUM, inter);
  /* Both groups contribute as many elements: two in all. */
  for (int i = 0; i < MAX; ++i) counts[i] = 2 / local_size;
  CALLC(MPI_Reduce_scatter_block, send, recv, 2 / local_size, MPI_INT, MPI_SUM, inter);
  DATA(recv);
  CALLC(MPI_Reduce_scatter, send, recv, counts, MPI_INT, MPI_SUM, inter);
  DATA(recv);
}

/* The first of each group with the other's, by rank and by wildcard. */
static void messages(MPI_Comm inter, int local) {
  MPI_Status status;
  int value = 10 * me, got = -1;
  note("-- messages");
  for (int wild = 0; wild < 2 && local == 0; ++wild) {
    poison_statuses(&status, 1);
    CALLC(MPI_Sendrecv, &value, 1, MPI_INT, 0, 4, &got, 1, MPI_INT, wild ? MPI_ANY_SOURCE : 0, wild ? MPI_ANY_TAG : 4,
          inter, &status);
    note_status("status", &status, MPI_INT);
    note("  got %d", got);
  }
}

static void examine(MPI_Comm inter, int lower) {
  int local, local_size, remote_size, is_inter = 0;
  PMPI_Comm_rank(inter, &local);
  PMPI_Comm_size(inter, &local_size);
  PMPI_Comm_remote_size(inter, &remote_size);
  PMPI_Comm_test_inter(inter, &is_inter);
  note("  %d of %d, remote %d, inter %d", local, local_size, remote_size, is_inter);
  rooted(inter, local, lower);
  rooted(inter, local, !lower);
  rootless(inter, local_size);
  messages(inter, local);
}

static void body(void) {
  MPI_Comm part, inter, copy, merged, split;
  MPI_Request request;
  const int lower = me < 2; /* 0 1 | 2 */
  CALL(MPI_Comm_split, world, lower, me, &part);
  note("== made");
  CALL(MPI_Intercomm_create, part, 0, world, lower ? 2 : 0, 12, &inter);
  tell_comm_errors(inter);
  CALL(MPI_Comm_set_name, inter, "the two and the one");
  examine(inter, lower);
  note("== copied");
  CALL(MPI_Comm_dup, inter, &copy);
  examine(copy, lower);
  CALL(MPI_Comm_free, &copy);
  CALL(MPI_Comm_idup, inter, &copy, &request);
  wait_for_collective(&request);
  CALL(MPI_Barrier, copy);
  CALL(MPI_Comm_free, &copy);
  note("== split");
  CALL(MPI_Comm_split, inter, me == 1 ? MPI_UNDEFINED : 1, 0, &split);
  if (split != MPI_COMM_NULL) {
    examine(split, lower);
    CALL(MPI_Comm_free, &split);
  }
  for (int high = 0; high < 2; ++high) {
    int rank, n, sum = 0;
    note("== merged, %d", high);
    CALL(MPI_Intercomm_merge, inter, lower ? high : !high, &merged);
    PMPI_Comm_rank(merged, &rank);
    PMPI_Comm_size(merged, &n);
    CALLC(MPI_Allreduce, &me, &sum, 1, MPI_INT, MPI_SUM, merged);
    note("  %d of %d, sum %d", rank, n, sum);
    CALL(MPI_Comm_free, &merged);
  }
  CALL(MPI_Comm_disconnect, &inter);
  CALL(MPI_Comm_free, &part);
}

int main(int argc, char** argv) { return conformance(&argc, &argv, body); }
