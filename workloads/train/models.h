#pragma once

#include <string>

#include "workloads/train/model.h"

namespace ddl::train {

inline constexpr std::size_t kClasses = 10;
inline constexpr std::size_t kVocabulary = 2 * kClasses;  ///< of the token set: digits, and digits that are marked
inline constexpr std::size_t kHeads = 4;                  ///< the transformer's width is a multiple of it

/** input - 3 x (fc `width`, ReLU) - fc. */
Model build_mlp(std::size_t batch, const Shape& input, std::size_t width);

/**
 * A small ResNet: strided 3x3 stem with `width` channels, residual blocks with width, 2*width and 4*width channels (the
 * last two halve the image), global average pooling, linear. */
Model build_cnn(std::size_t batch, const Shape& input, std::size_t width);

/**
 * A small encoder of sequences: embedding with `width` features, two blocks of attention (kHeads heads) and a 4 x
 * wider two-layer network, each after a normalisation and beside a shortcut, a last normalisation, the mean over
 * the tokens, linear. */
Model build_transformer(std::size_t batch, const Shape& input, std::size_t width);

/** By its name: mlp, cnn or transformer. */
Model build_model(const std::string& name, std::size_t batch, const Shape& input, std::size_t width);

}  // namespace ddl::train
