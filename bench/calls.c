// What a tool adds to an MPI call, measured inside one process: blocks of calls through MPI_X, where a preloaded
// tool sees them, take turns with blocks that call libmpi's own PMPI_X through a pointer, so that both meet the
// same machine in the same second. The difference is the tool's cost; without a tool it is zero within the noise,
// which is the control.
//
//   calls KIND [BLOCKS [CALLS]]
//
// prints "tool_min tool_median tool_mean real_min real_median real_mean" in ns per call. What a recorder does
// now and then, a new chunk and its page faults, is in the mean and not in the least of many short blocks. Cold
// kinds touch 8 MB between two calls, as a layer of compute does, and time each call by itself: only the median
// means something there.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

enum { kEvictBytes = 8 << 20, kTag = 7 };

#define CALLS(X) X(Allreduce) X(Barrier) X(Isend) X(Irecv) X(Waitall) X(Test) X(Send) X(Recv)
struct table {
#define MEMBER(name) __typeof__(&MPI_##name) name;
  CALLS(MEMBER)
};
static struct table g_tool, g_real;

static MPI_Comm g_comm;
static int g_rank, g_peer;
static float g_in = 1, g_out;
static MPI_Request g_request = MPI_REQUEST_NULL;
static char* g_evict;
static double g_ns_per_tick;

static double now_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// ------------------------------------------------------------------------------------------------ what is measured

static void allreduce(const struct table* f) { f->Allreduce(&g_in, &g_out, 1, MPI_FLOAT, MPI_SUM, g_comm); }
static void barrier(const struct table* f) { f->Barrier(g_comm); }
static void isend_irecv_waitall(const struct table* f) {
  MPI_Request r[2];
  f->Irecv(&g_out, 1, MPI_FLOAT, g_peer, kTag, g_comm, &r[0]);
  f->Isend(&g_in, 1, MPI_FLOAT, g_peer, kTag, g_comm, &r[1]);
  f->Waitall(2, r, MPI_STATUSES_IGNORE);
}
static void test(const struct table* f) {
  int flag;
  f->Test(&g_request, &flag, MPI_STATUS_IGNORE);
}
static void pingpong(const struct table* f) {
  if (g_rank == 0) {
    f->Send(&g_in, 1, MPI_FLOAT, g_peer, kTag, g_comm);
    f->Recv(&g_out, 1, MPI_FLOAT, g_peer, kTag, g_comm, MPI_STATUS_IGNORE);
  } else {
    f->Recv(&g_out, 1, MPI_FLOAT, g_peer, kTag, g_comm, MPI_STATUS_IGNORE);
    f->Send(&g_in, 1, MPI_FLOAT, g_peer, kTag, g_comm);
  }
}

struct kind {
  const char* name;
  void (*run)(const struct table*);
  int calls;  // per run
  int ranks;
  int active;  // the request under test is posted and never completes
  int cold;
};
static const struct kind kKinds[] = {
    {"allreduce_self", allreduce, 1, 1, 0, 0},
    {"barrier_self", barrier, 1, 1, 0, 0},
    {"isend_irecv_waitall", isend_irecv_waitall, 3, 1, 0, 0},
    {"test_null", test, 1, 1, 0, 0},
    {"test_active", test, 1, 1, 1, 0},
    {"pingpong", pingpong, 2, 2, 0, 0},
    {"allreduce_2", allreduce, 1, 2, 0, 0},
    {"allreduce_self_cold", allreduce, 1, 1, 0, 1},
    {"isend_irecv_waitall_cold", isend_irecv_waitall, 3, 1, 0, 1},
};

// ------------------------------------------------------------------------------------------------ measuring

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void print_summary(double* samples, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += samples[i];
  qsort(samples, (size_t)n, sizeof *samples, by_value);
  printf(" %.2f %.2f %.2f", samples[0], n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2, sum / n);
}

static double block_ns(const struct kind* kind, const struct table* f, int calls) {
  const int runs = calls / kind->calls;
  // On one rank nobody is waited for, so the thread's processor time is the same cost without the machine's other load.
  const clockid_t clock = kind->ranks == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  const double begin = now_ns(clock);
  for (int i = 0; i < runs; ++i) kind->run(f);
  return (now_ns(clock) - begin) / (runs * kind->calls);
}

