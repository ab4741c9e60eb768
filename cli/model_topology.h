// Where ranks sit and which links join them, for questions about tiers of links.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/models/ring_plan.h"
#include "analyzer/models/run_traffic.h"
#include "analyzer/models/topology.h"
#include "cli/model.h"

namespace ddl::cli {

/// --links, --host, --per-host, --tier; `in_full`: one row of --help for each.
void add_topology_options(VerbOptions& options, bool in_full);

struct Seats {
  models::Topology topology;
  std::vector<size_t> place_of_rank;  ///< empty without a run
  bool by_host = false;               ///< the topology has the run's hosts; else rank i sits at place i
  std::vector<models::TierFit> fits;  ///< by tier; empty without a run
};

/// The topology of --links and --host, else of the run's hosts; nothing without either. Speeds of tiers come from
/// --tier, else the file, else a fit to the run, else an assumption.
std::optional<Seats> seats_of(const VerbOptions& options, ModelRun* run);

/// A row for each tier: the places it joins, its speed, the share of the run it was fitted to, the origin.
void add_tier_table(Answer& answer, const Seats& seats);

/// The tiers as a cluster of equal groups, with each rank's share while all send, and by tier the link of a sole
/// user (a flat ring has one message at a time on it). Traffic that crosses a tier crosses those inside as well,
/// and is no faster than they are. Throws ddl::Error (kDataMissing) if groups differ in size, or a tier's latency
/// or bandwidth is unknown.
struct TieredCluster {
  models::Cluster tiers;
  std::vector<models::Link> alone;  ///< one for each tier
};
TieredCluster cluster_of(const models::Topology& topology, double gamma_s_per_byte);
/// --tiers COUNT:GB/S:US,...: bandwidths are those of each rank.
TieredCluster typed_cluster(const std::string& text, double gamma_s_per_byte);

}  // namespace ddl::cli
