/* Forks a child that goes on annotating and calling MPI-free code, while the parent does MPI. Both must leave the
 * parent's record whole. */
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddl/annotate.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  float a = 1, b;
  for (int i = 0; i < 100; ++i) {
    MPI_Allreduce(&a, &b, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF);
    if (i % 25 == 10) {
      const pid_t child = fork();
      if (child == 0) {
        for (int k = 0; k < 1000; ++k) {
          ddl_layer_begin("child");
          ddl_layer_end();
        }
        _exit(0);
      }
      waitpid(child, NULL, 0);
    }
  }
  MPI_Finalize();
  return 0;
}
