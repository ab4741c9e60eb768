// What ranks send one another when collectives are carried out: messages of the algorithms of allreduce_cost.h, so that
// placements can be judged for jobs that never send a message themselves. Which algorithm a library ran is not in a
// recording: it is stated, and said.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/models/allreduce_cost.h"
#include "analyzer/models/flow.h"
#include "analyzer/models/link_fit.h"

namespace ddl::models {

struct TrafficPlan {
  Algorithm algorithm = Algorithm::kRing;
  /// Rings over several dimensions, first one along neighbours, for allreduces on as many ranks as their product;
  /// empty: `algorithm`.
  std::vector<int64_t> dimensions;
  std::vector<size_t> order;  ///< of ranks, for the dimensions and rings: node by node; empty: by number
};

/// Adds `times` collectives of `bytes` (S of nccl-tests: the whole buffer) on `members`, whose entries are rows of
/// `traffic`. `root`: which of them, for broadcasts and reductions. Allgather and reduce-scatter go around a ring,
/// broadcast and reduce along a binomial tree.
void add_collective(Traffic& traffic, Collective collective, const TrafficPlan& plan, std::vector<size_t> members,
                    size_t root, double bytes, double times);
/// The same of all-to-alls: each member sends its `bytes` in equal parts to all, itself included.
void add_all_to_all(Traffic& traffic, const std::vector<size_t>& members, double bytes, double times);

}  // namespace ddl::models
