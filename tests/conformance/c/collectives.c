/* Blocking collectives: every one on the whole world, on a part of it and on MPI_COMM_SELF, with every root, in place, empty, with and
 * without gaps. conformance: ranks=3 threads=yes */
#include "support/transcript.h"

#define MAX 4
#define EACH 3

static __thread int send[MAX * EACH], recv[MAX * EACH], counts[MAX], displs[MAX], bytes_displs[MAX];
static __thread MPI_Datatype types[MAX];

static void fill(int rank) {
  for (int i = 0; i < MAX * EACH; ++i) send[i] = 1000 * (rank + 1) + i;
  POISON(recv);
}

/* Uneven counts, and places in reverse order. */
static void uneven(int n) {
  int place = 0;
  for (int i = n - 1; i >= 0; --i) {
    counts[i] = i % EACH + (i == 0);
    displs[i] = place;
    bytes_displs[i] = place * (int)sizeof(int);
    types[i] = MPI_INT;
    place += counts[i];
  }
}

/* Composition of x -> a x + b modulo 97, with a and b in one number: associative, not commutative. */
static void compose(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *length; ++i) {
    const int f = ((int*)in)[i] % 9409, g = ((int*)inout)[i] % 9409;
    ((int*)inout)[i] = f / 97 * (g / 97) % 97 * 97 + (f / 97 * (g % 97) + f % 97) % 97;
  }
}

static void rooted(MPI_Comm comm, int rank, int n, int root) {
  note("root %d", root);
  fill(rank);
  CALL(MPI_Bcast, send, EACH, MPI_INT, root, comm);
  DATA(send);
  fill(rank);
  CALL(MPI_Gather, send, EACH, MPI_INT, recv, EACH, MPI_INT, root, comm);
  DATA(recv);
  fill(rank);
  CALL(MPI_Gather, rank == root ? MPI_IN_PLACE : send, EACH, MPI_INT, recv, EACH, MPI_INT, root, comm);
  DATA(recv);
  fill(rank);
  CALL(MPI_Scatter, send, EACH, MPI_INT, recv, EACH, MPI_INT, root, comm);
  DATA(recv);
  CALL(MPI_Scatter, send, EACH, MPI_INT, rank == root ? MPI_IN_PLACE : recv, EACH, MPI_INT, root, comm);
  DATA(recv);
  uneven(n);
  fill(rank);
  CALL(MPI_Gatherv, send, counts[rank], MPI_INT, recv, rank == root ? counts : NULL, rank == root ? displs : NULL, MPI_INT, root, comm);
  DATA(recv);
  fill(rank);
  CALL(MPI_Gatherv, rank == root ? MPI_IN_PLACE : send, counts[rank], MPI_INT, recv, counts, displs, MPI_INT, root, comm);
  DATA(recv);
  fill(rank);
  CALL(MPI_Scatterv, rank == root ? send : NULL, rank == root ? counts : NULL, rank == root ? displs : NULL, MPI_INT, recv, counts[rank],
       MPI_INT, root, comm);
  DATA(recv);
  fill(rank);
  CALL(MPI_Reduce, send, recv, EACH, MPI_INT, MPI_SUM, root, comm);
  DATA(recv);
  memcpy(recv, send, sizeof send);
  CALL(MPI_Reduce, rank == root ? MPI_IN_PLACE : send, rank == root ? recv : NULL, EACH, MPI_INT, MPI_BXOR, root, comm);
  DATA(recv);
  CALL(MPI_Bcast, NULL, 0, MPI_INT, root, comm);
  CALL(MPI_Reduce, NULL, NULL, 0, MPI_INT, MPI_MAX, root, comm);
}

