/* The mock of libcudart.so.13: the functions that the tests' programs and the mock of NCCL use, against the mock of
 * libcuda.so.1 that fake_cuda.h describes. Device memory is ordinary memory. cudaMallocHost() is pinned memory, all
 * else on the host is pageable. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"

extern int cuInit(unsigned);
extern int cuLaunchKernel(const void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          struct fake_stream*, void**, void**);

struct dim3 {
  unsigned x, y, z;
};
struct event {
  uint64_t ns;
  uint32_t id;
  uint64_t recording; /* the latest one */
};

static struct {
  char* begin;
  size_t bytes;
  int kind;
} blocks[4096];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void* allocate(size_t bytes, int kind) {
  char* memory = calloc(1, bytes ? bytes : 1);
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 4096; ++i) {
    if (blocks[i].begin) continue;
    blocks[i].begin = memory;
    blocks[i].bytes = bytes;
    blocks[i].kind = kind;
    break;
  }
  pthread_mutex_unlock(&lock);
  return memory;
}

static void release(void* memory) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 4096; ++i) {
    if (blocks[i].begin == memory) blocks[i].begin = NULL;
  }
  pthread_mutex_unlock(&lock);
  free(memory);
}

static int kind_of(const void* memory) {
  int kind = FAKE_PAGEABLE;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 4096; ++i) {
    if (blocks[i].begin && (const char*)memory >= blocks[i].begin &&
        (const char*)memory < blocks[i].begin + blocks[i].bytes)
      kind = blocks[i].kind;
  }
  pthread_mutex_unlock(&lock);
  return kind;
}

static int ready(void) { return cuInit(0) == 0 ? 0 : 100; /* cudaErrorNoDevice */ }

#define NEED_DEVICE \
  if (ready() != 0) return 100

FAKE_EXPORT int cudaGetDeviceCount(int* count) {
  *count = 0;
  NEED_DEVICE;
  *count = 2;
  return 0;
}
FAKE_EXPORT int cudaSetDevice(int device) {
  NEED_DEVICE;
  fake_cuda_set_device(device);
  return 0;
}
FAKE_EXPORT int cudaGetDevice(int* device) {
  *device = fake_cuda_device();
  return ready();
}
FAKE_EXPORT int cudaGetLastError(void) { return 0; }
FAKE_EXPORT int cudaPeekAtLastError(void) { return 0; }
FAKE_EXPORT const char* cudaGetErrorString(int error) {
  return error == 0 ? "no error" : error == 100 ? "no CUDA-capable device is detected" : "error";
}
FAKE_EXPORT int cudaMalloc(void** memory, size_t bytes) {
  NEED_DEVICE;
  *memory = allocate(bytes, FAKE_DEVICE);
  return 0;
}
FAKE_EXPORT int cudaFree(void* memory) {
  if (memory) release(memory);
  return ready();
}
FAKE_EXPORT int cudaMallocManaged(void** memory, size_t bytes, unsigned flags) {
  (void)flags;
  NEED_DEVICE;
  *memory = allocate(bytes, FAKE_PAGEABLE);
  return 0;
}
FAKE_EXPORT int cudaMallocHost(void** memory, size_t bytes) {
  NEED_DEVICE;
  *memory = allocate(bytes, FAKE_PINNED);
  return 0;
}
/* What cudaMallocHost of C++ programs becomes. */
FAKE_EXPORT int cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  (void)flags;
  return cudaMallocHost(pointer, bytes);
}
FAKE_EXPORT int cudaFreeHost(void* memory) { return cudaFree(memory); }

FAKE_EXPORT int cudaStreamCreate(struct fake_stream** stream) {
  NEED_DEVICE;
  *stream = fake_cuda_stream_create();
  return 0;
}
FAKE_EXPORT int cudaStreamCreateWithFlags(struct fake_stream** stream, unsigned flags) {
  (void)flags;
  return cudaStreamCreate(stream);
}
FAKE_EXPORT int cudaStreamDestroy(struct fake_stream* stream) {
  fake_cuda_stream_destroy(stream);
  return 0;
}

