// ddl model mapping: which rank should sit where, by what ranks send one another and what the links carry.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/csv_table.h"
#include "analyzer/models/mapping.h"
#include "analyzer/query.h"
#include "cli/model.h"
#include "core/error.h"

namespace ddl::cli {
namespace {

using models::Traffic;
using reports::Unit;
using reports::Value;

constexpr const char* kSwitch = "switch:";
constexpr size_t kLinksShown = 8;

void add(Traffic& traffic, double from, double to, double bytes) {
  if (!(from >= 0) || !(to >= 0) || from >= static_cast<double>(models::kMostPlaces) || to >= static_cast<double>(models::kMostPlaces) ||
      !(bytes >= 0) || from != std::floor(from) || to != std::floor(to))
    throw Error(fmt::format("{:g} bytes from rank {:g} to {:g}", bytes, from, to),
                fmt::format("ranks 0 to {}; more of them go in groups", models::kMostPlaces - 1), ExitCode::kDataMissing);
  const auto a = static_cast<size_t>(from), b = static_cast<size_t>(to);
  const size_t ranks = std::max({traffic.size(), a + 1, b + 1});
  traffic.resize(ranks);
  for (auto& row : traffic) row.resize(ranks);
  traffic[a][b] += bytes;
}

Traffic traffic_of(const VerbOptions& options, ModelRun* run) {
  Traffic traffic;
  if (run) {
    Query row(run->view.db,
              "SELECT source, destination, sum(bytes) FROM v_message WHERE world = ?1 AND source IS NOT NULL AND destination IS NOT NULL "
              "GROUP BY 1, 2");
    for (row.bind(run->view.world); row.next();) add(traffic, row.real(0), row.real(1), row.real(2));
    if (traffic.empty())
      throw Error("the run has no messages between ranks", "collectives place ranks by their algorithm: ddl model allreduce",
                  ExitCode::kDataMissing);
    return traffic;
  }
  const CsvTable table =
      CsvTable::read(needed(options.maybe<std::string>("traffic"), "traffic", "columns from, to, bytes; or a recorded run"));
  for (size_t r = 0; r < table.rows(); ++r) add(traffic, table.number(r, "from"), table.number(r, "to"), table.number(r, "bytes"));
  if (traffic.empty()) throw Error("no traffic is given", "columns from, to, bytes", ExitCode::kDataMissing);
  return traffic;
}

/// Places in the order in which the file names them, then switches.
struct Links {
  std::vector<std::string> names;
  size_t places = 0;
  std::vector<models::PlaceLink> links;
};

Links links_of(const std::string& file) {
  const CsvTable table = CsvTable::read(file);
  Links result;
  std::vector<std::string> switches;
  std::unordered_map<std::string, size_t> index;  // among its kind
  const auto node = [&](const std::string& name) {
    auto& kind = name.starts_with(kSwitch) ? switches : result.names;
    const auto [at, fresh] = index.try_emplace(name, kind.size());
    if (fresh) kind.push_back(name);
  };
  for (size_t r = 0; r < table.rows(); ++r) node(table.text(r, "from")), node(table.text(r, "to"));
  result.places = result.names.size();
  result.names.insert(result.names.end(), switches.begin(), switches.end());
  const auto number = [&](const std::string& name) { return index.at(name) + (name.starts_with(kSwitch) ? result.places : 0); };
  for (size_t r = 0; r < table.rows(); ++r)
    result.links.push_back({number(table.text(r, "from")), number(table.text(r, "to")), table.number(r, "gb_per_s") * 1e9});
  return result;
}

void add_busy_links(Answer& answer, const Links& links, const models::FlowNetwork& network, const models::Mapping& best) {
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
    table.rows.push_back({Value::text(links.names[arc.from]), Value::text(links.names[arc.to]), Value::bandwidth(arc.bytes_per_second),
                          Value::bytes(std::llround(best.load_bytes[order[i]])), seconds_value(seconds(order[i]))});
  }
  if (order.size() > kLinksShown) table.note = fmt::format("The {} busiest of {} directions.", kLinksShown, order.size());
}

}  // namespace

int model_mapping(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "mapping", "[RUN] --links FILE [options]",
      "Places ranks such that the link that is busy longest is busy as short as can be, by what ranks send one another: the messages of\n"
      "RUN, or --traffic. Bytes take several routes at once where that is faster (multi-commodity flow). Exact up to nine places, beyond a\n"
      "local search with a bound that nothing can be better than. Rank i sits at the i-th place of the links' file now.");
  options.add()("links", takes<std::string>("FILE"),
                "columns from, to (names; those that begin with switch: are switches, where no rank sits), gb_per_s in each direction")(
      "traffic", takes<std::string>("FILE"), "columns from, to (ranks), bytes");
  if (!options.parse(arguments)) return 0;
  const Links links = links_of(needed(options.maybe<std::string>("links"), "links", "columns from, to, gb_per_s"));
  const auto run = maybe_run(options);
  const Traffic traffic = traffic_of(options, run.get());
  const models::Network network(links.places, links.names.size() - links.places, links.links);
  const models::Mapping best = network.best(traffic);
  std::vector<size_t> as_is(traffic.size());
  std::iota(as_is.begin(), as_is.end(), size_t{0});
  const models::Mapping now = network.evaluate(traffic, as_is);

  Answer answer("mapping");
  answer.given("ranks", "ranks", Value::count(static_cast<int64_t>(traffic.size())));
  answer.given("places", "places", Value::count(static_cast<int64_t>(links.places)));
  if (links.places < links.names.size())
    answer.given("switches", "switches", Value::count(static_cast<int64_t>(links.names.size() - links.places)));
  auto& costs =
      answer.table("mapping", "Busy links",
                   {{"mapping", "", Unit::kText}, {"busiest_ns", "busiest", Unit::kDuration}, {"all_ns", "all", Unit::kDuration}});
  costs.rows.push_back({Value::text("now"), seconds_value(now.busiest_s), seconds_value(now.all_s)});
  costs.rows.push_back({Value::text("best"), seconds_value(best.busiest_s), seconds_value(best.all_s)});
  auto& where = answer.table("places", "Where each rank should sit",
                             {{"rank", "rank", Unit::kCount}, {"now", "now", Unit::kText}, {"best", "best", Unit::kText}});
  for (size_t rank = 0; rank < traffic.size(); ++rank)
    where.rows.push_back(
        {Value::count(static_cast<int64_t>(rank)), Value::text(links.names[rank]), Value::text(links.names[best.place[rank]])});
  add_busy_links(answer, links, network.network(), best);
  answer.given("bound_ns", "bound", seconds_value(best.bound_s),
               best.exact ? "(the best mapping's own)" : "(no mapping is better than this)");
  if (best.exact) {
    answer.note(best.place == as_is ? "No other mapping is better." : "No mapping is better than the best.");
  } else {
    answer.note(
        fmt::format("The best of a local search: no mapping can be more than {:.1f}% better.", 100 * (best.busiest_s / best.bound_s - 1)));
  }
  answer.note("Only what ranks send one another; collectives, congestion inside a place and latencies are not in it.");
  return answer.print(options);
}

}  // namespace ddl::cli