static void rootless(MPI_Comm comm, int rank, int n, MPI_Op op) {
  CALL(MPI_Barrier, comm);
  fill(rank);
  CALL(MPI_Allgather, send, EACH, MPI_INT, recv, EACH, MPI_INT, comm);
  DATA(recv);
  fill(rank);
  memcpy(recv + EACH * rank, send, EACH * sizeof(int));
  CALL(MPI_Allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, EACH, MPI_INT, comm);
  DATA(recv);
  uneven(n);
  fill(rank);
  CALL(MPI_Allgatherv, send, counts[rank], MPI_INT, recv, counts, displs, MPI_INT, comm);
  DATA(recv);
  fill(rank);
  memcpy(recv + displs[rank], send, (size_t)counts[rank] * sizeof(int));
  CALL(MPI_Allgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, counts, displs, MPI_INT, comm);
  DATA(recv);
  fill(rank);
  CALL(MPI_Alltoall, send, EACH, MPI_INT, recv, EACH, MPI_INT, comm);
  DATA(recv);
  CALL(MPI_Alltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, EACH, MPI_INT, comm);
  DATA(recv);
  /* i sends i + j (mod EACH) to j and gets as many from it */
  int sizes[MAX], places[MAX], bytes_places[MAX];
  for (int i = 0; i < n; ++i) {
    sizes[i] = (rank + i) % EACH;
    places[i] = i * EACH;
    bytes_places[i] = places[i] * (int)sizeof(int);
  }
  fill(rank);
  CALL(MPI_Alltoallv, send, sizes, places, MPI_INT, recv, sizes, places, MPI_INT, comm);
  DATA(recv);
  CALL(MPI_Alltoallv, MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, recv, sizes, places, MPI_INT, comm);
  DATA(recv);
  fill(rank);
  CALL(MPI_Alltoallw, send, sizes, bytes_places, types, recv, sizes, bytes_places, types, comm);
  DATA(recv);
  CALL(MPI_Alltoallw, MPI_IN_PLACE, NULL, NULL, NULL, recv, sizes, bytes_places, types, comm);
  DATA(recv);

  fill(rank);
  CALL(MPI_Allreduce, send, recv, EACH, MPI_INT, op, comm);
  DATA(recv);
  CALL(MPI_Allreduce, MPI_IN_PLACE, recv, EACH, MPI_INT, op, comm);
  DATA(recv);
  fill(rank);
  CALL(MPI_Reduce_scatter, send, recv, counts, MPI_INT, op, comm);
  DATA(recv);
  fill(rank);
  CALL(MPI_Reduce_scatter, MPI_IN_PLACE, send, counts, MPI_INT, op, comm);
  note_bytes("own part", send, (size_t)counts[rank] * sizeof(int));
  fill(rank);
  CALL(MPI_Reduce_scatter_block, send, recv, EACH, MPI_INT, op, comm);
  DATA(recv);
  fill(rank);
  CALL(MPI_Reduce_scatter_block, MPI_IN_PLACE, send, EACH, MPI_INT, op, comm);
  note_bytes("own part", send, EACH * sizeof(int));
  fill(rank);
  CALL(MPI_Scan, send, recv, EACH, MPI_INT, op, comm);
  DATA(recv);
  CALL(MPI_Scan, MPI_IN_PLACE, send, EACH, MPI_INT, op, comm);
  DATA(send);
  fill(rank);
  CALL(MPI_Exscan, send, recv, EACH, MPI_INT, op, comm);
  if (rank) DATA(recv); /* undefined on the first rank */
  fill(rank);
  CALL(MPI_Exscan, MPI_IN_PLACE, send, EACH, MPI_INT, op, comm);
  if (rank) DATA(send);
  CALL(MPI_Allreduce, NULL, NULL, 0, MPI_INT, MPI_SUM, comm);
  CALL(MPI_Allgather, NULL, 0, MPI_INT, NULL, 0, MPI_INT, comm);
}

/* Types whose sizes and bytes differ, and pairs. */
static void types_of_reductions(void) {
  struct {
    float value;
    int index;
  } pair = {(float)(me * me % 2), me}, best = {-1, -1};
  double d[2] = {me + 0.25, -me}, sum[2] = {0, 0};
  unsigned char c = (unsigned char)(1 << me), all = 0;
  CALL(MPI_Allreduce, &pair, &best, 1, MPI_FLOAT_INT, MPI_MAXLOC, world);
  note("  best %g at %d", best.value, best.index);
  CALL(MPI_Allreduce, &pair, &best, 1, MPI_FLOAT_INT, MPI_MINLOC, world);
  note("  least %g at %d", best.value, best.index);
  CALL(MPI_Allreduce, d, sum, 2, MPI_DOUBLE, MPI_PROD, world);
  note("  product %g %g", sum[0], sum[1]);
  CALL(MPI_Allreduce, &c, &all, 1, MPI_UNSIGNED_CHAR, MPI_BOR, world);
  note("  bits %x", all);
}

static void large(void) {
  enum { N = 1 << 17 };
  int* a = malloc(N * sizeof(int));
  int* b = malloc(N * sizeof(int));
  for (int i = 0; i < N; ++i) a[i] = i % 1021 * (me + 1);
  CALL(MPI_Allreduce, a, b, N, MPI_INT, MPI_SUM, world);
  note_bytes("sum", b, N * sizeof(int));
  CALL(MPI_Bcast, a, N, MPI_INT, size - 1, world);
  note_bytes("a", a, N * sizeof(int));
  CALL(MPI_Alltoall, a, N / size, MPI_INT, b, N / size, MPI_INT, world);
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

int main(int argc, char** argv) { return conformance(&argc, &argv, body); }
