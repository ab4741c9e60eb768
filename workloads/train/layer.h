#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "workloads/train/tensor.h"

namespace ddl::train {

/** One learned tensor. Its storage lies in a ParameterArena, which fills the two pointers in. */
struct Parameter {
  std::string name;
  std::size_t count;
  std::size_t fan_in;  ///< inputs of one output: rows of this length share an output; 0: a bias, starts at zero
  float* value = nullptr;
  float* gradient = nullptr;
};

/**
 * One node of a Model. Layers keep no activations: the model owns them and passes them in. `backward` overwrites what
 * it writes, both the gradients of the parameters and those of the inputs; an entry of `input_gradients` may be null
 * when nobody needs it.
 *
 * No layer mixes samples (there are no batch statistics), so that the gradient of a batch is the sum over its samples,
 * whichever ranks they lie on. That makes a job's arithmetic checkable: P ranks with batch B see what one rank with
 * batch P*B sees. */
class Layer {
 public:
  using Inputs = std::span<const Tensor* const>;
  using InputGradients = std::span<Tensor* const>;

  Layer(std::string name, Shape output) : name_(std::move(name)), output_(output) {}
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const std::string& name() const { return name_; }
  const Shape& output_shape() const { return output_; }
  std::span<Parameter> parameters() { return parameters_; }

  virtual void forward(Inputs inputs, Tensor& output) = 0;
  virtual void backward(Inputs inputs, const Tensor& output, const Tensor& output_gradient,
                        InputGradients input_gradients) = 0;

 protected:
  void add_parameter(const char* name, std::size_t count, std::size_t fan_in) {
    parameters_.push_back({name_ + "." + name, count, fan_in});
  }
  const Parameter& parameter(std::size_t i) const { return parameters_[i]; }

 private:
  std::string name_;
  Shape output_;
  std::vector<Parameter> parameters_;
};

}  // namespace ddl::train
