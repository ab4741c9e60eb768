/* A libnccl.so.2 without a GPU: "device memory" is ordinary memory, collectives reduce across the processes of a host through shared
 * memory, and time is virtual, so that a test knows every nanosecond of it.
 *
 * With the doubles of CUDA (fake_cuda.h) kernels are theirs. Without, each process has one stream of virtual time, which the program
 * advances with fake_nccl_compute(ns). A kernel starts there on each rank and ends on all when the last one has started + 10 us + S / 10
 * ns; S is the size of the whole operation. All work of a group on a communicator is one kernel. What was done is written to
 * $FAKE_NCCL_LOG.<rank of the first communicator>, a line per collective: uid function count root S start end calls-in-kernel.
 *
 * Knobs: FAKE_NCCL_VERSION (22809) decides which profiler versions are looked for, FAKE_NCCL_NO_KERNEL_EVENTS=1 sends no KernelCh events.
 * Its profiler's side (fake_nccl_profiler.h) is written from NCCL's documentation, not from ours. */
#define _GNU_SOURCE
#include "fake_nccl.h"
#include "fake_cuda.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MAX_RANKS 8
#define CHUNK (1 << 20)
#define MAIL (64 << 10)

struct mail {
  atomic_int full;
  char data[MAIL];
};
struct shared {
  atomic_int arrived, generation;
  int64_t value[MAX_RANKS];
  char data[MAX_RANKS][CHUNK];
  struct mail mail[MAX_RANKS][MAX_RANKS];
};

struct ncclComm {
  uint64_t id;
  int rank, size, blocking, children;
  struct shared* shared;
  struct fake_profiler_comm profiler;
  pthread_t worker;
  int working;
  atomic_int result; /* 7 while a thread of ours is at it */
};

struct operation {
  struct fake_call call;
  struct ncclComm* comm;
  const char* send;
  char* receive;
  int datatype, op, peer; /* peer: of messages */
  int message;            /* 1 send, 2 receive */
  void* stream;
};

static __thread struct operation* queue;
static __thread int queued, group_depth;
static __thread void* group_event;
static atomic_llong stream_ns;
static FILE* call_log;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static const size_t element_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

int64_t fake_nccl_now(void) { return stream_ns; }
void fake_nccl_compute(int64_t ns) { stream_ns += ns; }
static int version(void) { return getenv("FAKE_NCCL_VERSION") ? atoi(getenv("FAKE_NCCL_VERSION")) : 22809; }

/* ------------------------------------------------------------------------------------------------------------ between processes */

static uint64_t mix(uint64_t a, uint64_t b) {
  a = (a ^ b) * 0x9e3779b97f4a7c15ull;
  return a ^ a >> 31;
}

static struct shared* attach(uint64_t id) {
  char name[64];
  snprintf(name, sizeof name, "/fake-nccl-%016llx", (unsigned long long)id);
  int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct shared)) != 0) abort();
  void* at = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at == MAP_FAILED) abort();
  return at;
}
static void detach_name(uint64_t id) {
  char name[64];
  snprintf(name, sizeof name, "/fake-nccl-%016llx", (unsigned long long)id);
  shm_unlink(name);
}

static void barrier(struct ncclComm* c) {
  int generation = c->shared->generation;
  if (atomic_fetch_add(&c->shared->arrived, 1) + 1 == c->size) {
    c->shared->arrived = 0;
    c->shared->generation++;
  } else {
    while (c->shared->generation == generation) sched_yield();
  }
}

static int64_t maximum(struct ncclComm* c, int64_t value) {
  c->shared->value[c->rank] = value;
  barrier(c);
  int64_t most = value;
  for (int q = 0; q < c->size; ++q) most = c->shared->value[q] > most ? c->shared->value[q] : most;
  barrier(c);
  return most;
}

/* ------------------------------------------------------------------------------------------------------------ arithmetic */

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

/* One block: everybody that sends shows `bytes` from `send`, then takes what is for it into `out`; TAKE_ALL puts rank q's part at out + q *
 * stride. */
