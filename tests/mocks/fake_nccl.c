/* A libnccl.so.2 without a GPU: "device memory" is ordinary memory, collectives reduce across the processes of a host
 * through shared memory, and time is virtual, so that a test knows every nanosecond of it.
 *
 * With the mocks of CUDA (fake_cuda.h) kernels are theirs. Without, each process has one stream of virtual time, which
 * the program advances with fake_nccl_compute(ns). A kernel starts there on each rank and ends on all when the last one
 * has started + 10 us + S / 10 ns; S is the size of the whole operation. All work of a group on a communicator is one
 * kernel. What was done is written to $FAKE_NCCL_LOG.<rank of the first communicator>, a line per collective: uid
 * function count root S start end calls-in-kernel.
 *
 * Knobs: FAKE_NCCL_VERSION (22809) decides which profiler versions are looked for, FAKE_NCCL_NO_KERNEL_EVENTS=1
 * sends no KernelCh events. Its profiler's side (fake_nccl_profiler.c) is written from NCCL's documentation,
 * not from ours. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"
#include "fake_nccl_internal.h"

static __thread struct operation* queue;
static __thread int queued, group_depth;
static __thread void* group_event;
static atomic_llong stream_ns;
static FILE* call_log;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

int64_t fake_nccl_now(void) { return stream_ns; }
void fake_nccl_compute(int64_t ns) { stream_ns += ns; }

void open_call_log(int rank) {
  if (call_log || !getenv("FAKE_NCCL_LOG")) return;
  char path[4096];
  snprintf(path, sizeof path, "%s.%d", getenv("FAKE_NCCL_LOG"), rank);
  call_log = fopen(path, "w");
}

/* -------------------------------------------------------------------------------------------------------- launching */

static void tell(const struct operation* o, int64_t start, int64_t end, int calls) {
  pthread_mutex_lock(&log_lock);
  if (call_log && !o->message)
    fprintf(call_log, "%016llx %s %zu %d %lld %lld %lld %d\n", (unsigned long long)o->comm->id, o->call.function,
            o->call.count, o->call.root, (long long)size_of(o), (long long)start, (long long)end, calls);
  if (call_log) fflush(call_log);
  pthread_mutex_unlock(&log_lock);
}

/* With the mocks of CUDA in the process the kernel is one of theirs, in the stream and the clock of the program; else
 * time is ours alone. */
uint64_t fake_cuda_now(void) __attribute__((weak));
uint64_t fake_cuda_ready(struct fake_stream*, int) __attribute__((weak));
void fake_cuda_begin_call(int, int, const char*, struct fake_stream*) __attribute__((weak));
uint64_t fake_cuda_submit(struct fake_op*) __attribute__((weak));
void fake_cuda_end_call(void) __attribute__((weak));
int fake_cuda_device(void) __attribute__((weak));
void fake_cuda_set_device(int) __attribute__((weak));
int fake_cuda_number(const char*, int) __attribute__((weak));

/* When the kernel starts here its own launch says; what the other ranks say decides about its end. */
static void begin_launch(struct fake_stream* stream) {
  if (fake_cuda_submit) fake_cuda_begin_call(FAKE_DRIVER_API, 652, "cuLaunchKernelEx", stream);
}
/* `after_ns`: until its launch is entered. */
static int64_t start_of(struct fake_stream* stream, int64_t after_ns) {
  if (!fake_cuda_submit) return stream_ns;
  const int64_t soon = (int64_t)fake_cuda_now() + after_ns + 10000, ready = (int64_t)fake_cuda_ready(stream, 0);
  return soon > ready ? soon : ready;
}

static void end_kernel(const char* name, struct fake_stream* stream, int64_t start, int64_t end) {
  stream_ns = end;
  if (!fake_cuda_submit) return;
  struct fake_op op = {.kind = FAKE_KERNEL,
                       .name = name,
                       .duration_ns = (uint64_t)(end - start),
                       .not_before = (uint64_t)start,
                       .stream = stream};
  fake_cuda_submit(&op);
  fake_cuda_end_call();
}

