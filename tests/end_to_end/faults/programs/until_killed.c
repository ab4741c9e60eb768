/* Communicates as fast as it can until it is killed, and counts what returned in $CALL_LOG.RANK; the row "#pid" holds
 * its process id. */
#include <mpi.h>

#include "call_log.h"
#include "ddl/annotate.h"

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  open_call_log(getenv("CALL_LOG"), rank);
  log_calls("#pid", (uint64_t)getpid(), 0);
  double in[64] = {0}, out[64];
  for (uint64_t step = 0;; ++step) {
    MPI_Request r[2];
    MPI_Comm copy;
    ddl_step_begin(step);
    for (int i = 1; i <= 64; i *= 2) {
      CALL(Allreduce, (uint64_t)i * sizeof *in, (in, out, i, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
      CALL(Irecv, 0, (out, 64, MPI_DOUBLE, (rank + size - 1) % size, 7, MPI_COMM_WORLD, &r[0]));
      CALL(Isend, (uint64_t)i * sizeof *in, (in, i, MPI_DOUBLE, (rank + 1) % size, 7, MPI_COMM_WORLD, &r[1]));
      CALL(Waitall, 0, (2, r, MPI_STATUSES_IGNORE));
      log_calls("MPI_Irecv", 0, (uint64_t)i * sizeof *in); /* what came is known now */
    }
    if (step % 16 == 0) { /* communicators and layers come and go: the tables in the spool grow */
      char layer[32];
      snprintf(layer, sizeof layer, "layer %d", (int)(step / 16 % 100));
      ddl_layer_begin(layer);
      CALL(Comm_dup, 0, (MPI_COMM_WORLD, &copy));
      CALL(Barrier, 0, (copy));
      CALL(Comm_free, 0, (&copy));
      ddl_layer_end();
    }
    ddl_step_end();
  }
}
