// Multi-dimensional rings: every way to write the ranks as an ordered product is a plan. [p] is the flat ring, [g, q] the hierarchical one,
// [2, 2, ...] over equal links is Rabenseifner's: one search space (specification.md "Cost of allreduces"; the idea is IBM DDL's,
// 1708.02188).
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/models/allreduce_cost.h"

namespace ddl::models {

/// Ranks are numbered through the nodes: 0 .. ranks_per_node-1 on the first.
struct Cluster {
  int64_t ranks = 1;
  int64_t ranks_per_node = 1;  ///< a divisor of ranks
  Link inner;                  ///< between ranks of a node
  Link outer;                  ///< between nodes: what each rank gets while all of its node send
};

struct RingPlan {
  std::vector<int64_t> factors;  ///< first dimension first: neighbours in rank order
  double seconds = 0;
};

/// The dimensions of a plan with their links: a dimension whose rings stay within nodes uses the inner one.
std::vector<Dimension> dimensions_of(const std::vector<int64_t>& factors, const Cluster& cluster);

/// The `most` cheapest of all ordered factorisations of the ranks into factors of at least 2, cheapest first; ties go to fewer dimensions.
std::vector<RingPlan> best_ring_plans(const Cluster& cluster, double bytes, size_t most);

/// The search is exhaustive; beyond this number of ranks it would take too long.
constexpr int64_t kMostPlannedRanks = 65536;

}  // namespace ddl::models
