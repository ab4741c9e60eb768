// A known load on a real GPU: KERNELS launches of a kernel that spins for a given time in layer "spin", a graph of four
// such kernels launched ten times in layer "graph", copies of known size in layer "copy". Prints what it measured
// itself: ns per launch, and by events the time of the spinning.
// usage: probe KERNELS [kill|return|exit|_exit|abort]     how it leaves
#include <ddl/annotate.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#define CHECK(call)                                                                                          \
  do {                                                                                                       \
    if (const cudaError_t code = call; code != cudaSuccess) return std::printf("%s\n", cudaGetErrorString(code)), 77; \
  } while (0)

__global__ void spin(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
}
__global__ void empty() {}

int main(int argc, char** argv) {
  const int kernels = argc > 1 ? std::atoi(argv[1]) : 1000;
  CHECK(cudaFree(nullptr));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  empty<<<1, 1, 0, stream>>>();
  CHECK(cudaStreamSynchronize(stream));

  ddl_step_begin(0);
  ddl_layer_begin("spin");
  CHECK(cudaEventRecord(begin, stream));
  for (int i = 0; i < 100; ++i) spin<<<1, 1, 0, stream>>>(100000);
  CHECK(cudaEventRecord(end, stream));
  CHECK(cudaStreamSynchronize(stream));
  ddl_layer_end();
  float spin_ms = 0;
  CHECK(cudaEventElapsedTime(&spin_ms, begin, end));

  ddl_layer_begin("graph");
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 4; ++i) spin<<<1, 1, 0, stream>>>(100000);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  ddl_layer_end();
  for (int i = 0; i < 10; ++i) CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));

  ddl_layer_begin("copy");
  void *device, *pinned;
  std::vector<char> pageable(8 << 20);
  CHECK(cudaMalloc(&device, pageable.size()));
  CHECK(cudaMallocHost(&pinned, pageable.size()));
  CHECK(cudaMemcpyAsync(device, pinned, pageable.size(), cudaMemcpyHostToDevice, stream));
  CHECK(cudaMemcpyAsync(device, pageable.data(), pageable.size(), cudaMemcpyHostToDevice, stream));
  CHECK(cudaMemcpyAsync(pinned, device, pageable.size(), cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  ddl_layer_end();

  ddl_layer_begin("query");
  for (int i = 0; i < 10; ++i) CHECK(cudaEventQuery(end));
  ddl_layer_end();

  ddl_layer_begin("launch");
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kernels; ++i) empty<<<1, 1, 0, stream>>>();
  const double launch_ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kernels;
  CHECK(cudaStreamSynchronize(stream));
  ddl_layer_end();
  ddl_step_end();
  std::printf("spin_ms %.6f\nlaunch_ns %.1f\n", spin_ms, launch_ns);
  std::fflush(stdout);
  const std::string how = argc > 2 ? argv[2] : "return";
  if (how == "kill") {
    usleep(2500000);  // what was launched has been handed over by then
    raise(SIGKILL);
  }
  if (how == "exit") std::exit(0);
  if (how == "_exit") _exit(0);
  if (how == "abort") std::abort();
  return 0;
}
