#include "workloads/train/ops.h"

#include <gtest/gtest.h>

#include "workloads/train/layers.h"
#include "workloads/train/random.h"

namespace ddl::train {
namespace {

void fill(std::span<float> values, uint64_t seed) {
  Random random(seed, Draw::kWeights, 0);
  for (float& value : values) value = random.uniform(-1.0F, 1.0F);
}

struct ConvCase {
  Shape input;
  std::size_t channels;
  Window window;
};

class Convolution : public testing::TestWithParam<ConvCase> {};

/** What a convolution is, straight from its definition, in double. */
double direct(const float* x, const Shape& in, const float* weight, float bias, const Window& w, std::size_t oc,
              std::size_t oy, std::size_t ox) {
  double sum = bias;
  for (std::size_t c = 0; c < in.channels; ++c) {
    for (std::size_t ky = 0; ky < w.kernel; ++ky) {
      for (std::size_t kx = 0; kx < w.kernel; ++kx) {
        const auto y = static_cast<long>(oy * w.stride + ky) - static_cast<long>(w.padding);
        const auto xx = static_cast<long>(ox * w.stride + kx) - static_cast<long>(w.padding);
        if (y < 0 || xx < 0 || y >= static_cast<long>(in.height) || xx >= static_cast<long>(in.width)) continue;
        const auto pixel = (c * in.height + static_cast<std::size_t>(y)) * in.width + static_cast<std::size_t>(xx);
        sum += static_cast<double>(x[pixel]) *
               static_cast<double>(weight[((oc * in.channels + c) * w.kernel + ky) * w.kernel + kx]);
      }
    }
  }
  return sum;
}

TEST_P(Convolution, ByIm2colAndGemmEqualsTheDirectLoop) {
  const auto& [shape, channels, window] = GetParam();
  Conv2d layer("conv", shape, channels, window);
  Buffer bias(layer.parameters()[0].count);
  Buffer weight(layer.parameters()[1].count);
  layer.parameters()[0].value = bias.data();
  layer.parameters()[1].value = weight.data();
  fill(bias, 1);
  fill(weight, 2);
  Tensor x(3, shape);
  fill(x.values(), 3);
  Tensor y(3, layer.output_shape());
  const Tensor* input = &x;
  layer.forward({&input, 1}, y);

  const Shape out = layer.output_shape();
  ASSERT_GT(y.size(), 0U);
  for (std::size_t n = 0; n < 3; ++n) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t oc = i / out.plane();
      const std::size_t oy = i % out.plane() / out.width;
      const double expected = direct(x.sample(n), shape, weight.data(), bias[oc], window, oc, oy, i % out.width);
      ASSERT_NEAR(y.sample(n)[i], expected, 1e-5) << "sample " << n << " output " << i;
    }
  }
}

/** <im2col(x), c> = <x, col2im(c)> for all x and c: the definition of the adjoint that backward relies on. */
TEST_P(Convolution, Col2imIsTheAdjointOfIm2col) {
  const auto& [shape, channels, window] = GetParam();
  const std::size_t size = window.rows(shape) * window.output(shape, 1).plane();
  Buffer x(shape.size());
  Buffer c(size);
  Buffer columns(size);
  Buffer folded(shape.size());
  fill(x, 4);
  fill(c, 5);
  im2col(x.data(), shape, window, columns.data());
  col2im(c.data(), shape, window, folded.data());
  double left = 0.0;
  double right = 0.0;
  for (std::size_t i = 0; i < size; ++i) left += static_cast<double>(columns[i]) * static_cast<double>(c[i]);
  for (std::size_t i = 0; i < x.size(); ++i) right += static_cast<double>(x[i]) * static_cast<double>(folded[i]);
  EXPECT_NEAR(left, right, 1e-4);
  EXPECT_NE(left, 0.0);
}

INSTANTIATE_TEST_SUITE_P(Windows, Convolution,
                         testing::Values(ConvCase{{1, 5, 5}, 2, {3, 1, 1}},   // same size
                                         ConvCase{{3, 7, 6}, 4, {3, 2, 1}},   // halving, odd and even sides
                                         ConvCase{{4, 8, 8}, 5, {1, 2, 0}},   // projection on a shortcut
                                         ConvCase{{2, 9, 4}, 3, {3, 1, 0}},   // no padding
                                         ConvCase{{2, 6, 6}, 3, {5, 3, 2}},   // wide window, stride 3
                                         ConvCase{{2, 1, 1}, 3, {3, 2, 1}},   // mostly padding
                                         ConvCase{{1, 2, 3}, 1, {5, 1, 2}}),  // window larger than the image
                         [](const auto& conv) { return "case" + std::to_string(conv.index); });

TEST(Gemm, TransposesAndAccumulates) {
  const float a[] = {1, 2, 3, 4, 5, 6};  // 2 x 3
  const float b[] = {1, 0, 2, 1, 1, 3};  // 2 x 3
  float c[] = {100, 100, 100, 100};
  gemm({a, 2, 3}, transpose({b, 2, 3}), 1.0F, c);  // a b^T = (7 12; 16 27)
  EXPECT_EQ(std::vector<float>(c, c + 4), (std::vector<float>{107, 112, 116, 127}));
  float d[9];
  gemm(transpose({a, 2, 3}), {b, 2, 3}, 0.0F, d);  // a^T b
  EXPECT_EQ(std::vector<float>(d, d + 9), (std::vector<float>{5, 4, 14, 7, 5, 19, 9, 6, 24}));
}

}  // namespace
}  // namespace ddl::train
