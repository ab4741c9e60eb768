#include "workloads/allreduce/algorithms.h"
#include "workloads/allreduce/steps.h"

namespace ddl::allreduce {

/* Reduce-scatter and allgather around the ring of ranks: 2(p-1) alpha + 2(p-1)/p n beta + (p-1)/p n gamma. */
void ring(Exchange& x, const Settings& /*settings*/) {
  const std::vector<int> ranks = all_ranks(x);
  const auto me = static_cast<std::size_t>(x.rank());
  ring_reduce_scatter(x, ranks, me, x.all());
  ring_allgather(x, ranks, me, x.all());
}

}  // namespace ddl::allreduce
