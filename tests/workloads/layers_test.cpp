#include "workloads/train/layers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "workloads/train/loss.h"
#include "workloads/train/random.h"
#include "workloads/train/transformer_layers.h"

/*
 * Every layer kind against numeric differentiation of f = sum(r * layer(x)) with fixed random r, whose gradient with respect to the output
 * is r. Outputs are floats, f is summed in double. All layers but the corner of ReLU, LayerNorm and SelfAttention are linear in each
 * single number, so a central difference has no truncation error; what remains is rounding, about 1e-6 / h.
 */
namespace ddl::train {
namespace {

constexpr double kTolerance = 2e-3;

class Bench {
 public:
  Bench(Layer& layer, std::vector<Tensor> inputs, float h)
      : layer_(layer),
        inputs_(std::move(inputs)),
        h_(h),
        output_(inputs_[0].batch(), layer.output_shape()),
        r_(output_) {
    Random random(7, Draw::kWeights, 0);
    for (float& value : r_.values()) value = random.uniform(0.5F, 1.5F) * (random.uniform() < 0.5F ? -1.0F : 1.0F);
    for (Parameter& parameter : layer.parameters()) {
      values_.emplace_back(parameter.count);
      // Anything that backward adds to instead of overwriting turns into nan.
      gradients_.emplace_back(parameter.count, std::numeric_limits<float>::quiet_NaN());
      for (float& value : values_.back()) value = random.uniform(-1.0F, 1.0F);
      parameter.value = values_.back().data();
      parameter.gradient = gradients_.back().data();
    }
  }

  /** Tokens are not numbers to differentiate by. */
  void check(bool inputs_are_tokens = false) {
    std::vector<Tensor> input_gradients;
    for (const Tensor& input : inputs_) {
      input_gradients.emplace_back(input.batch(), input.shape());
      for (float& value : input_gradients.back().values()) value = std::numeric_limits<float>::quiet_NaN();
    }
    std::vector<Tensor*> pointers;
    for (Tensor& gradient : input_gradients) pointers.push_back(&gradient);
    f();
    layer_.backward(input_pointers(), output_, r_, pointers);
    for (std::size_t i = 0; i < inputs_.size() && !inputs_are_tokens; ++i)
      compare("input", inputs_[i].values(), input_gradients[i].values());
    for (std::size_t i = 0; i < values_.size(); ++i) compare(layer_.parameters()[i].name, values_[i], gradients_[i]);

    // Not asked for the gradients of the inputs, it must leave those of the parameters the same.
    const std::vector<Buffer> before = gradients_;
    const std::vector<Tensor*> nobody(inputs_.size(), nullptr);
    f();
    layer_.backward(input_pointers(), output_, r_, nobody);
    EXPECT_EQ(gradients_, before);
  }

 private:
  std::vector<const Tensor*> input_pointers() const {
    std::vector<const Tensor*> result;
    for (const Tensor& input : inputs_) result.push_back(&input);
    return result;
  }

  double f() {
    layer_.forward(input_pointers(), output_);
    double sum = 0.0;
    for (std::size_t i = 0; i < output_.size(); ++i)
      sum += static_cast<double>(r_.data()[i]) * static_cast<double>(output_.data()[i]);
    return sum;
  }

  void compare(const std::string& what, std::span<float> values, std::span<const float> gradient) {
    double largest = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float saved = values[i];
      values[i] = saved + h_;
      const double above = f();
      values[i] = saved - h_;
      const double below = f();
      values[i] = saved;
      const double numeric = (above - below) / (2.0 * static_cast<double>(h_));
      ASSERT_NEAR(gradient[i], numeric, kTolerance * std::max(1.0, std::fabs(numeric))) << what << "[" << i << "]";
      largest = std::max(largest, std::fabs(numeric));
    }
    EXPECT_GT(largest, 0.1) << what << ": nothing was tested";
  }