static void block(struct operation* o, const char* send, char* out, size_t bytes, size_t stride, enum what take, int from) {
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

static void run_collective(struct operation* o) {
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
static int64_t size_of(const struct operation* o) {
  const char* f = o->call.function;
  const int whole = !strcmp(f, "AllReduce") || !strcmp(f, "Reduce") || !strcmp(f, "Broadcast") || o->message;
  return (int64_t)(o->call.count * element_bytes[o->datatype]) * (whole ? 1 : o->comm->size);
}

static void run_message(struct operation* o) {
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

/* ------------------------------------------------------------------------------------------------------------ launching */

static void tell(const struct operation* o, int64_t start, int64_t end, int calls) {
  pthread_mutex_lock(&log_lock);
  if (call_log && !o->message)
    fprintf(call_log, "%016llx %s %zu %d %lld %lld %lld %d\n", (unsigned long long)o->comm->id, o->call.function, o->call.count,
            o->call.root, (long long)size_of(o), (long long)start, (long long)end, calls);
  if (call_log) fflush(call_log);
  pthread_mutex_unlock(&log_lock);
}

/* With the doubles of CUDA in the process the kernel is one of theirs, in the stream and the clock of the program; else time is ours alone.
 */
uint64_t fake_cuda_now(void) __attribute__((weak));
uint64_t fake_cuda_ready(struct fake_stream*, int) __attribute__((weak));
void fake_cuda_begin_call(int, int, const char*, struct fake_stream*) __attribute__((weak));
uint64_t fake_cuda_submit(struct fake_op*) __attribute__((weak));
void fake_cuda_end_call(void) __attribute__((weak));

/* The launching call is entered, and says when the kernel will start here; what the other ranks say decides about its end. */
static int64_t begin_kernel(struct fake_stream* stream) {
  if (!fake_cuda_submit) return stream_ns;
  fake_cuda_begin_call(FAKE_DRIVER_API, 652, "cuLaunchKernelEx", stream);
  const int64_t soon = (int64_t)fake_cuda_now() + 10000, ready = (int64_t)fake_cuda_ready(stream, 0);
  return soon > ready ? soon : ready;
}

static void end_kernel(const char* name, struct fake_stream* stream, int64_t start, int64_t end) {
  stream_ns = end;
  if (!fake_cuda_submit) return;
  struct fake_op op = {
      .kind = FAKE_KERNEL, .name = name, .duration_ns = (uint64_t)(end - start), .not_before = (uint64_t)start, .stream = stream};
  fake_cuda_submit(&op);
  fake_cuda_end_call();
}

/* The operations of `all` on communicator c, as one kernel. */
static void run_kernel(struct operation* all, int count, struct ncclComm* c) {
  int64_t calls = 0;
  for (int i = 0; i < count; ++i) calls += all[i].comm == c;
  void* launch = fake_profiler_launch(&c->profiler, all[0].call.group);
  struct fake_stream* stream = NULL;
  for (int i = 0; i < count; ++i)
    if (all[i].comm == c) stream = all[i].stream;
  const int64_t start = begin_kernel(stream);
  int messages = 0;
  for (int pass = 0; pass < 3; ++pass) /* sends before receives, or two ranks would wait for each other */
    for (int i = 0; i < count; ++i) {
      if (all[i].comm != c || all[i].message != pass) continue;
      if (pass == 0)
        run_collective(&all[i]);
      else
        run_message(&all[i]), ++messages;
    }
  int64_t end = (messages == calls ? start : maximum(c, start)) + 10000;
  for (int i = 0, first = 1; i < count; ++i) { /* one after the other: the first also waits for the other ranks */
    if (all[i].comm != c) continue;
    all[i].call.start_ns = first ? start : end;
    all[i].call.end_ns = end += size_of(&all[i]) / 10;
    first = 0;
  }
  end_kernel(messages == calls ? "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
                               : "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
             stream, start, end);
  fake_profiler_launched(&c->profiler, launch);
  for (int i = 0; i < count; ++i) {
    if (all[i].comm != c) continue;
    if (all[i].message)
      fake_profiler_message(&c->profiler, &all[i].call, all[i].message == 1 ? "Send" : "Recv", all[i].peer);
    else
      fake_profiler_collective(&c->profiler, &all[i].call);
    tell(&all[i], start, end, (int)calls);
  }
}

static void run_all(struct operation* all, int count) {
  for (int i = 0; i < count; ++i) {
    int seen = 0;
    for (int j = 0; j < i; ++j) seen |= all[j].comm == all[i].comm;
    if (!seen) run_kernel(all, count, all[i].comm);
  }
  free(all);
}

struct work {
  struct operation* all;
  int count;
};
static void* worker(void* data) {
  struct work work = *(struct work*)data;
  free(data);
  struct ncclComm* c = work.all[0].comm;
  run_all(work.all, work.count);
  c->result = 0;
  return NULL;
}

static void join(struct ncclComm* c) {
  if (c->working) pthread_join(c->worker, NULL);
  c->working = 0;
}

static ncclResult_t launch_queue(void) {
  struct operation* all = queue;
  const int count = queued;
  queue = NULL;
  queued = 0;
  if (count == 0) return 0;
  struct ncclComm* c = all[0].comm;
  if (c->blocking) {
    run_all(all, count);
    return 0;
  }
  join(c);
  c->result = 7;
  c->working = 1;
  struct work* work = malloc(sizeof *work);
  *work = (struct work){all, count};
  pthread_create(&c->worker, NULL, worker, work);
  return 7;
}

static ncclResult_t enqueue(struct operation o) {
  if (!o.comm || (unsigned)o.datatype > 11 || o.call.root >= o.comm->size) return 4;
  join(o.comm);
  const int alone = group_depth == 0;
  if (alone) group_event = fake_profiler_group(&o.comm->profiler);
  o.call.group = group_event;
  o.call.datatype = o.datatype;
  o.call.send = o.send;
  o.call.receive = o.receive;
  o.call.api = fake_profiler_call(&o.comm->profiler, &o.call, o.message != 0);
  queue = realloc(queue, (size_t)(queued + 1) * sizeof *queue);
  queue[queued++] = o;
  ncclResult_t result = alone ? launch_queue() : o.comm->blocking ? 0 : 7;
  fake_profiler_called(&o.comm->profiler, o.call.api);
  if (alone) fake_profiler_group_end(&o.comm->profiler, group_event);
  return result;
}

/* ------------------------------------------------------------------------------------------------------------ the API: strong pnccl, weak
 * nccl */

#define API(name, parameters)                                           \
  ncclResult_t name parameters __attribute__((weak, alias("p" #name))); \
  __attribute__((visibility("default"))) ncclResult_t p##name parameters

API(ncclGetVersion, (int* out)) {
  *out = version();
  return 0;
}
const char* pncclGetErrorString(ncclResult_t result) { return result ? "an error of the double" : "no error"; }
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

static struct ncclComm* make(uint64_t id, int size, int rank, int blocking) {
  struct ncclComm* c = calloc(1, sizeof *c);
  c->id = id;
  c->size = size;
  c->rank = rank;
  c->blocking = blocking;
  c->shared = attach(id);
  if (!call_log && getenv("FAKE_NCCL_LOG")) {
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", getenv("FAKE_NCCL_LOG"), rank);
    call_log = fopen(path, "w");
  }
  fake_profiler_init(&c->profiler, version(), id, size, rank);
  return c;
}

static struct ncclComm* join_ranks(struct ncclComm* c) {
  barrier(c);
  if (c->rank == 0) detach_name(c->id);
  return c;
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

static ncclResult_t init_rank(ncclComm_t* comm, int size, const ncclUniqueId* id, int rank, const void* config) {
  if (rank < 0 || rank >= size || size > MAX_RANKS) return 4;
  *comm = join_ranks(make(id_of(id), size, rank, blocks(config)));
  return blocks(config) ? 0 : 7;
}
API(ncclCommInitRankConfig, (ncclComm_t * comm, int size, ncclUniqueId id, int rank, void* config)) {
  return init_rank(comm, size, &id, rank, config);
}
API(ncclCommInitRank, (ncclComm_t * comm, int size, ncclUniqueId id, int rank)) { return init_rank(comm, size, &id, rank, NULL); }
API(ncclCommInitRankScalable, (ncclComm_t * comm, int size, int rank, int count, ncclUniqueId* ids, void* config)) {
  return count < 1 ? 4 : init_rank(comm, size, &ids[0], rank, config);
}
API(ncclCommInitAll, (ncclComm_t * comms, int count, const int* devices)) {
  (void)devices;
  ncclUniqueId id;
  make_id(&id);
  for (int i = 0; i < count; ++i) comms[i] = make(id_of(&id), count, i, 1);
  detach_name(id_of(&id));
  return 0;
}

static ncclResult_t child(ncclComm_t comm, uint64_t which, int size, int rank, ncclComm_t* out, const void* config) {
  const uint64_t id = mix(mix(comm->id, (uint64_t)++comm->children), which);
  *out = size > 0 ? join_ranks(make(id, size, rank, config ? blocks(config) : comm->blocking)) : NULL;
  return comm->blocking ? 0 : 7;
}
API(ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t* out, void* config)) {
  join(comm);
  int colors[MAX_RANKS], keys[MAX_RANKS], size = 0, rank = 0;
  comm->shared->value[comm->rank] = (int64_t)color << 32 | (uint32_t)key;
  barrier(comm);
  for (int q = 0; q < comm->size; ++q) colors[q] = (int)(comm->shared->value[q] >> 32), keys[q] = (int)comm->shared->value[q];
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

API(ncclGroupStart, (void)) {
  ++group_depth;
  return 0;
}
static ncclResult_t end_group(void) {
  if (group_depth == 0) return 5;
  return --group_depth == 0 ? launch_queue() : 0;
}
API(ncclGroupEnd, (void)) { return end_group(); }
API(ncclGroupSimulateEnd, (void* info)) {
  (void)info;
  free(queue);
  queue = NULL;
  queued = 0;
  return end_group();
}

#define COLLECTIVE(NAME, COUNT, TYPE, OP, ROOT)                                        \
  enqueue((struct operation){.call = {.function = NAME, .count = COUNT, .root = ROOT}, \
                             .comm = comm,                                             \
                             .send = sendbuff,                                         \
                             .receive = recvbuff,                                      \
                             .datatype = TYPE,                                         \
                             .op = OP,                                                 \
                             .stream = stream})
API(ncclAllReduce, (const void* sendbuff, void* recvbuff, size_t count, int datatype, int op, ncclComm_t comm, void* stream)) {
  return COLLECTIVE("AllReduce", count, datatype, op, 0);
}
API(ncclReduce, (const void* sendbuff, void* recvbuff, size_t count, int datatype, int op, int root, ncclComm_t comm, void* stream)) {
  return COLLECTIVE("Reduce", count, datatype, op, root);
}
API(ncclBroadcast, (const void* sendbuff, void* recvbuff, size_t count, int datatype, int root, ncclComm_t comm, void* stream)) {
  return COLLECTIVE("Broadcast", count, datatype, 0, root);
}
API(ncclBcast, (void* buff, size_t count, int datatype, int root, ncclComm_t comm, void* stream)) {
  return ncclBroadcast(buff, buff, count, datatype, root, comm, stream); /* by its weak name, as NCCL does */
}
API(ncclReduceScatter, (const void* sendbuff, void* recvbuff, size_t recvcount, int datatype, int op, ncclComm_t comm, void* stream)) {
  return COLLECTIVE("ReduceScatter", recvcount, datatype, op, 0);
}
API(ncclAllGather, (const void* sendbuff, void* recvbuff, size_t sendcount, int datatype, ncclComm_t comm, void* stream)) {
  return COLLECTIVE("AllGather", sendcount, datatype, 0, 0);
}
API(ncclAlltoAll, (const void* sendbuff, void* recvbuff, size_t count, int datatype, ncclComm_t comm, void* stream)) {
  return COLLECTIVE("AlltoAll", count, datatype, 0, 0);
}
API(ncclGather, (const void* sendbuff, void* recvbuff, size_t count, int datatype, int root, ncclComm_t comm, void* stream)) {
  return COLLECTIVE("Gather", count, datatype, 0, root);
}
API(ncclScatter, (const void* sendbuff, void* recvbuff, size_t count, int datatype, int root, ncclComm_t comm, void* stream)) {
  return COLLECTIVE("Scatter", count, datatype, 0, root);
}
API(ncclSend, (const void* sendbuff, size_t count, int datatype, int peer, ncclComm_t comm, void* stream)) {
  return enqueue((struct operation){.call = {.function = "Send", .count = count},
                                    .comm = comm,
                                    .send = sendbuff,
                                    .datatype = datatype,
                                    .peer = peer,
                                    .message = 1,
                                    .stream = stream,
                                    .stream = stream});
}
API(ncclRecv, (void* recvbuff, size_t count, int datatype, int peer, ncclComm_t comm, void* stream)) {
  return enqueue((struct operation){.call = {.function = "Recv", .count = count},
                                    .comm = comm,
                                    .receive = recvbuff,
                                    .datatype = datatype,
                                    .peer = peer,
                                    .message = 2,
                                    .stream = stream,
                                    .stream = stream});
}
