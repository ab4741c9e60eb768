// Where ranks sit and what joins their places: for the questions that ask by tiers of links.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/models/ring_plan.h"
#include "analyzer/models/run_traffic.h"
#include "analyzer/models/topology.h"
#include "cli/model.h"

namespace ddl::cli {

/// --links, --host, --per-host, --tier; `in_full`: --help has a row for each of them.
void add_topology_options(VerbOptions& options, bool in_full);

struct Seats {
  models::Topology topology;
  std::vector<size_t> place_of_rank;  ///< empty without a run
  bool by_host = false;               ///< the run's hosts are those of the topology; else rank i sits at place i
  std::vector<models::TierFit> fits;  ///< by tier; empty without a run
};

/// The topology of --links and --host, else that of the run's hosts; nothing if there is neither. What tiers carry is that of --tier, else
/// of the file, else fitted to the run, else assumed.
std::optional<Seats> seats_of(const VerbOptions& options, ModelRun* run);

/// A row for each tier: how many places it joins, what it carries, how much of the run it was fitted to, and where that is from.
void add_tier_table(Answer& answer, const Seats& seats);

/// The tiers as a cluster of equal groups, with what each rank gets while all send, and by tier the link of whoever uses it alone (a flat
/// ring has one message at a time on it). What crosses a tier crosses those inside as well, and is no faster than they are. Throws ddl::Error (kDataMissing) where groups differ in size, or latency or bandwidth of a tier is
/// not known.
struct TieredCluster {
  models::Cluster tiers;
  std::vector<models::Link> alone;  ///< as many as tiers
};
TieredCluster cluster_of(const models::Topology& topology, double gamma_s_per_byte);
/// --tiers COUNT:GB/S:US,...: bandwidths are those of each rank.
TieredCluster typed_cluster(const std::string& text, double gamma_s_per_byte);

}  // namespace ddl::cli
