/* The mock of libnccl: its communicators. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "fake_nccl_internal.h"

int fake_cuda_device(void) __attribute__((weak));

static int version(void) { return getenv("FAKE_NCCL_VERSION") ? atoi(getenv("FAKE_NCCL_VERSION")) : 22809; }

API(ncclGetVersion, (int* out)) {
  *out = version();
  return 0;
}
const char* pncclGetErrorString(ncclResult_t result) { return result ? "an error of the mock" : "no error"; }
const char* ncclGetErrorString(ncclResult_t result) __attribute__((weak, alias("pncclGetErrorString")));
static void make_id(ncclUniqueId* id) {
  static int count = 0;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  memset(id, 0, sizeof *id);
  uint64_t word = mix(mix((uint64_t)getpid(), (uint64_t)now.tv_nsec), (uint64_t)now.tv_sec + (uint64_t)++count);
  memcpy(id->internal + 16, &word, sizeof word);
}
API(ncclGetUniqueId, (ncclUniqueId * id)) {
  make_id(id);
  return 0;
}

static struct ncclComm* make(uint64_t id, const char* name, int size, int rank, int blocking) {
  struct ncclComm* c = calloc(1, sizeof *c);
  c->id = id;
  c->size = size;
  c->rank = rank;
  c->blocking = blocking;
  c->device = fake_cuda_device ? fake_cuda_device() : 0;
  c->shared = attach(id);
  open_call_log(rank);
  if (name) strncpy(c->name, name, sizeof c->name - 1);
  fake_profiler_init(&c->profiler, version(), id, name, size, rank);
  return c;
}

static void* meet(void* data) {
  struct ncclComm* c = data;
  barrier(c);
  if (c->rank == 0) detach_name(c->id);
  return NULL;
}
static __thread struct ncclComm* pending[MAX_RANKS];
static __thread int pending_count;
static struct ncclComm* join_ranks(struct ncclComm* c) {
  if (in_group() && pending_count < MAX_RANKS)
    pending[pending_count++] = c; /* one thread may have several, which would wait for each other */
  else
    meet(c);
  return c;
}
void join_pending(void) {
  pthread_t threads[MAX_RANKS];
  for (int i = 0; i < pending_count; ++i) pthread_create(&threads[i], NULL, meet, pending[i]);
  for (int i = 0; i < pending_count; ++i) pthread_join(threads[i], NULL);
  pending_count = 0;
}

static uint64_t id_of(const ncclUniqueId* id) {
  uint64_t word;
  memcpy(&word, id->internal + 16, sizeof word);
  return word;
}
static int blocks(const void* config) {
  int blocking = 1;
  if (config) memcpy(&blocking, (const char*)config + 16, sizeof blocking);
  return blocking != 0;
}

/* NCCL 2.27 added the field at the end of what there was. */
static const char* name_in(const void* config) {
  size_t size = 0;
  unsigned version = 0;
  const char* name = NULL;
  if (!config) return NULL;
  memcpy(&size, config, sizeof size);
  memcpy(&version, (const char*)config + 12, sizeof version);
  if (size >= 56 && version >= 22700) memcpy(&name, (const char*)config + 48, sizeof name);
  return name;
}

static ncclResult_t init_rank(ncclComm_t* comm, int size, const ncclUniqueId* id, int rank, const void* config) {
  if (rank < 0 || rank >= size || size > MAX_RANKS) return 4;
  *comm = join_ranks(make(id_of(id), name_in(config), size, rank, blocks(config)));
  return blocks(config) ? 0 : 7;
}
API(ncclCommInitRankConfig, (ncclComm_t * comm, int size, ncclUniqueId id, int rank, void* config)) {
  return init_rank(comm, size, &id, rank, config);
}
API(ncclCommInitRank, (ncclComm_t * comm, int size, ncclUniqueId id, int rank)) {
  return init_rank(comm, size, &id, rank, NULL);
}
API(ncclCommInitRankScalable, (ncclComm_t * comm, int size, int rank, int count, ncclUniqueId* ids, void* config)) {
  return count < 1 ? 4 : init_rank(comm, size, &ids[0], rank, config);
}
API(ncclCommInitAll, (ncclComm_t * comms, int count, const int* devices)) {
  ncclUniqueId id;
  make_id(&id);
  for (int i = 0; i < count; ++i) {
    comms[i] = make(id_of(&id), NULL, count, i, 1);
    comms[i]->device = devices ? devices[i] : i;
  }
  detach_name(id_of(&id));
  return 0;
}

