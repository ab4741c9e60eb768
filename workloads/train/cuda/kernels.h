// The arithmetic that neither cuBLAS nor cuDNN is asked for. All on `stream`, single precision, NCHW.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace ddl::train::cuda {

/** y[n][i] = bias[i], the start of a fully connected layer. */
void fill_rows(cudaStream_t stream, float* y, const float* bias, std::size_t rows, std::size_t columns);
/** sum[i] = sum over rows of x[n][i]. */
void sum_rows(cudaStream_t stream, float* sum, const float* x, std::size_t rows, std::size_t columns);
/** y += x */
void add(cudaStream_t stream, float* y, const float* x, std::size_t count);
/** relu(a + b) with the rounded corner of layers.h; b may be null. */
void relu(cudaStream_t stream, float* y, const float* a, const float* b, std::size_t count);
/** dx = slope(a + b) * dy */
void relu_gradient(cudaStream_t stream, float* dx, const float* dy, const float* a, const float* b, std::size_t count);
/** y[i] = mean of x[i][0 .. plane); and back. */
void average_planes(cudaStream_t stream, float* y, const float* x, std::size_t planes, std::size_t plane);
void spread_planes(cudaStream_t stream, float* dx, const float* dy, std::size_t planes, std::size_t plane);
/** loss.h on the device: `extra[0]` = scale * loss of the batch, `extra[1]` = correct samples. Any order of additions
 * but a fixed one. */
void softmax_cross_entropy(cudaStream_t stream, float* gradient, float* extra, const float* logits,
                           const uint8_t* labels, std::size_t batch, std::size_t classes, float scale);
/** velocity = momentum * velocity + gradient; value -= rate * velocity */
void update(cudaStream_t stream, float* value, float* velocity, const float* gradient, std::size_t count, float rate,
            float momentum);

}  // namespace ddl::train::cuda