FAKE_EXPORT int cudaLaunchKernel(const void* function, struct dim3 grid, struct dim3 block, void** arguments,
                                 size_t shared, struct fake_stream* stream) {
  NEED_DEVICE;
  fake_cuda_begin_call(FAKE_RUNTIME_API, 211, "cudaLaunchKernel", stream);
  cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream, arguments,
                 NULL);
  fake_cuda_end_call();
  return 0;
}

static struct fake_op copy(void* to, const void* from, size_t bytes, struct fake_stream* stream) {
  const int source = kind_of(from), destination = kind_of(to);
  const int pageable = source == FAKE_PAGEABLE || destination == FAKE_PAGEABLE;
  const int kind = source == FAKE_DEVICE        ? (destination == FAKE_DEVICE ? FAKE_DTOD : FAKE_DTOH)
                   : destination == FAKE_DEVICE ? FAKE_HTOD
                                                : FAKE_HTOH;
  memmove(to, from, bytes);
  return (struct fake_op){.kind = FAKE_MEMCPY,
                          .duration_ns = bytes / (pageable ? 5 : 10),
                          .bytes = bytes,
                          .copy = kind,
                          .source = source,
                          .destination = destination,
                          .stream = stream};
}

FAKE_EXPORT int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, struct fake_stream* stream) {
  (void)kind;
  NEED_DEVICE;
  struct fake_op op = copy(to, from, bytes, stream);
  fake_cuda_call(FAKE_RUNTIME_API, 41, "cudaMemcpyAsync", &op);
  return 0;
}
FAKE_EXPORT int cudaMemcpy(void* to, const void* from, size_t bytes, int kind) {
  (void)kind;
  NEED_DEVICE;
  struct fake_op op = copy(to, from, bytes, NULL);
  fake_cuda_begin_call(FAKE_RUNTIME_API, 31, "cudaMemcpy", NULL);
  fake_cuda_wait(fake_cuda_submit(&op));
  fake_cuda_end_call();
  return 0;
}
FAKE_EXPORT int cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                    struct fake_stream* stream) {
  (void)from_device;
  NEED_DEVICE;
  struct fake_op op = copy(to, from, bytes, stream);
  op.kind = FAKE_MEMCPY2;
  op.copy = FAKE_PTOP;
  op.peer = to_device;
  fake_cuda_call(FAKE_RUNTIME_API, 161, "cudaMemcpyPeerAsync", &op);
  return 0;
}
FAKE_EXPORT int cudaMemsetAsync(void* to, int value, size_t bytes, struct fake_stream* stream) {
  NEED_DEVICE;
  memset(to, value, bytes);
  struct fake_op op = {.kind = FAKE_MEMSET,
                       .duration_ns = bytes / 100,
                       .bytes = bytes,
                       .value = value,
                       .destination = kind_of(to),
                       .stream = stream};
  fake_cuda_call(FAKE_RUNTIME_API, 51, "cudaMemsetAsync", &op);
  return 0;
}
FAKE_EXPORT int cudaMemset(void* to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, NULL); }

/* The record of a synchronisation is the host's waiting, by CUPTI's types. */
static int synchronize(int cbid, const char* function, int type, uint64_t until, struct fake_stream* stream) {
  NEED_DEVICE;
  fake_cuda_begin_call(FAKE_RUNTIME_API, cbid, function, stream);
  struct fake_op op = {.kind = FAKE_SYNC,
                       .value = type,
                       .stream = stream,
                       .start = fake_cuda_now(),
                       .correlation = fake_cuda_correlation()};
  fake_cuda_wait(until);
  if (fake_cuda_hooks.activity) {
    op.end = fake_cuda_now();
    op.context_id = 1;
    op.stream_id = type == 3 ? 7 : UINT32_MAX;
    fake_cuda_hooks.activity(&op);
  }
  fake_cuda_end_call();
  return 0;
}
FAKE_EXPORT int cudaStreamSynchronize(struct fake_stream* stream) {
  return synchronize(131, "cudaStreamSynchronize", 3, fake_cuda_ready(stream, 0), stream);
}
FAKE_EXPORT int cudaDeviceSynchronize(void) {
  return synchronize(165, "cudaDeviceSynchronize", 4, fake_cuda_ready(NULL, 1), NULL);
}

