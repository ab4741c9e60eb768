// Traffic over links that are full duplex, routed such that the busiest one is busy as short as can be: a min-cost
// multi-commodity flow (the subject of IBM's DDL, 1708.02188). Bytes may take several routes at once. First the time of
// the busiest direction of a link is minimised, then under it the time of all together. Both are linear programs with
// one commodity for each source, solved by Clp's simplex; where that is large, by routes that are added as they are
// found to help (route_by_columns()).
//
// By duality the least time of the busiest one is the largest, over lengths l of the directions with sum rate x l = 1,
// of sum bytes(i, j) dist_l(i, j) (Iri 1971, Onaga and Kakusho 1971). The lengths of the solution are a certificate
// that shortest paths check, and bound any other placement of the same traffic from below: mapping.h.
#pragma once

#include <cstddef>
#include <vector>

namespace ddl::models {

/// One direction of a link.
struct Arc {
  size_t from = 0, to = 0;
  double bytes_per_second = 0;
};

/// Nodes are 0 to nodes - 1; all of them pass traffic on.
struct FlowNetwork {
  size_t nodes = 0;
  std::vector<Arc> arcs;
};

/// [i][j]: bytes from i to j; the diagonal does not count.
using Traffic = std::vector<std::vector<double>>;

struct Flow {
  double busiest_s = 0;            ///< time of the arc that is busy longest
  double all_s = 0;                ///< sum over all arcs
  std::vector<double> load_bytes;  ///< of each arc
  std::vector<double> length;      ///< of each arc, the certificate: busiest_s = sum bytes dist_length
};

/// Flow variables of one program at most, sources times arcs, where there is a choice of routes; with more it
/// is one of routes.
constexpr size_t kMostFlows = 2000;

/// `bytes` has a row and a column for each of the first nodes. `least_cost`: also the second program; else
/// all_s is that of the flow found. Throws ddl::Error (kDataMissing): traffic without a route, or of more than
/// kMostPairs. Thread-safe.
Flow route(const FlowNetwork& network, const Traffic& bytes, bool least_cost, size_t most_flows = kMostFlows);

/// Arcs that leave each node.
std::vector<std::vector<size_t>> leaving_arcs(const FlowNetwork& network);

/// From one node by lengths of arcs, not negative (Dijkstra). O(arcs log nodes).
struct ShortestPaths {
  std::vector<double> distance;  ///< by node; infinite without a route
  std::vector<size_t> arc_to;    ///< by node: the last arc of the route to it; 0 for `source` and where there is none
};
ShortestPaths shortest_paths(const FlowNetwork& network, const std::vector<std::vector<size_t>>& leaving, size_t source,
                             const std::vector<double>& length);

/// Shortest distances by lengths of arcs, [from][to]; infinite without a route. O(nodes arcs log nodes).
std::vector<std::vector<double>> distances(const FlowNetwork& network, const std::vector<double>& length);

// ---- The linear programs above over routes instead of flows on arcs, for larger networks, by column generation (Ford
// and Fulkerson 1958): a program knows some routes of each pair, and shortest paths by its prices add those that help,
// until none does. The result is optimal, and certified like the other program's.
/// Pairs with traffic that are taken at most: each is a row of the program.
constexpr size_t kMostPairs = 20000;

/// `other_s`: something else takes so long anyway; the least cost is that of flows which take no longer. all_s is left
/// alone. Throws ddl::Error (kDataMissing): traffic without a route, or more than kMostPairs. Thread-safe.
Flow route_by_columns(const FlowNetwork& network, const Traffic& bytes, bool least_cost, double other_s);

}  // namespace ddl::models
