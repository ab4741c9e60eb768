/* A job that is tuned while it runs, whose best value is known: a step sleeps --ms, times 1 + |log2(x / 8)| with knob
 * x, unless --flat 1; knob y does nothing. What has nothing to do with knobs: --drift D makes it 1 + D step / steps
 * times as long, and --noise P up to so many percent longer or shorter, drawn for each step alike on all ranks. --log
 * FILE has each rank write the values of each step into FILE.<rank>. --mode: stuck, waits without end from step 60 on
 * and ignores SIGTERM; deaf, never asks; half, rank 0 alone does; unmarked, marks no steps; wrong, asks for the step
 * after; silent, asks for no value. */
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ddl/annotate.h"

int main(int argc, char** argv) {
  double ms = 4, drift = 0, noise = 0, x = 1, y = 1;
  unsigned long steps = 200, seed = 1;
  int flat = 0, rank = 0;
  const char *mode = "", *log = NULL;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--ms") == 0) ms = atof(argv[i + 1]);
    if (strcmp(argv[i], "--drift") == 0) drift = atof(argv[i + 1]);
    if (strcmp(argv[i], "--noise") == 0) noise = atof(argv[i + 1]) / 100;
    if (strcmp(argv[i], "--steps") == 0) steps = strtoul(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--seed") == 0) seed = strtoul(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--flat") == 0) flat = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--x") == 0) x = atof(argv[i + 1]);
    if (strcmp(argv[i], "--mode") == 0) mode = argv[i + 1];
    if (strcmp(argv[i], "--log") == 0) log = argv[i + 1];
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  FILE* file = NULL;
  if (log != NULL) {
    char name[1024];
    snprintf(name, sizeof name, "%s.%d", log, rank);
    file = fopen(name, "w");
    if (file == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  }
  const int hears = strcmp(mode, "deaf") != 0 && (strcmp(mode, "half") != 0 || rank == 0),
            marks = strcmp(mode, "unmarked") != 0;
  unsigned long state = seed * 2654435761UL + 12345;
  for (unsigned long step = 0; step < steps; ++step) {
    if (hears) ddl_tune(strcmp(mode, "wrong") == 0 ? step + 1 : step);
    if (hears && strcmp(mode, "silent") != 0) {
      x = ddl_tuned("x", x);
      y = ddl_tuned("y", y);
    }
    if (marks) ddl_step_begin(step);
    state = state * 6364136223846793005UL + 1442695040888963407UL;
    const double drawn = 2 * (double)(state >> 11) / 9007199254740992.0 - 1;
    double pause_ms = ms * (flat ? 1 : 1 + fabs(log2(x / 8)));
    pause_ms *= (1 + drift * (double)step / (double)steps) * (1 + noise * drawn);
    if (step == 60 && strcmp(mode, "stuck") == 0) {
      signal(SIGTERM, SIG_IGN);
      MPI_Recv(&rank, 1, MPI_INT, rank, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    }
    const struct timespec pause = {.tv_sec = (time_t)(pause_ms / 1000),
                                   .tv_nsec = (long)(pause_ms * 1e6) % 1000000000L};
    nanosleep(&pause, NULL);
    float sums[16] = {1};
    MPI_Allreduce(MPI_IN_PLACE, sums, 16, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    ddl_value("samples", 16);
    if (marks) ddl_step_end();
    if (file != NULL) fprintf(file, "%lu %g %g\n", step, x, y);
  }
  if (file != NULL) fclose(file);
  MPI_Finalize();
  return 0;
}
