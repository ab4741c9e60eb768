#pragma once

#include <string>

#include "workloads/train/layer.h"
#include "workloads/train/ops.h"

namespace ddl::train {

/** Fully connected: y = x W^T + b. Reads any input shape as one feature vector. */
class Linear : public Layer {
 public:
  Linear(const std::string& name, const Shape& input, std::size_t outputs);
  void forward(Inputs inputs, Tensor& output) override;
  void backward(Inputs inputs, const Tensor& output, const Tensor& output_gradient,
                InputGradients input_gradients) override;
};

/** Convolution, sample by sample: im2col and one gemm, so that the unfolded sample stays in the cache. */
class Conv2d : public Layer {
 public:
  Conv2d(const std::string& name, const Shape& input, std::size_t channels, Window window);
  void forward(Inputs inputs, Tensor& output) override;
  void backward(Inputs inputs, const Tensor& output, const Tensor& output_gradient,
                InputGradients input_gradients) override;
  const Window& window() const { return window_; }

 private:
  Window window_;
  Buffer columns_;           ///< the unfolded sample
  Buffer columns_gradient_;  ///< and its gradient
};

/**
 * max(0, x) with a corner that is rounded over |x| < 1/64, so that its slope is continuous. With the sharp corner a
 * difference of one unit in the last place can switch a unit's gradient on or off; two jobs that only add up in another
 * order (1 rank or 4) then drift apart by up to 1e-3 in 20 steps. Rounded, they stay together to 1e-6, and their losses
 * can be compared. */
class Relu : public Layer {
 public:
  Relu(const std::string& name, const Shape& input) : Layer(name, input) {}
  void forward(Inputs inputs, Tensor& output) override;
  void backward(Inputs inputs, const Tensor& output, const Tensor& output_gradient,
                InputGradients input_gradients) override;
};

/** The end of a residual block: relu(branch + shortcut), rounded as above. */
class AddRelu : public Layer {
 public:
  AddRelu(const std::string& name, const Shape& input) : Layer(name, input) {}
  void forward(Inputs inputs, Tensor& output) override;
  void backward(Inputs inputs, const Tensor& output, const Tensor& output_gradient,
                InputGradients input_gradients) override;
};

/** Mean of each channel. */
class GlobalAveragePool : public Layer {
 public:
  GlobalAveragePool(const std::string& name, const Shape& input) : Layer(name, {input.channels, 1, 1}) {}
  void forward(Inputs inputs, Tensor& output) override;
  void backward(Inputs inputs, const Tensor& output, const Tensor& output_gradient,
                InputGradients input_gradients) override;
};

}  // namespace ddl::train
