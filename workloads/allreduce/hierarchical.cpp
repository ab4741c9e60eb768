#include <algorithm>

#include "workloads/allreduce/algorithms.h"
#include "workloads/allreduce/steps.h"

namespace ddl::allreduce {

namespace {

std::size_t place_in(const std::vector<int>& group, int rank) {
  return static_cast<std::size_t>(std::find(group.begin(), group.end(), rank) - group.begin());
}

}  // namespace

/* Binomial reduction to the leader of each node, ring of the leaders, binomial broadcast within the node. Any number of
 * ranks per node. */
void hierarchical(Exchange& x, const Settings& settings) {
  const std::vector<int>& node = settings.topology.members(settings.topology.node_of(x.rank()));
  const std::vector<int>& leaders = settings.topology.leaders();
  const std::size_t me = place_in(node, x.rank());
  binomial_reduce(x, node, me, x.all());
  if (me == 0) {
    const std::size_t place = place_in(leaders, x.rank());
    ring_reduce_scatter(x, leaders, place, x.all());
    ring_allgather(x, leaders, place, x.all());
  }
  binomial_broadcast(x, node, me, x.all());
}

}  // namespace ddl::allreduce
