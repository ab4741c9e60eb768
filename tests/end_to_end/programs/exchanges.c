/* MPI_Isendrecv and MPI_Isendrecv_replace (MPI 4) of two ranks, each with its own tag. */
#include <mpi.h>

int main(int argc, char** argv) {
  int rank, out = 1, in = 0;
  MPI_Request request;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int other = 1 - rank;
  MPI_Isendrecv(&out, 1, MPI_INT, other, 500 + rank, &in, 1, MPI_INT, other, 500 + other, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Isendrecv_replace(&out, 1, MPI_INT, other, 510 + rank, other, 510 + other, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Finalize();
  return 0;
}
