/* Blocking allreduces with one delay: rank DELAYED sleeps DELAY_MS before instance AT. usage: delayed_allreduce COUNT
 * AT DELAYED DELAY_MS [FLOATS] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ddl/annotate.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int count = atoi(argv[1]), at = atoi(argv[2]), delayed = atoi(argv[3]), delay_ms = atoi(argv[4]);
  const int floats = argc > 5 ? atoi(argv[5]) : 1 << 16;
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  float* data = calloc((size_t)floats, sizeof *data);
  for (int i = 1; i <= count; ++i) {
    ddl_step_begin((uint64_t)i);
    usleep(2000);
    if (i == at && rank == delayed) usleep((useconds_t)delay_ms * 1000);
    MPI_Allreduce(MPI_IN_PLACE, data, floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    ddl_step_end();
  }
  free(data);
  MPI_Finalize();
  return 0;
}
