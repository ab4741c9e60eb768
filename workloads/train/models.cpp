#include "workloads/train/models.h"

#include "workloads/train/layers.h"

namespace ddl::train {

namespace {

constexpr Window kSame{.kernel = 3, .stride = 1, .padding = 1};
constexpr Window kHalving{.kernel = 3, .stride = 2, .padding = 1};
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

}  // namespace ddl::train
