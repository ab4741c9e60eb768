// scheduled MILLISECONDS [alone]: computes for so long, with an allreduce now and then, or in marked steps and without
// MPI, and prints what the kernel says of its main thread: on a CPU, ready without one, and CLOCK_MONOTONIC, in ns;
// before and after MPI_Init, and before and after MPI_Finalize (alone: the first step, and once at the end).
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ddl/annotate.h"

static unsigned long long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ull + now.tv_nsec;
}

struct reading {
  unsigned long long on_cpu, ready, at;
};

static struct reading look(void) {
  struct reading r = {0, 0, 0};
  FILE* file = fopen("/proc/self/schedstat", "r");
  if (file && fscanf(file, "%llu %llu", &r.on_cpu, &r.ready) != 2) r.on_cpu = r.ready = 0;
  if (file) fclose(file);
  r.at = now_ns();
  return r;
}

static void compute(unsigned long long until_ns) {
  volatile double x = 1;
  while (now_ns() < until_ns)
    for (int i = 0; i < 10000; ++i) x = x * 1.0000001;
}

int main(int argc, char** argv) {
  const unsigned long long run_ns = strtoull(argv[1], NULL, 10) * 1000000;
  const int alone = argc > 2 && strcmp(argv[2], "alone") == 0;
  int rank = 0;
  struct reading r[4];
  r[0] = look();
  if (alone) {
    ddl_step_begin(0);
  } else {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  }
  r[1] = look();
  for (int step = 1, goes_on = 1; goes_on; ++step) {
    compute(now_ns() + 5000000);
    goes_on = now_ns() < r[1].at + run_ns;
    if (alone) {
      ddl_step_end();
      ddl_step_begin(step);
    } else {
      MPI_Allreduce(MPI_IN_PLACE, &goes_on, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    }
  }
  r[2] = look();
  if (!alone) MPI_Finalize();
  r[3] = look();
  printf("scheduled %d", rank);
  for (int i = 0; i < 4; ++i) printf(" %llu %llu %llu", r[i].on_cpu, r[i].ready, r[i].at);
  printf("\n");
  return 0;
}
