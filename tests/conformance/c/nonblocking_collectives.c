/* Non-blocking collectives, each completed at once, then many in flight together, completed in all ways and out of
 * order. conformance: ranks=3/2 threads=yes */
#include "support/collective_data.h"

/* MPICH 4.0 waits for ever for a persistent collective that was not started. */
#ifdef OPEN_MPI
#define WAIT_INACTIVE(REQUEST) wait_for_collective(REQUEST)
#else
#define WAIT_INACTIVE(REQUEST)
#endif

/* A post and its completion. A program that defines PERSISTENT makes a persistent operation of it and
 * starts that twice. */
#ifndef PERSISTENT
#define COLLECTIVE_WITH(CALL_IT, IMMEDIATE, INIT, ...) \
  do {                                                 \
    MPI_Request request;                               \
    CALL_IT(MPI_##IMMEDIATE, __VA_ARGS__, &request);   \
    wait_for_collective(&request);                     \
  } while (0)
#else
#define COLLECTIVE_WITH(CALL_IT, IMMEDIATE, INIT, ...)               \
  do {                                                               \
    MPI_Request request;                                             \
    PERSISTENT(CALL_IT, INIT, __VA_ARGS__, MPI_INFO_NULL, &request); \
    WAIT_INACTIVE(&request);                                         \
    for (int again = 0; again < 2; ++again) {                        \
      CALL(MPI_Start, &request);                                     \
      wait_for_collective(&request);                                 \
    }                                                                \
    CALL(MPI_Request_free, &request);                                \
  } while (0)
#endif
#define COLLECTIVE(IMMEDIATE, INIT, ...) COLLECTIVE_WITH(CALLC, IMMEDIATE, INIT, __VA_ARGS__)

static void rooted(MPI_Comm comm, int rank, int n, int root) {
  note("root %d", root);
  fill(rank);
  COLLECTIVE(Ibcast, Bcast_init, send, EACH, MPI_INT, root, comm);
  DATA(send);
  fill(rank);
  COLLECTIVE(Igather, Gather_init, send, EACH, MPI_INT, recv, EACH, MPI_INT, root, comm);
  DATA(recv);
  fill(rank);
  COLLECTIVE(Igather, Gather_init, rank == root ? MPI_IN_PLACE : send, EACH, MPI_INT, recv, EACH, MPI_INT, root, comm);
  DATA(recv);
  fill(rank);
  COLLECTIVE(Iscatter, Scatter_init, send, EACH, MPI_INT, rank == root ? MPI_IN_PLACE : recv, EACH, MPI_INT, root,
             comm);
  DATA(recv);
  uneven(rank, n);
  fill(rank);
  COLLECTIVE(Igatherv, Gatherv_init, send, counts[rank], MPI_INT, recv, rank == root ? counts : NULL,
             rank == root ? displs : NULL, MPI_INT, root, comm);
  DATA(recv);
  fill(rank);
  COLLECTIVE(Igatherv, Gatherv_init, rank == root ? MPI_IN_PLACE : send, counts[rank], MPI_INT, recv, counts, displs,
             MPI_INT, root, comm);
  DATA(recv);
  fill(rank);
  COLLECTIVE(Iscatterv, Scatterv_init, rank == root ? send : NULL, rank == root ? counts : NULL,
             rank == root ? displs : NULL, MPI_INT, recv, counts[rank], MPI_INT, root, comm);
  DATA(recv);
  fill(rank);
  COLLECTIVE(Ireduce, Reduce_init, send, recv, EACH, MPI_INT, MPI_SUM, root, comm);
  DATA(recv);
  fill(rank);
  memcpy(recv, send, sizeof send);
  COLLECTIVE(Ireduce, Reduce_init, rank == root ? MPI_IN_PLACE : send, rank == root ? recv : NULL, EACH, MPI_INT,
             MPI_BXOR, root, comm);
  DATA(recv);
  COLLECTIVE(Ibcast, Bcast_init, NULL, 0, MPI_INT, root, comm);
}

static void rootless(MPI_Comm comm, int rank, int n, MPI_Op op) {
  COLLECTIVE_WITH(CALL, Ibarrier, Barrier_init, comm);
  uneven(rank, n);
  fill(rank);
  COLLECTIVE(Iallgather, Allgather_init, send, EACH, MPI_INT, recv, EACH, MPI_INT, comm);
  DATA(recv);
  COLLECTIVE(Iallgather, Allgather_init, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, EACH, MPI_INT, comm);
  DATA(recv);
  fill(rank);
  COLLECTIVE(Iallgatherv, Allgatherv_init, send, counts[rank], MPI_INT, recv, counts, displs, MPI_INT, comm);
  DATA(recv);
  COLLECTIVE(Iallgatherv, Allgatherv_init, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, counts, displs, MPI_INT, comm);
  DATA(recv);
  fill(rank);
  COLLECTIVE(Ialltoall, Alltoall_init, send, EACH, MPI_INT, recv, EACH, MPI_INT, comm);
  DATA(recv);
  fill(rank);
  COLLECTIVE(Ialltoallv, Alltoallv_init, send, sizes, places, MPI_INT, recv, sizes, places, MPI_INT, comm);
  DATA(recv);
  fill(rank);
  COLLECTIVE(Ialltoallw, Alltoallw_init, send, sizes, bytes_places, types, recv, sizes, bytes_places, types, comm);
  DATA(recv);
  memcpy(recv, send, sizeof send);
  COLLECTIVE(Ialltoall, Alltoall_init, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, EACH, MPI_INT, comm);
  DATA(recv);
  COLLECTIVE(Ialltoallv, Alltoallv_init, MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, recv, sizes, places, MPI_INT,
             comm);
  DATA(recv);
  COLLECTIVE(Ialltoallw, Alltoallw_init, MPI_IN_PLACE, NULL, NULL, NULL, recv, sizes, bytes_places, types, comm);
  DATA(recv);

  fill(rank);
  COLLECTIVE(Iallreduce, Allreduce_init, send, recv, EACH, MPI_INT, op, comm);
  DATA(recv);
  fill(rank);
  memcpy(recv, send, sizeof send);
  COLLECTIVE(Iallreduce, Allreduce_init, MPI_IN_PLACE, recv, EACH, MPI_INT, op, comm);
  DATA(recv);
  fill(rank);
  COLLECTIVE(Ireduce_scatter, Reduce_scatter_init, send, recv, counts, MPI_INT, op, comm);
  DATA(recv);
  fill(rank);
  COLLECTIVE(Ireduce_scatter_block, Reduce_scatter_block_init, send, recv, EACH, MPI_INT, op, comm);
  DATA(recv);
  fill(rank);
  COLLECTIVE(Iscan, Scan_init, send, recv, EACH, MPI_INT, op, comm);
  DATA(recv);
  fill(rank);
  COLLECTIVE(Iexscan, Exscan_init, send, recv, EACH, MPI_INT, op, comm);
  if (rank) DATA(recv); /* undefined on the first rank */
}

#ifndef PERSISTENT
/* Many in flight on one communicator, and one of each kind on another. */
static void together(MPI_Comm other) {
  enum { N = 12 };
  int values[N][EACH], sums[N][EACH], done, index, flag = 0, seen[N] = {0}, indices[N], all[MAX * EACH];
  MPI_Request requests[N];
  MPI_Status statuses[N];
  for (int round = 0; round < 5; ++round) {
    note("together, round %d", round);
    POISON(sums);
    POISON(all);
    memset(seen, 0, sizeof seen);
    poison_statuses(statuses, N);
    for (int i = 0; i < N; ++i) {
      for (int k = 0; k < EACH; ++k) values[i][k] = me * 100 + i * 10 + k + round;
    }
    for (int i = 0; i < N - 3; ++i)
      CALLC(MPI_Iallreduce, values[i], sums[i], EACH, MPI_INT, MPI_SUM, i % 2 ? world : other, &requests[i]);
    CALL(MPI_Ibarrier, world, &requests[N - 3]);
    CALLC(MPI_Ibcast, values[N - 2], EACH, MPI_INT, round % size, other, &requests[N - 2]);
    CALLC(MPI_Iallgather, values[N - 1], EACH, MPI_INT, all, EACH, MPI_INT, world, &requests[N - 1]);
    switch (round) {
      case 0:
        CALL(MPI_Waitall, N, requests, statuses);
        break;
      case 1:
        for (int i = N - 1; i >= 0; --i) CALL(MPI_Wait, &requests[i], &statuses[i]);
        break;
      case 2:
        for (int i = 0; i < N; ++i) {
          POLL(MPI_Waitany, N, requests, &index, &statuses[i]);
          if (index >= 0 && index < N) ++seen[index];
        }
        note_ints("seen", seen, N);
        break;
      case 3:
        for (int total = 0; total < N; total += done) {
          POLL(MPI_Waitsome, N, requests, &done, indices, MPI_STATUSES_IGNORE);
          for (int i = 0; i < done; ++i) ++seen[indices[i]];
        }
        note_ints("seen", seen, N);
        break;
      default:
        while (!flag) POLL(MPI_Testall, N, requests, &flag, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < N; ++i) note_collective_status("status", &statuses[i]);
    note_requests(requests, N);
    for (int i = 0; i < N - 3; ++i) note_ints("sum", sums[i], EACH);
    note_ints("from the root", values[N - 2], EACH);
    DATA(all);
  }
}

#endif

static void on(const char* name, MPI_Comm comm, MPI_Op op) {
  int rank, n;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &n);
  note("== %s: %d of %d", name, rank, n);
  for (int root = 0; root < n; ++root) rooted(comm, rank, n, root);
  note("-- sum");
  rootless(comm, rank, n, MPI_SUM);
  note("-- user-defined");
  rootless(comm, rank, n, op);
}

static void body(void) {
  MPI_Comm part;
  MPI_Op op;
  PMPI_Op_create(compose, 0, &op);
  on("world", world, op);
  CALL(MPI_Comm_split, world, me > 0, -me, &part);
  on("part", part, op);
  on("self", MPI_COMM_SELF, op);
#ifndef PERSISTENT
  MPI_Comm copy;
  MPI_Request request;
  CALL(MPI_Comm_idup, world, &copy, &request);
  wait_for_collective(&request);
  together(copy);
  CALL(MPI_Comm_free, &copy);
#endif
  CALL(MPI_Comm_free, &part);
  PMPI_Op_free(&op);
}

int main(int argc, char** argv) {
  rounds = 2;
  return conformance(&argc, &argv, body);
}