/* What CUPTI says of an event that is recorded, and of a stream that waits for one. */
static void tell_event(int domain, int cbid, const char* function, int kind, const struct event* event,
                       struct fake_stream* stream) {
  if (fake_cuda_captures(stream)) return;
  fake_cuda_begin_call(domain, cbid, function, stream);
  struct fake_op op = {
      .kind = kind, .value = 2, .stream = stream, .start = fake_cuda_now(), .correlation = fake_cuda_correlation()};
  op.end = op.start + (uint64_t)fake_cuda_number("FAKE_CUDA_CALL_NS", 1000);
  op.context_id = fake_cuda_context();
  op.stream_id = fake_cuda_stream_id(stream);
  op.event = event->id;
  op.recording = event->recording;
  if (fake_cuda_hooks.activity) fake_cuda_hooks.activity(&op);
  fake_cuda_end_call();
}

FAKE_EXPORT int cudaEventCreate(struct event** event) {
  static uint32_t count;
  *event = calloc(1, sizeof **event);
  (*event)->id = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
  return ready();
}
FAKE_EXPORT int cudaEventCreateWithFlags(struct event** event, unsigned flags) {
  (void)flags;
  return cudaEventCreate(event);
}
FAKE_EXPORT int cudaEventDestroy(struct event* event) {
  free(event);
  return 0;
}
FAKE_EXPORT int cudaEventRecord(struct event* event, struct fake_stream* stream) {
  static uint64_t count;
  event->ns = fake_cuda_ready(stream, 0);
  event->recording = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
  tell_event(FAKE_RUNTIME_API, 135, "cudaEventRecord", FAKE_EVENT, event, stream);
  return 0;
}
FAKE_EXPORT int cudaStreamWaitEvent(struct fake_stream* stream, struct event* event, unsigned flags) {
  (void)flags;
  fake_cuda_stream_not_before(stream, event->ns);
  tell_event(FAKE_RUNTIME_API, 147, "cudaStreamWaitEvent", FAKE_SYNC, event, stream);
  return 0;
}
/* The driver's, which here need the runtime's events. */
FAKE_EXPORT int cuStreamWaitEvent(struct fake_stream* stream, struct event* event, unsigned flags) {
  (void)flags;
  fake_cuda_stream_not_before(stream, event->ns);
  tell_event(FAKE_DRIVER_API, 295, "cuStreamWaitEvent", FAKE_SYNC, event, stream);
  return 0;
}
FAKE_EXPORT int cuStreamSynchronize(struct fake_stream* stream) { return cudaStreamSynchronize(stream); }
FAKE_EXPORT int cudaEventSynchronize(struct event* event) {
  return synchronize(137, "cudaEventSynchronize", 1, event->ns, NULL);
}
/* CUPTI makes a synchronisation of it, too. */
FAKE_EXPORT int cudaEventQuery(struct event* event) {
  const int done = event->ns <= fake_cuda_now();
  synchronize(138, "cudaEventQuery", 1, 0, NULL);
  return done ? 0 : 600; /* cudaErrorNotReady */
}
FAKE_EXPORT int cudaEventElapsedTime(float* ms, struct event* begin, struct event* end) {
  *ms = (float)(end->ns - begin->ns) * 1e-6f;
  return 0;
}

FAKE_EXPORT int cudaStreamBeginCapture(struct fake_stream* stream, int mode) {
  (void)mode;
  NEED_DEVICE;
  return fake_cuda_begin_capture(stream);
}
FAKE_EXPORT int cudaStreamEndCapture(struct fake_stream* stream, struct fake_graph** graph) {
  *graph = fake_cuda_end_capture(stream);
  return 0;
}
FAKE_EXPORT int cudaGraphInstantiate(struct fake_graph** executable, struct fake_graph* graph,
                                     unsigned long long flags) {
  (void)flags;
  *executable = fake_cuda_instantiate(graph);
  return 0;
}
FAKE_EXPORT int cudaGraphLaunch(struct fake_graph* executable, struct fake_stream* stream) {
  NEED_DEVICE;
  fake_cuda_begin_call(FAKE_RUNTIME_API, 311, "cudaGraphLaunch", stream);
  fake_cuda_launch_graph(executable, stream);
  fake_cuda_end_call();
  return 0;
}
FAKE_EXPORT int cudaStreamIsCapturing(struct fake_stream* stream, int* status) {
  (void)stream;
  *status = 0;
  return 0;
}
