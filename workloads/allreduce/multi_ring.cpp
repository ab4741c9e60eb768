#include <algorithm>

#include "workloads/allreduce/algorithms.h"
#include "workloads/allreduce/steps.h"

namespace ddl::allreduce {

/*
 * Ranks form a grid of d_1 x d_2 x ... x d_k; reduce-scatter around rings of the first dimension, of the second on what is left, and so on,
 * then allgathers back: sum over i of 2(d_i - 1) alpha_i + (d_i - 1)/d_i n/(d_1 ... d_(i-1)) (2 beta_i + gamma). The first dimension moves
 * most, so it runs along neighbours of Topology::by_node: within the nodes, where d_1 divides their size.
 */
void multi_ring(Exchange& x, const Settings& settings) {
  struct Ring {
    std::vector<int> group;
    std::size_t me;
    Range range;
  };
  const std::vector<int>& ranks = settings.topology.by_node();
  const auto place = static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), x.rank()) - ranks.begin());
  std::vector<Ring> rings;
  Range window = x.all();
  std::size_t stride = 1;
  for (const int ranks_in_dimension : settings.dimensions) {
    const auto p = static_cast<std::size_t>(ranks_in_dimension);
    Ring ring{{}, place / stride % p, window};
    for (std::size_t i = 0; i < p; ++i) ring.group.push_back(ranks[place - ring.me * stride + i * stride]);
    ring_reduce_scatter(x, ring.group, ring.me, ring.range);
    window = window.part(ring.me, p);
    stride *= p;
    rings.push_back(std::move(ring));
  }
  for (auto ring = rings.rbegin(); ring != rings.rend(); ++ring) ring_allgather(x, ring->group, ring->me, ring->range);
}

}  // namespace ddl::allreduce
