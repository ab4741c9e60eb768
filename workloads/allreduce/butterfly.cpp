#include "workloads/allreduce/algorithms.h"
#include "workloads/allreduce/steps.h"

namespace ddl::allreduce {

/* Recursive doubling: (alpha + n beta + n gamma) lg p, and 2 alpha + 2n beta + n gamma to fold and unfold where p is
 * not a power of two. */
void butterfly(Exchange& x, const Settings& /*settings*/) {
  Fold fold(x);
  fold.fold();
  for (int distance = 1; fold.takes_part() && distance < fold.participants(); distance <<= 1) {
    const int partner = fold.rank_of(fold.place() ^ distance);
    x.exchange_and_reduce(x.all(), partner, x.all(), partner);
  }
  fold.unfold();
}

}  // namespace ddl::allreduce
