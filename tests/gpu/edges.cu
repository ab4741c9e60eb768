// Streams that wait for each other by events, within a context and across two on one GPU; managed memory that both
// sides touch. In layer "inside" the second stream waits ten times for the first; in layer "across" a stream of a
// second context does. Prints how often each was done.
#include <cuda.h>
#include <cuda_runtime.h>
#include <ddl/annotate.h>

#include <cstdio>

#define CHECK(call)                                                                                         \
  do {                                                                                                      \
    if (const int code = static_cast<int>(call); code != 0) return std::printf("%s: %d\n", #call, code), 1; \
  } while (0)

__global__ void touch(char* bytes, int count) {
  for (int i = 0; i < count; i += 4096) bytes[i] += 1;
}

int main() {
  if (cudaFree(nullptr) != cudaSuccess) return 77;
  cudaStream_t first, second;
  cudaEvent_t event;
  CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  char *bytes, *managed;
  const int count = 1 << 20;
  CHECK(cudaMalloc(&bytes, count));
  ddl_step_begin(0);
  ddl_layer_begin("inside");
  for (int i = 0; i < 10; ++i) {
    touch<<<1, 1, 0, first>>>(bytes, count);
    CHECK(cudaEventRecord(event, first));
    CHECK(cudaStreamWaitEvent(second, event, 0));
    touch<<<1, 1, 0, second>>>(bytes, count);
  }
  CHECK(cudaDeviceSynchronize());
  ddl_layer_end();
  std::printf("inside 10\n");

  ddl_layer_begin("managed");
  CHECK(cudaMallocManaged(&managed, count));
  touch<<<1, 1, 0, first>>>(managed, count);
  CHECK(cudaStreamSynchronize(first));
  for (int i = 0; i < count; i += 4096) managed[i] += 1;
  ddl_layer_end();
  std::printf("managed %d\n", managed[0]);
  ddl_step_end();

  CUcontext ours, other;
  CUdevice device;
  CUstream stream;
  CHECK(cuCtxGetCurrent(&ours));
  CHECK(cuDeviceGet(&device, 0));
#if CUDA_VERSION >= 13000
  CHECK(cuCtxCreate(&other, nullptr, 0, device));
#else
  CHECK(cuCtxCreate(&other, 0, device));
#endif
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ddl_layer_begin("across");
  for (int i = 0; i < 10; ++i) {
    CHECK(cuCtxSetCurrent(ours));
    touch<<<1, 1, 0, first>>>(bytes, count);
    CHECK(cudaEventRecord(event, first));
    CHECK(cuCtxSetCurrent(other));
    CHECK(cuStreamWaitEvent(stream, event, 0));
  }
  CHECK(cuStreamSynchronize(stream));
  ddl_layer_end();
  CHECK(cuCtxSetCurrent(ours));
  CHECK(cudaDeviceSynchronize());
  std::printf("across 10\n");
  return 0;
}
