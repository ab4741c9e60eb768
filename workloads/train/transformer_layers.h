#pragma once

#include <string>

#include "workloads/train/layer.h"
#include "workloads/train/ops.h"

/*
 * What a transformer has besides convolutions of width 1, which are its linear layers. A sequence of T tokens with d features each is the
 * shape {d, 1, T}: features are channels, so that such a convolution works on every token by itself.
 */
namespace ddl::train {

/** Tokens {1, 1, T}, whole numbers below `vocabulary`, to vectors {width, 1, T}: one learned for the token plus one
 * for the place. */
class Embedding : public Layer {
 public:
  Embedding(const std::string& name, const Shape& input, std::size_t width, std::size_t vocabulary);
  void forward(Inputs inputs, Tensor& output) override;
  /** Tokens have no gradient: zero, where it is asked for. */
  void backward(Inputs inputs, const Tensor& output, const Tensor& output_gradient,
                InputGradients input_gradients) override;
};

/** Each token's features to mean 0 and variance 1, then times 1 + gain, plus bias: both parameters start at zero. */
class LayerNorm : public Layer {
 public:
  LayerNorm(const std::string& name, const Shape& input);
  void forward(Inputs inputs, Tensor& output) override;
  void backward(Inputs inputs, const Tensor& output, const Tensor& output_gradient,
                InputGradients input_gradients) override;

 private:
  Buffer normalised_;  ///< one token's features
};

/**
 * Scaled dot-product attention of every token to all, over heads of equal width: softmax(Q^T K / sqrt(width of a head))
 * V. The input {3d, 1, T} holds queries, keys and values one after the other, the output is {d, 1, T}. The weights are
 * computed again in backward: T^2 per head and sample would be more memory than all activations. */
class SelfAttention : public Layer {
 public:
  SelfAttention(const std::string& name, const Shape& input, std::size_t heads);
  void forward(Inputs inputs, Tensor& output) override;
  void backward(Inputs inputs, const Tensor& output, const Tensor& output_gradient,
                InputGradients input_gradients) override;

 private:
  /** Q, K and V of one head in a sample: head width x T each. */
  struct Head {
    std::size_t query, key, value;  ///< offsets in the input's sample
    std::size_t output;             ///< offset in the output's sample
  };
  Head head(std::size_t i) const;
  /** weights_[t][s]: how much token t takes from token s. */
  void compute_weights(const float* sample, const Head& head);

  std::size_t heads_;
  std::size_t width_;   ///< of a head
  std::size_t tokens_;  ///< T
  Buffer weights_;
  Buffer weight_gradients_;
};

/** The end of a residual branch without activation: branch + shortcut. */
class Add : public Layer {
 public:
  Add(const std::string& name, const Shape& input) : Layer(name, input) {}
  void forward(Inputs inputs, Tensor& output) override;
  void backward(Inputs inputs, const Tensor& output, const Tensor& output_gradient,
                InputGradients input_gradients) override;
};

}  // namespace ddl::train
