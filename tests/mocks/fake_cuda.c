/* The mock of libcuda.so.1: see fake_cuda.h. It has the few functions of the driver that anybody here calls, and
 * the streams, graphs and correlation ids that the other mocks stand on. One lock guards it all; no callback is
 * called under it. */
#define _GNU_SOURCE
#include "fake_cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct fake_stream {
  uint32_t id;
  uint64_t ready;
  struct fake_graph* capture;
  struct fake_stream* next;
};
struct fake_graph {
  int count;
  struct fake_op ops[64];
};
struct call {
  int domain, cbid;
  const char* function;
  uint32_t correlation;
  uint64_t data;
  uint64_t entered;
};

FAKE_EXPORT struct fake_hooks fake_cuda_hooks;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_stream default_stream = {.id = 7};
static struct fake_stream* streams = &default_stream;
static uint32_t last_stream = 7, last_correlation;
static uint64_t last_node = 1000;
static int64_t virtual_ns = -1; /* -1: not asked yet, -2: the machine's clock */
static __thread struct call calls[8];
static __thread int depth;
static __thread int device;
static __thread int made_context; /* 0: the device's primary one */

#define START_NS 1000000000000ull
#define REALTIME_OFFSET_NS 1700000000000000000ull

static int real_clock(clockid_t clock, struct timespec* now) { return (int)syscall(SYS_clock_gettime, clock, now); }

FAKE_EXPORT int fake_cuda_number(const char* name, int otherwise) {
  const char* value = getenv(name);
  return value && *value ? atoi(value) : otherwise;
}

