// Nodes for the trials of a tuning that run side by side: each lane has its own, and its jobs run nowhere else.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autotuner/tunables.h"

namespace ddl::cli {

/// Nodes of one lane as launchers take them: "node3", or "node3:4" with its slots.
using LaneHosts = std::vector<std::string>;

/// `lanes` groups of equally many nodes: of `hosts` ("A,B:4,..."), else of the Slurm allocation that we run in; what is left over is not
/// used. Throws ddl::Error (kUsage) if there are fewer nodes than lanes, if one is named twice, or if nobody says which there are.
std::vector<LaneHosts> lanes_of(const std::optional<std::string>& hosts, size_t lanes);

/// "node1,node2:4"
std::string words_of(const LaneHosts& hosts);

/// The job where its launcher puts it, or, if there are `hosts`, on these only: they take the place of {hosts} in its command; without that
/// Open MPI's launcher gets --host, and srun --nodelist and --nodes. Throws ddl::Error (kUsage) if its command says otherwise where it runs,
/// is started by another launcher, or has {hosts} and there are none.
tune::PlacedJob placed_on(tune::PlacedJob job, const LaneHosts& hosts);

}  // namespace ddl::cli
