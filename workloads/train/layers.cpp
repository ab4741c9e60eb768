#include "workloads/train/layers.h"

#include <algorithm>

namespace ddl::train {

namespace {

/**
 * Parameters of both kinds of layers that have any. The bias comes first, as its gradient does in autograd: in a bucket
 * that is cut by size it then lies with its weight. */
constexpr std::size_t kBias = 0;
constexpr std::size_t kWeight = 1;

/** Half the width of ReLU's rounded corner, see layers.h. A power of two: the scalings below are exact. */
constexpr float kCorner = 1.0F / 64.0F;

/** 0 left of the corner, 2 * kCorner right of it, a ramp in between. */
float ramp(float x) {
  const float left = x + kCorner < 0.0F ? 0.0F : x + kCorner;
  return left < 2.0F * kCorner ? left : 2.0F * kCorner;
}

float relu(float x) {
  const float t = ramp(x);
  return t * t * (0.25F / kCorner) + (x - kCorner > 0.0F ? x - kCorner : 0.0F);
}

float relu_slope(float x) { return ramp(x) * (0.5F / kCorner); }

}  // namespace

// ---- Linear: the weight is a matrix outputs x inputs ----

Linear::Linear(const std::string& name, const Shape& input, std::size_t outputs) : Layer(name, {outputs, 1, 1}) {
  add_parameter("bias", outputs, 0);
  add_parameter("weight", outputs * input.size(), input.size());
}

void Linear::forward(Inputs inputs, Tensor& output) {
  const Tensor& x = *inputs[0];
  const std::size_t outputs = output_shape().size();
  for (std::size_t n = 0; n < x.batch(); ++n) std::copy_n(parameter(kBias).value, outputs, output.sample(n));
  gemm({x.data(), x.batch(), x.shape().size()}, transpose({parameter(kWeight).value, outputs, x.shape().size()}), 1.0F,
       output.data());
}

void Linear::backward(Inputs inputs, const Tensor& /*output*/, const Tensor& output_gradient,
                      InputGradients input_gradients) {
  const Tensor& x = *inputs[0];
  const std::size_t outputs = output_shape().size();
  const MatrixView dy{output_gradient.data(), x.batch(), outputs};
  gemm(transpose(dy), {x.data(), x.batch(), x.shape().size()}, 0.0F, parameter(kWeight).gradient);

  float* bias_gradient = parameter(kBias).gradient;
  std::fill_n(bias_gradient, outputs, 0);
  for (std::size_t n = 0; n < x.batch(); ++n) {
    const float* row = output_gradient.sample(n);
    for (std::size_t i = 0; i < outputs; ++i) bias_gradient[i] += row[i];
  }
  if (input_gradients[0])
    gemm(dy, {parameter(kWeight).value, outputs, x.shape().size()}, 0.0F, input_gradients[0]->data());
}

// ---- Conv2d: the weight is a matrix channels x (input channels * kernel^2) ----

Conv2d::Conv2d(const std::string& name, const Shape& input, std::size_t channels, Window window)
    : Layer(name, window.output(input, channels)),
      window_(window),
      columns_(window.rows(input) * output_shape().plane()),
      columns_gradient_(columns_.size()) {
  add_parameter("bias", channels, 0);
  add_parameter("weight", channels * window.rows(input), window.rows(input));
}

void Conv2d::forward(Inputs inputs, Tensor& output) {
  const Tensor& x = *inputs[0];
  const std::size_t rows = window_.rows(x.shape());
  const auto [channels, height, width] = output_shape();
  for (std::size_t n = 0; n < x.batch(); ++n) {
    im2col(x.sample(n), x.shape(), window_, columns_.data());
    float* y = output.sample(n);
    for (std::size_t c = 0; c < channels; ++c)
      std::fill_n(y + c * height * width, height * width, parameter(kBias).value[c]);
    gemm({parameter(kWeight).value, channels, rows}, {columns_.data(), rows, height * width}, 1.0F, y);
  }
}

void Conv2d::backward(Inputs inputs, const Tensor& /*output*/, const Tensor& output_gradient,
                      InputGradients input_gradients) {
  const Tensor& x = *inputs[0];
  const std::size_t rows = window_.rows(x.shape());
  const std::size_t channels = output_shape().channels;
  const std::size_t plane = output_shape().plane();
  float* bias_gradient = parameter(kBias).gradient;
  std::fill_n(bias_gradient, channels, 0);
  for (std::size_t n = 0; n < x.batch(); ++n) {
    const float* dy = output_gradient.sample(n);
    // Unfolding again costs less than keeping every unfolded sample of the batch (kernel^2 times the input) since
    // forward.
    im2col(x.sample(n), x.shape(), window_, columns_.data());
    gemm({dy, channels, plane}, transpose({columns_.data(), rows, plane}), n == 0 ? 0.0F : 1.0F,
         parameter(kWeight).gradient);
    for (std::size_t c = 0; c < channels; ++c) {
      float sum = 0.0F;
      for (std::size_t i = 0; i < plane; ++i) sum += dy[c * plane + i];
      bias_gradient[c] += sum;
    }
    if (!input_gradients[0]) continue;
    gemm(transpose({parameter(kWeight).value, channels, rows}), {dy, channels, plane}, 0.0F, columns_gradient_.data());
    float* dx = input_gradients[0]->sample(n);
    std::fill_n(dx, x.shape().size(), 0.0F);
    col2im(columns_gradient_.data(), x.shape(), window_, dx);
  }
}

// ---- Layers without parameters ----

void Relu::forward(Inputs inputs, Tensor& output) {
  const float* x = inputs[0]->data();
  float* y = output.data();
  for (std::size_t i = 0; i < output.size(); ++i) y[i] = relu(x[i]);
}

void Relu::backward(Inputs inputs, const Tensor& output, const Tensor& output_gradient,
                    InputGradients input_gradients) {
  if (!input_gradients[0]) return;
  const float* x = inputs[0]->data();
  const float* dy = output_gradient.data();
  float* dx = input_gradients[0]->data();
  for (std::size_t i = 0; i < output.size(); ++i) dx[i] = relu_slope(x[i]) * dy[i];
}

void AddRelu::forward(Inputs inputs, Tensor& output) {
  const float* branch = inputs[0]->data();
  const float* shortcut = inputs[1]->data();
  float* y = output.data();
  for (std::size_t i = 0; i < output.size(); ++i) y[i] = relu(branch[i] + shortcut[i]);
}

void AddRelu::backward(Inputs inputs, const Tensor& output, const Tensor& output_gradient,
                       InputGradients input_gradients) {
  const float* branch = inputs[0]->data();
  const float* shortcut = inputs[1]->data();
  const float* dy = output_gradient.data();
  for (Tensor* input_gradient : input_gradients) {
    if (!input_gradient) continue;
    float* dx = input_gradient->data();
    for (std::size_t i = 0; i < output.size(); ++i) dx[i] = relu_slope(branch[i] + shortcut[i]) * dy[i];
  }
}

void GlobalAveragePool::forward(Inputs inputs, Tensor& output) {
  const Tensor& x = *inputs[0];
  const std::size_t plane = x.shape().plane();
  for (std::size_t i = 0; i < output.size(); ++i) {  // one (sample, channel) pair each
    float sum = 0.0F;
    for (std::size_t j = 0; j < plane; ++j) sum += x.data()[i * plane + j];
    output.data()[i] = sum / static_cast<float>(plane);
  }
}

void GlobalAveragePool::backward(Inputs inputs, const Tensor& output, const Tensor& output_gradient,
                                 InputGradients input_gradients) {
  if (!input_gradients[0]) return;
  const std::size_t plane = inputs[0]->shape().plane();
  float* dx = input_gradients[0]->data();
  for (std::size_t i = 0; i < output.size(); ++i) {
    std::fill_n(dx + i * plane, plane, output_gradient.data()[i] / static_cast<float>(plane));
  }
}

}  // namespace ddl::train
