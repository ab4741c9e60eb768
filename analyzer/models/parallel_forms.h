// Ways to spread the layers of a network over ranks, the bytes that each moves and needs, and the fastest mix of them.
//
// Ranks form groups of g; the groups share the samples of a step (data parallelism). Within a group each layer takes
// one form, and its activations lie in one of four layouts. x and y are a layer's input and output over the samples of
// a group, w its parameters, in bytes:
//
//   form       layouts               forward                backward               gradients of w over
//   sample     samples -> samples    -                      -                      all ranks
//   spatial    rows -> rows          halos                  halos                  all ranks
//   channel    channels -> channels  reduce-scatter of y    allgather of dy        the groups: each rank holds w / g
//   filter     channels -> channels  allgather of x         reduce-scatter of dx   likewise
//   column     whole -> channels     -                      allreduce of dx        likewise
//   row        channels -> whole     allreduce of y         -                      likewise
//   local      channels -> channels  -                      -                      likewise: normalisation, attention by heads
//   replicated whole -> whole        -                      -                      the groups: each rank computes everything
//
// Spatial: domain decomposition by rows; a halo is pad W C 4 bytes a sample, to each neighbour, forward, and the
// gradients of as much back (Dryden et al., IPDPS 2019; the tables know the size of outputs only: W is that of the
// output). Channel and filter: Dryden et al., SC 2019. Column and row: tensor parallelism as in Megatron-LM (Shoeybi et
// al., 2019). Between layers of different layouts activations move: whole to parts for nothing (the gradients are
// gathered), parts to whole by an allgather, parts to other parts by an all-to-all there and back. Collectives go by
// rings: allgather and reduce-scatter of n bytes send (g-1)/g n by each rank, allreduce twice that.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analyzer/models/network_table.h"

namespace ddl::models {

enum class LayerKind { kConvolution, kDense, kByElement, kOther };

struct LayerShape {
  LayerKind kind = LayerKind::kOther;
  double in = 0, out = 0;                         ///< channels, or features; convolutions and dense layers
  double kernel_rows = 1, rows = 0, columns = 0;  ///< of convolutions: of the kernel, of the output
  double input_elements = 0;                      ///< of a sample
  bool by_heads = false;                          ///< attention without parameters: parts of the channels compute alone
};

/// From type, shape and output of a row; the rest is kOther, which is never split but by samples.
LayerShape layer_shape(const NetworkLayer& layer);

enum class Form { kSample, kSpatial, kChannel, kFilter, kColumn, kRow, kLocal, kReplicated };
enum class Layout { kSamples, kRows, kChannels, kWhole };
std::string_view name_of(Form form);

struct ParallelLayer {
  NetworkLayer layer;
  LayerShape shape;
  double seconds_per_sample = 0;  ///< forward and backward
};

struct ParallelMachine {
  int64_t ranks = 1, group = 1;  ///< group divides ranks
  double batch = 1;              ///< samples of a step, all ranks
  double alpha_s = 0, beta_s_per_byte = 0;
  double optimizer_values = 0;  ///< per weight
};

/// Cost of a form for one rank and step. `payload`: bytes handed to MPI, as recordings count them: all of y for a
/// reduce-scatter, and so on.
struct FormCost {
  Form form = Form::kSample;
  Layout in = Layout::kSamples, out = Layout::kSamples;
  double compute_s = 0, transfer_s = 0;
  /// payload; of halos, of a rank with two neighbours if there are three ranks or more
  double forward_bytes = 0, backward_bytes = 0;
  double gradient_bytes = 0;  ///< payload of the reduction of gradients
  double moved_bytes = 0;     ///< payload of what its input's change of layout takes
  double sent_bytes = 0;      ///< by a rank, all of it together
  double memory_bytes = 0;    ///< weights, gradients, optimiser; its output and that one's gradient
};

/// The forms that a layer can take on this machine, without what its input's layout costs.
std::vector<FormCost> forms_of(const ParallelLayer& layer, const ParallelMachine& machine);

struct ParallelPlan {
  std::vector<FormCost> layers;
  double compute_s = 0, transfer_s = 0, sent_bytes = 0, memory_bytes = 0;
  bool exact = true;  ///< no other choice of forms is faster; false: plans were thinned out on the way
  double step_s() const { return compute_s + transfer_s; }
};

/// The fastest choice of forms whose memory is at most `memory_bytes`; nothing if there is none. A dynamic program over
/// the layers that keeps, for each layout, the plans that no other beats in both time and memory; beyond 4096 of them
/// it thins them out.
std::optional<ParallelPlan> best_plan(const std::vector<ParallelLayer>& layers, const ParallelMachine& machine,
                                      std::optional<double> memory_bytes);

/// One form wherever it is possible: sample, spatial, channel, filter, or tensor (column and row in turn). Layers that
/// cannot take it stay in the layout that they find, or are replicated, as `network --split` does it.
ParallelPlan plan_of_one_form(const std::vector<ParallelLayer>& layers, const ParallelMachine& machine,
                              std::string_view name);

/// Stages of about the same computing on one rank each, `micro_batches` of a group's samples; each boundary sends the
/// activations, and their gradients back; GPipe's bubble (K-1)/(M+K-1). Step, memory of the stage that needs most,
/// bytes of the rank that sends most. Throws ddl::Error (usage): more stages than layers.
ParallelPlan pipeline_plan(const std::vector<ParallelLayer>& layers, const ParallelMachine& machine,
                           int64_t micro_batches);

/// Bytes that a rank of a rows x columns grid receives for C = A B by SUMMA (van de Geijn & Watts 1997) with C
/// stationary: the other ranks' parts of A (m x k) in its row and of B (k x n) in its column; 4-byte values.
double summa_bytes(double m, double n, double k, int64_t rows, int64_t columns);

}  // namespace ddl::models
