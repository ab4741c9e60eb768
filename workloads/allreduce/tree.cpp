#include "workloads/allreduce/algorithms.h"
#include "workloads/allreduce/steps.h"

namespace ddl::allreduce {

/* Binomial reduction to rank 0, binomial broadcast from it: (2 alpha + 2n beta + n gamma) ceil(lg p) through rank 0. */
void tree(Exchange& x, const Settings& /*settings*/) {
  const std::vector<int> ranks = all_ranks(x);
  const auto me = static_cast<std::size_t>(x.rank());
  binomial_reduce(x, ranks, me, x.all());
  binomial_broadcast(x, ranks, me, x.all());
}

}  // namespace ddl::allreduce
