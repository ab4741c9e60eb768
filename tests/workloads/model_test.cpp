#include "workloads/train/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "workloads/train/dataset.h"
#include "workloads/train/loss.h"
#include "workloads/train/models.h"
#include "workloads/train/ops.h"
#include "workloads/train/parameters.h"
#include "workloads/train/sampler.h"

namespace ddl::train {
namespace {

constexpr uint64_t kSeed = 3;

/** A network in training on the drawn set, without MPI. */
class Training {
 public:
  Training(Model model, std::unique_ptr<Dataset> data, std::size_t first_sample = 0)
      : data_(std::move(data)), model_(std::move(model)), arena_(model_), labels_(model_.input().batch()) {
    use_one_blas_thread();
    arena_.initialise(kSeed);
    load(first_sample);
  }

  void load(std::size_t first_sample) {
    for (std::size_t i = 0; i < labels_.size(); ++i)
      labels_[i] = data_->load(sampler_.sample_at(first_sample + i), model_.input().sample(i));
  }
  double loss_sum() {
    return softmax_cross_entropy(model_.forward(), labels_, scale, model_.output_gradient()).loss_sum;
  }
  double forward_backward(const Model::OnGradientsReady& ready = {}) {
    const double loss = loss_sum();
    model_.backward(ready);
    return loss;
  }

