#include "analyzer/models/flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>

#include "analyzer/models/clp.h"
#include "core/error.h"

namespace ddl::models {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::max();
constexpr double kSecondProgramSlack = 1e-9;
/// What a unit of time costs in the first program: simplex's tolerances are absolute, and prices of single arcs are
/// small.
constexpr double kTimeCost = 1000;
constexpr double kWorthWhile = 1e-9;  ///< of all that could be gained
/// Routes to begin with. With one of each pair simplex needs ten times as long; with many more it carries them along.
constexpr size_t kFirstRoutes = 12000, kLeastRounds = 3, kMostRounds = 30;
constexpr double kSpread = 3;  ///< the busiest arc counts e^3 as long as an idle one

using Route = std::vector<size_t>;  // arcs, from the destination back

/// Rows: what each pair sends, then the arcs. Columns: the time of the busiest arc, then routes. Bytes and
/// rates are scaled to 1.
class ColumnProgram {
 public:
  ColumnProgram(const FlowNetwork& network, const Traffic& bytes)
      : network_(network), model_(clp().newModel()), leaving_(leaving_arcs(network)) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      double sum = 0;
      size_t first = pairs_.size();
      for (size_t j = 0; j < bytes.size(); ++j)
        if (i != j && bytes[i][j] > 0) pairs_.push_back({j, bytes[i][j], {}}), sum += bytes[i][j];
      if (sum > 0) sources_.push_back({i, first, pairs_.size()});
      bytes_unit_ = std::max(bytes_unit_, sum);
    }
    if (pairs_.size() > kMostPairs)
      throw Error(fmt::format("{} pairs over {} directions of links: routing takes at most {} pairs", pairs_.size(),
                              network.arcs.size(), kMostPairs),
                  "group ranks that sit together anyway, or leave out links that are not an alternative",
                  ExitCode::kDataMissing);
    for (const Arc& arc : network.arcs) rate_unit_ = std::max(rate_unit_, arc.bytes_per_second);
  }

  Flow solve(bool least_cost, double other_s) {
    Flow flow;
    flow.load_bytes.assign(network_.arcs.size(), 0);
    flow.length.assign(network_.arcs.size(), 0);
    if (pairs_.empty()) return flow;
    load();
    add_first();
    run();
    const double busiest = clp().getColSolution(model_.get())[0];
    take_lengths(flow);
    if (least_cost) {
      costs_ = true;
      clp().columnUpper(model_.get())[0] =
          std::max(busiest, other_s * rate_unit_ / bytes_unit_) * (1 + kSecondProgramSlack);
      double* cost = clp().objective(model_.get());
      cost[0] = 0;
      for (size_t r = 0; r < routes_.size(); ++r) cost[r + 1] = cost_of(*routes_[r]);
      run();
    }
    flow.busiest_s = busiest * bytes_unit_ / rate_unit_;
    const double* solution = clp().getColSolution(model_.get());
    for (size_t r = 0; r < routes_.size(); ++r)
      for (const size_t a : *routes_[r]) flow.load_bytes[a] += solution[r + 1] * bytes_unit_;
    return flow;
  }

 private:
  struct Pair {
    size_t to;
    double bytes;
    std::set<Route> known;
  };
  struct Source {
    size_t node, first, last;  ///< its pairs: [first, last)
  };
  struct DeleteModel {
    void operator()(Clp_Simplex* model) const { clp().deleteModel(model); }
  };

  double slowness(size_t a) const { return rate_unit_ / network_.arcs[a].bytes_per_second; }
  double cost_of(const Route& route) const {
    double cost = 0;
    for (const size_t a : route) cost += slowness(a);
    return cost;
  }
  size_t arc_row(size_t a) const { return pairs_.size() + a; }

  void load() {
    const size_t arcs = network_.arcs.size();
    std::vector<int> index;
    std::vector<double> lower, upper;
    for (const Pair& pair : pairs_) lower.push_back(pair.bytes / bytes_unit_), upper.push_back(lower.back());
    for (size_t a = 0; a < arcs; ++a)
      index.push_back(static_cast<int>(arc_row(a))), lower.push_back(-kNoBound), upper.push_back(0);
    const std::vector<double> value(arcs, -1);
    const CoinBigIndex start[] = {0, static_cast<CoinBigIndex>(arcs)};
    const double none = 0, unlimited = kNoBound;
    clp().setLogLevel(model_.get(), 0);
    clp().loadProblem(model_.get(), 1, static_cast<int>(lower.size()), start, index.data(), value.data(), &none,
                      &unlimited, &kTimeCost, lower.data(), upper.data());
  }

  /// Routes to begin with: shortest ones, the more an arc carries by then the longer it is, so that they spread
  /// over the network.
  void add_first() {
    const size_t rounds = std::clamp<size_t>(kFirstRoutes / pairs_.size(), kLeastRounds, kMostRounds);
    std::vector<double> busy(network_.arcs.size(), 0), length(network_.arcs.size());
    const size_t before = routes_.size();
    for (size_t round = 0; round < rounds; ++round)
      for (const Source& source : sources_) {
        const double most = *std::max_element(busy.begin(), busy.end());
        for (size_t a = 0; a < busy.size(); ++a)
          length[a] = slowness(a) * std::exp(most > 0 ? kSpread * busy[a] / most : 0);
        const auto [distance, arc_to] = shortest_paths(network_, leaving_, source.node, length);
        for (size_t p = source.first; p < source.last; ++p) {
          if (distance[pairs_[p].to] == std::numeric_limits<double>::infinity())
            throw Error("some traffic has no route between its places",
                        "add links until every place with a rank can be reached", ExitCode::kDataMissing);
          const Route route = route_of(source, p, arc_to);
          for (const size_t a : route) busy[a] += pairs_[p].bytes * slowness(a);
          know(p, route);
        }
      }
    add_columns(before);
  }

  /// Adds the routes that cost less than their pair's price, given what a second more of each arc is worth. None where
  /// nothing is to be gained, or less than the solver's tolerance.
  bool add_better() {
    const std::vector<double> worth = worth_of_arcs();
    const double* price = clp().getRowPrice(model_.get());
    std::vector<double> length(worth.size());
    for (size_t a = 0; a < worth.size(); ++a) length[a] = slowness(a) * (worth[a] + (costs_ ? 1 : 0));
    const size_t before = routes_.size();
    double gain = 0, all = 0;  // what all bytes would gain on the shortest routes bounds what is left to gain
    for (const Source& source : sources_) {
      const auto [distance, arc_to] = shortest_paths(network_, leaving_, source.node, length);
      for (size_t p = source.first; p < source.last; ++p) {
        const double shorter = price[p] - distance[pairs_[p].to];
        all += pairs_[p].bytes * distance[pairs_[p].to];
        if (shorter <= 0) continue;
        gain += pairs_[p].bytes * shorter;
        know(p, route_of(source, p, arc_to));
      }
    }
    if (gain <= kWorthWhile * all || routes_.size() == before) {
      for (size_t r = before; r < routes_.size(); ++r) pairs_[pair_of_[r]].known.erase(*routes_[r]);
      routes_.resize(before), pair_of_.resize(before);
      return false;
    }
    add_columns(before);
    return true;
  }

  void know(size_t pair, Route route) {
    const auto [known, is_new] = pairs_[pair].known.insert(std::move(route));
    if (is_new) routes_.push_back(&*known), pair_of_.push_back(pair);
  }

  void add_columns(size_t from) {
    std::vector<CoinBigIndex> start = {0};
    std::vector<int> index;
    std::vector<double> value, cost;
    for (size_t r = from; r < routes_.size(); ++r) {
      index.push_back(static_cast<int>(pair_of_[r])), value.push_back(1);
      for (const size_t a : *routes_[r]) index.push_back(static_cast<int>(arc_row(a))), value.push_back(slowness(a));
      start.push_back(static_cast<CoinBigIndex>(index.size()));
      cost.push_back(costs_ ? cost_of(*routes_[r]) : 0);
    }
    const std::vector<double> lower(cost.size(), 0), upper(cost.size(), kNoBound);
    clp().addColumns(model_.get(), static_cast<int>(cost.size()), lower.data(), upper.data(), cost.data(), start.data(),
                     index.data(), value.data());
  }

  Route route_of(const Source& source, size_t pair, const std::vector<size_t>& arc_to) const {
    Route route;
    for (size_t node = pairs_[pair].to; node != source.node; node = network_.arcs[arc_to[node]].from)
      route.push_back(arc_to[node]);
    return route;
  }

  std::vector<double> worth_of_arcs() const {
    const double* price = clp().getRowPrice(model_.get());
    std::vector<double> worth;
    for (size_t a = 0; a < network_.arcs.size(); ++a) worth.push_back(std::max(0.0, -price[arc_row(a)]));
    return worth;
  }

  void run() {
    do {
      clp().primal(model_.get(), 0);
      if (clp().status(model_.get()) != 0) clp().dual(model_.get(), 0);
      if (clp().status(model_.get()) != 0) throw std::logic_error("route_by_columns: the simplex method did not end");
    } while (add_better());
  }

  /// Scaled such that sum rate x length is 1.
  void take_lengths(Flow& flow) const {
    flow.length = worth_of_arcs();
    double sum = 0;
    for (const double worth : flow.length) sum += worth;
    for (size_t a = 0; a < network_.arcs.size(); ++a) flow.length[a] /= sum * network_.arcs[a].bytes_per_second;
  }

  const FlowNetwork& network_;
  std::unique_ptr<Clp_Simplex, DeleteModel> model_;
  std::vector<std::vector<size_t>> leaving_;
  std::vector<Pair> pairs_;  ///< by source
  std::vector<Source> sources_;
  std::vector<const Route*> routes_;  ///< of the columns behind the first
  std::vector<size_t> pair_of_;       ///< of the same
  bool costs_ = false;                ///< the second program
  double bytes_unit_ = 0, rate_unit_ = 0;
};

}  // namespace

Flow route_by_columns(const FlowNetwork& network, const Traffic& bytes, bool least_cost, double other_s) {
  return ColumnProgram(network, bytes).solve(least_cost, other_s);
}

}  // namespace ddl::models
