#include "analyzer/models/flow.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <queue>
#include <stdexcept>

#include "analyzer/models/clp.h"
#include "core/error.h"

namespace ddl::models {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::max();  // what Clp takes for no bound
/// The second program may not be infeasible by rounding in the first.
constexpr double kSlack = 1e-9;

struct DeleteModel {
  void operator()(Clp_Simplex* model) const { clp().deleteModel(model); }
};

/// Columns: flows of each source on each arc, then the time of the busiest one. Rows: what each source brings each
/// node, then the arcs. Bytes and rates are scaled to 1: simplex works with absolute tolerances.
class Program {
 public:
  Program(const FlowNetwork& network, const Traffic& bytes) : network_(network), model_(clp().newModel()) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      double sum = 0;
      for (size_t j = 0; j < bytes.size(); ++j) sum += i == j ? 0 : bytes[i][j];
      if (sum > 0) sources_.push_back(i);
      bytes_unit_ = std::max(bytes_unit_, sum);
    }
    for (const Arc& arc : network.arcs) rate_unit_ = std::max(rate_unit_, arc.bytes_per_second);
    if (!sources_.empty()) load(bytes);
  }

  /// `other_s`: something else takes so long anyway; the least cost is that of flows which take no longer.
  Flow solve(bool least_cost, double other_s) {
    Flow flow;
    flow.load_bytes.assign(network_.arcs.size(), 0);
    flow.length.assign(network_.arcs.size(), 0);
    if (sources_.empty()) return flow;
    run();
    const double busiest = clp().getColSolution(model_.get())[time_column()];
    take_lengths(flow);
    if (least_cost) {
      clp().columnUpper(model_.get())[time_column()] =
          std::max(busiest, other_s * rate_unit_ / bytes_unit_) * (1 + kSlack);
      double* cost = clp().objective(model_.get());
      for (size_t c = 0; c < time_column(); ++c)
        cost[c] = rate_unit_ / network_.arcs[c % network_.arcs.size()].bytes_per_second;
      cost[time_column()] = 0;
      run();
    }
    flow.busiest_s = busiest * bytes_unit_ / rate_unit_;
    const double* solution = clp().getColSolution(model_.get());
    for (size_t c = 0; c < time_column(); ++c) flow.load_bytes[c % network_.arcs.size()] += solution[c] * bytes_unit_;
    return flow;
  }

 private:
  size_t time_column() const { return sources_.size() * network_.arcs.size(); }
  size_t arc_row(size_t arc) const { return sources_.size() * network_.nodes + arc; }

  void load(const Traffic& bytes) {
    const size_t arcs = network_.arcs.size(), rows = arc_row(arcs);
    std::vector<CoinBigIndex> start;
    std::vector<int> index;
    std::vector<double> value, column_upper, cost, row_lower(rows, 0), row_upper(rows, 0);
    for (size_t s = 0; s < sources_.size(); ++s) {
      for (const Arc& arc : network_.arcs) {
        start.push_back(static_cast<CoinBigIndex>(index.size()));
        const auto put = [&](size_t row, double coefficient) {
          index.push_back(static_cast<int>(row)), value.push_back(coefficient);
        };
        put(s * network_.nodes + arc.from, -1);
        put(s * network_.nodes + arc.to, 1);
        put(arc_row(static_cast<size_t>(&arc - network_.arcs.data())), rate_unit_ / arc.bytes_per_second);
        column_upper.push_back(arc.to == sources_[s] ? 0 : kUnlimited);  // nothing of a source comes back to it
        cost.push_back(0);
      }
      for (size_t node = 0; node < network_.nodes; ++node) {
        const bool asks = node < bytes.size() && node != sources_[s];
        const size_t row = s * network_.nodes + node;
        row_lower[row] = row_upper[row] = asks ? bytes[sources_[s]][node] / bytes_unit_ : 0;
        if (node == sources_[s]) row_lower[row] = -kUnlimited, row_upper[row] = 0;  // follows from the others
      }
    }
    start.push_back(static_cast<CoinBigIndex>(index.size()));
    for (size_t a = 0; a < arcs; ++a) {
      index.push_back(static_cast<int>(arc_row(a))), value.push_back(-1);
      row_lower[arc_row(a)] = -kUnlimited;
    }
    start.push_back(static_cast<CoinBigIndex>(index.size()));
    column_upper.push_back(kUnlimited);
    cost.push_back(1);
    const std::vector<double> column_lower(column_upper.size(), 0);
    clp().setLogLevel(model_.get(), 0);
    clp().loadProblem(model_.get(), static_cast<int>(cost.size()), static_cast<int>(rows), start.data(), index.data(),
                      value.data(), column_lower.data(), column_upper.data(), cost.data(), row_lower.data(),
                      row_upper.data());
  }

  void run() {
    clp().dual(model_.get(), 0);
    if (clp().status(model_.get()) != 0) clp().primal(model_.get(), 0);
    if (clp().status(model_.get()) == 1)
      throw Error("some traffic has no route between its places",
                  "add links until every place with a rank can be reached", ExitCode::kDataMissing);
    if (clp().status(model_.get()) != 0) throw std::logic_error("route: the simplex method did not end");
  }

  /// What a second more of each arc would be worth; scaled such that sum rate x length is 1, as the program says
  /// but for rounding.
  void take_lengths(Flow& flow) const {
    const double* price = clp().getRowPrice(model_.get());
    double sum = 0;
    for (size_t a = 0; a < network_.arcs.size(); ++a) sum += flow.length[a] = std::max(0.0, -price[arc_row(a)]);
    for (size_t a = 0; a < network_.arcs.size(); ++a) flow.length[a] /= sum * network_.arcs[a].bytes_per_second;
  }

  const FlowNetwork& network_;
  std::unique_ptr<Clp_Simplex, DeleteModel> model_;
  std::vector<size_t> sources_;
  double bytes_unit_ = 0, rate_unit_ = 0;
};

}  // namespace

