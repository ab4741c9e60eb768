#include "workloads/allreduce/algorithms.h"

namespace ddl::allreduce {

/*
 * What Gloo was seen to do best: halving and doubling up to about a million elements of four bytes, a ring beyond (Goyal et al., 1706.02677,
 * section 4). No order of ranks is kept, so that what commutes does not depend on the size.
 */
void gloo(Exchange& x, const Settings& settings) {
  constexpr std::size_t kRingBytes = 4'000'000;
  if (x.all().size() * x.element_bytes() < kRingBytes)
    rabenseifner(x, settings);
  else
    ring(x, settings);
}

}  // namespace ddl::allreduce
