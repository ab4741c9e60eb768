/* What the programs of these tests do between their faults: five calls a round, all logged. */
#pragma once

#include <mpi.h>

#include "call_log.h"

static void communicate_over(MPI_Comm comm, int rounds) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  double in[8] = {0}, out[8];
  for (int i = 0; i < rounds; ++i) {
    MPI_Request r[2];
    CALL(Allreduce, sizeof in, (in, out, 8, MPI_DOUBLE, MPI_SUM, comm));
    CALL(Irecv, 0, (out, 8, MPI_DOUBLE, (rank + size - 1) % size, 7, comm, &r[0]));
    CALL(Isend, sizeof in, (in, 8, MPI_DOUBLE, (rank + 1) % size, 7, comm, &r[1]));
    CALL(Waitall, 0, (2, r, MPI_STATUSES_IGNORE));
    log_calls("MPI_Irecv", 0, sizeof out); /* what came is known now */
    CALL(Barrier, 0, (comm));
  }
}

static void communicate(int rounds) { communicate_over(MPI_COMM_WORLD, rounds); }

static void begin_log(void) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  open_call_log(getenv("CALL_LOG"), rank);
  log_calls("MPI_Init", 1, 0);
}