static ncclResult_t child(ncclComm_t comm, uint64_t which, int size, int rank, ncclComm_t* out, const void* config) {
  const uint64_t id = mix(mix(comm->id, (uint64_t)++comm->children), which);
  const char* name = config ? name_in(config) : comm->name[0] ? comm->name : NULL;
  *out = size > 0 ? join_ranks(make(id, name, size, rank, config ? blocks(config) : comm->blocking)) : NULL;
  return comm->blocking ? 0 : 7;
}
API(ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t* out, void* config)) {
  join(comm);
  int colors[MAX_RANKS], keys[MAX_RANKS], size = 0, rank = 0;
  comm->shared->value[comm->rank] = (int64_t)color << 32 | (uint32_t)key;
  barrier(comm);
  for (int q = 0; q < comm->size; ++q)
    colors[q] = (int)(comm->shared->value[q] >> 32), keys[q] = (int)comm->shared->value[q];
  barrier(comm);
  for (int q = 0; q < comm->size; ++q) {
    if (color < 0 || colors[q] != color) continue;
    ++size;
    rank += keys[q] < key || (keys[q] == key && q < comm->rank);
  }
  return child(comm, (uint64_t)color, size, rank, out, config);
}
API(ncclCommShrink, (ncclComm_t comm, int* excluded, int count, ncclComm_t* out, void* config, int flags)) {
  (void)flags;
  int rank = comm->rank;
  for (int i = 0; i < count; ++i) rank -= excluded[i] < comm->rank;
  return child(comm, 0x5111, comm->size - count, rank, out, config);
}
API(ncclCommRevoke, (ncclComm_t comm, int flags)) { return (void)comm, (void)flags, 0; }
API(ncclCommFinalize, (ncclComm_t comm)) { return join(comm), 0; }
static ncclResult_t destroy(ncclComm_t comm) {
  join(comm);
  fake_profiler_finalize(&comm->profiler);
  munmap(comm->shared, sizeof *comm->shared);
  free(comm);
  return 0;
}
API(ncclCommDestroy, (ncclComm_t comm)) { return destroy(comm); }
API(ncclCommAbort, (ncclComm_t comm)) { return destroy(comm); }
API(ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* result)) {
  *result = comm->result;
  return 0;
}
API(ncclCommCount, (ncclComm_t comm, int* out)) {
  *out = comm->size;
  return 0;
}
API(ncclCommUserRank, (ncclComm_t comm, int* out)) {
  *out = comm->rank;
  return 0;
}
API(ncclCommRegister, (ncclComm_t comm, void* buffer, size_t size, void** handle)) {
  (void)comm, (void)size;
  *handle = buffer;
  return 0;
}
API(ncclCommDeregister, (ncclComm_t comm, void* handle)) { return (void)comm, (void)handle, 0; }
API(ncclCommWindowRegister, (ncclComm_t comm, void* buffer, size_t size, void** window, int flags)) {
  (void)comm, (void)size, (void)flags;
  *window = buffer;
  return 0;
}
API(ncclCommWindowDeregister, (ncclComm_t comm, void* window)) { return (void)comm, (void)window, 0; }
API(ncclMemAlloc, (void** out, size_t size)) { return (*out = calloc(1, size)) ? 0 : 2; }
API(ncclMemFree, (void* pointer)) { return free(pointer), 0; }
