/* A job whose best configuration is known: a step sleeps --ms, times 0.7 where --kind is good, times 1 + batch / 64
 * with --batch, and fails where --kind is broken; half as long with SLEEPY=fast in the environment, a quarter where
 * --kind is ruled and anybody rules Open MPI's algorithms, or --kind is filed and there is a file of such rules; then
 * one MPI_Allreduce of 1 KiB. With --mib-per-sample it has so much memory for each sample, 300 MiB more where --kind is
 * hungry. Where --kind is stuck, its ranks wait for each other in their second step. Losses fall as 1 / step, half as
 * fast with --kind careless. With --noise-scale it reports norms of gradients as of two ranks with that noise scale, in
 * samples. With --unmarked 1 it marks no step and reduces nothing, and prints "speed: X" and "pause: Y" of each of its
 * rounds instead, to its output or, with --report FILE, at the end of that. SLEEPY=slow makes it three times as slow.
 *
 * With SLEEPY_CLOCK=virtual and DDL_CLOCK=monotonic in the environment it does not sleep: its clocks go ahead by the
 * pause, for libddl as well. Steps of a second cost nothing then, and what a busy machine adds to them is little. */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ddl/annotate.h"

static int64_t slept_ns; /* of a virtual clock */

/* In place of the C library's, whoever calls. */
int clock_gettime(clockid_t clock, struct timespec* now) {
  const int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result != 0 || (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME)) return result;
  const int64_t ns = now->tv_nsec + __atomic_load_n(&slept_ns, __ATOMIC_RELAXED);
  now->tv_sec += ns / 1000000000;
  now->tv_nsec = ns % 1000000000;
  return 0;
}

static void pause_ms(double ms) {
  const char* clock = getenv("SLEEPY_CLOCK");
  if (clock != NULL && strcmp(clock, "virtual") == 0) {
    __atomic_fetch_add(&slept_ns, (int64_t)(ms * 1e6), __ATOMIC_RELAXED);
    return;
  }
  const struct timespec pause = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms * 1e6) % 1000000000L};
  nanosleep(&pause, NULL);
}

int main(int argc, char** argv) {
  double ms = 8;
  int steps = 12;
  double batch = 0, noise_scale = 0, mib_per_sample = 0;
  const char *kind = "plain", *report = NULL;
  int unmarked = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--ms") == 0) ms = atof(argv[i + 1]);
    if (strcmp(argv[i], "--steps") == 0) steps = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--batch") == 0) batch = atof(argv[i + 1]);
    if (strcmp(argv[i], "--mib-per-sample") == 0) mib_per_sample = atof(argv[i + 1]);
    if (strcmp(argv[i], "--noise-scale") == 0) noise_scale = atof(argv[i + 1]);
    if (strcmp(argv[i], "--kind") == 0) kind = argv[i + 1];
    if (strcmp(argv[i], "--report") == 0) report = argv[i + 1];
    if (strcmp(argv[i], "--unmarked") == 0) unmarked = atoi(argv[i + 1]);
  }
  const char* fast = getenv("SLEEPY");
  if (strcmp(kind, "good") == 0) ms *= 0.7;
  if (fast != NULL && strcmp(fast, "fast") == 0) ms *= 0.5;
  if (fast != NULL && strcmp(fast, "slow") == 0) ms *= 3;
  if (strcmp(kind, "ruled") == 0 && getenv("OMPI_MCA_coll_tuned_use_dynamic_rules") != NULL) ms *= 0.25;
  if (strcmp(kind, "filed") == 0 && getenv("OMPI_MCA_coll_tuned_dynamic_rules_filename") != NULL) ms *= 0.25;
  ms *= 1 + batch / 64;
  MPI_Init(&argc, &argv);
  if (strcmp(kind, "broken") == 0) {
    fprintf(stderr, "sleepy_job: error: this kind is broken\n");
    MPI_Finalize();
    return 7;
  }
  const size_t bytes = (size_t)((mib_per_sample * batch + (strcmp(kind, "hungry") == 0 ? 300 : 0)) * 1048576);
  char* memory = malloc(bytes + 1);
  if (memory == NULL) return 1;
  memset(memory, 1, bytes + 1);
  FILE* out = report != NULL ? fopen(report, "a") : stdout;
  if (out == NULL) return 1;
  for (int round = 0; unmarked && round < steps; ++round) {
    pause_ms(ms);
    fprintf(out, "round %d speed: %.3f images/s, pause: %.6f s\n", round, 1000 / ms, ms / 1000);
  }
  fflush(out);
  for (int step = 0; !unmarked && step < steps; ++step) {
    ddl_step_begin((uint64_t)step);
    pause_ms(ms);
    while (step == 1 && strcmp(kind, "stuck") == 0) pause();
    float sums[256] = {1};
    MPI_Allreduce(MPI_IN_PLACE, sums, 256, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    ddl_value("samples", batch > 0 ? batch : 16);
    if (noise_scale > 0) {
      ddl_value("local_gradient_norm", sqrt(1 + noise_scale / batch));
      ddl_value("gradient_norm", sqrt(1 + noise_scale / (2 * batch)));
    }
    ddl_value("loss", 1.0 / ((strcmp(kind, "careless") == 0 ? 0.5 : 1) * step + 1));
    ddl_step_end();
  }
  free(memory);
  MPI_Finalize();
  return 0;
}
