// A training step of three layers, forward, backward and update, on two streams, with NVTX ranges around its layers:
// what each collector adds to it. Also known times: two kernels of 300 us that compute, and beside the second one of
// 400 us that bears the name of a collective, which nothing hides for 100 us.
//
// usage: step.bin STEPS      prints `step_ns` (median), `compute_ns`, `comm_ns`, `exposed_ns` (as launched, per step)
#include <ddl/annotate.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr long kHalfNs = 300000, kCollectiveNs = 400000;

__device__ void spin(long ns) {
  long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < ns);
}
__global__ void gemm_spin(long ns) { spin(ns); }
__global__ void ncclDevKernel_AllReduce_spin(long ns) { spin(ns); }
__global__ void relu(float* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] = x[i] > 0 ? x[i] : 0;
}

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 20;
  constexpr int n = 1 << 16;
  float* x = nullptr;
  cudaStream_t compute, communicate;
  cudaEvent_t half, done;
  if (cudaMalloc(&x, n * sizeof(float)) != cudaSuccess) return 77;
  cudaStreamCreate(&compute);
  cudaStreamCreate(&communicate);
  cudaEventCreate(&half);
  cudaEventCreate(&done);
  std::vector<long> times;
  for (int step = 0; step < steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    ddl_step_begin(static_cast<uint64_t>(step));
    for (int layer = 0; layer < 3; ++layer) {
      nvtxRangePushA(layer == 0 ? "layer:fc1" : layer == 1 ? "layer:fc2" : "layer:fc3");
      relu<<<n / 256, 256, 0, compute>>>(x, n);
      nvtxRangePop();
    }
    gemm_spin<<<1, 1, 0, compute>>>(kHalfNs);
    cudaEventRecord(half, compute);
    gemm_spin<<<1, 1, 0, compute>>>(kHalfNs);
    cudaStreamWaitEvent(communicate, half, 0);
    ncclDevKernel_AllReduce_spin<<<1, 1, 0, communicate>>>(kCollectiveNs);
    cudaEventRecord(done, communicate);
    cudaStreamWaitEvent(compute, done, 0);
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
    ddl_step_end();
    times.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + steps / 2, times.end());
  std::printf("step_ns %ld\ncompute_ns %ld\ncomm_ns %ld\nexposed_ns %ld\n", times[static_cast<size_t>(steps / 2)], 2 * kHalfNs, kCollectiveNs, kCollectiveNs - kHalfNs);
  return 0;
}
