#include "cli/model_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"

namespace ddl::cli {
namespace {

using models::Topology;
using reports::Unit;
using reports::Value;

constexpr const char* kFromFile = "the file";

/// "node7.cluster" and "node7" are one host.
std::string short_host(const std::string& name) { return name.substr(0, name.find('.')); }

/// What precedes "/": the host that a place is on; the place itself where hosts have no inside.
std::string host_of_place(const std::string& name) { return name.substr(0, name.find('/')); }

std::vector<std::string> numbered(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(fmt::format("{}", i));
  return names;
}

/// Hosts behind one network, each with as many slots as ranks are on the fullest one.
std::optional<Topology> topology_of_hosts(const std::vector<std::string>& host_of_rank) {
  std::vector<std::string> hosts;
  std::map<std::string, size_t> ranks;
  for (const std::string& host : host_of_rank) {
    if (host.empty()) return std::nullopt;
    if (++ranks[host] == 1) hosts.push_back(host);
  }
  size_t most = 0;
  for (const auto& [host, count] : ranks) most = std::max(most, count);
  if (most == 0) return std::nullopt;
  const Topology inside = models::star(numbered(most), "switch:host", "host");
  if (hosts.size() == 1) {
    Topology one = inside;
    for (size_t place = 0; place < one.places; ++place) one.names[place] = hosts[0] + "/" + one.names[place];
    return one;
  }
  const Topology network = models::star(hosts, "switch:network", "network");
  return most == 1 ? network : models::nested(network, inside);
}

/// Ranks on the places of their hosts, in their order; nothing where a host is not in the topology or has too few
/// places.
std::vector<size_t> seats_by_host(const Topology& topology, const std::vector<std::string>& host_of_rank) {
  std::map<std::string, std::vector<size_t>> free;
  for (size_t place = topology.places; place-- > 0;)
    free[short_host(host_of_place(topology.names[place]))].push_back(place);
  std::vector<size_t> seats;
  for (const std::string& host : host_of_rank) {
    const auto found = free.find(short_host(host));
    if (host.empty() || found == free.end() || found->second.empty()) return {};
    seats.push_back(found->second.back());
    found->second.pop_back();
  }
  return seats;
}

void set_typed_tiers(const VerbOptions& options, Topology& topology, std::vector<std::string>& typed) {
  const auto text = options.maybe<std::string>("tier");
  if (!text) return;
  for (const std::string& part : split_list(*text)) {
    const size_t equals = part.rfind('=');
    double rate = 0, alpha_us = -1;
    char colon = 0, end = 0;
    const int read = equals == std::string::npos
                         ? 0
                         : std::sscanf(part.c_str() + equals + 1, "%lf%c%lf%c", &rate, &colon, &alpha_us, &end);
    if (!(read == 1 || (read == 3 && colon == ':' && alpha_us >= 0)) || !(rate > 0) || !std::isfinite(rate) ||
        !std::isfinite(alpha_us))
      throw Error(fmt::format("--tier: invalid tier '{}'", part),
                  "NAME=GB/S or NAME=GB/S:US, such as --tier network=12.5:3", ExitCode::kUsage);
    typed.push_back(part.substr(0, equals));
    topology.set_tier(typed.back(), rate * 1e9, read == 3 ? std::optional(alpha_us * 1e-6) : std::nullopt, "--tier");
  }
}

}  // namespace

void add_topology_options(VerbOptions& options, bool in_full) {
  options.add()(
      "links", takes<std::string>("FILE"),
      "what joins places: CSV (from, to, gb_per_s of each direction, if wanted tier, alpha_us; names that begin with switch: are "
      "switches, where no rank sits), lstopo --of xml, nvidia-smi topo -m, or Slurm's topology.conf. Default: hosts of RUN")(
      "host", takes<std::string>("FILE"), "what is inside each place of --links: any of these files")(
      "per-host", takes<int64_t>("N"), "N ranks on each place of --links, alike")(
      "tier", takes<std::string>("NAME=GB/S[:US],..."),
      "what links of a tier carry, and what a message over them takes");
  if (!in_full)
    options.one_row({"links", "host", "per-host"}, "what joins places, what is in each: ddl model mapping --help");
}

std::optional<Seats> seats_of(const VerbOptions& options, ModelRun* run) {
  Seats seats;
  const auto links = options.maybe<std::string>("links"), host = options.maybe<std::string>("host");
  const auto per_host = count_option(options, "per-host");
  const auto host_of_rank = run ? models::hosts_of_ranks(run->view.db, run->view.world) : std::vector<std::string>();
  if (!links && (host || per_host)) missing_option("links", "--host and --per-host say what is inside its places");
  if (host && per_host)
    throw Error("--host and --per-host exclude each other",
                "leave --per-host out: the file says how many places a host has", ExitCode::kUsage);
  if (links) {
    seats.topology = models::read_topology(*links);
    if (host) seats.topology = models::nested(seats.topology, models::read_topology(*host));
    if (per_host && *per_host > 1) {
      if (*per_host > static_cast<int64_t>(models::kMostHosts))
        throw Error(fmt::format("--per-host {}: too many", *per_host), fmt::format("at most {}", models::kMostHosts),
                    ExitCode::kUsage);
      seats.topology =
          models::nested(seats.topology, models::star(numbered(static_cast<size_t>(*per_host)), "switch:host", "host"));
    }
  } else {
    auto hosts = topology_of_hosts(host_of_rank);
    if (!hosts) return std::nullopt;
    seats.topology = std::move(*hosts);
  }
  std::vector<std::string> typed;
  set_typed_tiers(options, seats.topology, typed);
  if (run == nullptr) return seats;

  seats.place_of_rank = seats_by_host(seats.topology, host_of_rank);
  seats.by_host = !seats.place_of_rank.empty();
  if (!seats.by_host) {
    if (host_of_rank.size() > seats.topology.places)
      throw Error(fmt::format("{} ranks do not fit on {} places", host_of_rank.size(), seats.topology.places),
                  "--per-host N or --host FILE says how many places a host has", ExitCode::kDataMissing);
    for (size_t rank = 0; rank < host_of_rank.size(); ++rank) seats.place_of_rank.push_back(rank);
  }
  std::vector<std::vector<size_t>> groups = seats.topology.all_groups();
  for (auto& tier : groups) {
    std::vector<size_t> of_rank;
    for (const size_t place : seats.place_of_rank) of_rank.push_back(tier[place]);
    tier = std::move(of_rank);
  }
  const auto reduce = number_option(options, "reduce", 0, true);
  seats.fits = models::fit_tiers(run->view.db, run->view.world, seats.topology.tiers.size(), groups,
                                 algorithm_option(options), reduce ? std::optional(1e-9 / *reduce) : std::nullopt);
  for (size_t t = 0; t < seats.fits.size(); ++t) {
    const auto& fit = seats.fits[t].fit;
    const models::Tier tier = seats.topology.tiers[t];
    if (!fit || std::find(typed.begin(), typed.end(), tier.name) != typed.end()) continue;
    const bool known = tier.bytes_per_second && tier.from == kFromFile;
    seats.topology.set_tier(
        tier.name, known ? std::nullopt : std::optional(1 / fit->link.beta_s_per_byte), fit->link.alpha_s,
        known ? fmt::format("{}; latency fitted", kFromFile) : "fitted " + fitted_words(*fit).substr(7));
    std::string& from = seats.topology.tiers[t].from;
    if (!known && from.ends_with(")")) from.pop_back();
  }
  return seats;
}

void add_tier_table(Answer& answer, const Seats& seats) {
  auto& table = answer.table("tiers", "Tiers of links, innermost first",
                             {{"tier", "tier", Unit::kText},
                              {"joins", "joins", Unit::kCount},
                              {"bandwidth_bytes_per_second", "bandwidth", Unit::kBandwidth},
                              {"alpha_ns", "latency", Unit::kDuration},
                              {"collectives", "collectives", Unit::kCount},
                              {"messages", "messages", Unit::kCount},
                              {"from", "from", Unit::kText}});
  for (size_t t = 0; t < seats.topology.tiers.size(); ++t) {
    const models::Tier& tier = seats.topology.tiers[t];
    std::map<size_t, int64_t> sizes;
    int64_t most = 0;
    for (const size_t group : seats.topology.groups(t)) most = std::max(most, ++sizes[group]);
    const bool has_run = t < seats.fits.size();
    const std::string why = has_run && !seats.fits[t].fit && tier.from.empty() ? seats.fits[t].why : tier.from;
    table.rows.push_back(
        {Value::text(tier.name), Value::count(most),
         tier.bytes_per_second ? Value::bandwidth(*tier.bytes_per_second) : Value::absent(Unit::kBandwidth),
         tier.alpha_s ? seconds_value(*tier.alpha_s) : Value::absent(Unit::kDuration),
         has_run ? Value::count(seats.fits[t].collectives) : Value::absent(Unit::kCount),
         has_run ? Value::count(seats.fits[t].messages) : Value::absent(Unit::kCount), Value::text(why)});
  }
  table.note = "Joins: places in its largest group. Bandwidth: of one link or lane, in one direction.";
}

TieredCluster cluster_of(const Topology& topology, double gamma_s_per_byte) {
  const auto shape = models::shape_of(topology);
  if (shape.empty())
    throw Error(
        "the groups of a tier differ in size, or there is one place only",
        "plans of rings need as many ranks on each host, and hosts in each group; --tiers COUNT:GB/S:US,... says them",
        ExitCode::kDataMissing);
  TieredCluster cluster;
  for (const models::TierShape& one : shape) {
    const models::Tier& tier = topology.tiers[one.tier];
    const auto rate = models::rate_of_tier(topology, one.tier);
    if (!rate || !tier.alpha_s)
      throw Error(fmt::format("the latency or bandwidth of tier '{}' is not known", tier.name),
                  fmt::format("--tier '{}=GB/S:US', or a recorded run whose transfers tell", tier.name),
                  ExitCode::kDataMissing);
    const double inner_alone = cluster.alone.empty() ? 0 : cluster.alone.back().beta_s_per_byte;
    cluster.tiers.push_back({one.count, {*tier.alpha_s, 1 / rate->shared, gamma_s_per_byte}, 1 / rate->alone});
    cluster.alone.push_back({*tier.alpha_s, std::max(1 / rate->alone, inner_alone), gamma_s_per_byte});
  }
  return cluster;
}

TieredCluster typed_cluster(const std::string& text, double gamma_s_per_byte) {
  TieredCluster cluster;
  int64_t ranks = 1;
  for (const std::string& part : split_list(text)) {
    long long count = 0;
    double rate = 0, alpha_us = 0;
    char end = 0;
    if (std::sscanf(part.c_str(), "%lld:%lf:%lf%c", &count, &rate, &alpha_us, &end) != 3 || count < 1 || !(rate > 0) ||
        !(alpha_us >= 0) || !std::isfinite(rate) || !std::isfinite(alpha_us) || count > models::kMostPlannedRanks ||
        (ranks *= count) > models::kMostPlannedRanks)
      throw Error(fmt::format("--tiers: invalid tier '{}', or more than {} ranks", part, models::kMostPlannedRanks),
                  "COUNT:GB/S:US, innermost first: 4:80:3,16:12.5:10,3:10:15", ExitCode::kUsage);
    const models::Link link = {alpha_us * 1e-6, 1e-9 / rate, gamma_s_per_byte};
    if (count == 1 && !cluster.tiers.empty()) continue;
    cluster.tiers.push_back({count, link});
    cluster.alone.push_back(link);
  }
  return cluster;
}

}  // namespace ddl::cli
