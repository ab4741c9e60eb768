// Calls whose cost in instructions tests/interpose/instructions.py counts: each kind in blocks of its own, each block a
// part of its own in callgrind's output.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <valgrind/callgrind.h>

static float in = 1, out;

static void allreduce(void) { MPI_Allreduce(&in, &out, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF); }
static void barrier(void) { MPI_Barrier(MPI_COMM_SELF); }
static void test_null(void) {
  MPI_Request request = MPI_REQUEST_NULL;
  int flag;
  MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
}
static MPI_Request posted;
static void test_active(void) {
  int flag;
  MPI_Test(&posted, &flag, MPI_STATUS_IGNORE);
}
static void isend_irecv_waitall(void) {
  MPI_Request r[2];
  MPI_Irecv(&out, 1, MPI_FLOAT, 0, 7, MPI_COMM_SELF, &r[0]);
  MPI_Isend(&in, 1, MPI_FLOAT, 0, 7, MPI_COMM_SELF, &r[1]);
  MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

static void isend_recv_wait(void) {
  MPI_Request r;
  MPI_Isend(&in, 1, MPI_FLOAT, 0, 7, MPI_COMM_SELF, &r);
  MPI_Recv(&out, 1, MPI_FLOAT, 0, 7, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static const struct {
  const char* name;
  void (*run)(void);
} kinds[] = {{"allreduce", allreduce},
             {"barrier", barrier},
             {"test_null", test_null},
             {"test_active", test_active},
             {"isend_irecv_waitall", isend_irecv_waitall},
             {"isend_recv_wait", isend_recv_wait}};

int main(int argc, char** argv) {
  const int calls = argc > 1 ? atoi(argv[1]) : 50, blocks = argc > 2 ? atoi(argv[2]) : 20;
  MPI_Init(&argc, &argv);
  MPI_Irecv(&out, 1, MPI_FLOAT, 0, 8, MPI_COMM_SELF, &posted);
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k) {
    for (int i = 0; i < 100; ++i) kinds[k].run();
    CALLGRIND_ZERO_STATS;
    for (int block = 0; block < blocks; ++block) {
      for (int i = 0; i < calls; ++i) kinds[k].run();
      CALLGRIND_DUMP_STATS_AT(kinds[k].name);
    }
  }
  MPI_Send(&in, 1, MPI_FLOAT, 0, 8, MPI_COMM_SELF);
  MPI_Wait(&posted, MPI_STATUS_IGNORE);
  MPI_Finalize();
  return 0;
}
