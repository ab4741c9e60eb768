#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "workloads/train/tensor.h"

namespace ddl::train {

/** Labelled images, or sequences. `load` depends on the index alone, so every rank sees the same sample under
 * the same number. */
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const char* name() const = 0;
  virtual std::size_t size() const = 0;
  virtual Shape shape() const = 0;
  /** Writes shape().size() floats, about zero mean and unit variance (or tokens), and returns the label,
   * 0..kClasses-1. */
  virtual uint8_t load(std::size_t index, float* pixels) const = 0;
};

/** Ten kinds of shapes, drawn on demand; needs no files. */
std::unique_ptr<Dataset> make_drawn_set(uint64_t seed);
/** Sequences of tokens below kVocabulary (models.h), for the transformer. */
std::unique_ptr<Dataset> make_token_set(uint64_t seed);
/** MNIST (IDX files) or CIFAR-10 (binary version), whichever lies in the folder. Throws DataError. */
std::unique_ptr<Dataset> open_dataset(const std::string& folder);

// The two readers, for open_dataset and the tests.
inline constexpr const char* kIdxImages = "train-images-idx3-ubyte";
inline constexpr const char* kIdxLabels = "train-labels-idx1-ubyte";
std::unique_ptr<Dataset> read_idx(const std::string& images_path, const std::string& labels_path);
std::unique_ptr<Dataset> read_cifar(const std::vector<std::string>& paths);

}  // namespace ddl::train
