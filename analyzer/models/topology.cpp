#include "analyzer/models/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/error.h"

namespace ddl::models {

double Topology::rate_of(const TopologyLink& link) const {
  if (link.bytes_per_second) return *link.bytes_per_second;
  const Tier& tier = tiers[link.tier];
  if (!tier.bytes_per_second)
    throw Error(
        fmt::format("the bandwidth of a link of tier '{}' is not known", tier.name),
        fmt::format("--tier '{}=12.5' (GB/s in each direction), or a recorded run whose transfers show it", tier.name),
        ExitCode::kDataMissing);
  return *tier.bytes_per_second * link.lanes;
}

std::vector<PlaceLink> Topology::place_links() const {
  std::vector<PlaceLink> result;
  for (const TopologyLink& link : links) result.push_back({link.a, link.b, rate_of(link)});
  return result;
}

std::vector<size_t> Topology::groups(size_t tier) const {
  std::vector<size_t> above(names.size());
  std::iota(above.begin(), above.end(), size_t{0});
  const auto find = [&](size_t node) {
    while (above[node] != node) node = above[node] = above[above[node]];
    return node;
  };
  for (const TopologyLink& link : links)
    if (link.tier <= tier) above[find(link.a)] = find(link.b);
  std::map<size_t, size_t> numbers;
  std::vector<size_t> result(places);
  for (size_t place = 0; place < places; ++place)
    result[place] = numbers.try_emplace(find(place), numbers.size()).first->second;
  return result;
}

std::vector<std::vector<size_t>> Topology::all_groups() const {
  std::vector<std::vector<size_t>> all;
  for (size_t tier = 0; tier < tiers.size(); ++tier) all.push_back(groups(tier));
  return all;
}

void Topology::set_tier(std::string_view name, std::optional<double> bytes_per_second, std::optional<double> alpha_s,
                        const std::string& from) {
  const auto tier = std::find_if(tiers.begin(), tiers.end(), [&](const Tier& one) { return one.name == name; });
  if (tier == tiers.end()) {
    std::string known;
    for (const Tier& one : tiers) known += (known.empty() ? "" : ", ") + one.name;
    throw Error(fmt::format("unknown tier '{}'", name), "there are: " + known, ExitCode::kUsage);
  }
  if (bytes_per_second) {
    tier->bytes_per_second = bytes_per_second;
    for (TopologyLink& link : links)
      if (link.tier == static_cast<size_t>(tier - tiers.begin())) link.bytes_per_second.reset();
  }
  if (alpha_s) tier->alpha_s = alpha_s;
  tier->from = from;
}

size_t widest_tier(const std::vector<std::vector<size_t>>& groups, const std::vector<size_t>& places) {
  for (size_t tier = 0; tier < groups.size(); ++tier)
    if (std::all_of(places.begin(), places.end(),
                    [&](size_t place) { return groups[tier][place] == groups[tier][places[0]]; }))
      return tier;
  return groups.empty() ? 0 : groups.size() - 1;
}

std::vector<TierShape> shape_of(const Topology& topology) {
  std::vector<TierShape> shape;
  int64_t inside = 1;  // places in a group of the tier before
  for (size_t tier = 0; tier < topology.tiers.size(); ++tier) {
    std::vector<int64_t> sizes;
    for (const size_t group : topology.groups(tier)) {
      if (group >= sizes.size()) sizes.resize(group + 1, 0);
      ++sizes[group];
    }
    if (std::any_of(sizes.begin(), sizes.end(), [&](int64_t size) { return size != sizes[0]; })) return {};
    if (sizes[0] > inside) shape.push_back({tier, sizes[0] / inside});
    inside = sizes[0];
  }
  return shape;
}

std::optional<TierRate> rate_of_tier(const Topology& topology, size_t tier) {
  // Places behind either end, by what the tiers inside join.
  std::vector<size_t> above(topology.names.size()), places(topology.names.size(), 0);
  std::iota(above.begin(), above.end(), size_t{0});
  const auto find = [&](size_t node) {
    while (above[node] != node) node = above[node] = above[above[node]];
    return node;
  };
  for (const TopologyLink& link : topology.links)
    if (link.tier < tier) above[find(link.a)] = find(link.b);
  for (size_t place = 0; place < topology.places; ++place) ++places[find(place)];
  std::optional<TierRate> least;
  for (const TopologyLink& link : topology.links) {
    if (link.tier != tier) continue;
    const size_t a = places[find(link.a)], b = places[find(link.b)];
    const size_t behind = std::max<size_t>(1, a == 0 || b == 0 ? std::max(a, b) : std::min(a, b));
    const double rate = topology.rate_of(link);
    if (!least) least = {rate, rate / static_cast<double>(behind)};
    least->alone = std::min(least->alone, rate);
    least->shared = std::min(least->shared, rate / static_cast<double>(behind));
  }
  return least;
}

Topology star(const std::vector<std::string>& places, const std::string& root, const std::string& tier) {
  Topology topology;
  topology.names = places;
  topology.places = places.size();
  topology.names.push_back(root);
  topology.root = places.size();
  topology.tiers.push_back({tier, {}, {}, ""});
  for (size_t place = 0; place < places.size(); ++place) topology.links.push_back({place, places.size(), 0});
  return topology;
}

Topology nested(const Topology& hosts, const Topology& inside) {
  Topology result;
  const size_t all_places = hosts.places * inside.places, inner_switches = inside.names.size() - inside.places;
  // Nodes: places of all hosts, switches of all hosts, the way out of each host, switches between hosts.
  const size_t first_switch = all_places, first_exit = first_switch + hosts.places * inner_switches,
               first_outer = first_exit + hosts.places;
  const auto inner = [&](size_t host, size_t node) {
    if (inside.root == node) return first_exit + host;  // the way out is the root itself
    return node < inside.places ? host * inside.places + node
                                : first_switch + host * inner_switches + node - inside.places;
  };
  const auto outer = [&](size_t node) {
    return node < hosts.places ? first_exit + node : first_outer + node - hosts.places;
  };
  const auto bare = [](const std::string& name) { return name.starts_with("switch:") ? name.substr(7) : name; };
  result.places = all_places;
  result.names.resize(first_outer + hosts.names.size() - hosts.places);
  result.tiers = inside.tiers;
  for (const Tier& tier : hosts.tiers) {
    result.tiers.push_back(tier);
    const bool taken =
        std::any_of(inside.tiers.begin(), inside.tiers.end(), [&](const Tier& one) { return one.name == tier.name; });
    if (taken) result.tiers.back().name = "between hosts: " + tier.name;
  }
  for (size_t host = 0; host < hosts.places; ++host) {
    for (size_t node = 0; node < inside.names.size(); ++node)
      result.names[inner(host, node)] = node < inside.places
                                            ? hosts.names[host] + "/" + inside.names[node]
                                            : "switch:" + hosts.names[host] + "/" + bare(inside.names[node]);
    result.names[first_exit + host] = "switch:" + hosts.names[host];  // whatever the root is called
    for (const TopologyLink& link : inside.links)
      result.links.push_back({inner(host, link.a), inner(host, link.b), link.tier, link.lanes, link.bytes_per_second});
    const size_t last_tier = inside.tiers.size() - 1;
    for (size_t place = 0; !inside.root && place < inside.places; ++place)
      result.links.push_back({inner(host, place), first_exit + host, last_tier});
  }
  for (size_t node = hosts.places; node < hosts.names.size(); ++node) result.names[outer(node)] = hosts.names[node];
  for (const TopologyLink& link : hosts.links)
    result.links.push_back(
        {outer(link.a), outer(link.b), inside.tiers.size() + link.tier, link.lanes, link.bytes_per_second});
  if (hosts.root) result.root = outer(*hosts.root);

  // Switches that became the way out, which has its own name, are gone.
  std::vector<size_t> degree(result.names.size(), 0), number(result.names.size(), 0);
  for (const TopologyLink& link : result.links) ++degree[link.a], ++degree[link.b];
  std::vector<std::string> names;
  for (size_t node = 0; node < result.names.size(); ++node)
    if (node < result.places || degree[node] > 0) number[node] = names.size(), names.push_back(result.names[node]);
  for (TopologyLink& link : result.links) link.a = number[link.a], link.b = number[link.b];
  if (result.root) result.root = number[*result.root];
  result.names = std::move(names);
  return result;
}

}  // namespace ddl::models
