// Where sub-models have the layers of a network from: a profile, a shipped table, a recorded run, or a run with the table of its network.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/models/network_table.h"
#include "analyzer/models/partition.h"
#include "cli/model.h"

namespace ddl::cli {

/// --profile, --table, --batch and, if asked for, --tflops.
void add_layer_options(VerbOptions& options, bool times);

/// The table that --table names; nothing without.
std::optional<models::NetworkTable> table_option(const VerbOptions& options);

struct GivenLayers {
  std::vector<models::LayerCost> layers;
  bool times = true;  ///< computing is known in seconds
  bool sizes = true;  ///< activations and parameters are
};

/// Says in `answer` where they are from. With `run` and --table: times of the run, sizes of the table for the run's samples per rank, by the
/// names of layers. Throws ddl::Error: nothing given, too much, or a table whose layers are not the run's.
GivenLayers given_layers(const VerbOptions& options, ModelRun* run, Answer& answer);

}  // namespace ddl::cli
