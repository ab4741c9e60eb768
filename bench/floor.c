// The floor: what any tool that stores events must pay. A preload library of a few lines that reads the clock twice per
// call and stores one 32-byte record into a ring that was made and touched before. Built twice: floor_rdtsc and
// floor_clock (DDL_FLOOR_CLOCK).
//
// It finds nothing out about a call, counts nothing, survives nothing and knows one thread. The measured programs call
// nothing but these.
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef DDL_FLOOR_CLOCK
static inline uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
#else
#include <x86intrin.h>
static inline uint64_t now(void) { return __rdtsc(); }
#endif

struct record {
  uint64_t begin, end, op, bytes;
};
enum { kSlots = 1 << 16 };
static struct record* g_ring;
static uint64_t g_next;

__attribute__((constructor)) static void make_ring(void) {
  g_ring = aligned_alloc(64, kSlots * sizeof(struct record));
  if (g_ring == NULL) abort();
  memset(g_ring, 1, kSlots * sizeof(struct record));
}

static inline void store(uint64_t begin, uint64_t op, int64_t bytes) {
  struct record* r = &g_ring[g_next++ & (kSlots - 1)];
  r->begin = begin;
  r->end = now();
  r->op = op;
  r->bytes = (uint64_t)bytes;
}

#define FLOOR(number, name, parameters, arguments, bytes) \
  int name parameters {                                   \
    const uint64_t begin = now();                         \
    const int result = P##name arguments;                 \
    store(begin, number, bytes);                          \
    return result;                                        \
  }

// clang-format off
FLOOR(1, MPI_Allreduce, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c), (a, b, n, t, op, c), n)
FLOOR(2, MPI_Barrier, (MPI_Comm c), (c), 0)
FLOOR(3, MPI_Isend, (const void* b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request* r), (b, n, t, to, tag, c, r), n)
FLOOR(4, MPI_Irecv, (void* b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request* r), (b, n, t, from, tag, c, r), n)
FLOOR(5, MPI_Waitall, (int n, MPI_Request r[], MPI_Status s[]), (n, r, s), n)
FLOOR(6, MPI_Test, (MPI_Request* r, int* flag, MPI_Status* s), (r, flag, s), 0)
FLOOR(7, MPI_Send, (const void* b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c), (b, n, t, to, tag, c), n)
FLOOR(8, MPI_Recv, (void* b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status* s), (b, n, t, from, tag, c, s), n)
// clang-format on