  float scale = 1.0F;  ///< of the loss whose gradient is taken
  std::unique_ptr<Dataset> data_;
  Sampler sampler_{data_->size(), kSeed};
  Model model_;
  ParameterArena arena_;
  std::vector<uint8_t> labels_;
};

struct Network {
  const char* name;
  std::size_t width;
  std::unique_ptr<Dataset> (*data)(uint64_t seed);
  std::size_t steps;  ///< until the loss has fallen
};

class Networks : public testing::TestWithParam<Network> {
 protected:
  Training start(std::size_t batch, std::size_t first_sample = 0) const {
    std::unique_ptr<Dataset> data = GetParam().data(kSeed);
    Model model = build_model(GetParam().name, batch, data->shape(), GetParam().width);
    return Training(std::move(model), std::move(data), first_sample);
  }
};

INSTANTIATE_TEST_SUITE_P(Model, Networks,
                         testing::Values(Network{"mlp", 64, make_drawn_set, 100},
                                         Network{"cnn", 12, make_drawn_set, 100},
                                         Network{"transformer", 16, make_token_set, 300}),
                         [](const auto& network) { return network.param.name; });

/** Along its own gradient g, each parameter tensor changes the loss by |g| per unit: a wrong or missing path shows
 * in that tensor. */
TEST_P(Networks, GradientOfEveryTensorIsTheSlopeOfTheLoss) {
  Training training = start(8);
  training.forward_backward();
  for (const Parameter* parameter : training.model_.parameters_in_backward_order()) {
    const std::vector<float> gradient(parameter->gradient, parameter->gradient + parameter->count);
    const std::vector<float> value(parameter->value, parameter->value + parameter->count);
    double norm = 0.0;
    for (const float g : gradient) norm += static_cast<double>(g) * static_cast<double>(g);
    norm = std::sqrt(norm);
    ASSERT_GT(norm, 1e-3) << parameter->name;
    constexpr double kStep = 2e-3;
    const auto loss_at = [&](double distance) {
      for (std::size_t i = 0; i < parameter->count; ++i) {
        parameter->value[i] =
            static_cast<float>(static_cast<double>(value[i]) + distance * static_cast<double>(gradient[i]) / norm);
      }
      return training.loss_sum();
    };
    const double slope = (loss_at(kStep) - loss_at(-kStep)) / (2.0 * kStep);
    std::copy(value.begin(), value.end(), parameter->value);
    EXPECT_NEAR(slope / norm, 1.0, 0.02) << parameter->name;
  }
}

/** What data parallelism rests on: the gradient of a batch is the sum of the gradients of its halves. */
TEST_P(Networks, GradientOfABatchIsTheSumOverItsParts) {
  Training whole = start(8);
  Training first = start(4);
  Training second = start(4, 4);
  const double loss = whole.forward_backward();
  EXPECT_NEAR(first.forward_backward() + second.forward_backward(), loss, 1e-5 * loss);
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < whole.arena_.size(); ++i) {
    const auto expected = static_cast<double>(whole.arena_.gradients()[i]);
    const double sum =
        static_cast<double>(first.arena_.gradients()[i]) + static_cast<double>(second.arena_.gradients()[i]);
    difference += (sum - expected) * (sum - expected);
    norm += expected * expected;
  }
  EXPECT_GT(norm, 0.1);
  EXPECT_LT(std::sqrt(difference / norm), 1e-5);
}

/** A bucket is posted on the strength of this: what is reported as ready never changes again, and what is not
 * reported is not done. */
TEST_P(Networks, ReadyGradientsAreFinal) {
  Training training = start(4);
  training.forward_backward();
  const std::vector<float> final(training.arena_.gradients().begin(), training.arena_.gradients().end());
  constexpr float kPoison = 12345.0F;
  for (float& gradient : training.arena_.gradients()) gradient = kPoison;

  std::size_t last = 0;
  training.forward_backward([&](std::size_t finished) {
    ASSERT_GT(finished, last);
    last = finished;
    std::size_t offset = 0;
    for (std::size_t i = 0; i < training.arena_.counts().size(); ++i) {
      const std::size_t count = training.arena_.counts()[i];
      for (std::size_t j = offset; j < offset + count; ++j) {
        ASSERT_EQ(training.arena_.gradients()[j], i < finished ? final[j] : kPoison)
            << "parameter " << i << " of " << finished;
      }
      offset += count;
    }
  });
  EXPECT_EQ(last, training.arena_.counts().size());
}

TEST_P(Networks, LossFallsOnItsDrawnSet) {
  constexpr std::size_t kBatch = 16;
  const std::size_t steps = GetParam().steps;
  Training training = start(kBatch);
  training.scale = 1.0F / static_cast<float>(kBatch);
  double first = 0.0;
  double last = 0.0;
  for (std::size_t step = 0; step < steps; ++step) {
    training.load(step * kBatch);  // never the same samples: learned, not memorised
    const double loss = training.forward_backward() / static_cast<double>(kBatch);
    training.arena_.update(0, training.arena_.size(), 0.02F, 0.9F);
    if (step < 10) first += loss / 10.0;
    if (step >= steps - 10) last += loss / 10.0;
  }
  EXPECT_GT(first, 1.5);         // ten classes: about ln 10 = 2.3 before anything is learned
  EXPECT_LT(last, 0.8 * first);  // guessing stays at 2.3 for ever
}

TEST(Sampler, EveryEpochIsAPermutationAndAnotherOne) {
  Sampler sampler(50, 9);
  std::vector<std::vector<std::size_t>> epochs(3);
  for (uint64_t position = 0; position < 150; ++position) epochs[position / 50].push_back(sampler.sample_at(position));
  for (std::vector<std::size_t> epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    for (std::size_t i = 0; i < 50; ++i) ASSERT_EQ(epoch[i], i);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST(Sampler, PositionsDoNotDependOnWhoAsks) {
  Sampler all(20, 9);
  Sampler half(20, 9);  // a rank that takes every other block of 8, across epochs
  for (uint64_t position = 0; position < 200; ++position) {
    const std::size_t sample = all.sample_at(position);
    if (position / 8 % 2 == 1) {
      EXPECT_EQ(half.sample_at(position), sample) << position;
    }
  }
  Sampler other(20, 10);
  std::vector<std::size_t> a;
  std::vector<std::size_t> b;
  for (uint64_t position = 0; position < 20; ++position) {
    a.push_back(half.sample_at(position));
    b.push_back(other.sample_at(position));
  }
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace ddl::train
