// tiny_calls N M: rank r makes (r + 1) * N allreduces on MPI_COMM_SELF, as fast as they go, and N polls for nothing;
// then all make M on MPI_COMM_WORLD.
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int n = argc > 1 ? atoi(argv[1]) : 1, m = argc > 2 ? atoi(argv[2]) : 1;
  int rank, flag;
  float in = 1, out;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < (rank + 1) * n; ++i) MPI_Allreduce(&in, &out, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF);
  for (int i = 0; i < n; ++i) MPI_Iprobe(rank, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < m; ++i) MPI_Allreduce(&in, &out, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
