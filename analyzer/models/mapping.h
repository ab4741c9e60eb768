// Placement of ranks: ranks that exchange much belong behind fast links, and no link should carry what others
// could (the subject of IBM's DDL, 1708.02188). A placement costs the time of the link direction that is busy
// longest under optimal routing (flow.h: several routes at once); ties are decided by bytes times the time per
// byte of the fastest route.
//
// Up to kExactPlaces places the search is exact: branch and bound over placements. Lengths of links bound a placement
// from below (flow.h); a placement that no known lengths rule out is routed, and either is the best so far or yields
// lengths that rule it out (cutting planes). Beyond, a local search exchanges ranks, from several beginnings, over the
// same bounds; the result is routed. A lower bound for every placement comes with it: for each set of lengths the
// Gilmore-Lawler bound of the quadratic assignment problem (Gilmore 1962, Lawler 1963).
#pragma once

#include <cstddef>
#include <vector>

#include "analyzer/models/flow.h"

namespace ddl::models {

constexpr size_t kExactPlaces = 9;
constexpr size_t kMostPlaces = 128;

/// Full duplex: so much in each direction. Links between the same nodes add up.
struct PlaceLink {
  size_t a = 0, b = 0;
  double bytes_per_second = 0;
};

struct Mapping {
  std::vector<size_t> place;            ///< of each rank
  double busiest_s = 0;                 ///< the direction of a link that is busy longest
  double all_s = 0;                     ///< all directions
  double distance_s = 0;                ///< bytes x time per byte on the fastest route, of all pairs
  double bound_s = 0;                   ///< of best(): busiest_s of no placement is below it
  bool exact = false;                   ///< of best(): nothing is better
  std::vector<double> load_bytes = {};  ///< of each arc of network()
};

class Network {
 public:
  /// Nodes 0 to places - 1 take a rank each, those behind are switches, without ranks. Throws ddl::Error
  /// (kDataMissing): more than kMostPlaces places, a link to nowhere or without bandwidth, or places that no route
  /// joins.
  Network(size_t places, size_t switches, const std::vector<PlaceLink>& links);

  const FlowNetwork& network() const { return network_; }
  /// `bytes`: between ranks.
  Mapping evaluate(const Traffic& bytes, const std::vector<size_t>& place) const;
  /// The best of all, or the best found; on a tie ranks stay at the place of their own number. Throws ddl::Error
  /// (kDataMissing) for more ranks than places.
  Mapping best(const Traffic& bytes) const;

 private:
  friend class Placement;
  Traffic at_places(const Traffic& bytes, const std::vector<size_t>& place) const;

  size_t places_;
  FlowNetwork network_;                          ///< arcs 2i and 2i + 1 are the two directions of a link
  std::vector<std::vector<double>> per_byte_s_;  ///< of the fastest route between two nodes
  bool tree_ = false;                            ///< one route between any two nodes
};

/// Least sum over ranks of what their places cost, each place for one at most: cost[rank][place], not more ranks than
/// places. Hungarian method, O(ranks^2 places).
double least_assignment(const std::vector<std::vector<double>>& cost);

}  // namespace ddl::models
