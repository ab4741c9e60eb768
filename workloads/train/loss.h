#pragma once

#include <cstdint>
#include <span>

#include "workloads/train/tensor.h"

namespace ddl::train {

struct BatchLoss {
  double loss_sum = 0.0;    ///< over the samples of this rank's batch
  std::size_t correct = 0;  ///< samples whose largest logit is the label's
};

/**
 * Softmax cross entropy over logits. Writes the gradient of `scale` * loss_sum. With scale = 1 / (global batch) the
 * gradients of all ranks add up to that of the global mean, and the reduction needs no division afterwards. */
BatchLoss softmax_cross_entropy(const Tensor& logits, std::span<const uint8_t> labels, float scale, Tensor& gradient);

}  // namespace ddl::train
