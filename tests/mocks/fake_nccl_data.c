/* The mock of libnccl: the ranks' shared memory, and what each operation does with data. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_nccl_internal.h"

static const size_t element_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

int is_data_type(int datatype) { return (unsigned)datatype < sizeof element_bytes / sizeof *element_bytes; }

/* ------------------------------------------------------------------------------------------------ between processes */

uint64_t mix(uint64_t a, uint64_t b) {
  a = (a ^ b) * 0x9e3779b97f4a7c15ull;
  return a ^ a >> 31;
}

struct shared* attach(uint64_t id) {
  char name[64];
  snprintf(name, sizeof name, "/fake-nccl-%016llx", (unsigned long long)id);
  int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct shared)) != 0) abort();
  void* at = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at == MAP_FAILED) abort();
  return at;
}
void detach_name(uint64_t id) {
  char name[64];
  snprintf(name, sizeof name, "/fake-nccl-%016llx", (unsigned long long)id);
  shm_unlink(name);
}

void barrier(struct ncclComm* c) {
  int generation = c->shared->generation;
  if (atomic_fetch_add(&c->shared->arrived, 1) + 1 == c->size) {
    c->shared->arrived = 0;
    c->shared->generation++;
  } else {
    while (c->shared->generation == generation) sched_yield();
  }
}

int64_t maximum(struct ncclComm* c, int64_t value) {
  c->shared->value[c->rank] = value;
  barrier(c);
  int64_t most = value;
  for (int q = 0; q < c->size; ++q) most = c->shared->value[q] > most ? c->shared->value[q] : most;
  barrier(c);
  return most;
}

/* ------------------------------------------------------------------------------------------------------- arithmetic */

#define REDUCE(TYPE)                                           \
  do {                                                         \
    TYPE* to = (TYPE*)out;                                     \
    for (size_t i = 0; i < elements; ++i) {                    \
      TYPE value = ((const TYPE*)c->shared->data[0])[i];       \
      for (int q = 1; q < c->size; ++q) {                      \
        TYPE other = ((const TYPE*)c->shared->data[q])[i];     \
        value = op == 1   ? value * other                      \
                : op == 2 ? (other > value ? other : value)    \
                : op == 3 ? (other < value ? other : value)    \
                          : value + other;                     \
      }                                                        \
      to[i] = op == 4 ? (TYPE)(value / (TYPE)c->size) : value; \
    }                                                          \
  } while (0)

static void reduce_into(struct ncclComm* c, char* out, size_t elements, int datatype, int op) {
  switch (datatype) {
    case 7:
      REDUCE(float);
      break;
    case 8:
      REDUCE(double);
      break;
    case 2:
      REDUCE(int32_t);
      break;
    case 4:
      REDUCE(int64_t);
      break;
    default:
      REDUCE(uint8_t);
      break;
  }
}

enum what { TAKE_NOTHING, TAKE_REDUCED, TAKE_ALL, TAKE_ROOT };

/* One block: everybody that sends shows `bytes` from `send`, then takes what is for it into `out`; TAKE_ALL puts rank
 * q's part at out + q * stride. */
static void block(struct operation* o, const char* send, char* out, size_t bytes, size_t stride, enum what take,
                  int from) {
  struct ncclComm* c = o->comm;
  const size_t size = element_bytes[o->datatype];
  for (size_t at = 0; at < bytes; at += CHUNK) {
    const size_t n = bytes - at < CHUNK ? bytes - at : CHUNK;
    if (send) memcpy(c->shared->data[c->rank], send + at, n);
    barrier(c);
    if (take == TAKE_REDUCED) reduce_into(c, out + at, n / size, o->datatype, o->op);
    if (take == TAKE_ROOT) memcpy(out + at, c->shared->data[from], n);
    for (int q = 0; take == TAKE_ALL && q < c->size; ++q) memcpy(out + (size_t)q * stride + at, c->shared->data[q], n);
    barrier(c);
  }
}

void run_collective(struct operation* o) {
  struct ncclComm* c = o->comm;
  const size_t n = o->call.count * element_bytes[o->datatype];
  const char* f = o->call.function;
  const int root = o->call.root, is_root = c->rank == root;
  if (!strcmp(f, "AllReduce"))
    block(o, o->send, o->receive, n, 0, TAKE_REDUCED, 0);
  else if (!strcmp(f, "Reduce"))
    block(o, o->send, o->receive, n, 0, is_root ? TAKE_REDUCED : TAKE_NOTHING, 0);
  else if (!strcmp(f, "Broadcast"))
    block(o, is_root ? o->send : NULL, o->receive, n, 0, TAKE_ROOT, root);
  else if (!strcmp(f, "AllGather"))
    block(o, o->send, o->receive, n, n, TAKE_ALL, 0);
  else if (!strcmp(f, "Gather"))
    block(o, o->send, o->receive, n, n, is_root ? TAKE_ALL : TAKE_NOTHING, 0);
  else
    for (int q = 0; q < c->size; ++q) { /* ReduceScatter, AlltoAll, Scatter: q's part */
      const int mine = q == c->rank;
      const int scatter = !strcmp(f, "Scatter");
      const char* part = scatter && !is_root ? NULL : o->send + (size_t)q * n;
      enum what take = !mine ? TAKE_NOTHING : scatter ? TAKE_ROOT : !strcmp(f, "AlltoAll") ? TAKE_ALL : TAKE_REDUCED;
      block(o, part, o->receive, n, n, take, root);
    }
}

/* S of nccl-tests. */
int64_t size_of(const struct operation* o) {
  const char* f = o->call.function;
  const int whole = !strcmp(f, "AllReduce") || !strcmp(f, "Reduce") || !strcmp(f, "Broadcast") || o->message;
  return (int64_t)(o->call.count * element_bytes[o->datatype]) * (whole ? 1 : o->comm->size);
}

void run_message(struct operation* o) {
  struct ncclComm* c = o->comm;
  const size_t n = o->call.count * element_bytes[o->datatype];
  if (n > MAIL) abort();
  struct mail* box = o->message == 1 ? &c->shared->mail[c->rank][o->peer] : &c->shared->mail[o->peer][c->rank];
  while (box->full != (o->message == 2)) sched_yield();
  if (o->message == 1)
    memcpy(box->data, o->send, n);
  else
    memcpy(o->receive, box->data, n);
  box->full = o->message == 1;
}