/* The operations of `all` on one communicator: a kernel. */
struct kernel {
  struct operation* all;
  int count;
  struct ncclComm* c;
  struct fake_stream* stream;
  int calls, messages;
  int64_t start, end;
};

static struct kernel kernel_of(struct operation* all, int count, struct ncclComm* c) {
  struct kernel k = {.all = all, .count = count, .c = c};
  for (int i = 0; i < count; ++i) {
    if (all[i].comm != c) continue;
    ++k.calls;
    k.messages += all[i].message != 0;
    k.stream = all[i].stream;
  }
  return k;
}

/* Moves the data, and waits for the other ranks. */
static void* exchange(void* data) {
  struct kernel* k = data;
  for (int pass = 0; pass < 3; ++pass) /* sends before receives, or two ranks would wait for each other */
    for (int i = 0; i < k->count; ++i) {
      if (k->all[i].comm != k->c || k->all[i].message != pass) continue;
      if (pass == 0)
        run_collective(&k->all[i]);
      else
        run_message(&k->all[i]);
    }
  const int64_t here = k->messages == k->calls ? k->start : maximum(k->c, k->start);
  k->end = here + 10000;
  for (int i = 0, first = 1; i < k->count; ++i) { /* one after the other: the first also waits for the other ranks */
    if (k->all[i].comm != k->c) continue;
    k->all[i].call.start_ns = first ? k->start : k->end;
    k->all[i].call.here_ns = first ? here : k->end;
    k->all[i].call.end_ns = k->end += size_of(&k->all[i]) / 10;
    first = 0;
  }
  return NULL;
}

/* With the call that launches it entered, and what it takes known. */
static void finish(struct kernel* k) {
  end_kernel(k->messages == k->calls ? "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
                                     : "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
             k->stream, k->start, k->end);
}

static void tell_profiler(struct kernel* k, void* launch) {
  fake_profiler_launched(&k->c->profiler, launch);
  for (int i = 0; i < k->count; ++i) {
    if (k->all[i].comm != k->c) continue;
    if (k->all[i].message)
      fake_profiler_message(&k->c->profiler, &k->all[i].call, k->all[i].message == 1 ? "Send" : "Recv", k->all[i].peer);
    else
      fake_profiler_collective(&k->c->profiler, &k->all[i].call);
    tell(&k->all[i], k->start, k->end, k->calls);
  }
}

static void run_kernel(struct kernel k) {
  void* launch = fake_profiler_launch(&k.c->profiler, k.all[0].call.group);
  begin_launch(k.stream);
  k.start = start_of(k.stream, 0);
  exchange(&k);
  finish(&k);
  tell_profiler(&k, launch);
}

/* Ranks that one thread has: their kernels are launched one after the other, and run at the same time. */
static void run_kernels(struct kernel* kernels, int count) {
  pthread_t threads[MAX_RANKS];
  const int before = fake_cuda_device ? fake_cuda_device() : 0;
  for (int i = 0; i < count; ++i) {
    kernels[i].start =
        start_of(kernels[i].stream, i * (int64_t)(fake_cuda_number ? fake_cuda_number("FAKE_CUDA_CALL_NS", 1000) : 0));
    pthread_create(&threads[i], NULL, exchange, &kernels[i]);
  }
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < count; ++i) {
    void* launch = fake_profiler_launch(&kernels[i].c->profiler, kernels[i].all[0].call.group);
    if (fake_cuda_set_device) fake_cuda_set_device(kernels[i].c->device);
    begin_launch(kernels[i].stream);
    finish(&kernels[i]);
    tell_profiler(&kernels[i], launch);
  }
  if (fake_cuda_set_device) fake_cuda_set_device(before);
}

