/* Tens of thousands of requests outstanding at a time, completed in an order that has nothing to do with that of their
 * posts; twice, so that handles come again. One rank. */
#include <mpi.h>

enum { kRequests = 40000, kStride = 7919 /* prime: i * kStride runs through all of them */ };

static char in[8], out[8];
static MPI_Request requests[kRequests];

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < kRequests; ++i) MPI_Irecv(in, 8, MPI_BYTE, 0, i, MPI_COMM_SELF, &requests[i]);
    for (int i = 0; i < kRequests; ++i) MPI_Send(out, i % 8, MPI_BYTE, 0, i, MPI_COMM_SELF);
    for (long i = 0; i < kRequests; ++i) MPI_Wait(&requests[i * kStride % kRequests], MPI_STATUS_IGNORE);
  }
  MPI_Finalize();
  return 0;
}