namespace {

/// Nodes that hang on one link have no choice: their traffic is handed to the neighbour, again and again. What
/// is left is routed.
class Reduction {
 public:
  Reduction(const FlowNetwork& network, const Traffic& bytes)
      : network_(network), traffic_(network.nodes), leaving_(network.nodes), coming_(network.nodes) {
    for (size_t i = 0; i < network.nodes; ++i) {
      traffic_[i].assign(network.nodes, 0);
      for (size_t j = 0; i < bytes.size() && j < bytes.size(); ++j) traffic_[i][j] = i == j ? 0 : bytes[i][j];
    }
    for (size_t a = 0; a < network.arcs.size(); ++a)
      leaving_[network.arcs[a].from].push_back(a), coming_[network.arcs[a].to].push_back(a);
    flow_.load_bytes.assign(network.arcs.size(), 0);
    flow_.length.assign(network.arcs.size(), 0);
  }

  Flow route(bool least_cost, size_t most_flows) {
    gone_.assign(network_.nodes, false);
    std::vector<size_t> pendant;
    for (size_t node = 0; node < network_.nodes; ++node)
      if (hangs(node)) pendant.push_back(node);
    while (!pendant.empty()) {
      const size_t node = pendant.back();
      pendant.pop_back();
      if (gone_[node] || !hangs(node)) continue;  // the last of a tree hangs on nothing
      const size_t neighbour = network_.arcs[leaving_[node][0]].to;
      hand_over(node, neighbour);
      if (hangs(neighbour)) pendant.push_back(neighbour);
    }
    double taken_s = 0;
    size_t busiest = 0;
    for (size_t a = 0; a < network_.arcs.size(); ++a)
      if (const double seconds = flow_.load_bytes[a] / network_.arcs[a].bytes_per_second; seconds > taken_s)
        taken_s = seconds, busiest = a;
    route_rest(least_cost, taken_s, most_flows);
    if (taken_s >= flow_.busiest_s && taken_s > 0) {
      flow_.busiest_s = taken_s;
      flow_.length.assign(network_.arcs.size(), 0);
      flow_.length[busiest] = 1 / network_.arcs[busiest].bytes_per_second;
    }
    for (size_t a = 0; a < network_.arcs.size(); ++a)
      flow_.all_s += flow_.load_bytes[a] / network_.arcs[a].bytes_per_second;
    return std::move(flow_);
  }

 private:
  bool hangs(size_t node) const {
    return leaving_[node].size() == 1 && coming_[node].size() == 1 &&
           network_.arcs[leaving_[node][0]].to == network_.arcs[coming_[node][0]].from;
  }

