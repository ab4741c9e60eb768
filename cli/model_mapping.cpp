// ddl model mapping: which rank should sit where, by what ranks send one another and what the links carry.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "analyzer/csv_table.h"
#include "analyzer/models/mapping.h"
#include "analyzer/models/run_traffic.h"
#include "cli/model.h"
#include "cli/model_topology.h"
#include "cli/output_file.h"
#include "core/error.h"
#include "store/text.h"

namespace ddl::cli {
namespace {

using models::Traffic;
using reports::Unit;
using reports::Value;

constexpr size_t kLinksShown = 8;

void add(Traffic& traffic, double from, double to, double bytes) {
  if (!(from >= 0) || !(to >= 0) || from >= static_cast<double>(models::kMostPlaces) ||
      to >= static_cast<double>(models::kMostPlaces) || !(bytes >= 0) || from != std::floor(from) ||
      to != std::floor(to))
    throw Error(fmt::format("invalid traffic: {:g} bytes from rank {:g} to {:g}", bytes, from, to),
                fmt::format("ranks 0 to {}, bytes from 0; merge more ranks into groups", models::kMostPlaces - 1),
                ExitCode::kDataMissing);
  const auto a = static_cast<size_t>(from), b = static_cast<size_t>(to);
  const size_t ranks = std::max({traffic.size(), a + 1, b + 1});
  traffic.resize(ranks);
  for (auto& row : traffic) row.resize(ranks);
  traffic[a][b] += bytes;
}

/// Bytes by pair of ranks; says in `answer` what they are.
Traffic traffic_of(const VerbOptions& options, ModelRun* run, const models::TrafficPlan& plan, Answer& answer) {
  if (const auto file = options.maybe<std::string>("traffic")) {
    const CsvTable table = CsvTable::read(*file);
    Traffic traffic;
    for (size_t r = 0; r < table.rows(); ++r)
      add(traffic, table.number(r, "from"), table.number(r, "to"), table.number(r, "bytes"));
    if (traffic.empty())
      throw Error("no traffic is given", "--traffic FILE has a row for each pair of ranks: from, to, bytes",
                  ExitCode::kDataMissing);
    return traffic;
  }
  if (run == nullptr) missing_option("traffic", "columns from, to, bytes; or a recorded run");
  models::RunTraffic traffic = models::run_traffic(run->view.db, run->view.world, plan);
  answer.given("message_bytes", "messages", Value::bytes(std::llround(traffic.message_bytes)));
  const std::string how = plan.dimensions.empty() ? std::string(name_of(plan.algorithm))
                                                  : fmt::format("rings {}", fmt::join(plan.dimensions, "x"));
  answer.given("collective_bytes", "collectives", Value::bytes(std::llround(traffic.collective_bytes)),
               traffic.collective_bytes > 0 ? fmt::format("(allreduce as {}: --algorithm, --dims)", how) : "");
  if (!traffic.left_out.empty())
    answer.note(
        fmt::format("Not included: {}, whose messages no algorithm here predicts.", fmt::join(traffic.left_out, ", ")));
  return std::move(traffic.bytes);
}

/// "4x16x3"
std::vector<int64_t> parse_dimensions(std::string text) {
  std::replace(text.begin(), text.end(), 'x', ',');
  return parse_counts(text);
}

void add_busy_links(Answer& answer, const models::Topology& links, const models::FlowNetwork& network,
                    const models::Mapping& best) {
  std::vector<size_t> order(network.arcs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto seconds = [&](size_t a) { return best.load_bytes[a] / network.arcs[a].bytes_per_second; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return seconds(a) > seconds(b); });
  auto& table = answer.table("links", "What the links carry with the best mapping, each direction",
                             {{"from", "from", Unit::kText},
                              {"to", "to", Unit::kText},
                              {"bandwidth_bytes_per_second", "bandwidth", Unit::kBandwidth},
                              {"bytes", "bytes", Unit::kBytes},
                              {"busy_ns", "busy", Unit::kDuration}});
  for (size_t i = 0; i < std::min(kLinksShown, order.size()); ++i) {
    const models::Arc& arc = network.arcs[order[i]];
    table.rows.push_back({Value::text(links.names[arc.from]), Value::text(links.names[arc.to]),
                          Value::bandwidth(arc.bytes_per_second), Value::bytes(std::llround(best.load_bytes[order[i]])),
                          seconds_value(seconds(order[i]))});
  }
  if (order.size() > kLinksShown)
    table.note = fmt::format("The {} busiest of {} directions.", kLinksShown, order.size());
}

// ---------------------------------------------------------------- files

struct HostSlot {
  std::string host, place;
  size_t slot = 0;
};

std::vector<HostSlot> host_slots(const models::Topology& topology, const std::vector<size_t>& place_of_rank) {
  std::map<std::string, size_t> count;
  std::vector<HostSlot> of_place;
  for (size_t place = 0; place < topology.places; ++place) {
    const std::string& name = topology.names[place];
    const size_t slash = name.find('/');
    const std::string host = name.substr(0, slash);
    of_place.push_back({host, slash == std::string::npos ? name : name.substr(slash + 1), count[host]++});
  }
  std::vector<HostSlot> slots;
  for (const size_t place : place_of_rank) slots.push_back(of_place[place]);
  return slots;
}

/// How srun --distribution writes this order of hosts; empty: only a file of hosts does. Hosts in the order of
/// their first rank.
std::string slurm_distribution(const std::vector<HostSlot>& slots) {
  std::vector<std::string> hosts;
  std::map<std::string, size_t> count;
  for (const HostSlot& one : slots)
    if (++count[one.host] == 1) hosts.push_back(one.host);
  const size_t per_host = slots.size() / hosts.size();
  if (std::any_of(count.begin(), count.end(), [&](const auto& one) { return one.second != per_host; })) return "";
  for (size_t plane = per_host; plane >= 1; --plane) {
    if (per_host % plane != 0) continue;
    bool fits = true;
    for (size_t rank = 0; rank < slots.size() && fits; ++rank)
      fits = slots[rank].host == hosts[rank / plane % hosts.size()];
    if (fits) return plane == per_host ? "block" : plane == 1 ? "cyclic" : fmt::format("plane={}", plane);
  }
  return "";
}

/// hostfile, rankfile, slurm.sh and places.csv in `folder`, which is made. Throws ddl::Error where they
/// cannot be written.
void write_placement(const std::filesystem::path& folder, const models::Topology& topology,
                     const std::vector<size_t>& place_of_rank) {
  const std::vector<HostSlot> slots = host_slots(topology, place_of_rank);
  std::string hostfile, rankfile, places = "rank,place,host,slot\n";
  for (size_t rank = 0; rank < slots.size(); ++rank) {
    const HostSlot& one = slots[rank];
    const auto is_plain = [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_' || c == ':' || c == ' ';
    };
    if (one.host.empty() || one.host.find(' ') != std::string::npos ||
        !std::all_of(one.host.begin(), one.host.end(), is_plain) ||
        !std::all_of(one.place.begin(), one.place.end(), is_plain))
      throw Error(fmt::format("invalid host name '{}'", one.host),
                  "files of launchers need hosts as places, or HOST/NAME", ExitCode::kDataMissing);
    hostfile += one.host + "\n";
    rankfile += fmt::format("rank {}={} slot={}\n", rank, one.host, one.slot);
    places += fmt::format("{},{},{},{}\n", rank, one.place, one.host, one.slot);
  }
  const std::string distribution = slurm_distribution(slots);
  std::string slurm = "# A Slurm job script, before srun: . slurm.sh\n";
  if (!distribution.empty())
    slurm += fmt::format("# The same, where Slurm lists the hosts in the order of the file: srun --distribution={}\n",
                         distribution);
  slurm += fmt::format("export SLURM_HOSTFILE={} SLURM_DISTRIBUTION=arbitrary\n",
                       shell_quoted(std::filesystem::absolute(folder / "hostfile").string()));
  OutputFolder files(folder.string(), Readers::kAll);
  files.add("hostfile").write(hostfile);
  files.add("rankfile").write(rankfile);
  files.add("slurm.sh").write(slurm);
  files.add("places.csv").write(places);
  files.finish();
}

}  // namespace

int model_mapping(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "mapping", "[RUN] [options]",
      "Places ranks such that the busiest link is busy as short as can be, by what ranks send one another, over several routes where that "
      "is faster (multi-commodity flow). Exact up to nine places, beyond a local search with a bound. Ranks of RUN sit where they ran if "
      "--links names their hosts, else in order.");
  options.add()("traffic", takes<std::string>("FILE"), "columns from, to (ranks), bytes")(
      "algorithm", takes<std::string>("NAME", "ring"),
      "how RUN's allreduces send: parameter_server, tree, butterfly, rabenseifner, ring")(
      "dims", takes<std::string>("AxB"), "rings over several dimensions instead, the first one along neighbours")(
      "emit", takes<std::string>("DIR"), "writes hostfile and rankfile of mpirun, slurm.sh, places.csv");
  options.one_of("algorithm", algorithm_names());
  options.one_row({"algorithm", "dims"}, "how RUN's allreduces send: ring, tree, ...; or rings over dimensions");
  add_topology_options(options, true);
  if (!options.parse(arguments)) return 0;
  const auto run = maybe_run(options);
  const auto seats = seats_of(options, run.get());
  if (!seats) missing_option("links", "columns from, to, gb_per_s; or a recorded run, whose hosts are known");
  const models::Topology& topology = seats->topology;
  Answer answer("mapping");
  models::TrafficPlan plan;
  plan.algorithm = algorithm_option(options);
  if (const auto dims = options.maybe<std::string>("dims")) plan.dimensions = parse_dimensions(*dims);
  const Traffic traffic = traffic_of(options, run.get(), plan, answer);
  const models::Network network(topology.places, topology.names.size() - topology.places, topology.place_links());
  const models::Mapping best = network.best(traffic);
  std::vector<size_t> as_is = seats->place_of_rank;
  if (as_is.size() != traffic.size()) {
    as_is.resize(traffic.size());
    std::iota(as_is.begin(), as_is.end(), size_t{0});
  }
  const models::Mapping now = network.evaluate(traffic, as_is);
  const auto no_worse = [](double a, double b) { return a <= b * (1 + 1e-7); };
  // on a tie nobody moves
  const bool stays = no_worse(now.busiest_s, best.busiest_s) && no_worse(now.distance_s, best.distance_s);
  const models::Mapping& shown = stays ? now : best;

