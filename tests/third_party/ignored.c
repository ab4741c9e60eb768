/* Collectives on 3 ranks in which every argument that MPI ignores on a rank is rubbish: reading it would show in the
 * bytes, or crash. Prints nothing; exit code 0 if all data arrived. */
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>

#define CHECK(condition) \
  if (!(condition)) MPI_Abort(MPI_COMM_WORLD, __LINE__)
#define N 10

static double own[N] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, all[3 * N], into[N];
static int counts[3] = {N, N, N}, places[3] = {0, N, 2 * N};
static MPI_Datatype types[3];
static int rank;

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const MPI_Datatype rubbish = (MPI_Datatype)(uintptr_t)0x5a5a5a58;
  void* const nowhere = (void*)(uintptr_t)0x5a5a5a58;
  for (int i = 0; i < 3; ++i) types[i] = MPI_DOUBLE;

  MPI_Comm half, across;
  MPI_Comm_split(MPI_COMM_WORLD, rank > 0, 0, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0, 5, &across);

  /* Rank 1 is the root: what it receives with is rubbish on the others, or what it sends with. */
  const int root = rank == 1;
  MPI_Gather(own, N, MPI_DOUBLE, root ? all : nowhere, root ? N : -7, root ? MPI_DOUBLE : rubbish, 1, MPI_COMM_WORLD);
  CHECK(!root || (all[0] == 1 && all[3 * N - 1] == N));
  MPI_Gatherv(own, N, MPI_DOUBLE, root ? all : nowhere, root ? counts : nowhere, root ? places : nowhere,
              root ? MPI_DOUBLE : rubbish, 1, MPI_COMM_WORLD);
  MPI_Scatter(root ? all : nowhere, root ? N : -7, root ? MPI_DOUBLE : rubbish, into, N, MPI_DOUBLE, 1, MPI_COMM_WORLD);
  CHECK(into[N - 1] == N);
  MPI_Scatterv(root ? all : nowhere, root ? counts : nowhere, root ? places : nowhere, root ? MPI_DOUBLE : rubbish,
               into, N, MPI_DOUBLE, 1, MPI_COMM_WORLD);
  MPI_Reduce(own, root ? into : nowhere, N, MPI_DOUBLE, MPI_SUM, 1, MPI_COMM_WORLD);
  CHECK(!root || into[N - 1] == 3 * N);

  /* The sender's arguments are ignored where it works in place. */
  if (root) {
    MPI_Gather(MPI_IN_PLACE, -7, rubbish, all, N, MPI_DOUBLE, 1, MPI_COMM_WORLD);
  } else {
    MPI_Gather(own, N, MPI_DOUBLE, nowhere, -7, rubbish, 1, MPI_COMM_WORLD);
  }
  MPI_Allgather(MPI_IN_PLACE, -7, rubbish, all, N, MPI_DOUBLE, MPI_COMM_WORLD);
  MPI_Allgatherv(MPI_IN_PLACE, -7, rubbish, all, counts, places, MPI_DOUBLE, MPI_COMM_WORLD);
  MPI_Alltoall(MPI_IN_PLACE, -7, rubbish, all, N, MPI_DOUBLE, MPI_COMM_WORLD);
  MPI_Alltoallv(MPI_IN_PLACE, nowhere, nowhere, rubbish, all, counts, places, MPI_DOUBLE, MPI_COMM_WORLD);
  for (int i = 0; i < 3; ++i) places[i] *= (int)sizeof *all;
  MPI_Alltoallw(MPI_IN_PLACE, nowhere, nowhere, nowhere, all, counts, places, types, MPI_COMM_WORLD);

  /* Between two groups: rank 2 is the root for rank 0, and rank 1 beside it takes no part. */
  if (rank == 0) {
    MPI_Bcast(into, N, MPI_DOUBLE, 1, across);
    CHECK(into[N - 1] == N);
    MPI_Gather(own, N, MPI_DOUBLE, nowhere, -7, rubbish, 1, across);
    MPI_Gatherv(own, N, MPI_DOUBLE, nowhere, nowhere, nowhere, rubbish, 1, across);
    MPI_Scatter(nowhere, -7, rubbish, into, N, MPI_DOUBLE, 1, across);
    MPI_Scatterv(nowhere, nowhere, nowhere, rubbish, into, N, MPI_DOUBLE, 1, across);
    MPI_Reduce(own, nowhere, N, MPI_DOUBLE, MPI_SUM, 1, across);
  } else if (rank == 1) {
    MPI_Bcast(nowhere, 7, MPI_DOUBLE, MPI_PROC_NULL, across); /* MPICH does look at the datatype */
    MPI_Gather(nowhere, 7, rubbish, nowhere, 7, rubbish, MPI_PROC_NULL, across);
    MPI_Gatherv(nowhere, 7, rubbish, nowhere, nowhere, nowhere, rubbish, MPI_PROC_NULL, across);
    MPI_Scatter(nowhere, 7, rubbish, nowhere, 7, rubbish, MPI_PROC_NULL, across);
    MPI_Scatterv(nowhere, nowhere, nowhere, rubbish, nowhere, 7, rubbish, MPI_PROC_NULL, across);
    MPI_Reduce(nowhere, nowhere, 7, MPI_DOUBLE, MPI_SUM, MPI_PROC_NULL, across);
  } else {
    places[0] = 0;
    MPI_Bcast(own, N, MPI_DOUBLE, MPI_ROOT, across);
    MPI_Gather(nowhere, 7, rubbish, all, N, MPI_DOUBLE, MPI_ROOT, across);
    MPI_Gatherv(nowhere, 7, rubbish, all, counts, places, MPI_DOUBLE, MPI_ROOT, across);
    MPI_Scatter(own, N, MPI_DOUBLE, nowhere, 7, rubbish, MPI_ROOT, across);
    MPI_Scatterv(own, counts, places, MPI_DOUBLE, nowhere, 7, rubbish, MPI_ROOT, across);
    MPI_Reduce(nowhere, into, N, MPI_DOUBLE, MPI_SUM, MPI_ROOT, across);
    CHECK(into[N - 1] == N);
  }

  /* Messages to and from nobody. */
  MPI_Send(nowhere, 0, MPI_DOUBLE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
  MPI_Recv(nowhere, N, MPI_DOUBLE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);

  MPI_Comm_free(&across);
  MPI_Comm_free(&half);
  MPI_Finalize();
  return 0;
}
