// 1,000 MPI_Allreduce, 500 MPI_Barrier and 500 pairs of MPI_Isend and MPI_Wait on every rank. With a word, every rank
// is killed by SIGKILL behind them.
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  float in = 1, out;
  for (int i = 0; i < 1000; ++i) MPI_Allreduce(&in, &out, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < 500; ++i) MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 500; ++i) {
    MPI_Request request;
    MPI_Isend(&in, 1, MPI_FLOAT, (rank + 1) % size, 7, MPI_COMM_WORLD, &request);
    MPI_Recv(&out, 1, MPI_FLOAT, (rank + size - 1) % size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  if (argc > 1) {
    usleep(1500000);  // whoever writes once a second has written
    kill(getpid(), SIGKILL);
  }
  MPI_Finalize();
  return 0;
}
