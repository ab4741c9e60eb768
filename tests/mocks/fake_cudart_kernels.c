/* How code that nvcc has compiled launches its kernels: it registers them by the address of a host function, and
 * launches by that. The device's code is nothing that we could run; kernels that a test needs the results of have a
 * body here, found by their name (fake_train_kernels.c). Part of the mock of libcudart. */
#include <string.h>

#include "fake_cuda.h"

struct dim3 {
  unsigned x, y, z;
};
static struct {
  const void* host;
  const char* name;
} kernels[256];
static int kernel_count;
static __thread struct {
  struct dim3 grid, block;
  size_t shared;
  void* stream;
} configuration;

void fake_train_kernel(const char* name, void** arguments, unsigned long threads);

FAKE_EXPORT void** __cudaRegisterFatBinary(void* binary) {
  static void* handle;
  (void)binary;
  return &handle;
}
FAKE_EXPORT void __cudaRegisterFatBinaryEnd(void** handle) { (void)handle; }
FAKE_EXPORT void __cudaUnregisterFatBinary(void** handle) { (void)handle; }
FAKE_EXPORT void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name, int limit,
                                        void* tid, void* bid, void* block, void* grid, int* size) {
  (void)handle, (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)size;
  if (kernel_count < 256) kernels[kernel_count].host = host, kernels[kernel_count++].name = name;
}
FAKE_EXPORT unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, void* stream) {
  configuration.grid = grid;
  configuration.block = block;
  configuration.shared = shared;
  configuration.stream = stream;
  return 0;
}
FAKE_EXPORT int __cudaPopCallConfiguration(struct dim3* grid, struct dim3* block, size_t* shared, void* stream) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  memcpy(stream, &configuration.stream, sizeof configuration.stream);
  return 0;
}
FAKE_EXPORT int __cudaGetKernel(const char** kernel, const void* host) {
  for (int i = 0; i < kernel_count; ++i)
    if (kernels[i].host == host) return *kernel = kernels[i].name, 0;
  return 98; /* cudaErrorInvalidDeviceFunction */
}
FAKE_EXPORT int __cudaLaunchKernel(const char* name, struct dim3 grid, struct dim3 block, void** arguments,
                                   size_t shared, struct fake_stream* stream) {
  (void)shared;
  const unsigned long threads = (unsigned long)grid.x * block.x;
  struct fake_op op = {.kind = FAKE_KERNEL, .name = name, .duration_ns = 1000 + threads, .stream = stream};
  fake_cuda_call(FAKE_RUNTIME_API, 211, "cudaLaunchKernel", &op);
  fake_train_kernel(name, arguments, threads);
  return 0;
}
