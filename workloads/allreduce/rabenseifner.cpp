#include "workloads/allreduce/algorithms.h"
#include "workloads/allreduce/steps.h"

namespace ddl::allreduce {

/*
 * Reduce-scatter by recursive halving of the vector, allgather by doubling: 2 alpha lg p + 2(p-1)/p n beta + (p-1)/p n gamma, and the fold
 * of the butterfly. Distances double while the vector is halved, so that every partial sum is one of neighbouring ranks, in their order.
 */
void rabenseifner(Exchange& x, const Settings& /*settings*/) {
  struct Step {
    int partner;
    Range kept, given;
  };
  Fold fold(x);
  fold.fold();
  std::vector<Step> steps;
  Range window = x.all();
  for (int distance = 1; fold.takes_part() && distance < fold.participants(); distance <<= 1) {
    const std::size_t half = (fold.place() & distance) ? 1 : 0;
    const Step step{fold.rank_of(fold.place() ^ distance), window.part(half, 2), window.part(1 - half, 2)};
    x.exchange_and_reduce(step.given, step.partner, step.kept, step.partner);
    window = step.kept;
    steps.push_back(step);
  }
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    x.exchange(step->kept, step->partner, step->given, step->partner);
  fold.unfold();
}

}  // namespace ddl::allreduce