/// Finer than CLOCK_MONOTONIC, which moves in steps of 10 ns on some machines.
static uint64_t ticks(void) {
#ifdef __x86_64__
  _mm_lfence();
  return __rdtsc();
#else
  return (uint64_t)now_ns(CLOCK_MONOTONIC);
#endif
}

static double ns_per_tick(void) {
  const double begin_ns = now_ns(CLOCK_MONOTONIC);
  const uint64_t begin = ticks();
  while (now_ns(CLOCK_MONOTONIC) - begin_ns < 2e7) continue;
  return (now_ns(CLOCK_MONOTONIC) - begin_ns) / (double)(ticks() - begin);
}

static double cold_ns(const struct kind* kind, const struct table* f) {
  for (int i = 0; i < kEvictBytes; i += 64) ++g_evict[i];
  const uint64_t begin = ticks();
  kind->run(f);
  return (double)(ticks() - begin) * g_ns_per_tick / kind->calls;
}

static void measure(const struct kind* kind, int blocks, int calls) {
  double* samples[2] = {calloc((size_t)blocks, sizeof(double)), calloc((size_t)blocks, sizeof(double))};
  const struct table* tables[2] = {&g_tool, &g_real};
  g_evict = calloc(1, kEvictBytes);
  g_ns_per_tick = ns_per_tick();
  if (!samples[0] || !samples[1] || !g_evict) abort();
  for (int i = 0; i < 1000; ++i) kind->run(tables[i & 1]);
  for (int i = 0; i < blocks; ++i) {
    const int first = i & 1;  // whoever goes first changes, so that a drift of the machine falls on both
    for (int k = 0; k < 2; ++k) {
      const int which = first ^ k;
      samples[which][i] = kind->cold ? cold_ns(kind, tables[which]) : block_ns(kind, tables[which], calls);
    }
  }
  if (g_rank == 0) {
    for (int which = 0; which < 2; ++which) print_summary(samples[which], blocks);
    printf("\n");
  }
}

/// libmpi's own functions, also where a tool exports PMPI_X itself.
static void find_real(void) {
  void* libmpi = dlopen("libmpi.so.40", RTLD_LAZY | RTLD_NOLOAD);
#define FIND(name) \
  g_real.name = (__typeof__(g_real.name))(libmpi ? dlsym(libmpi, "PMPI_" #name) : NULL), g_tool.name = MPI_##name;
  CALLS(FIND)
  if (!g_real.Test) {
    fprintf(stderr, "calls: cannot find libmpi's own functions\n");
    exit(1);
  }
}

int main(int argc, char** argv) {
  const struct kind* kind = NULL;
  for (size_t i = 0; argc > 1 && i < sizeof kKinds / sizeof *kKinds; ++i) {
    if (strcmp(argv[1], kKinds[i].name) == 0) kind = &kKinds[i];
  }
  if (!kind) {
    fprintf(stderr, "usage: calls KIND [BLOCKS [CALLS]]; kinds:");
    for (size_t i = 0; i < sizeof kKinds / sizeof *kKinds; ++i) fprintf(stderr, " %s", kKinds[i].name);
    fprintf(stderr, "\n");
    return 2;
  }
  const int blocks = argc > 2 ? atoi(argv[2]) : 300, calls = argc > 3 ? atoi(argv[3]) : 1000;
  MPI_Init(&argc, &argv);
  find_real();
  int size;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != kind->ranks) {
    fprintf(stderr, "calls: %s needs %d ranks, this job has %d\n", kind->name, kind->ranks, size);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  g_comm = size == 1 ? MPI_COMM_SELF : MPI_COMM_WORLD;
  MPI_Comm_rank(g_comm, &g_rank);
  g_peer = size - 1 - g_rank;
  float unused;
  if (kind->active) MPI_Irecv(&unused, 1, MPI_FLOAT, g_peer, kTag + 1, g_comm, &g_request);
  measure(kind, blocks, calls);
  if (kind->active) {
    MPI_Send(&g_in, 1, MPI_FLOAT, g_peer, kTag + 1, g_comm);
    MPI_Wait(&g_request, MPI_STATUS_IGNORE);
  }
  MPI_Finalize();
  return 0;
}
