// Two threads that launch 20 kernels each into the default stream, each in a layer of its own. Built with
// --default-stream per-thread it is a stream of the thread's.
#include <ddl/annotate.h>

#include <cstdio>
#include <thread>

__global__ void empty() {}

int main() {
  if (cudaFree(nullptr) != cudaSuccess) return 77;
  const auto launch = [](const char* layer) {
    ddl_layer_begin(layer);
    for (int i = 0; i < 20; ++i) empty<<<1, 1>>>();
    cudaStreamSynchronize(cudaStreamPerThread);
    cudaStreamSynchronize(nullptr);
    ddl_layer_end();
  };
  std::thread other(launch, "second");
  launch("first");
  other.join();
  const cudaError_t code = cudaDeviceSynchronize();
  std::printf("%s\n", cudaGetErrorString(code));
  return code != cudaSuccess;
}