static int is_virtual(void) {
  if (__atomic_load_n(&virtual_ns, __ATOMIC_RELAXED) == -1) {
    const char* clock = getenv("FAKE_CUDA_CLOCK");
    int64_t unknown = -1;
    __atomic_compare_exchange_n(&virtual_ns, &unknown, clock && strcmp(clock, "virtual") == 0 ? 0 : -2, 0,
                                __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  }
  return __atomic_load_n(&virtual_ns, __ATOMIC_RELAXED) >= 0;
}

FAKE_EXPORT uint64_t fake_cuda_now(void) {
  if (is_virtual()) return START_NS + (uint64_t)__atomic_load_n(&virtual_ns, __ATOMIC_RELAXED);
  struct timespec now;
  real_clock(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

FAKE_EXPORT void fake_cuda_advance(uint64_t ns) {
  if (is_virtual()) {
    __atomic_fetch_add(&virtual_ns, (int64_t)ns, __ATOMIC_RELAXED);
  } else {
    const struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    nanosleep(&time, NULL);
  }
}

/* For libddl*.so the virtual clock is the machine's. Everybody else (MPI among them) would wait for ever on a clock
 * that stands still. */
FAKE_EXPORT int clock_gettime(clockid_t clock, struct timespec* now) {
  Dl_info caller;
  if ((clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME) && is_virtual() &&
      dladdr(__builtin_return_address(0), &caller) && caller.dli_fname && strstr(caller.dli_fname, "libddl")) {
    const uint64_t ns = fake_cuda_now() + (clock == CLOCK_REALTIME ? REALTIME_OFFSET_NS : 0);
    now->tv_sec = (time_t)(ns / 1000000000u);
    now->tv_nsec = (long)(ns % 1000000000u);
    return 0;
  }
  return real_clock(clock, now);
}

FAKE_EXPORT int fake_cuda_device(void) { return device; }
FAKE_EXPORT uint32_t fake_cuda_context(void) { return 1 + (uint32_t)device + 10 * (uint32_t)made_context; }
FAKE_EXPORT void fake_cuda_set_device(int number) { device = number; }

/* ---------------------------------------------------------------------------------------------------------- streams */

/* 1 and 2: cudaStreamLegacy, cudaStreamPerThread */
static struct fake_stream* stream_of(struct fake_stream* stream) {
  return (uintptr_t)stream > 2 ? stream : &default_stream;
}

FAKE_EXPORT struct fake_stream* fake_cuda_stream_create(void) {
  struct fake_stream* stream = calloc(1, sizeof *stream);
  pthread_mutex_lock(&lock);
  stream->id = ++last_stream;
  stream->next = streams;
  streams = stream;
  pthread_mutex_unlock(&lock);
  return stream;
}

FAKE_EXPORT void fake_cuda_stream_destroy(struct fake_stream* stream) { (void)stream; /* late records still name it */ }

FAKE_EXPORT void fake_cuda_stream_not_before(struct fake_stream* stream, uint64_t ns) {
  pthread_mutex_lock(&lock);
  if (stream_of(stream)->ready < ns) stream_of(stream)->ready = ns;
  pthread_mutex_unlock(&lock);
}

FAKE_EXPORT uint32_t fake_cuda_stream_id(struct fake_stream* stream) { return stream_of(stream)->id; }
FAKE_EXPORT int fake_cuda_captures(struct fake_stream* stream) { return stream_of(stream)->capture != NULL; }

FAKE_EXPORT uint64_t fake_cuda_ready(struct fake_stream* stream, int all) {
  uint64_t ready = 0;
  pthread_mutex_lock(&lock);
  if (all) {
    for (struct fake_stream* s = streams; s; s = s->next) ready = s->ready > ready ? s->ready : ready;
  } else {
    ready = stream_of(stream)->ready;
  }
  pthread_mutex_unlock(&lock);
  return ready;
}

FAKE_EXPORT void fake_cuda_wait(uint64_t ns) {
  const uint64_t now = fake_cuda_now();
  if (ns > now) fake_cuda_advance(ns - now);
}

/* ---------------------------------------------------------------------------------------------------------- calls */

static void call_back(const struct call* call, int exit, uint64_t* data) {
  if (fake_cuda_hooks.api) fake_cuda_hooks.api(call->domain, call->cbid, exit, call->function, call->correlation, data);
}

FAKE_EXPORT void fake_cuda_begin_call(int domain, int cbid, const char* function, struct fake_stream* stream) {
  (void)stream;
  struct call* call = &calls[depth++];
  /* Whether a driver function inside a runtime function has a correlation id of its own is for a real GPU to say:
   * both are tested. */
  const int own = depth == 1 || fake_cuda_number("FAKE_CUDA_NESTED_OWN_ID", 0);
  *call =
      (struct call){domain,   cbid,
                    function, own ? __atomic_add_fetch(&last_correlation, 1, __ATOMIC_RELAXED) : call[-1].correlation,
                    0,        fake_cuda_now()};
  call_back(call, 0, &call->data);
}

FAKE_EXPORT void fake_cuda_end_call(void) {
  struct call* call = &calls[depth - 1];
  if (depth == 1 && is_virtual()) fake_cuda_advance((uint64_t)fake_cuda_number("FAKE_CUDA_CALL_NS", 1000));
  call_back(call, 1, &call->data);
  --depth;
}

FAKE_EXPORT uint32_t fake_cuda_correlation(void) { return depth > 0 ? calls[depth - 1].correlation : 0; }

static void run(struct fake_op* op, struct fake_stream* stream) {
  const uint64_t begin = calls[0].entered + (uint64_t)fake_cuda_number("FAKE_CUDA_LATENCY_NS", 2000);
  pthread_mutex_lock(&lock);
  op->start = begin > stream->ready ? begin : stream->ready;
  if (op->start < op->not_before) op->start = op->not_before;
  op->end = op->start + op->duration_ns;
  stream->ready = op->end;
  pthread_mutex_unlock(&lock);
  op->stream_id = stream->id;
  op->context_id = fake_cuda_context();
  op->correlation = calls[depth - 1].correlation;
  if (fake_cuda_hooks.activity) fake_cuda_hooks.activity(op);
}

FAKE_EXPORT uint64_t fake_cuda_submit(struct fake_op* op) {
  struct fake_stream* stream = stream_of(op->stream);
  op->device = device;
  if (!stream->capture) {
    run(op, stream);
  } else if (stream->capture->count < 64) {
    op->node = __atomic_add_fetch(&last_node, 1, __ATOMIC_RELAXED);
    stream->capture->ops[stream->capture->count++] = *op;
    if (fake_cuda_hooks.node) fake_cuda_hooks.node(0, op->node, 0);
  }
  return op->end;
}

FAKE_EXPORT uint64_t fake_cuda_call(int domain, int cbid, const char* function, struct fake_op* op) {
  fake_cuda_begin_call(domain, cbid, function, op ? op->stream : NULL);
  const uint64_t end = op ? fake_cuda_submit(op) : 0;
  fake_cuda_end_call();
  return end;
}

/* ---------------------------------------------------------------------------------------------------------- graphs */

FAKE_EXPORT int fake_cuda_begin_capture(struct fake_stream* stream) {
  stream_of(stream)->capture = calloc(1, sizeof(struct fake_graph));
  return 0;
}

FAKE_EXPORT struct fake_graph* fake_cuda_end_capture(struct fake_stream* stream) {
  struct fake_graph* graph = stream_of(stream)->capture;
  stream_of(stream)->capture = NULL;
  return graph;
}

FAKE_EXPORT struct fake_graph* fake_cuda_instantiate(struct fake_graph* graph) {
  struct fake_graph* copy = malloc(sizeof *copy);
  *copy = *graph;
  for (int i = 0; i < copy->count; ++i) {
    copy->ops[i].node = __atomic_add_fetch(&last_node, 1, __ATOMIC_RELAXED);
    if (fake_cuda_hooks.node) fake_cuda_hooks.node(1, copy->ops[i].node, graph->ops[i].node);
  }
  return copy;
}

FAKE_EXPORT void fake_cuda_launch_graph(struct fake_graph* graph, struct fake_stream* stream) {
  for (int i = 0; i < graph->count; ++i) {
    struct fake_op op = graph->ops[i];
    run(&op, stream_of(stream));
  }
}

/* --------------------------------------------------------------------------------------- the driver's own functions */

FAKE_EXPORT int cuInit(unsigned flags) {
  static int done;
  (void)flags;
  if (__atomic_exchange_n(&done, 1, __ATOMIC_SEQ_CST)) return 0;
  if (fake_cuda_number("FAKE_CUDA_NO_DEVICE", 0)) return 100; /* CUDA_ERROR_NO_DEVICE */
  const char* path = getenv("CUDA_INJECTION64_PATH");
  void* library = path && *path && strcmp(path, "none") != 0 ? dlopen(path, RTLD_NOW) : NULL;
  int (*inject)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
  if (inject) inject();
  return 0;
}
FAKE_EXPORT int cuCtxGetCurrent(void** context) { return *context = (void*)(intptr_t)made_context, 0; }
FAKE_EXPORT int cuCtxSetCurrent(void* context) { return made_context = (int)(intptr_t)context, 0; }
FAKE_EXPORT int cuCtxCreate_v4(void** context, void* parameters, unsigned flags, int handle) {
  static int count;
  (void)parameters, (void)flags, (void)handle;
  made_context = ++count;
  return cuCtxGetCurrent(context);
}
FAKE_EXPORT int cuStreamCreate(struct fake_stream** stream, unsigned flags) {
  return (void)flags, *stream = fake_cuda_stream_create(), 0;
}
FAKE_EXPORT int cuDriverGetVersion(int* version) {
  *version = fake_cuda_number("FAKE_CUDA_VERSION", 13000);
  return 0;
}
FAKE_EXPORT int cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}
FAKE_EXPORT int cuDeviceGet(int* handle, int ordinal) {
  *handle = ordinal;
  return ordinal < 2 ? 0 : 101;
}
FAKE_EXPORT int cuDeviceGetName(char* name, int bytes, int handle) {
  snprintf(name, (size_t)bytes, "Fake GPU %d", handle);
  return 0;
}
FAKE_EXPORT int cuDeviceGetPCIBusId(char* id, int bytes, int handle) {
  const char* given = getenv("FAKE_CUDA_BUS"); /* else one that no machine has */
  snprintf(id, (size_t)bytes, "%s", given ? given : handle ? "FFFF:AB:00.1" : "FFFF:AB:00.0");
  return 0;
}
FAKE_EXPORT int cuLaunchKernel(const void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, struct fake_stream* stream, void** parameters,
                               void** extra) {
  (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)parameters, (void)extra;
  const char* text = function;
  const char* at = strrchr(text, '@');
  struct fake_op op = {.kind = FAKE_KERNEL,
                       .name = strndup(text, at ? (size_t)(at - text) : strlen(text)),
                       .duration_ns = at ? strtoull(at + 1, NULL, 10) : 1000,
                       .stream = stream};
  fake_cuda_call(FAKE_DRIVER_API, 307, "cuLaunchKernel", &op);
  return 0;
}
