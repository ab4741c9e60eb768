// The layers of a network for sub-models: from a profile, a shipped table, a recorded run, or a run with
// its network's table.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/models/network_table.h"
#include "analyzer/models/partition.h"
#include "cli/model.h"

namespace ddl::cli {

/// --profile, --table, --batch and, if `tflops`, --tflops.
void add_layer_options(VerbOptions& options, bool times);

/// The table named by --table; nothing without.
std::optional<models::NetworkTable> table_option(const VerbOptions& options);

struct GivenLayers {
  std::vector<models::LayerCost> layers;
  bool times = true;  ///< computing times are known
  bool sizes = true;  ///< sizes of activations and parameters are known
};

/// Adds their origin to `answer`. `run` with --table: the run's times, the table's sizes for the run's samples per
/// rank, joined by layer name. Throws ddl::Error: nothing given, too much, or a table of other layers than the run's.
GivenLayers given_layers(const VerbOptions& options, ModelRun* run, Answer& answer);

}  // namespace ddl::cli
