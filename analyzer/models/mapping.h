// Which rank should sit where: ranks that exchange much belong behind fast links, and no link should carry what others could (the idea
// is that of IBM's DDL, 1708.02188, which solves a min-cost multi-commodity flow for four vertices offline).
//
// Places are joined by links that carry so many bytes per second in each direction. Between two places all bytes take the route on which a
// byte takes least time. What a mapping costs is the time of the link that is busy longest, then the time of all. The search is exact: it
// tries all mappings, leaving out those that begin worse than the best one ends.
#pragma once

#include <cstddef>
#include <vector>

namespace ddl::models {

constexpr size_t kMostPlaces = 9;

struct PlaceLink {
  size_t a = 0, b = 0;
  double bytes_per_second = 0;
};

struct Mapping {
  std::vector<size_t> place;  ///< of each rank
  double busiest_s = 0;       ///< the link that is busy longest, one direction
  double all_s = 0;           ///< all links
};

/// bytes[i][j]: from rank i to rank j. A Network has the routes between its places.
class Network {
 public:
  /// Throws ddl::Error (kDataMissing): more than kMostPlaces, a link to nowhere, without bandwidth, or places that no route joins.
  Network(size_t places, const std::vector<PlaceLink>& links);

  Mapping evaluate(const std::vector<std::vector<double>>& bytes, const std::vector<size_t>& place) const;
  /// The best of all; on a tie the one that moves the fewest ranks from the place of their own number. Throws ddl::Error (kDataMissing) for
  /// more ranks than places.
  Mapping best(const std::vector<std::vector<double>>& bytes) const;

 private:
  struct Search;
  void load(std::vector<double>& seconds, size_t from, size_t to, double bytes) const;
  static bool better(const Mapping& a, const Mapping& b);
  size_t places_;
  std::vector<double> per_byte_s_;           ///< of each direction of each link
  std::vector<std::vector<size_t>> routes_;  ///< directions of links on the way from place i to place j, by i * places + j
};

}  // namespace ddl::models
