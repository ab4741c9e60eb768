// moves_itself CPU: binds itself to that CPU between MPI_Init and MPI_Finalize.
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(atoi(argv[1]), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Finalize();
}