  Layer& layer_;
  std::vector<Tensor> inputs_;
  float h_;
  Tensor output_;
  Tensor r_;
  std::vector<Buffer> values_;
  std::vector<Buffer> gradients_;
};

Tensor random_tensor(std::size_t batch, const Shape& shape) {
  Tensor tensor(batch, shape);
  Random random(8, Draw::kImages, 0);
  for (float& value : tensor.values()) value = random.uniform(-1.0F, 1.0F);
  return tensor;
}

/** Both sides of the corner |x| < 1/64, and inside it, at a distance of more than h from its ends. */
Tensor around_the_corner(float factor) {
  Tensor tensor(2, {3, 1, 2});
  const float values[] = {-1.0F, -0.1F, -0.012F, -0.004F, 0.0F, 0.006F, 0.013F, 0.02F, 0.3F, 2.0F, -0.03F, 0.009F};
  for (std::size_t i = 0; i < 12; ++i) tensor.data()[i] = factor * values[i];
  return tensor;
}

constexpr float kWide = 1.0F / 64.0F;
constexpr float kNarrow = 1.0F / 1024.0F;

TEST(Gradient, Linear) {
  Linear layer("fc", {2, 2, 3}, 5);
  Bench(layer, {random_tensor(4, {2, 2, 3})}, kWide).check();
}

TEST(Gradient, Conv2d) {
  Conv2d layer("conv", {2, 5, 6}, 3, {3, 1, 1});
  Bench(layer, {random_tensor(2, {2, 5, 6})}, kWide).check();
}

TEST(Gradient, StridedConv2d) {
  Conv2d layer("conv", {2, 5, 6}, 3, {3, 2, 1});
  Bench(layer, {random_tensor(2, {2, 5, 6})}, kWide).check();
}

TEST(Gradient, ProjectionConv2d) {
  Conv2d layer("conv", {3, 4, 5}, 2, {1, 2, 0});
  Bench(layer, {random_tensor(2, {3, 4, 5})}, kWide).check();
}

TEST(Gradient, Relu) {
  Relu layer("relu", {3, 1, 2});
  Bench(layer, {around_the_corner(1.0F)}, kNarrow).check();
}

TEST(Gradient, AddRelu) {
  AddRelu layer("add", {3, 1, 2});
  Bench(layer, {around_the_corner(0.75F), around_the_corner(0.25F)}, kNarrow).check();
}

TEST(Gradient, GlobalAveragePool) {
  GlobalAveragePool layer("pool", {3, 4, 2});
  Bench(layer, {random_tensor(2, {3, 4, 2})}, kWide).check();
}

TEST(Gradient, Embedding) {
  Embedding layer("embedding", {1, 1, 3}, 4, 5);
  Tensor tokens(2, {1, 1, 3});
  const float values[] = {4, 0, 2, 2, 4, 1};  // 2 and 4 twice, 3 never
  std::copy_n(values, 6, tokens.data());
  Bench(layer, {tokens}, kWide).check(true);
}

TEST(Gradient, LayerNorm) {
  LayerNorm layer("norm", {6, 1, 3});
  Bench(layer, {random_tensor(2, {6, 1, 3})}, 1.0F / 256.0F).check();
}

TEST(Gradient, SelfAttention) {
  SelfAttention layer("attention", {3 * 4, 1, 5}, 2);
  Bench(layer, {random_tensor(2, {3 * 4, 1, 5})}, kWide).check();
}

TEST(Gradient, Add) {
  Add layer("add", {3, 1, 2});
  Bench(layer, {random_tensor(2, {3, 1, 2}), around_the_corner(1.0F)}, kWide).check();
}

TEST(Gradient, SoftmaxCrossEntropy) {
  Tensor logits = random_tensor(3, {10, 1, 1});
  const std::vector<uint8_t> labels{9, 0, 4};
  Tensor gradient(3, {10, 1, 1});
  Tensor scratch(3, {10, 1, 1});
  constexpr float kScale = 0.25F;
  softmax_cross_entropy(logits, labels, kScale, gradient);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float saved = logits.data()[i];
    logits.data()[i] = saved + kWide;
    const double above = softmax_cross_entropy(logits, labels, 1.0F, scratch).loss_sum;
    logits.data()[i] = saved - kWide;
    const double below = softmax_cross_entropy(logits, labels, 1.0F, scratch).loss_sum;
    logits.data()[i] = saved;
    EXPECT_NEAR(gradient.data()[i], static_cast<double>(kScale) * (above - below) / (2.0 * static_cast<double>(kWide)),
                1e-4)
        << i;
  }
}

