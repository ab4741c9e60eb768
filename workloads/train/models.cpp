#include "workloads/train/models.h"

#include "workloads/train/layers.h"
#include "workloads/train/transformer_layers.h"

namespace ddl::train {

namespace {

constexpr Window kSame{.kernel = 3, .stride = 1, .padding = 1};
constexpr Window kHalving{.kernel = 3, .stride = 2, .padding = 1};
constexpr Window kPointwise{.kernel = 1, .stride = 1, .padding = 0};
constexpr Window kProjection{.kernel = 1, .stride = 2, .padding = 0};

/** relu(conv(relu(conv(x))) + x), with a strided 1x1 convolution on the shortcut where the block halves the image. */
Model::Node add_block(Model& model, const std::string& name, Model::Node from, std::size_t channels, bool halve) {
  Model::Node shortcut = from;
  if (halve) shortcut = model.add<Conv2d>(name + ".shortcut", from, channels, kProjection);
  Model::Node node = model.add<Conv2d>(name + ".conv1", from, channels, halve ? kHalving : kSame);
  node = model.add<Relu>(name + ".relu", node);
  node = model.add<Conv2d>(name + ".conv2", node, channels, kSame);
  auto sum = std::make_unique<AddRelu>(name + ".add", model.shape(node));
  return model.append(std::move(sum), {node, shortcut});
}

Model::Node add_sum(Model& model, const std::string& name, Model::Node branch, Model::Node shortcut) {
  return model.append(std::make_unique<Add>(name, model.shape(branch)), {branch, shortcut});
}

/** x + project(attention(normalised x)), then the same with two linear layers and a ReLU between. */
Model::Node add_transformer_block(Model& model, const std::string& name, Model::Node from) {
  const std::size_t width = model.shape(from).channels;
  Model::Node node = model.add<LayerNorm>(name + ".norm1", from);
  node = model.add<Conv2d>(name + ".qkv", node, 3 * width, kPointwise);
  node = model.add<SelfAttention>(name + ".attention", node, kHeads);
  node = model.add<Conv2d>(name + ".project", node, width, kPointwise);
  const Model::Node middle = add_sum(model, name + ".add1", node, from);
  node = model.add<LayerNorm>(name + ".norm2", middle);
  node = model.add<Conv2d>(name + ".fc1", node, 4 * width, kPointwise);
  node = model.add<Relu>(name + ".relu", node);
  node = model.add<Conv2d>(name + ".fc2", node, width, kPointwise);
  return add_sum(model, name + ".add2", node, middle);
}

}  // namespace

Model build_mlp(std::size_t batch, const Shape& input, std::size_t width) {
  Model model(batch, input);
  Model::Node node = 0;
  for (const char* i : {"1", "2", "3"}) {
    node = model.add<Linear>(std::string("fc") + i, node, width);
    node = model.add<Relu>(std::string("relu") + i, node);
  }
  model.add<Linear>("fc4", node, kClasses);
  return model;
}

Model build_cnn(std::size_t batch, const Shape& input, std::size_t width) {
  constexpr std::size_t kBlocks = 3;
  Model model(batch, input);
  Model::Node node = model.add<Conv2d>("stem", 0, width, kHalving);
  node = model.add<Relu>("stem.relu", node);
  for (std::size_t i = 0; i < kBlocks; ++i) {
    node = add_block(model, "block" + std::to_string(i + 1), node, width << i, i > 0);
  }
  node = model.add<GlobalAveragePool>("pool", node);
  model.add<Linear>("fc", node, kClasses);
  return model;
}

Model build_transformer(std::size_t batch, const Shape& input, std::size_t width) {
  Model model(batch, input);
  Model::Node node = model.add<Embedding>("embedding", 0, width, kVocabulary);
  for (const char* name : {"block1", "block2"}) node = add_transformer_block(model, name, node);
  node = model.add<LayerNorm>("norm", node);
  node = model.add<GlobalAveragePool>("pool", node);
  model.add<Linear>("fc", node, kClasses);
  return model;
}

Model build_model(const std::string& name, std::size_t batch, const Shape& input, std::size_t width) {
  if (name == "cnn") return build_cnn(batch, input, width);
  if (name == "transformer") return build_transformer(batch, input, width);
  return build_mlp(batch, input, width);
}

}  // namespace ddl::train