  answer.given("ranks", "ranks", Value::count(static_cast<int64_t>(traffic.size())));
  answer.given("places", "places", Value::count(static_cast<int64_t>(topology.places)));
  if (topology.places < topology.names.size())
    answer.given("switches", "switches", Value::count(static_cast<int64_t>(topology.names.size() - topology.places)));
  answer.given("bound_ns", "bound", seconds_value(best.bound_s),
               best.exact ? "(the best mapping's own)" : "(no mapping is better than this)");
  auto& costs = answer.table(
      "mapping", "Busy links",
      {{"mapping", "", Unit::kText}, {"busiest_ns", "busiest", Unit::kDuration}, {"all_ns", "all", Unit::kDuration}});
  costs.rows.push_back({Value::text("now"), seconds_value(now.busiest_s), seconds_value(now.all_s)});
  costs.rows.push_back({Value::text("best"), seconds_value(shown.busiest_s), seconds_value(shown.all_s)});
  auto& where =
      answer.table("places", "Where each rank should sit",
                   {{"rank", "rank", Unit::kCount}, {"now", "now", Unit::kText}, {"best", "best", Unit::kText}});
  for (size_t rank = 0; rank < traffic.size(); ++rank)
    where.rows.push_back({Value::count(static_cast<int64_t>(rank)), Value::text(topology.names[as_is[rank]]),
                          Value::text(topology.names[shown.place[rank]])});
  add_busy_links(answer, topology, network.network(), shown);
  add_tier_table(answer, *seats);
  if (best.exact) {
    answer.note(stays ? "No other mapping is better." : "No mapping is better than the best.");
  } else {
    answer.note(fmt::format("The best of a local search: no mapping can be more than {:.1f}% better.",
                            100 * (best.busiest_s / best.bound_s - 1)));
  }
  if (run && !seats->by_host)
    answer.note("The run's hosts are not those of --links: rank i is taken to sit at the i-th place.");
  if (const auto folder = options.maybe<std::string>("emit")) {
    write_placement(*folder, topology, shown.place);
    answer.note(fmt::format(
        "Written to {}: hostfile (mpirun --map-by seq --hostfile), rankfile (mpirun --rankfile, slots as cores), slurm.sh (read "
        "before srun), places.csv (who sits where).",
        *folder));
  }
  answer.note("Not included: congestion inside a place, latencies.");
  return answer.print(options);
}

}  // namespace ddl::cli