  void hand_over(size_t node, size_t neighbour) {
    const size_t out = leaving_[node][0], in = coming_[node][0];
    for (size_t other = 0; other < network_.nodes; ++other) {
      flow_.load_bytes[out] += traffic_[node][other];
      flow_.load_bytes[in] += traffic_[other][node];
      if (other != neighbour)
        traffic_[neighbour][other] += traffic_[node][other], traffic_[other][neighbour] += traffic_[other][node];
      traffic_[node][other] = traffic_[other][node] = 0;
    }
    gone_[node] = true;
    leaving_[node].clear(), coming_[node].clear();
    std::erase(leaving_[neighbour], in);
    std::erase(coming_[neighbour], out);
  }

  void route_rest(bool least_cost, double taken_s, size_t most_flows) {
    std::vector<size_t> number(network_.nodes, 0), node_of, arc_of;
    for (size_t node = 0; node < network_.nodes; ++node)
      if (!gone_[node]) number[node] = node_of.size(), node_of.push_back(node);
    FlowNetwork rest{node_of.size(), {}};
    for (size_t a = 0; a < network_.arcs.size(); ++a) {
      const Arc& arc = network_.arcs[a];
      if (!gone_[arc.from] && !gone_[arc.to])
        rest.arcs.push_back({number[arc.from], number[arc.to], arc.bytes_per_second}), arc_of.push_back(a);
    }
    Traffic bytes(rest.nodes, std::vector<double>(rest.nodes));
    size_t sources = 0;
    for (size_t i = 0; i < rest.nodes; ++i) {
      for (size_t j = 0; j < rest.nodes; ++j) bytes[i][j] = i == j ? 0 : traffic_[node_of[i]][node_of[j]];
      sources += std::any_of(bytes[i].begin(), bytes[i].end(), [](double sent) { return sent > 0; });
    }
    const Flow flow = sources * rest.arcs.size() > most_flows ? route_by_columns(rest, bytes, least_cost, taken_s)
                                                              : Program(rest, bytes).solve(least_cost, taken_s);
    flow_.busiest_s = flow.busiest_s;
    for (size_t a = 0; a < arc_of.size(); ++a)
      flow_.load_bytes[arc_of[a]] = flow.load_bytes[a], flow_.length[arc_of[a]] = flow.length[a];
  }

  const FlowNetwork& network_;
  Traffic traffic_;
  std::vector<std::vector<size_t>> leaving_, coming_;  ///< arcs that are left
  std::vector<bool> gone_;
  Flow flow_;
};

}  // namespace

Flow route(const FlowNetwork& network, const Traffic& bytes, bool least_cost, size_t most_flows) {
  return Reduction(network, bytes).route(least_cost, most_flows);
}

std::vector<std::vector<size_t>> leaving_arcs(const FlowNetwork& network) {
  std::vector<std::vector<size_t>> leaving(network.nodes);
  for (size_t a = 0; a < network.arcs.size(); ++a) leaving[network.arcs[a].from].push_back(a);
  return leaving;
}

ShortestPaths shortest_paths(const FlowNetwork& network, const std::vector<std::vector<size_t>>& leaving, size_t source,
                             const std::vector<double>& length) {
  ShortestPaths paths{std::vector<double>(network.nodes, std::numeric_limits<double>::infinity()),
                      std::vector<size_t>(network.nodes, 0)};
  std::priority_queue<std::pair<double, size_t>, std::vector<std::pair<double, size_t>>, std::greater<>> next;
  paths.distance[source] = 0;
  for (next.emplace(0, source); !next.empty();) {
    const auto [so_far, node] = next.top();
    next.pop();
    if (so_far > paths.distance[node]) continue;
    for (const size_t a : leaving[node]) {
      const double further = so_far + length[a];
      const size_t to = network.arcs[a].to;
      if (further >= paths.distance[to]) continue;
      paths.distance[to] = further;
      paths.arc_to[to] = a;
      next.emplace(further, to);
    }
  }
  return paths;
}

std::vector<std::vector<double>> distances(const FlowNetwork& network, const std::vector<double>& length) {
  const std::vector<std::vector<size_t>> leaving = leaving_arcs(network);
  std::vector<std::vector<double>> all;
  for (size_t source = 0; source < network.nodes; ++source)
    all.push_back(shortest_paths(network, leaving, source, length).distance);
  return all;
}

}  // namespace ddl::models
