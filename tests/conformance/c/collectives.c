/* Blocking collectives: every one on the whole world, on a part of it and on MPI_COMM_SELF, with every root, in place,
 * empty, with and without gaps. conformance: ranks=3/2 threads=yes */
#include "support/collective_data.h"

static void rooted(MPI_Comm comm, int rank, int n, int root) {
  note("root %d", root);
  fill(rank);
  CALLC(MPI_Bcast, send, EACH, MPI_INT, root, comm);
  DATA(send);
  fill(rank);
  CALLC(MPI_Gather, send, EACH, MPI_INT, recv, EACH, MPI_INT, root, comm);
  DATA(recv);
  fill(rank);
  CALLC(MPI_Gather, rank == root ? MPI_IN_PLACE : send, EACH, MPI_INT, recv, EACH, MPI_INT, root, comm);
  DATA(recv);
  fill(rank);
  CALLC(MPI_Scatter, send, EACH, MPI_INT, recv, EACH, MPI_INT, root, comm);
  DATA(recv);
  CALLC(MPI_Scatter, send, EACH, MPI_INT, rank == root ? MPI_IN_PLACE : recv, EACH, MPI_INT, root, comm);
  DATA(recv);
  uneven(rank, n);
  fill(rank);
  CALLC(MPI_Gatherv, send, counts[rank], MPI_INT, recv, rank == root ? counts : NULL, rank == root ? displs : NULL,
        MPI_INT, root, comm);
  DATA(recv);
  fill(rank);
  CALLC(MPI_Gatherv, rank == root ? MPI_IN_PLACE : send, counts[rank], MPI_INT, recv, counts, displs, MPI_INT, root,
        comm);
  DATA(recv);
  fill(rank);
  CALLC(MPI_Scatterv, rank == root ? send : NULL, rank == root ? counts : NULL, rank == root ? displs : NULL, MPI_INT,
        recv, counts[rank], MPI_INT, root, comm);
  DATA(recv);
  fill(rank);
  CALLC(MPI_Reduce, send, recv, EACH, MPI_INT, MPI_SUM, root, comm);
  DATA(recv);
  memcpy(recv, send, sizeof send);
  CALLC(MPI_Reduce, rank == root ? MPI_IN_PLACE : send, rank == root ? recv : NULL, EACH, MPI_INT, MPI_BXOR, root,
        comm);
  DATA(recv);
  CALLC(MPI_Bcast, NULL, 0, MPI_INT, root, comm);
  CALLC(MPI_Reduce, NULL, NULL, 0, MPI_INT, MPI_MAX, root, comm);
}

