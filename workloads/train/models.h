#pragma once

#include <string>

#include "workloads/train/model.h"

namespace ddl::train {

inline constexpr std::size_t kClasses = 10;

/** input - 3 x (fc `width`, ReLU) - fc. */
Model build_mlp(std::size_t batch, const Shape& input, std::size_t width);

/**
 * A small ResNet: strided 3x3 stem with `width` channels, residual blocks with width, 2*width and 4*width channels (the last two halve
 * the image), global average pooling, linear.
 */
Model build_cnn(std::size_t batch, const Shape& input, std::size_t width);

}  // namespace ddl::train
