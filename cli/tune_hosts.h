// Nodes for trials that run side by side: each lane has its own, and its jobs stay on them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autotuner/tunables.h"

namespace ddl::cli {

/// Nodes of one lane in launchers' notation: "node3", or "node3:4" with its slots.
using LaneHosts = std::vector<std::string>;

/// `lanes` groups of equally many nodes, from `hosts` ("A,B:4,..."), else from our Slurm allocation; the remainder is
/// unused. Throws ddl::Error (kUsage) if there are fewer nodes than lanes, one is named twice, or none are known.
std::vector<LaneHosts> lanes_of(const std::optional<std::string>& hosts, size_t lanes);

/// "node1,node2:4"
std::string words_of(const LaneHosts& hosts);

/// The job where its launcher puts it or, with `hosts`, on these only: they replace {hosts} in its command, else Open
/// MPI's launcher gets --host, and srun --nodelist and --nodes. Throws ddl::Error (kUsage) if the command chooses nodes
/// itself, its launcher is unknown, or it has {hosts} and there are none.
tune::PlacedJob placed_on(tune::PlacedJob job, const LaneHosts& hosts);

}  // namespace ddl::cli
