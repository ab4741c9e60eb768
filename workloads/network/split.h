#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/network/layer_table.h"

namespace ddl::network {

/** --split FORM:G: the layers of a replica are spread over G ranks in a row. */
struct Split {
  enum class Form { kNone, kSpatial, kChannel, kFilter, kTensor };
  Form form = Form::kNone;
  std::size_t ranks = 1;
};

/** spatial:2, channel:4, ... Throws train::UsageError. */
Split parse_split(const std::string& text);

/** How the ranks of a replica hold the values between layers. */
enum class Layout { kRows, kChannels, kWhole };

/** What a layer does among the ranks of a replica; elements are of one sample. */
struct LayerSplit {
  enum class Form { kSpatial, kChannel, kFilter, kColumn, kRow, kLocal, kReplicated };
  Form form = Form::kReplicated;
  Layout in = Layout::kWhole, out = Layout::kWhole;
  uint64_t input = 0;   ///< elements of its input
  uint64_t output = 0;  ///< of its output
  uint64_t halo = 0;    ///< elements to each neighbour, forward; as many back
  bool splits_parameters() const { return form != Form::kSpatial && form != Form::kReplicated; }
};
std::string_view name_of(LayerSplit::Form form);

/**
 * The form of each layer. Convolutions and dense layers take that of the split where they have enough rows or channels;
 * tensor: dense layers by columns and by rows of their weights in turn (Megatron-LM). Normalisation and attention stay
 * in the layout that they find. All else is replicated. For convolutions only the size of the output is known: their
 * input is taken to have as many rows and columns. */
std::vector<LayerSplit> plan_split(const LayerTable& table, const Split& split);

}  // namespace ddl::network
