#include "analyzer/models/layer_memory.h"

namespace ddl::models {

Memory layer_memory(const LayerCost& layer, double optimizer_values_per_weight, double batch_factor) {
  return {2 * layer.parameter_bytes, optimizer_values_per_weight * layer.parameter_bytes, 2 * layer.activation_bytes * batch_factor};
}

}  // namespace ddl::models