static void run_all(struct operation* all, int count) {
  struct kernel kernels[MAX_RANKS];
  int found = 0;
  for (int i = 0; i < count; ++i) {
    int seen = 0;
    for (int j = 0; j < found; ++j) seen |= kernels[j].c == all[i].comm;
    if (!seen && found < MAX_RANKS) kernels[found++] = kernel_of(all, count, all[i].comm);
  }
  int together = 0; /* of one communicator: none can run alone */
  for (int i = 1; i < found; ++i) together |= kernels[i].c->id == kernels[0].c->id;
  if (together) {
    run_kernels(kernels, found);
  } else {
    for (int i = 0; i < found; ++i) run_kernel(kernels[i]);
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

void join(struct ncclComm* c) {
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
  if (!o.comm || !is_data_type(o.datatype) || o.call.root >= o.comm->size) return 4;
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

/* -------------------------------------------------------------------------------------------- groups and operations */

API(ncclGroupStart, (void)) {
  ++group_depth;
  return 0;
}
int in_group(void) { return group_depth > 0; }
static ncclResult_t end_group(void) {
  if (group_depth == 0) return 5;
  if (group_depth == 1) join_pending();
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
API(ncclAllReduce,
    (const void* sendbuff, void* recvbuff, size_t count, int datatype, int op, ncclComm_t comm, void* stream)) {
  return COLLECTIVE("AllReduce", count, datatype, op, 0);
}
API(ncclReduce, (const void* sendbuff, void* recvbuff, size_t count, int datatype, int op, int root, ncclComm_t comm,
                 void* stream)) {
  return COLLECTIVE("Reduce", count, datatype, op, root);
}
API(ncclBroadcast,
    (const void* sendbuff, void* recvbuff, size_t count, int datatype, int root, ncclComm_t comm, void* stream)) {
  return COLLECTIVE("Broadcast", count, datatype, 0, root);
}
API(ncclBcast, (void* buff, size_t count, int datatype, int root, ncclComm_t comm, void* stream)) {
  return ncclBroadcast(buff, buff, count, datatype, root, comm, stream); /* by its weak name, as NCCL does */
}
API(ncclReduceScatter,
    (const void* sendbuff, void* recvbuff, size_t recvcount, int datatype, int op, ncclComm_t comm, void* stream)) {
  return COLLECTIVE("ReduceScatter", recvcount, datatype, op, 0);
}
API(ncclAllGather,
    (const void* sendbuff, void* recvbuff, size_t sendcount, int datatype, ncclComm_t comm, void* stream)) {
  return COLLECTIVE("AllGather", sendcount, datatype, 0, 0);
}
API(ncclAlltoAll, (const void* sendbuff, void* recvbuff, size_t count, int datatype, ncclComm_t comm, void* stream)) {
  return COLLECTIVE("AlltoAll", count, datatype, 0, 0);
}
API(ncclGather,
    (const void* sendbuff, void* recvbuff, size_t count, int datatype, int root, ncclComm_t comm, void* stream)) {
  return COLLECTIVE("Gather", count, datatype, 0, root);
}
API(ncclScatter,
    (const void* sendbuff, void* recvbuff, size_t count, int datatype, int root, ncclComm_t comm, void* stream)) {
  return COLLECTIVE("Scatter", count, datatype, 0, root);
}
API(ncclSend, (const void* sendbuff, size_t count, int datatype, int peer, ncclComm_t comm, void* stream)) {
  return enqueue((struct operation){.call = {.function = "Send", .count = count},
                                    .comm = comm,
                                    .send = sendbuff,
                                    .datatype = datatype,
                                    .peer = peer,
                                    .message = 1,
                                    .stream = stream});
}
API(ncclRecv, (void* recvbuff, size_t count, int datatype, int peer, ncclComm_t comm, void* stream)) {
  return enqueue((struct operation){.call = {.function = "Recv", .count = count},
                                    .comm = comm,
                                    .receive = recvbuff,
                                    .datatype = datatype,
                                    .peer = peer,
                                    .message = 2,
                                    .stream = stream});
}