TEST(Relu, IsMaxOfZeroAndXOutsideItsCorner) {
  Relu layer("relu", {6, 1, 1});
  Tensor x(1, {6, 1, 1});
  const float values[] = {-3.0F, -0.015625F, 0.0F, 0.015625F, 0.5F, 1000.0F};
  std::copy_n(values, 6, x.data());
  Tensor y(1, {6, 1, 1});
  const Tensor* input = &x;
  layer.forward({&input, 1}, y);
  // At 0: a quarter of the corner's half width, (1/64) / 4.
  EXPECT_EQ(std::vector<float>(y.data(), y.data() + 6),
            (std::vector<float>{0.0F, 0.0F, 0.00390625F, 0.015625F, 0.5F, 1000.0F}));
}

/** One head, two features, two tokens, worked out by hand: scores q.k / sqrt 2, softmax over the tokens that
 * are looked at. */
TEST(SelfAttention, KnownValues) {
  SelfAttention layer("attention", {6, 1, 2}, 1);
  Tensor x(1, {6, 1, 2});
  const float root = std::sqrt(2.0F);
  const float values[] = {root, 0,  0,  root * 2,  // queries (root, 0) and (0, 2 root)
                          1,    0,  0,  1,         // keys (1, 0) and (0, 1)
                          10,   20, 30, 70};       // values (10, 30) and (20, 70)
  std::copy_n(values, 12, x.data());
  Tensor y(1, {2, 1, 2});
  const Tensor* input = &x;
  layer.forward({&input, 1}, y);
  // Scores of the first token 1, 0; of the second 0, 2.
  const double first = std::exp(1.0) / (std::exp(1.0) + 1.0);
  const double second = 1.0 / (1.0 + std::exp(2.0));
  EXPECT_NEAR(y.data()[0], 10 * first + 20 * (1 - first), 1e-5);
  EXPECT_NEAR(y.data()[1], 10 * second + 20 * (1 - second), 1e-5);
  EXPECT_NEAR(y.data()[2], 30 * first + 70 * (1 - first), 1e-5);
  EXPECT_NEAR(y.data()[3], 30 * second + 70 * (1 - second), 1e-5);
}

TEST(LayerNorm, MeanAndVarianceOfEachToken) {
  LayerNorm layer("norm", {4, 1, 2});
  Buffer parameters(8);  // zero: a gain of one and no bias
  layer.parameters()[0].value = parameters.data();
  layer.parameters()[1].value = parameters.data() + 4;
  Tensor x(1, {4, 1, 2});
  const float values[] = {1, 70, 2, 70, 3, 90, 4, 90};  // tokens (1, 2, 3, 4) and (70, 70, 90, 90)
  std::copy_n(values, 8, x.data());
  Tensor y(1, {4, 1, 2});
  const Tensor* input = &x;
  layer.forward({&input, 1}, y);
  const double deviation = std::sqrt(1.25);
  for (std::size_t c = 0; c < 4; ++c) {
    EXPECT_NEAR(y.data()[2 * c], (static_cast<double>(c) - 1.5) / deviation, 1e-4);
    EXPECT_NEAR(y.data()[2 * c + 1], c < 2 ? -1 : 1, 1e-4);
  }
}

TEST(SoftmaxCrossEntropy, KnownValues) {
  // first sample: all equal, a guess; second: certain and right, with logits that overflow exp
  Tensor logits(2, {10, 1, 1});
  logits.sample(1)[3] = 1000.0F;
  Tensor gradient(2, {10, 1, 1});
  const std::vector<uint8_t> labels{5, 3};
  const BatchLoss loss = softmax_cross_entropy(logits, labels, 1.0F, gradient);
  EXPECT_NEAR(loss.loss_sum, std::log(10.0), 1e-12);
  EXPECT_EQ(loss.correct, 1U);  // a tie counts for the first class, which is not 5
  EXPECT_NEAR(gradient.sample(0)[5], -0.9F, 1e-6);
  EXPECT_NEAR(gradient.sample(0)[0], 0.1F, 1e-6);
  EXPECT_EQ(gradient.sample(1)[3], 0.0F);
}

}  // namespace
}  // namespace ddl::train
