// Stages of a pipeline (PipeDream, Narayanan et al., SOSP 2019): consecutive layers are cut into stages such that the
// slowest is as fast as it can be. With replicas a stage of r workers takes 1/r of its time and pays for the allreduce
// of its weights; transfers between stages overlap with computing, the slower of both counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddl::models {

struct LayerCost {
  std::string name;
  double forward_s = 0, backward_s = 0;
  double activation_bytes = 0;  ///< its output, per mini-batch
  double parameter_bytes = 0;
};

struct Stage {
  size_t first = 0, last = 0;  ///< layers, both included
  int64_t replicas = 1;
  double compute_s = 0;  ///< of one mini-batch, on one worker
  double paced_s = 0;    ///< per mini-batch, with replicas and weights' allreduce
};

struct Partition {
  std::vector<Stage> stages;
  double bottleneck_s = 0;  ///< time per mini-batch in the steady state: the slowest stage or transfer
};

/// Exactly `stages` stages on one worker each, transfers free.
Partition partition_layers(const std::vector<LayerCost>& layers, int64_t stages);

/// Any number of stages and replicas on exactly `workers` workers, over links of this many bytes per second.
/// PipeDream's optimiser for one level of links: a stage of r replicas takes max(compute, 2 (r-1) weights / bandwidth)
/// / r, a cut 2 activations / bandwidth.
Partition partition_with_replicas(const std::vector<LayerCost>& layers, int64_t workers, double bytes_per_second);

/// Memory of training by layer. Parameters: weights, their gradients, and the optimiser's state (SGD 0, momentum 1,
/// Adam 2 values per weight); activations: outputs kept for backward, and their gradients. An upper bound:
/// frameworks free and share.
struct Memory {
  double parameter_bytes = 0;  ///< weights and gradients
  double optimizer_bytes = 0;
  double activation_bytes = 0;  ///< outputs and their gradients
  double total() const { return parameter_bytes + optimizer_bytes + activation_bytes; }
};

/// `batch_factor`: wanted batch over the one that `layer` was measured with.
Memory layer_memory(const LayerCost& layer, double optimizer_values_per_weight = 0, double batch_factor = 1);

}  // namespace ddl::models
