#define _DEFAULT_SOURCE
/* The job dies in MPI_Init: rank 1 of three never calls it and waits, the others sit in it until an alarm kills rank
 * 0. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void die(void) { raise(SIGALRM); }

int main(int argc, char** argv) {
  const char* rank = getenv("OMPI_COMM_WORLD_RANK");
  if (rank && atoi(rank) == 1) {
    sleep(60);
    return 1;
  }
  if (!rank) pthread_atfork(die, NULL, NULL); /* started by hand, MPI_Init forks a daemon */
  if (rank && atoi(rank) == 0) alarm(1);
  MPI_Init(&argc, &argv);
  puts("this cannot be");
  MPI_Finalize();
  return 0;
}
