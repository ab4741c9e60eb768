/* Many of something. usage: many calls N | threads N | communicators N | communicators_at_once N | requests N | steps N
 * Prints the growth of the process's own memory over the second half, in KiB, to the file $GROWTH: what is bounded does
 * not grow there. */
#include <pthread.h>

#include "communicate.h"
#include "ddl/annotate.h"

static long anonymous_kib(void) {
  char line[256];
  long kib = 0;
  FILE* status = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, status)) {
    if (sscanf(line, "RssAnon: %ld", &kib) == 1) break;
  }
  fclose(status);
  return kib;
}

static void calls(long n) {
  double in = 1, out;
  for (long i = 0; i < n; ++i) MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
  log_calls("MPI_Allreduce", (uint64_t)n, (uint64_t)n * sizeof in);
}

static void* one_call(void* nothing) {
  double in = 1, out;
  MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
  return nothing;
}

static void threads(long n) {
  for (long i = 0; i < n; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, one_call, NULL) != 0) abort();
    pthread_join(thread, NULL);
  }
  log_calls("MPI_Allreduce", (uint64_t)n, (uint64_t)n * sizeof(double));
}

static void communicators(long n) {
  for (long i = 0; i < n; ++i) {
    MPI_Comm copy;
    double in = 1, out;
    CALL(Comm_dup, 0, (MPI_COMM_SELF, &copy));
    CALL(Allreduce, sizeof in, (&in, &out, 1, MPI_DOUBLE, MPI_SUM, copy));
    CALL(Comm_free, 0, (&copy));
  }
}

static void communicators_at_once(long n) {
  MPI_Comm* copies = malloc((size_t)n * sizeof *copies);
  double in = 1, out;
  for (long i = 0; i < n; ++i) CALL(Comm_dup, 0, (MPI_COMM_SELF, &copies[i]));
  for (long i = 0; i < n; ++i) CALL(Allreduce, sizeof in, (&in, &out, 1, MPI_DOUBLE, MPI_SUM, copies[i]));
  for (long i = 0; i < n; ++i) CALL(Comm_free, 0, (&copies[i]));
  free(copies);
}

static void requests(long n) {
  for (long i = 0; i < n; ++i) {
    MPI_Request r[2];
    int in = 1, out;
    CALL(Irecv, 0, (&out, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &r[0]));
    CALL(Isend, sizeof in, (&in, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &r[1]));
    CALL(Waitall, 0, (2, r, MPI_STATUSES_IGNORE));
    log_calls("MPI_Irecv", 0, sizeof out);
  }
}

static uint64_t next_step;
static void steps(long n) {
  for (long i = 0; i < n; ++i) {
    double in = 1, out;
    ddl_step_begin(next_step++);
    ddl_layer_begin("layer");
    CALL(Allreduce, sizeof in, (&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF));
    ddl_layer_end();
    ddl_step_end();
  }
}

static const struct {
  const char* name;
  void (*work)(long n);
} kCases[] = {{"calls", calls},
              {"threads", threads},
              {"communicators", communicators},
              {"communicators_at_once", communicators_at_once},
              {"requests", requests},
              {"steps", steps}};

int main(int argc, char** argv) {
  unsigned i = 0;
  while (strcmp(kCases[i].name, argv[1]) != 0) ++i;
  const long n = atol(argv[2]);
  int provided;
  if (strcmp(argv[1], "threads") == 0) {
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  } else {
    MPI_Init(&argc, &argv);
  }
  open_call_log(getenv("CALL_LOG"), 0);
  log_calls("MPI_Init", strcmp(argv[1], "threads") != 0, 0);
  kCases[i].work(n / 2);
  const long before = anonymous_kib();
  kCases[i].work(n - n / 2);
  const long after = anonymous_kib();
  if (getenv("GROWTH")) {
    FILE* growth = fopen(getenv("GROWTH"), "w");
    fprintf(growth, "%ld\n", after - before);
    fclose(growth);
  }
  CALL(Finalize, 0, ());
  return 0;
}
