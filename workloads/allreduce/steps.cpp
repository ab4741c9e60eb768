#include "workloads/allreduce/steps.h"

#include <bit>
#include <numeric>

namespace ddl::allreduce {

void binomial_reduce(Exchange& x, std::span<const int> group, std::size_t me, Range range) {
  for (std::size_t mask = 1; mask < group.size(); mask <<= 1) {
    if (me & mask) {
      x.send(range, group[me - mask]);
      return;
    }
    if (me + mask < group.size()) x.receive_and_reduce(range, group[me + mask]);
  }
}

void binomial_broadcast(Exchange& x, std::span<const int> group, std::size_t me, Range range) {
  std::size_t mask = std::bit_ceil(group.size());
  if (me != 0) {
    mask = me & (~me + 1);  // the lowest bit: the parent lacks it, the children have one below it
    x.receive(range, group[me - mask]);
  }
  for (mask >>= 1; mask > 0; mask >>= 1) {
    if (me + mask < group.size()) x.send(range, group[me + mask]);
  }
}

void ring_reduce_scatter(Exchange& x, std::span<const int> group, std::size_t me, Range range) {
  const std::size_t p = group.size();
  const int right = group[(me + 1) % p];
  const int left = group[(me + p - 1) % p];
  for (std::size_t step = 0; step + 1 < p; ++step) {
    const Range out = range.part((me + 2 * p - 1 - step) % p, p);
    const Range in = range.part((me + 2 * p - 2 - step) % p, p);
    x.exchange_and_reduce(out, right, in, left);
  }
}

void ring_allgather(Exchange& x, std::span<const int> group, std::size_t me, Range range) {
  const std::size_t p = group.size();
  const int right = group[(me + 1) % p];
  const int left = group[(me + p - 1) % p];
  for (std::size_t step = 0; step + 1 < p; ++step) {
    const Range out = range.part((me + p - step) % p, p);
    const Range in = range.part((me + 2 * p - 1 - step) % p, p);
    x.exchange(out, right, in, left);
  }
}

std::vector<int> all_ranks(const Exchange& x) {
  std::vector<int> ranks(static_cast<std::size_t>(x.ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Fold::Fold(Exchange& x)
    : x_(x),
      participants_(static_cast<int>(std::bit_floor(static_cast<unsigned>(x.ranks())))),
      surplus_(x.ranks() - participants_) {
  if (x.rank() >= 2 * surplus_) {
    place_ = x.rank() - surplus_;
  } else {
    place_ = x.rank() % 2 == 0 ? x.rank() / 2 : -1;
  }
}

void Fold::fold() {
  if (x_.rank() >= 2 * surplus_) return;
  if (takes_part()) {
    x_.receive_and_reduce(x_.all(), x_.rank() + 1);
  } else {
    x_.send(x_.all(), x_.rank() - 1);
  }
}

void Fold::unfold() {
  if (x_.rank() >= 2 * surplus_) return;
  if (takes_part()) {
    x_.send(x_.all(), x_.rank() + 1);
  } else {
    x_.receive(x_.all(), x_.rank() - 1);
  }
}

}  // namespace ddl::allreduce
