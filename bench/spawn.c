// What a preloaded library costs a process that is none of the job's: posix_spawn of /bin/true, waited for, with and
// without LD_PRELOAD in turns.
//
//   spawn LIBRARY [PAIRS]      prints "without_min without_median with_min with_median" in us
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double spawn_us(char* const environment[]) {
  char* const command[] = {"/bin/true", NULL};
  pid_t child;
  int status;
  const double begin = now_us();
  if (posix_spawn(&child, command[0], NULL, NULL, command, environment) != 0 || waitpid(child, &status, 0) != child)
    abort();
  return now_us() - begin;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: spawn LIBRARY [PAIRS]\n");
    return 2;
  }
  const int pairs = argc > 2 ? atoi(argv[2]) : 400;
  char preload[4096];
  snprintf(preload, sizeof preload, "LD_PRELOAD=%s", argv[1]);
  char* without[] = {"PATH=/bin", NULL};
  char* with[] = {"PATH=/bin", preload, NULL};
  double* samples[2] = {calloc((size_t)pairs, sizeof(double)), calloc((size_t)pairs, sizeof(double))};
  if (!samples[0] || !samples[1]) abort();
  for (int i = 0; i < pairs; ++i) {
    for (int k = 0; k < 2; ++k) samples[(i ^ k) & 1][i] = spawn_us((i ^ k) & 1 ? with : without);
  }
  for (int which = 0; which < 2; ++which) {
    qsort(samples[which], (size_t)pairs, sizeof(double), by_value);
    printf("%.1f %.1f ", samples[which][0], samples[which][pairs / 2]);
  }
  printf("\n");
  return 0;
}
