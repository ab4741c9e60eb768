// Multi-dimensional rings: every way to write the ranks as an ordered product is a plan. [p] is the flat ring, [g, q]
// the hierarchical one, [2, 2, ...] over equal links is Rabenseifner's: one search space
// (specification.md "Cost of allreduces"; the idea is IBM DDL's, 1708.02188).
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/models/allreduce_cost.h"

namespace ddl::models {

/// Tiers, innermost first: {4, NVLink}, {16, InfiniBand}, {3, spine} are three racks of 16 hosts of four
/// ranks, numbered through the tiers. The link of a tier is what each rank gets while all others use
/// theirs. At least one tier.
using Cluster = std::vector<Dimension>;
int64_t ranks_of(const Cluster& cluster);
/// As many ranks of the cluster as `ranks`, the innermost tiers first: 8 of 4 x 16 x 3 are 4 x 2. Empty where that many
/// fill no whole groups.
Cluster first_ranks(const Cluster& cluster, int64_t ranks);

struct RingPlan {
  std::vector<int64_t> factors;  ///< first dimension first: neighbours in rank order
  double seconds = 0;
};

/// The dimensions of a plan with their links: the innermost tier that its rings stay within. Where ranks share
/// that link it is shared by as many rings as leave a group: one of a flat ring, all ranks of a host in the
/// dimension between hosts.
std::vector<Dimension> dimensions_of(const std::vector<int64_t>& factors, const Cluster& cluster);

/// The `most` cheapest of all ordered factorisations of the ranks into factors of at least 2, cheapest first; ties go
/// to fewer dimensions.
std::vector<RingPlan> best_ring_plans(const Cluster& cluster, double bytes, size_t most);

/// The search is exhaustive; beyond this number of ranks it would take too long.
constexpr int64_t kMostPlannedRanks = 65536;

}  // namespace ddl::models
