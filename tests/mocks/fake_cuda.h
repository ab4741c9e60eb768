/* What the mocks of CUDA share, and what test programs may use beside CUDA's own functions. The mocks are found by
 * soname, as the real libraries are: libcuda.so.1, libcudart.so.13, libcupti.so.13 (and libnccl.so.2) of one folder
 * on LD_LIBRARY_PATH.
 *
 * One clock for device and host. FAKE_CUDA_CLOCK=virtual: it stands still but for what each call of the mocks costs
 * (FAKE_CUDA_CALL_NS, default 1000) and fake_cuda_advance(); then CLOCK_MONOTONIC and CLOCK_REALTIME are this clock for
 * callers in libddl*.so as well, so that every number of a run is known to the nanosecond. Otherwise it is the
 * machine's CLOCK_MONOTONIC.
 *
 * A kernel's function is a C string "NAME@DURATION_NS". Each stream does one thing after the other; what is launched
 * begins FAKE_CUDA_LATENCY_NS (default 2000) after the launching call was entered, or when its stream is free. Copies
 * really copy, at once, and take 1 ns per 10 bytes (pageable memory: per 5). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FAKE_EXPORT __attribute__((visibility("default")))

uint64_t fake_cuda_now(void);                          /* ns */
void fake_cuda_advance(uint64_t ns);                   /* virtual: moves the clock; else sleeps */
int fake_cuda_number(const char* name, int otherwise); /* an environment variable */

/* CUPTI's numbers */
enum {
  FAKE_KERNEL = 10,
  FAKE_MEMCPY = 1,
  FAKE_MEMCPY2 = 22,
  FAKE_MEMSET = 2,
  FAKE_SYNC = 38,
  FAKE_OVERHEAD = 17,
  FAKE_EVENT = 36
};
enum { FAKE_DRIVER_API = 1, FAKE_RUNTIME_API = 2, FAKE_RESOURCE = 3 };
enum { FAKE_HTOD = 1, FAKE_DTOH = 2, FAKE_DTOD = 8, FAKE_HTOH = 9, FAKE_PTOP = 10 };
enum { FAKE_PAGEABLE = 1, FAKE_PINNED = 2, FAKE_DEVICE = 3 };

struct fake_stream; /* NULL: the legacy default stream. It is cudaStream_t and CUstream */

struct fake_op {
  int kind;
  const char* name; /* kernels; must stay */
  uint64_t duration_ns;
  uint64_t not_before; /* ns; 0: as soon as it can */
  uint64_t bytes;
  int copy, source, destination; /* memory kinds */
  int value;                     /* memset; synchronisation: CUPTI's type */
  int device, peer;
  uint32_t event;     /* events, and waiting for them: which */
  uint64_t recording; /* likewise: which recording of it */
  struct fake_stream* stream;
  /* filled by the mock */
  uint64_t start, end; /* ns of fake_cuda_now() */
  uint32_t correlation, stream_id, context_id;
  uint64_t node;
};

/* A whole API call: callbacks, correlation id, what it gives the device to do (op, may be NULL). While the stream is
 * being captured, op becomes a node of the graph instead. Nested: called between begin and end of another call on the
 * same thread. Returns op->end. */
uint64_t fake_cuda_call(int domain, int cbid, const char* function, struct fake_op* op);
void fake_cuda_begin_call(int domain, int cbid, const char* function, struct fake_stream* stream);
void fake_cuda_end_call(void);
uint32_t fake_cuda_correlation(void); /* of the call that the thread is in */
/* Between begin and end: op belongs to the call. */
uint64_t fake_cuda_submit(struct fake_op* op);
/* When everything given to the stream (NULL: to all streams) is done. */
uint64_t fake_cuda_ready(struct fake_stream* stream, int all);
/* Waits until that moment, as a synchronising call does. */
void fake_cuda_wait(uint64_t ns);

struct fake_stream* fake_cuda_stream_create(void);
void fake_cuda_stream_destroy(struct fake_stream* stream);
uint32_t fake_cuda_stream_id(struct fake_stream* stream);
int fake_cuda_captures(struct fake_stream* stream);
void fake_cuda_stream_not_before(struct fake_stream* stream, uint64_t ns);
int fake_cuda_device(void);
uint32_t fake_cuda_context(void); /* CUPTI's number of the one that is current */
void fake_cuda_set_device(int device);

struct fake_graph;
int fake_cuda_begin_capture(struct fake_stream* stream);
struct fake_graph* fake_cuda_end_capture(struct fake_stream* stream);
struct fake_graph* fake_cuda_instantiate(struct fake_graph* graph);
void fake_cuda_launch_graph(struct fake_graph* graph, struct fake_stream* stream);

/* What the mock of CUPTI hooks into, as the real one hooks into the driver. */
struct fake_hooks {
  void (*api)(int domain, int cbid, int exit, const char* function, uint32_t correlation, uint64_t* data);
  void (*node)(int cloned, uint64_t node, uint64_t original); /* handles and ids are the same number */
  void (*activity)(const struct fake_op* op);
};
extern struct fake_hooks fake_cuda_hooks;

#ifdef __cplusplus
}
#endif
