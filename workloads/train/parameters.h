#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "workloads/train/layer.h"

namespace ddl::train {

class Model;

/**
 * Storage of a model's parameters, gradients and momentum: one array each, in the order in which backward finishes the
 * gradients (last layer first). A bucket of gradients is then a slice of one array: it is reduced in place, never
 * packed or unpacked, and its update is one loop.
 *
 * Behind the gradients lie kExtra more floats that are reduced with the last bucket: what the step reports (loss,
 * correct samples) needs no collective of its own. */
class ParameterArena {
 public:
  static constexpr std::size_t kExtra = 2;

  /** Places the model's parameters here; the model must not outlive the arena. */
  explicit ParameterArena(Model& model);
  ParameterArena(const ParameterArena&) = delete;
  ParameterArena& operator=(const ParameterArena&) = delete;

  /** Same seed, same weights, on every machine. */
  void initialise(uint64_t seed);
  /** velocity = momentum * velocity + gradient; value -= rate * velocity, over the floats [offset, offset + count). */
  void update(std::size_t offset, std::size_t count, float rate, float momentum);

  /** Floats of each parameter, in the order of the arena. */
  const std::vector<std::size_t>& counts() const { return counts_; }
  std::size_t size() const { return values_.size(); }
  std::span<float> values() { return values_; }
  std::span<float> gradients() { return gradients_; }  ///< with the extra ones at the end
  std::span<float> extra() { return gradients().last(kExtra); }

 private:
  std::vector<Parameter*> parameters_;
  std::vector<std::size_t> counts_;
  Buffer values_;
  Buffer gradients_;
  Buffer velocity_;
};

}  // namespace ddl::train
