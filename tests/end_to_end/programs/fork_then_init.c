/* Annotates, forks, and initializes MPI in the child only: two processes of the job, one of them a rank. */
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddl/annotate.h"

int main(int argc, char** argv) {
  ddl_layer_begin("parent");
  ddl_layer_end();
  const pid_t child = fork();
  if (child == 0) {
    ddl_layer_begin("too early");
    ddl_layer_end();
    MPI_Init(&argc, &argv);
    ddl_layer_begin("child");
    MPI_Barrier(MPI_COMM_WORLD);
    ddl_layer_end();
    MPI_Finalize();
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  ddl_layer_begin("parent");
  ddl_layer_end();
  return status != 0;
}
