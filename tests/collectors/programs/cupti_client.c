/* Trains for ten steps of five kernels, and traces the last five itself with CUPTI, as a program with torch.profiler
 * does. Prints how many of its kernels it saw. With "first" it subscribes before anything has called cuInit.
 *
 * usage: cupti_client [first|never] */
#include <ddl/annotate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mocks/fake_cuda.h"

struct dim3 {
  unsigned x, y, z;
};
struct event;
extern int cudaMalloc(void**, size_t), cudaStreamCreate(struct fake_stream**), cudaDeviceSynchronize(void);
extern int cudaLaunchKernel(const void*, struct dim3, struct dim3, void**, size_t, struct fake_stream*);
extern int cudaEventCreate(struct event**), cudaEventRecord(struct event*, struct fake_stream*),
    cudaEventQuery(struct event*);
extern int cuptiSubscribe(void**, void (*)(void*, int, unsigned, const void*), void*), cuptiActivityEnable(int),
    cuptiActivityFlushAll(unsigned);
extern int cuptiActivityRegisterCallbacks(void (*)(unsigned char**, size_t*, size_t*),
                                          void (*)(void*, unsigned, unsigned char*, size_t, size_t));
extern int cuptiActivityGetNextRecord(unsigned char*, size_t, unsigned char**);

enum { STEPS = 10, KERNELS = 5, CONCURRENT_KERNEL = 10, BYTES = 1 << 16 };

static int seen;

static void on_callback(void* user, int domain, unsigned number, const void* data) {
  (void)user, (void)domain, (void)number, (void)data;
}
static void on_request(unsigned char** buffer, size_t* size, size_t* records) {
  *buffer = malloc(BYTES);
  *size = BYTES;
  *records = 0;
}
static void on_complete(void* context, unsigned stream, unsigned char* buffer, size_t size, size_t valid) {
  (void)context, (void)stream, (void)size;
  unsigned char* record = NULL;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == 0) {
    unsigned kind;
    memcpy(&kind, record, sizeof kind);
    seen += kind == CONCURRENT_KERNEL;
  }
  free(buffer);
}

static void trace(void) {
  void* subscriber;
  printf("subscribed %d\n", cuptiSubscribe(&subscriber, on_callback, NULL));
  cuptiActivityRegisterCallbacks(on_request, on_complete);
  cuptiActivityEnable(CONCURRENT_KERNEL);
}

int main(int argc, char** argv) {
  const char* when = argc > 1 ? argv[1] : "";
  const struct dim3 one = {1, 1, 1};
  struct fake_stream* stream;
  struct event* event;
  void* memory;
  if (strcmp(when, "first") == 0) trace();
  cudaMalloc(&memory, 64);
  cudaStreamCreate(&stream);
  cudaEventCreate(&event);
  for (int step = 0; step < STEPS; ++step) {
    if (step == STEPS / 2 && *when == 0) trace();
    ddl_step_begin((uint64_t)step);
    for (int i = 0; i < KERNELS; ++i) cudaLaunchKernel("gemm@20000", one, one, NULL, 0, stream);
    cudaEventRecord(event, stream);
    cudaDeviceSynchronize();
    cudaEventQuery(event);
    ddl_step_end();
  }
  if (strcmp(when, "never") != 0) cuptiActivityFlushAll(1);
  printf("saw %d kernels\n", seen);
  return 0;
}
