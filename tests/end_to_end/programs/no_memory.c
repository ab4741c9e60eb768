// Completes a long list of requests while no more memory can be mapped. Prints what arrived.
#include <mpi.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { kMessages = 40, kPiece = 16 };

static void allow(rlim_t bytes) {
  const struct rlimit limit = {bytes, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &limit) != 0) perror("setrlimit");
}

static rlim_t address_space(void) {
  long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld", &pages) != 1) perror("statm");
  if (file) fclose(file);
  return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int sent[kMessages], received[kMessages], sum = 0;
  MPI_Request requests[2 * kMessages];
  // the first warms up, in pieces that need no memory, the others have Waitall and Waitsome
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kMessages; ++i) {
      sent[i] = i;
      received[i] = 0;
      MPI_Irecv(&received[i], 1, MPI_INT, 0, i, MPI_COMM_SELF, &requests[i]);
    }
    for (int i = 0; i < kMessages; ++i) MPI_Isend(&sent[i], 1, MPI_INT, 0, i, MPI_COMM_SELF, &requests[kMessages + i]);
    if (round > 0) allow(address_space());
    if (round == 0) {
      for (int i = 0; i < 2 * kMessages; i += kPiece) MPI_Waitall(kPiece, requests + i, MPI_STATUSES_IGNORE);
    } else if (round == 1) {
      MPI_Waitall(2 * kMessages, requests, MPI_STATUSES_IGNORE);
    } else {
      for (int left = 2 * kMessages; left > 0;) {
        int done = 0, indices[2 * kMessages];
        MPI_Waitsome(2 * kMessages, requests, &done, indices, MPI_STATUSES_IGNORE);
        left -= done;
      }
    }
    allow(RLIM_INFINITY);
    for (int i = 0; i < kMessages; ++i) sum += received[i];
  }
  printf("received %d\n", sum);
  MPI_Finalize();
  return 0;
}
