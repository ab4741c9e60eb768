#include "workloads/train/model.h"

#include "workloads/train/marks.h"

namespace ddl::train {

namespace {

void add_to(Tensor& sum, const Tensor& term) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum.data()[i] += term.data()[i];
}

}  // namespace

Model::Node Model::append(std::unique_ptr<Layer> layer, std::vector<Node> inputs) {
  const std::size_t batch = nodes_.front().value.batch();
  for (const Node node : inputs) {
    NodeState& input = nodes_[node];
    if (++input.readers == 2) input.further_gradient = std::make_unique<Tensor>(batch, input.value.shape());
  }
  nodes_.emplace_back(batch, layer->output_shape());
  steps_.push_back({std::move(layer), std::move(inputs)});
  return nodes_.size() - 1;
}

const Tensor& Model::forward() {
  std::vector<const Tensor*> inputs;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    inputs.clear();
    for (const Node node : steps_[i].inputs) inputs.push_back(&nodes_[node].value);
    const marks::Layer range(steps_[i].layer->name().c_str());
    steps_[i].layer->forward(inputs, nodes_[i + 1].value);
  }
  return nodes_.back().value;
}

void Model::backward(const OnGradientsReady& ready) {
  for (NodeState& node : nodes_) node.has_gradient = false;
  std::size_t finished = 0;
  for (std::size_t i = steps_.size(); i-- > 0;) {
    backward_through(steps_[i], nodes_[i + 1]);
    const std::size_t own = steps_[i].layer->parameters().size();
    finished += own;
    if (own > 0 && ready) ready(finished);
  }
}

void Model::backward_through(Step& step, NodeState& output) {
  const marks::Layer range(step.layer->name().c_str());
  std::vector<const Tensor*> inputs;
  std::vector<Tensor*> gradients;
  std::vector<NodeState*> sums;
  for (const Node node : step.inputs) {
    NodeState& input = nodes_[node];
    inputs.push_back(&input.value);
    if (node == 0) {
      gradients.push_back(nullptr);  // nobody learns from the gradient of the images
    } else if (input.has_gradient) {
      gradients.push_back(input.further_gradient.get());
      sums.push_back(&input);
    } else {
      gradients.push_back(&input.gradient);
      input.has_gradient = true;
    }
  }
  step.layer->backward(inputs, output.value, output.gradient, gradients);
  for (NodeState* node : sums) add_to(node->gradient, *node->further_gradient);
}

std::vector<Parameter*> Model::parameters_in_backward_order() {
  std::vector<Parameter*> result;
  for (std::size_t i = steps_.size(); i-- > 0;) {
    for (Parameter& parameter : steps_[i].layer->parameters()) result.push_back(&parameter);
  }
  return result;
}

}  // namespace ddl::train
