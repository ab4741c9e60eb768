// Memory of training by layer. Parameters: weights, their gradients, and the optimiser's state (SGD 0, momentum 1, Adam 2 values per
// weight); activations: outputs kept for backward, and their gradients. An upper bound: frameworks free and share.
#pragma once

#include "analyzer/models/partition.h"

namespace ddl::models {

struct Memory {
  double parameter_bytes = 0;  ///< weights and gradients
  double optimizer_bytes = 0;
  double activation_bytes = 0;  ///< outputs and their gradients
  double total() const { return parameter_bytes + optimizer_bytes + activation_bytes; }
};

/// `batch_factor`: wanted batch over the one that `layer` was measured with.
Memory layer_memory(const LayerCost& layer, double optimizer_values_per_weight = 0, double batch_factor = 1);

}  // namespace ddl::models
