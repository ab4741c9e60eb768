#include "workloads/train/cuda/kernels.h"

namespace ddl::train::cuda {

namespace {

constexpr unsigned kThreads = 256;
constexpr float kCorner = 1.0F / 64.0F;  // layers.cpp

unsigned blocks(std::size_t count) { return static_cast<unsigned>((count + kThreads - 1) / kThreads); }

__device__ std::size_t index() { return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ float ramp(float x) { return fminf(fmaxf(x + kCorner, 0.0F), 2.0F * kCorner); }

__global__ void fill_rows_kernel(float* y, const float* bias, std::size_t count, std::size_t columns) {
  if (const std::size_t i = index(); i < count) y[i] = bias[i % columns];
}

__global__ void sum_rows_kernel(float* sum, const float* x, std::size_t rows, std::size_t columns) {
  const std::size_t i = index();
  if (i >= columns) return;
  float total = 0.0F;
  for (std::size_t n = 0; n < rows; ++n) total += x[n * columns + i];
  sum[i] = total;
}

__global__ void add_kernel(float* y, const float* x, std::size_t count) {
  if (const std::size_t i = index(); i < count) y[i] += x[i];
}

__global__ void relu_kernel(float* y, const float* a, const float* b, std::size_t count) {
  const std::size_t i = index();
  if (i >= count) return;
  const float x = a[i] + (b ? b[i] : 0.0F), t = ramp(x);
  y[i] = t * t * (0.25F / kCorner) + fmaxf(x - kCorner, 0.0F);
}

__global__ void relu_gradient_kernel(float* dx, const float* dy, const float* a, const float* b, std::size_t count) {
  if (const std::size_t i = index(); i < count) dx[i] = ramp(a[i] + (b ? b[i] : 0.0F)) * (0.5F / kCorner) * dy[i];
}

__global__ void average_planes_kernel(float* y, const float* x, std::size_t planes, std::size_t plane) {
  const std::size_t i = index();
  if (i >= planes) return;
  float total = 0.0F;
  for (std::size_t j = 0; j < plane; ++j) total += x[i * plane + j];
  y[i] = total / static_cast<float>(plane);
}

__global__ void spread_planes_kernel(float* dx, const float* dy, std::size_t count, std::size_t plane) {
  if (const std::size_t i = index(); i < count) dx[i] = dy[i / plane] / static_cast<float>(plane);
}

/// One block: the batch is small, and sums in a fixed order give the same loss in every run.
__global__ void softmax_kernel(float* gradient, float* extra, const float* logits, const uint8_t* labels, std::size_t batch, std::size_t classes,
                               float scale) {
  __shared__ float losses[kThreads], corrects[kThreads];
  float loss = 0.0F, correct = 0.0F;
  for (std::size_t n = threadIdx.x; n < batch; n += kThreads) {
    const float* z = logits + n * classes;
    std::size_t largest = 0;
    for (std::size_t i = 1; i < classes; ++i) largest = z[i] > z[largest] ? i : largest;
    float sum = 0.0F;
    for (std::size_t i = 0; i < classes; ++i) sum += expf(z[i] - z[largest]);
    for (std::size_t i = 0; i < classes; ++i) gradient[n * classes + i] = scale * (expf(z[i] - z[largest]) / sum - (i == labels[n] ? 1.0F : 0.0F));
    loss += logf(sum) - (z[labels[n]] - z[largest]);
    correct += largest == labels[n] ? 1.0F : 0.0F;
  }
  losses[threadIdx.x] = loss;
  corrects[threadIdx.x] = correct;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned i = 1; i < kThreads; ++i) loss += losses[i], correct += corrects[i];
  extra[0] = loss * scale;
  extra[1] = correct;
}

__global__ void update_kernel(float* value, float* velocity, const float* gradient, std::size_t count, float rate, float momentum) {
  const std::size_t i = index();
  if (i >= count) return;
  velocity[i] = momentum * velocity[i] + gradient[i];
  value[i] -= rate * velocity[i];
}

}  // namespace

void fill_rows(cudaStream_t stream, float* y, const float* bias, std::size_t rows, std::size_t columns) {
  fill_rows_kernel<<<blocks(rows * columns), kThreads, 0, stream>>>(y, bias, rows * columns, columns);
}
void sum_rows(cudaStream_t stream, float* sum, const float* x, std::size_t rows, std::size_t columns) {
  sum_rows_kernel<<<blocks(columns), kThreads, 0, stream>>>(sum, x, rows, columns);
}
void add(cudaStream_t stream, float* y, const float* x, std::size_t count) { add_kernel<<<blocks(count), kThreads, 0, stream>>>(y, x, count); }
void relu(cudaStream_t stream, float* y, const float* a, const float* b, std::size_t count) {
  relu_kernel<<<blocks(count), kThreads, 0, stream>>>(y, a, b, count);
}
void relu_gradient(cudaStream_t stream, float* dx, const float* dy, const float* a, const float* b, std::size_t count) {
  relu_gradient_kernel<<<blocks(count), kThreads, 0, stream>>>(dx, dy, a, b, count);
}
void average_planes(cudaStream_t stream, float* y, const float* x, std::size_t planes, std::size_t plane) {
  average_planes_kernel<<<blocks(planes), kThreads, 0, stream>>>(y, x, planes, plane);
}
void spread_planes(cudaStream_t stream, float* dx, const float* dy, std::size_t planes, std::size_t plane) {
  spread_planes_kernel<<<blocks(planes * plane), kThreads, 0, stream>>>(dx, dy, planes * plane, plane);
}
void softmax_cross_entropy(cudaStream_t stream, float* gradient, float* extra, const float* logits, const uint8_t* labels, std::size_t batch,
                           std::size_t classes, float scale) {
  softmax_kernel<<<1, kThreads, 0, stream>>>(gradient, extra, logits, labels, batch, classes, scale);
}
void update(cudaStream_t stream, float* value, float* velocity, const float* gradient, std::size_t count, float rate, float momentum) {
  update_kernel<<<blocks(count), kThreads, 0, stream>>>(value, velocity, gradient, count, rate, momentum);
}

}  // namespace ddl::train::cuda
