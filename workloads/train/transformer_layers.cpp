#include "workloads/train/transformer_layers.h"

#include <algorithm>
#include <cmath>

namespace ddl::train {

// ---- Embedding: both tables have a row per token and per place ----

namespace {

constexpr std::size_t kTokens = 0;
constexpr std::size_t kPlaces = 1;

std::size_t row_of(float token) { return static_cast<std::size_t>(std::lround(token)); }

}  // namespace

Embedding::Embedding(const std::string& name, const Shape& input, std::size_t width, std::size_t vocabulary)
    : Layer(name, {width, 1, input.width}) {
  add_parameter("tokens", vocabulary * width, width);
  add_parameter("places", input.width * width, width);
}

void Embedding::forward(Inputs inputs, Tensor& output) {
  const auto [width, one, tokens] = output_shape();
  for (std::size_t n = 0; n < output.batch(); ++n) {
    for (std::size_t t = 0; t < tokens; ++t) {
      const float* token = parameter(kTokens).value + row_of(inputs[0]->sample(n)[t]) * width;
      const float* place = parameter(kPlaces).value + t * width;
      for (std::size_t c = 0; c < width; ++c) output.sample(n)[c * tokens + t] = token[c] + place[c];
    }
  }
}

void Embedding::backward(Inputs inputs, const Tensor& /*output*/, const Tensor& output_gradient,
                         InputGradients input_gradients) {
  const auto [width, one, tokens] = output_shape();
  for (const std::size_t table : {kTokens, kPlaces})
    std::fill_n(parameter(table).gradient, parameter(table).count, 0.0F);
  for (std::size_t n = 0; n < output_gradient.batch(); ++n) {
    for (std::size_t t = 0; t < tokens; ++t) {
      float* token = parameter(kTokens).gradient + row_of(inputs[0]->sample(n)[t]) * width;
      float* place = parameter(kPlaces).gradient + t * width;
      for (std::size_t c = 0; c < width; ++c) {
        const float dy = output_gradient.sample(n)[c * tokens + t];
        token[c] += dy;
        place[c] += dy;
      }
    }
  }
  if (input_gradients[0]) std::fill_n(input_gradients[0]->data(), input_gradients[0]->size(), 0.0F);
}

// ---- LayerNorm ----

namespace {

constexpr std::size_t kAttentionBias = 0;
constexpr std::size_t kGain = 1;
constexpr float kEpsilon = 1e-5F;

/** Writes the normalised features of one token, which lie `stride` apart; returns 1 / standard deviation. */
float normalise(const float* x, std::size_t stride, std::span<float> normalised) {
  const auto count = static_cast<float>(normalised.size());
  float mean = 0;
  for (std::size_t c = 0; c < normalised.size(); ++c) mean += x[c * stride];
  mean /= count;
  float variance = 0;
  for (std::size_t c = 0; c < normalised.size(); ++c) variance += (x[c * stride] - mean) * (x[c * stride] - mean);
  const float scale = 1.0F / std::sqrt(variance / count + kEpsilon);
  for (std::size_t c = 0; c < normalised.size(); ++c) normalised[c] = (x[c * stride] - mean) * scale;
  return scale;
}

}  // namespace

LayerNorm::LayerNorm(const std::string& name, const Shape& input) : Layer(name, input), normalised_(input.channels) {
  add_parameter("bias", input.channels, 0);
  add_parameter("gain", input.channels, 0);
}

void LayerNorm::forward(Inputs inputs, Tensor& output) {
  const std::size_t channels = output_shape().channels;
  const std::size_t plane = output_shape().plane();
  for (std::size_t n = 0; n < output.batch(); ++n) {
    for (std::size_t t = 0; t < plane; ++t) {
      normalise(inputs[0]->sample(n) + t, plane, normalised_);
      float* y = output.sample(n) + t;
      for (std::size_t c = 0; c < channels; ++c) {
        y[c * plane] = normalised_[c] * (1.0F + parameter(kGain).value[c]) + parameter(kAttentionBias).value[c];
      }
    }
  }
}

void LayerNorm::backward(Inputs inputs, const Tensor& /*output*/, const Tensor& output_gradient,
                         InputGradients input_gradients) {
  const std::size_t channels = output_shape().channels;
  const std::size_t plane = output_shape().plane();
  const float* gain = parameter(kGain).value;
  for (const std::size_t i : {kAttentionBias, kGain}) std::fill_n(parameter(i).gradient, channels, 0.0F);
  for (std::size_t n = 0; n < output_gradient.batch(); ++n) {
    for (std::size_t t = 0; t < plane; ++t) {
      const float scale = normalise(inputs[0]->sample(n) + t, plane, normalised_);
      const float* dy = output_gradient.sample(n) + t;
      float mean = 0;        // of the gradients of the normalised features,
      float projection = 0;  // and of their products with them: the two directions that normalising takes out
      for (std::size_t c = 0; c < channels; ++c) {
        parameter(kAttentionBias).gradient[c] += dy[c * plane];
        parameter(kGain).gradient[c] += dy[c * plane] * normalised_[c];
        const float g = dy[c * plane] * (1.0F + gain[c]);
        mean += g;
        projection += g * normalised_[c];
      }
      if (!input_gradients[0]) continue;
      mean /= static_cast<float>(channels);
      projection /= static_cast<float>(channels);
      float* dx = input_gradients[0]->sample(n) + t;
      for (std::size_t c = 0; c < channels; ++c) {
        dx[c * plane] = scale * (dy[c * plane] * (1.0F + gain[c]) - mean - normalised_[c] * projection);
      }
    }
  }
}

// ---- SelfAttention ----

SelfAttention::SelfAttention(const std::string& name, const Shape& input, std::size_t heads)
    : Layer(name, {input.channels / 3, 1, input.width}),
      heads_(heads),
      width_(input.channels / 3 / heads),
      tokens_(input.width),
      weights_(tokens_ * tokens_),
      weight_gradients_(tokens_ * tokens_) {}

SelfAttention::Head SelfAttention::head(std::size_t i) const {
  const std::size_t all = heads_ * width_ * tokens_;
  const std::size_t own = i * width_ * tokens_;
  return {own, all + own, 2 * all + own, own};
}

void SelfAttention::compute_weights(const float* sample, const Head& head) {
  gemm(transpose({sample + head.query, width_, tokens_}), {sample + head.key, width_, tokens_}, 0.0F, weights_.data());
  const float scale = 1.0F / std::sqrt(static_cast<float>(width_));
  for (std::size_t t = 0; t < tokens_; ++t) {
    const std::span<float> row(weights_.data() + t * tokens_, tokens_);
    const float largest = *std::max_element(row.begin(), row.end());
    float sum = 0;
    for (float& weight : row) sum += weight = std::exp((weight - largest) * scale);
    for (float& weight : row) weight /= sum;
  }
}

void SelfAttention::forward(Inputs inputs, Tensor& output) {
  for (std::size_t n = 0; n < output.batch(); ++n) {
    const float* x = inputs[0]->sample(n);
    for (std::size_t i = 0; i < heads_; ++i) {
      compute_weights(x, head(i));
      gemm({x + head(i).value, width_, tokens_}, transpose({weights_.data(), tokens_, tokens_}), 0.0F,
           output.sample(n) + head(i).output);
    }
  }
}

void SelfAttention::backward(Inputs inputs, const Tensor& /*output*/, const Tensor& output_gradient,
                             InputGradients input_gradients) {
  if (!input_gradients[0]) return;
  const float scale = 1.0F / std::sqrt(static_cast<float>(width_));
  const MatrixView weights{weights_.data(), tokens_, tokens_};
  const MatrixView score_gradients{weight_gradients_.data(), tokens_, tokens_};
  for (std::size_t n = 0; n < output_gradient.batch(); ++n) {
    const float* x = inputs[0]->sample(n);
    float* dx = input_gradients[0]->sample(n);
    for (std::size_t i = 0; i < heads_; ++i) {
      const Head at = head(i);
      const MatrixView dy{output_gradient.sample(n) + at.output, width_, tokens_};
      compute_weights(x, at);
      gemm(dy, weights, 0.0F, dx + at.value);
      gemm(transpose(dy), {x + at.value, width_, tokens_}, 0.0F, weight_gradients_.data());
      // Through the softmax: what all weights of a row have in common changes nothing.
      for (std::size_t t = 0; t < tokens_; ++t) {
        const float* w = weights_.data() + t * tokens_;
        float* dw = weight_gradients_.data() + t * tokens_;
        float common = 0;
        for (std::size_t s = 0; s < tokens_; ++s) common += w[s] * dw[s];
        for (std::size_t s = 0; s < tokens_; ++s) dw[s] = scale * w[s] * (dw[s] - common);
      }
      gemm({x + at.key, width_, tokens_}, transpose(score_gradients), 0.0F, dx + at.query);
      gemm({x + at.query, width_, tokens_}, score_gradients, 0.0F, dx + at.key);
    }
  }
}

// ---- Add ----

void Add::forward(Inputs inputs, Tensor& output) {
  for (std::size_t i = 0; i < output.size(); ++i) output.data()[i] = inputs[0]->data()[i] + inputs[1]->data()[i];
}

void Add::backward(Inputs /*inputs*/, const Tensor& output, const Tensor& output_gradient,
                   InputGradients input_gradients) {
  for (Tensor* input_gradient : input_gradients) {
    if (input_gradient) std::copy_n(output_gradient.data(), output.size(), input_gradient->data());
  }
}

}  // namespace ddl::train
