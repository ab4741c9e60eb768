#include "workloads/network/split.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "workloads/train/error.h"

namespace ddl::network {

namespace {

struct Sizes {
  enum class Kind { kConvolution, kDense, kByElement, kHeads, kOther };
  Kind kind = Kind::kOther;
  uint64_t in = 0, out = 0, kernel_rows = 1, rows = 0, columns = 0;
  uint64_t input = 0;  ///< elements of a sample
};

/** 64x128x3x3: its numbers, up to what is none. */
std::vector<uint64_t> numbers(std::string_view text) {
  std::vector<uint64_t> result;
  for (;;) {
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number == 0 || number > kMostElements) return {};
    result.push_back(number);
    const auto used = static_cast<std::size_t>(end - text.data());
    if (used == text.size() || text[used] != 'x') return result;
    text.remove_prefix(used + 1);
  }
}

Sizes sizes_of(const Layer& layer) {
  const std::size_t arrow = layer.shape.find("->");
  const std::vector<uint64_t> first = numbers(std::string_view(layer.shape).substr(0, arrow));
  if (layer.type == "conv" && first.size() == 4 && arrow != std::string::npos) {
    const std::vector<uint64_t> output = numbers(std::string_view(layer.shape).substr(arrow + 2));
    if (output.size() == 2 && first[1] * output[0] * output[1] == layer.activations) {
      return {Sizes::Kind::kConvolution,       first[0], first[1], first[2], output[0], output[1],
              first[0] * output[0] * output[1]};
    }
  }
  if (layer.type == "fc" && first.size() == 2 && layer.activations > 0 && layer.activations % first[1] == 0) {
    return {Sizes::Kind::kDense, first[0], first[1], 1, 0, 0, layer.activations / first[1] * first[0]};
  }
  Sizes other;
  other.input = layer.activations;
  if (layer.type == "batchnorm" || layer.type == "layernorm") other.kind = Sizes::Kind::kByElement;
  if (layer.type == "attention" && layer.parameters == 0) other.kind = Sizes::Kind::kHeads;
  return other;
}

using Form = LayerSplit::Form;

/** A convolution's or dense layer's form, or kReplicated. */
Form form_of(const Sizes& sizes, const Split& split, Layout before) {
  const bool dense = sizes.kind == Sizes::Kind::kDense;
  const bool channels = sizes.in >= split.ranks && sizes.out >= split.ranks;
  switch (split.form) {
    case Split::Form::kNone:
      break;
    case Split::Form::kSpatial:
      if (!dense && sizes.rows >= split.ranks) return Form::kSpatial;
      break;
    case Split::Form::kChannel:
      if (channels) return Form::kChannel;
      break;
    case Split::Form::kFilter:
      if (channels) return Form::kFilter;
      break;
    case Split::Form::kTensor:
      if (dense && before == Layout::kChannels && sizes.in >= split.ranks) return Form::kRow;
      if (dense && before != Layout::kChannels && sizes.out >= split.ranks) return Form::kColumn;
      break;
  }
  return Form::kReplicated;
}

std::pair<Layout, Layout> layouts_of(Form form) {
  switch (form) {
    case Form::kSpatial:
      return {Layout::kRows, Layout::kRows};
    case Form::kChannel:
    case Form::kFilter:
    case Form::kLocal:
      return {Layout::kChannels, Layout::kChannels};
    case Form::kColumn:
      return {Layout::kWhole, Layout::kChannels};
    case Form::kRow:
      return {Layout::kChannels, Layout::kWhole};
    case Form::kReplicated:
      break;
  }
  return {Layout::kWhole, Layout::kWhole};
}

}  // namespace

std::string_view name_of(LayerSplit::Form form) {
  constexpr std::string_view kNames[] = {"spatial", "channel", "filter", "column", "row", "local", "replicated"};
  return kNames[static_cast<std::size_t>(form)];
}

Split parse_split(const std::string& text) {
  constexpr std::pair<std::string_view, Split::Form> kForms[] = {{"spatial:", Split::Form::kSpatial},
                                                                 {"channel:", Split::Form::kChannel},
                                                                 {"filter:", Split::Form::kFilter},
                                                                 {"tensor:", Split::Form::kTensor}};
  for (const auto& [word, form] : kForms) {
    if (!text.starts_with(word)) continue;
    std::size_t ranks = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + word.size(), end, ranks);
    if (error == std::errc() && rest == end && ranks >= 2 && ranks <= 65536) return {form, ranks};
  }
  throw train::UsageError("--split '" + text +
                          "': expected spatial:G, channel:G, filter:G or tensor:G, over G ranks, 2 at least");
}

std::vector<LayerSplit> plan_split(const LayerTable& table, const Split& split) {
  std::vector<LayerSplit> plan;
  for (const Layer& layer : table.layers) {
    const Sizes sizes = sizes_of(layer);
    const Layout before = plan.empty() ? Layout::kWhole : plan.back().out;
    LayerSplit one;
    if (sizes.kind == Sizes::Kind::kConvolution || sizes.kind == Sizes::Kind::kDense)
      one.form = form_of(sizes, split, before);
    const bool by_element = sizes.kind == Sizes::Kind::kByElement;
    if (by_element && before == Layout::kRows) one.form = Form::kSpatial;
    if ((by_element || sizes.kind == Sizes::Kind::kHeads) && before == Layout::kChannels) one.form = Form::kLocal;
    std::tie(one.in, one.out) = layouts_of(one.form);
    one.input = sizes.input;
    one.output = layer.activations;
    if (one.form == Form::kSpatial && !by_element) one.halo = sizes.kernel_rows / 2 * sizes.columns * sizes.in;
    plan.push_back(one);
  }
  return plan;
}

}  // namespace ddl::network