static void rootless(MPI_Comm comm, int rank, int n, MPI_Op op) {
  CALL(MPI_Barrier, comm);
  fill(rank);
  CALLC(MPI_Allgather, send, EACH, MPI_INT, recv, EACH, MPI_INT, comm);
  DATA(recv);
  fill(rank);
  memcpy(recv + EACH * rank, send, EACH * sizeof(int));
  CALLC(MPI_Allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, EACH, MPI_INT, comm);
  DATA(recv);
  uneven(rank, n);
  fill(rank);
  CALLC(MPI_Allgatherv, send, counts[rank], MPI_INT, recv, counts, displs, MPI_INT, comm);
  DATA(recv);
  fill(rank);
  memcpy(recv + displs[rank], send, (size_t)counts[rank] * sizeof(int));
  CALLC(MPI_Allgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, counts, displs, MPI_INT, comm);
  DATA(recv);
  fill(rank);
  CALLC(MPI_Alltoall, send, EACH, MPI_INT, recv, EACH, MPI_INT, comm);
  DATA(recv);
  CALLC(MPI_Alltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, EACH, MPI_INT, comm);
  DATA(recv);
  fill(rank);
  CALLC(MPI_Alltoallv, send, sizes, places, MPI_INT, recv, sizes, places, MPI_INT, comm);
  DATA(recv);
  CALLC(MPI_Alltoallv, MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, recv, sizes, places, MPI_INT, comm);
  DATA(recv);
  fill(rank);
  CALLC(MPI_Alltoallw, send, sizes, bytes_places, types, recv, sizes, bytes_places, types, comm);
  DATA(recv);
  CALLC(MPI_Alltoallw, MPI_IN_PLACE, NULL, NULL, NULL, recv, sizes, bytes_places, types, comm);
  DATA(recv);

  fill(rank);
  CALLC(MPI_Allreduce, send, recv, EACH, MPI_INT, op, comm);
  DATA(recv);
  CALLC(MPI_Allreduce, MPI_IN_PLACE, recv, EACH, MPI_INT, op, comm);
  DATA(recv);
  fill(rank);
  CALLC(MPI_Reduce_scatter, send, recv, counts, MPI_INT, op, comm);
  DATA(recv);
  fill(rank);
  CALLC(MPI_Reduce_scatter, MPI_IN_PLACE, send, counts, MPI_INT, op, comm);
  note_bytes("own part", send, (size_t)counts[rank] * sizeof(int));
  fill(rank);
  CALLC(MPI_Reduce_scatter_block, send, recv, EACH, MPI_INT, op, comm);
  DATA(recv);
  fill(rank);
  CALLC(MPI_Reduce_scatter_block, MPI_IN_PLACE, send, EACH, MPI_INT, op, comm);
  note_bytes("own part", send, EACH * sizeof(int));
  fill(rank);
  CALLC(MPI_Scan, send, recv, EACH, MPI_INT, op, comm);
  DATA(recv);
  CALLC(MPI_Scan, MPI_IN_PLACE, send, EACH, MPI_INT, op, comm);
  DATA(send);
  fill(rank);
  CALLC(MPI_Exscan, send, recv, EACH, MPI_INT, op, comm);
  if (rank) DATA(recv); /* undefined on the first rank */
  fill(rank);
  CALLC(MPI_Exscan, MPI_IN_PLACE, send, EACH, MPI_INT, op, comm);
  if (rank) DATA(send);
  CALLC(MPI_Allreduce, NULL, NULL, 0, MPI_INT, MPI_SUM, comm);
  CALLC(MPI_Allgather, NULL, 0, MPI_INT, NULL, 0, MPI_INT, comm);
}

/* Types whose sizes and bytes differ, and pairs. */
static void types_of_reductions(void) {
  struct {
    float value;
    int index;
  } pair = {(float)(me * me % 2), me}, best = {-1, -1};
  double d[2] = {me + 0.25, -me}, sum[2] = {0, 0};
  unsigned char c = (unsigned char)(1 << me), all = 0;
  CALLC(MPI_Allreduce, &pair, &best, 1, MPI_FLOAT_INT, MPI_MAXLOC, world);
  note("  best %g at %d", best.value, best.index);
  CALLC(MPI_Allreduce, &pair, &best, 1, MPI_FLOAT_INT, MPI_MINLOC, world);
  note("  least %g at %d", best.value, best.index);
  CALLC(MPI_Allreduce, d, sum, 2, MPI_DOUBLE, MPI_PROD, world);
  note("  product %g %g", sum[0], sum[1]);
  CALLC(MPI_Allreduce, &c, &all, 1, MPI_UNSIGNED_CHAR, MPI_BOR, world);
  note("  bits %x", all);
}

static void large(void) {
  enum { N = 1 << 17 };
  int* a = malloc(N * sizeof(int));
  int* b = malloc(N * sizeof(int));
  for (int i = 0; i < N; ++i) a[i] = i % 1021 * (me + 1);
  CALLC(MPI_Allreduce, a, b, N, MPI_INT, MPI_SUM, world);
  note_bytes("sum", b, N * sizeof(int));
  CALLC(MPI_Bcast, a, N, MPI_INT, size - 1, world);
  note_bytes("a", a, N * sizeof(int));
  CALLC(MPI_Alltoall, a, N / size, MPI_INT, b, N / size, MPI_INT, world);
  note_bytes("b", b, N * sizeof(int));
  free(a);
  free(b);
}

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
  CALL(MPI_Comm_free, &part);
  types_of_reductions();
  large();
  PMPI_Op_free(&op);
}

int main(int argc, char** argv) {
  rounds = 2;
  return conformance(&argc, &argv, body);
}
