// The links between the places of ranks: between GPUs, PCIe switches, sockets, hosts and the switches of the
// network, in any number of tiers. Places take a rank each, switches none. Files say how things are joined, few how
// fast: a tier's bandwidth comes from the file, from the user, from a fit to a recorded run, or is assumed, and
// `from` says which.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/models/allreduce_cost.h"
#include "analyzer/models/mapping.h"

namespace ddl::models {

struct Tier {
  std::string name;
  std::optional<double> bytes_per_second;  ///< of one lane, in one direction; unset: not known
  std::optional<double> alpha_s;           ///< of a message whose slowest link this is
  std::string from;                        ///< where these are from, for people
};

struct TopologyLink {
  size_t a = 0, b = 0;
  size_t tier = 0;
  double lanes = 1;
  std::optional<double> bytes_per_second = {};  ///< that of this link alone, whatever its tier carries
};

struct Topology {
  std::vector<std::string> names;  ///< places, then switches
  size_t places = 0;
  std::vector<Tier> tiers;  ///< innermost first
  std::vector<TopologyLink> links;
  std::optional<size_t> root;  ///< the switch that everything else hangs on, where there is one

  /// Throws ddl::Error (kDataMissing) where a tier's rate is not known.
  double rate_of(const TopologyLink& link) const;
  /// For mapping.h. Throws as rate_of().
  std::vector<PlaceLink> place_links() const;
  /// By place: which group it is in if links of tiers 0 to `tier` join. Groups are numbered in the order of
  /// their first place.
  std::vector<size_t> groups(size_t tier) const;
  /// By tier, which group each place is in: groups() of all tiers.
  std::vector<std::vector<size_t>> all_groups() const;
  /// Sets what one lane of the tier of this name carries, of all its links. Throws ddl::Error (kUsage) if there is
  /// none of this name.
  void set_tier(std::string_view name, std::optional<double> bytes_per_second, std::optional<double> alpha_s,
                const std::string& from);
};

/// The outermost tier that these places need among one another: groups of all_groups(); 0 for one place.
size_t widest_tier(const std::vector<std::vector<size_t>>& groups, const std::vector<size_t>& places);

/// How many groups of one tier make one of the next, where all groups of a tier are alike: 4, 16, 3 are racks of 16
/// hosts of 4. Tiers that join nothing new are left out. Empty: groups differ in size.
struct TierShape {
  size_t tier = 0;
  int64_t count = 1;
};
std::vector<TierShape> shape_of(const Topology& topology);

/// A rank's bandwidth on a tier's narrowest link, in bytes per second: all of it where it is alone, an equal part where
/// all places behind that link send over it at once. Unset: the topology has no link of this tier. Throws as rate_of().
struct TierRate {
  double alone = 0, shared = 0;
};
std::optional<TierRate> rate_of_tier(const Topology& topology, size_t tier);

/// Every place of `hosts` becomes a copy of `inside`: its places are "host/name". Where `inside` has no root each of
/// its places gets a way out of its own, of the outermost tier inside.
Topology nested(const Topology& hosts, const Topology& inside);
/// `places` slots behind one switch, by a tier of this name.
Topology star(const std::vector<std::string>& places, const std::string& root, const std::string& tier);

/// By contents: CSV (columns from, to, gb_per_s, if wanted tier, alpha_us), XML of hwloc (lstopo --of xml), the output
/// of nvidia-smi topo -m, Slurm's topology.conf. Throws ddl::Error (kDataMissing) for what is none of them, or names
/// nothing to sit at.
Topology read_topology(const std::filesystem::path& path);
Topology parse_topology(const std::string& text, const std::string& name);

/// "tux[0-3,7],login" is tux0, tux1, tux2, tux3, tux7, login: Slurm's lists of hosts, leading zeros kept. Throws
/// ddl::Error (kDataMissing).
std::vector<std::string> expand_hosts(std::string_view list);
/// At most so many hosts of a list; more are an error.
constexpr size_t kMostHosts = 65536;

}  // namespace ddl::models
