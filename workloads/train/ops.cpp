#include "workloads/train/ops.h"

#include <cblas.h>

#include <algorithm>

namespace ddl::train {

namespace {

blasint blas_int(std::size_t n) { return static_cast<blasint>(n); }

/** One row of outputs of one entry of the window. Output ox reads the pixel `pixels + ox * stride` of the image. */
struct OutputRow {
  std::size_t at;         ///< in the column matrix
  bool inside;            ///< the row of the image exists; otherwise all of it is padding
  std::ptrdiff_t pixels;  ///< negative where the first outputs read padding
  std::size_t begin;      ///< outputs [begin, end) read pixels, the others padding
  std::size_t end;
};

/** Visits all of them, in the order of the column matrix: the traversal that im2col and col2im share. */
template <typename Visit>
void for_each_output_row(const Shape& input, const Window& window, Visit&& visit) {
  const Shape output = window.output(input, 1);
  const auto signed_of = [](std::size_t n) { return static_cast<std::ptrdiff_t>(n); };
  std::size_t at = 0;
  for (std::size_t channel = 0; channel < input.channels; ++channel) {
    for (std::size_t ky = 0; ky < window.kernel; ++ky) {
      for (std::size_t kx = 0; kx < window.kernel; ++kx) {
        // ox * stride + kx - padding must lie in [0, width): the first and the one past the last such ox, rounded up.
        const auto first_at_or_above = [&](std::size_t x) {
          const std::size_t reach = x + window.padding;
          return reach <= kx ? 0 : std::min((reach - kx + window.stride - 1) / window.stride, output.width);
        };
        const std::size_t begin = first_at_or_above(0);
        const std::size_t end = first_at_or_above(input.width);
        for (std::size_t oy = 0; oy < output.height; ++oy, at += output.width) {
          const std::ptrdiff_t iy = signed_of(oy * window.stride + ky) - signed_of(window.padding);
          const std::ptrdiff_t row = signed_of(channel * input.height) + iy;
          const std::ptrdiff_t pixels = row * signed_of(input.width) + signed_of(kx) - signed_of(window.padding);
          visit(OutputRow{at, iy >= 0 && iy < signed_of(input.height), pixels, begin, end});
        }
      }
    }
  }
}

}  // namespace

void gemm(MatrixView a, MatrixView b, float beta, float* c) {
  const std::size_t m = a.transposed ? a.columns : a.rows;
  const std::size_t k = a.transposed ? a.rows : a.columns;
  const std::size_t n = b.transposed ? b.rows : b.columns;
  cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans,
              blas_int(m), blas_int(n), blas_int(k), 1.0F, a.data, blas_int(a.columns), b.data, blas_int(b.columns),
              beta, c, blas_int(n));
}

double square_sum(std::span<const float> values) {
  constexpr std::size_t kBlock = 4096;
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); i += kBlock) {
    const auto block = values.subspan(i, std::min(kBlock, values.size() - i));
    sum += static_cast<double>(cblas_sdot(blas_int(block.size()), block.data(), 1, block.data(), 1));
  }
  return sum;
}

void use_one_blas_thread() { openblas_set_num_threads(1); }

Shape Window::output(const Shape& input, std::size_t channels) const {
  const auto extent = [this](std::size_t n) {
    return n + 2 * padding < kernel ? 0 : (n + 2 * padding - kernel) / stride + 1;
  };
  return {channels, extent(input.height), extent(input.width)};
}

void im2col(const float* sample, const Shape& input, const Window& window, float* columns) {
  const std::size_t width = window.output(input, 1).width;
  for_each_output_row(input, window, [&](const OutputRow& row) {
    float* out = columns + row.at;
    if (!row.inside) {
      std::fill_n(out, width, 0.0F);
      return;
    }
    const auto pixel = [&](std::size_t ox) {
      return sample[row.pixels + static_cast<std::ptrdiff_t>(ox * window.stride)];
    };
    for (std::size_t ox = 0; ox < row.begin; ++ox) out[ox] = 0.0F;
    for (std::size_t ox = row.begin; ox < row.end; ++ox) out[ox] = pixel(ox);
    for (std::size_t ox = row.end; ox < width; ++ox) out[ox] = 0.0F;
  });
}

void col2im(const float* columns, const Shape& input, const Window& window, float* sample) {
  for_each_output_row(input, window, [&](const OutputRow& row) {
    if (!row.inside) return;
    for (std::size_t ox = row.begin; ox < row.end; ++ox) {
      sample[row.pixels + static_cast<std::ptrdiff_t>(ox * window.stride)] += columns[row.at + ox];
    }
  });
}

}  // namespace ddl::train
