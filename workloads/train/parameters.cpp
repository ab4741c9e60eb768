#include "workloads/train/parameters.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "workloads/train/model.h"
#include "workloads/train/random.h"

namespace ddl::train {

namespace {

/**
 * He initialisation, shifted so that the weights of each output add up to zero. ReLU gives every activation a positive
 * mean that all classes share; without batch normalisation plain He weights would pass it on from layer to layer until
 * it drowns what differs. */
void draw_row(std::span<float> row, Random& random) {
  const float bound = std::sqrt(6.0F / static_cast<float>(row.size()));
  for (float& weight : row) weight = random.uniform(-bound, bound);
  if (row.size() == 1) return;
  const float mean = std::accumulate(row.begin(), row.end(), 0.0F) / static_cast<float>(row.size());
  for (float& weight : row) weight -= mean;
}

}  // namespace

ParameterArena::ParameterArena(Model& model) : parameters_(model.parameters_in_backward_order()) {
  for (const Parameter* parameter : parameters_) counts_.push_back(parameter->count);
  const std::size_t total = std::accumulate(counts_.begin(), counts_.end(), std::size_t{0});
  values_.resize(total);
  gradients_.resize(total + kExtra);
  velocity_.resize(total);
  std::size_t offset = 0;
  for (Parameter* parameter : parameters_) {
    parameter->value = values_.data() + offset;
    parameter->gradient = gradients_.data() + offset;
    offset += parameter->count;
  }
}

void ParameterArena::initialise(uint64_t seed) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Random random(seed, Draw::kWeights, i);
    const Parameter& parameter = *parameters_[i];
    std::fill_n(parameter.value, parameter.count, 0.0F);
    for (std::size_t row = 0; parameter.fan_in > 0 && row < parameter.count; row += parameter.fan_in) {
      draw_row({parameter.value + row, parameter.fan_in}, random);
    }
  }
  velocity_.assign(velocity_.size(), 0.0F);
}

void ParameterArena::update(std::size_t offset, std::size_t count, float rate, float momentum) {
  float* value = values_.data() + offset;
  float* velocity = velocity_.data() + offset;
  const float* gradient = gradients_.data() + offset;
  for (std::size_t i = 0; i < count; ++i) {
    velocity[i] = momentum * velocity[i] + gradient[i];
    value[i] -= rate * velocity[i];
  }
}

}  // namespace ddl::train
