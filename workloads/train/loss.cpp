#include "workloads/train/loss.h"

#include <algorithm>
#include <cmath>

namespace ddl::train {

BatchLoss softmax_cross_entropy(const Tensor& logits, std::span<const uint8_t> labels, float scale, Tensor& gradient) {
  const std::size_t classes = logits.shape().size();
  BatchLoss result;
  for (std::size_t n = 0; n < logits.batch(); ++n) {
    const std::span<const float> z(logits.sample(n), classes);
    const std::size_t label = labels[n];
    const auto largest = std::max_element(z.begin(), z.end());
    double sum = 0.0;
    // the shift keeps exp from overflowing
    for (const float value : z) sum += std::exp(static_cast<double>(value - *largest));
    for (std::size_t i = 0; i < classes; ++i) {
      const auto probability = static_cast<float>(std::exp(static_cast<double>(z[i] - *largest)) / sum);
      gradient.sample(n)[i] = scale * (probability - (i == label ? 1.0F : 0.0F));
    }
    result.loss_sum += std::log(sum) - static_cast<double>(z[label] - *largest);
    result.correct += static_cast<std::size_t>(largest - z.begin()) == label ? 1 : 0;
  }
  return result;
}

}  // namespace ddl::train
