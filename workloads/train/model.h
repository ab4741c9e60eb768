#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "workloads/train/layer.h"

namespace ddl::train {

/**
 * A network: layers in the order of execution, each reading earlier nodes. Node 0 is the input. A node that several
 * layers read (the start of a residual block) collects the sum of their gradients.
 *
 * Each layer runs within a ddl layer range of its name, once in forward and once in backward.
 */
class Model {
 public:
  using Node = std::size_t;
  /** Called during backward with the number of parameters, in backward order, whose gradients are final by now. */
  using OnGradientsReady = std::function<void(std::size_t finished_parameters)>;

  Model(std::size_t batch, const Shape& input) { nodes_.emplace_back(batch, input); }

  /** The input: fill it in before `forward`. */
  Tensor& input() { return nodes_.front().value; }
  const Shape& shape(Node node) const { return nodes_[node].value.shape(); }

  /** Appends LayerType(name, shape of `from`, arguments...). */
  template <typename LayerType, typename... Arguments>
  Node add(const std::string& name, Node from, Arguments&&... arguments) {
    return append(std::make_unique<LayerType>(name, shape(from), std::forward<Arguments>(arguments)...), {from});
  }
  Node append(std::unique_ptr<Layer> layer, std::vector<Node> inputs);

  // What the network is made of, for who computes it elsewhere.
  std::size_t nodes() const { return nodes_.size(); }
  const Tensor& value(Node node) const { return nodes_[node].value; }
  std::size_t steps() const { return steps_.size(); }
  Layer& layer(std::size_t step) { return *steps_[step].layer; }
  const std::vector<Node>& inputs_of(std::size_t step) const { return steps_[step].inputs; }

  /** The logits. */
  const Tensor& forward();
  /** Where to write the gradient of the logits before `backward`. */
  Tensor& output_gradient() { return nodes_.back().gradient; }
  /** `ready` is called after each layer with parameters, outside of the layer's range. */
  void backward(const OnGradientsReady& ready = {});

  /** The order in which backward finishes them: last layer first, within a layer as declared. */
  std::vector<Parameter*> parameters_in_backward_order();

 private:
  struct NodeState {
    NodeState(std::size_t batch, const Shape& shape) : value(batch, shape), gradient(batch, shape) {}
    Tensor value;
    Tensor gradient;
    std::unique_ptr<Tensor> further_gradient;  ///< where the second and later readers write, if there are any
    std::size_t readers = 0;
    bool has_gradient = false;  ///< one of the readers has written `gradient` in this backward pass
  };
  struct Step {
    std::unique_ptr<Layer> layer;
    std::vector<Node> inputs;  ///< the output is the node with this step's number + 1
  };

  void backward_through(Step& step, NodeState& output);

  std::vector<NodeState> nodes_;
  std::vector<Step> steps_;
};

}  // namespace ddl::train
