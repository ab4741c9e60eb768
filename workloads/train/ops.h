#pragma once

#include <cstddef>
#include <span>

#include "workloads/train/tensor.h"

namespace ddl::train {

/** A row-major matrix as gemm reads it, possibly transposed. `rows` and `columns` are those of the matrix in memory. */
struct MatrixView {
  const float* data;
  std::size_t rows;
  std::size_t columns;
  bool transposed = false;
};

inline MatrixView transpose(MatrixView m) {
  m.transposed = !m.transposed;
  return m;
}

/** c = a * b + beta * c, row major, c dense. */
void gemm(MatrixView a, MatrixView b, float beta, float* c);

/** Sum of the squares, in double beyond a few thousand terms. */
double square_sum(std::span<const float> values);

/** One BLAS thread: a rank is one process on one core, and threads of its own would blur what a profile of
 * the rank means. */
void use_one_blas_thread();

/** A square convolution window over planes of `input`. */
struct Window {
  std::size_t kernel = 3;
  std::size_t stride = 1;
  std::size_t padding = 1;

  /** Shape of the convolved sample with `channels` output channels. */
  Shape output(const Shape& input, std::size_t channels) const;
  /** Rows of the column matrix: one per weight of an output channel. */
  std::size_t rows(const Shape& input) const { return input.channels * kernel * kernel; }
};

/**
 * Unfolds one sample into the matrix (channels * kernel^2) x (output height * output width), so that a convolution is
 * one gemm. Padding reads as zero. */
void im2col(const float* sample, const Shape& input, const Window& window, float* columns);

/** The adjoint of im2col: adds every entry of `columns` to the pixel it was read from. */
void col2im(const float* columns, const Shape& input, const Window& window, float* sample);

}  // namespace ddl::train
