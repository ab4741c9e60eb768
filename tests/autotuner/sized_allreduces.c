/* Allreduces of given element counts (MPI_INT) on MPI_COMM_WORLD and on the communicators of its first 2, 3, ... ranks:
 * sized_allreduces COUNT... ; checks its sums. After them one on MPI_COMM_WORLD with an operation that does not
 * commute, if the first argument is `ordered`. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void left(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)type;
  memcpy(inout, in, (size_t)*length * sizeof(int)); /* a * b = a: associative, does not commute */
}

static int sums_are_right(MPI_Comm comm, int count) {
  int rank, size, good = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  int* in = malloc((size_t)count * sizeof *in);
  int* out = malloc((size_t)count * sizeof *out);
  for (int i = 0; i < count; ++i) in[i] = rank + i;
  MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, comm);
  for (int i = 0; i < count; ++i) good &= out[i] == size * (size - 1) / 2 + size * i;
  free(in);
  free(out);
  return good;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int ordered = argc > 1 && strcmp(argv[1], "ordered") == 0;
  int rank, size, good = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int ranks = 2; ranks <= size; ++ranks) {
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, rank < ranks ? 0 : MPI_UNDEFINED, rank, &comm);
    if (comm == MPI_COMM_NULL) continue;
    for (int i = 1 + ordered; i < argc; ++i) good &= sums_are_right(comm, atoi(argv[i]));
    MPI_Comm_free(&comm);
  }
  if (ordered) {
    MPI_Op op;
    int in[64], out[64];
    for (int i = 0; i < 64; ++i) in[i] = rank;
    MPI_Op_create(left, 0, &op);
    MPI_Allreduce(in, out, 64, MPI_INT, op, MPI_COMM_WORLD);
    for (int i = 0; i < 64; ++i) good &= out[i] == 0;
    MPI_Op_free(&op);
  }
  printf("sums %s\n", good ? "right" : "WRONG");
  MPI_Finalize();
  return 0;
}
