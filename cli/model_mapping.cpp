// ddl model mapping: which rank should sit where, by what ranks send one another and what the links carry.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "analyzer/csv_table.h"
#include "analyzer/models/mapping.h"
#include "analyzer/query.h"
#include "cli/model.h"
#include "core/error.h"

namespace ddl::cli {
namespace {

using reports::Unit;
using reports::Value;
using Traffic = std::vector<std::vector<double>>;

void add(Traffic& traffic, double from, double to, double bytes) {
  if (from < 0 || to < 0 || from >= static_cast<double>(models::kMostPlaces) || to >= static_cast<double>(models::kMostPlaces) || bytes < 0)
    throw Error(fmt::format("{:g} bytes from rank {:g} to {:g}", bytes, from, to),
                fmt::format("ranks 0 to {}: the search is exact", models::kMostPlaces - 1), ExitCode::kDataMissing);
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
  return traffic;
}

}  // namespace

int model_mapping(const std::vector<std::string>& arguments) {
  VerbOptions options = model_options(
      "mapping", "[RUN] --links FILE [options]",
      "Places ranks such that the link that is busy longest is busy as short as can be, by what ranks send one another: the messages of\n"
      "RUN, or --traffic. Bytes take the route on which they take least time. Exact, for up to nine places. Rank i sits at the i-th place\n"
      "of the links' file now.");
  options.add()("links", takes<std::string>("FILE"), "columns from, to (names of places), gb_per_s in each direction")(
      "traffic", takes<std::string>("FILE"), "columns from, to (ranks), bytes");
  if (!options.parse(arguments)) return 0;
  const CsvTable table = CsvTable::read(needed(options.maybe<std::string>("links"), "links", "columns from, to, gb_per_s"));
  std::vector<std::string> places;
  const auto place = [&](const std::string& name) {
    const auto at = std::find(places.begin(), places.end(), name);
    if (at == places.end()) return places.push_back(name), places.size() - 1;
    return static_cast<size_t>(at - places.begin());
  };
  std::vector<models::PlaceLink> links;
  for (size_t r = 0; r < table.rows(); ++r) {
    const size_t from = place(table.text(r, "from")), to = place(table.text(r, "to"));
    links.push_back({from, to, table.number(r, "gb_per_s") * 1e9});
  }
  const auto run = maybe_run(options);
  const Traffic traffic = traffic_of(options, run.get());
  const models::Network network(places.size(), links);
  const models::Mapping best = network.best(traffic);
  std::vector<size_t> as_is(traffic.size());
  std::iota(as_is.begin(), as_is.end(), size_t{0});
  const models::Mapping now = network.evaluate(traffic, as_is);

  Answer answer("mapping");
  answer.given("ranks", "ranks", Value::count(static_cast<int64_t>(traffic.size())));
  answer.given("places", "places", Value::count(static_cast<int64_t>(places.size())));
  auto& costs =
      answer.table("mapping", "Busy links",
                   {{"mapping", "", Unit::kText}, {"busiest_ns", "busiest", Unit::kDuration}, {"all_ns", "all", Unit::kDuration}});
  costs.rows.push_back({Value::text("now"), seconds_value(now.busiest_s), seconds_value(now.all_s)});
  costs.rows.push_back({Value::text("best"), seconds_value(best.busiest_s), seconds_value(best.all_s)});
  auto& where = answer.table("places", "Where each rank should sit",
                             {{"rank", "rank", Unit::kCount}, {"now", "now", Unit::kText}, {"best", "best", Unit::kText}});
  for (size_t rank = 0; rank < traffic.size(); ++rank)
    where.rows.push_back({Value::count(static_cast<int64_t>(rank)), Value::text(places[rank]), Value::text(places[best.place[rank]])});
  if (best.place == as_is) answer.note("No other mapping is better.");
  answer.note("Only what ranks send one another; collectives, congestion inside a place and latencies are not in it.");
  return answer.print(options);
}

}  // namespace ddl::cli
