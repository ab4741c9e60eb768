// A given number of the cheapest collective there is, as fast as it goes: what a recorder leaves behind per event, and
// what it still does when the job is over. Prints CLOCK_MONOTONIC in ns before the first call, after the last, and
// after MPI_Finalize; whoever started it knows when it ended.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

int main(int argc, char** argv) {
  const long calls = argc > 1 ? atol(argv[1]) : 1000000;
  MPI_Init(&argc, &argv);
  float in = 1, out;
  const long long begin = now_ns();
  for (long i = 0; i < calls; ++i) MPI_Allreduce(&in, &out, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF);
  const long long end = now_ns();
  MPI_Finalize();
  printf("%lld %lld %lld\n", begin, end, now_ns());
  return 0;
}
