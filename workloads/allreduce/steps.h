#pragma once

#include <span>

#include "workloads/allreduce/exchange.h"

/* What several algorithms are made of. A group is a list of ranks that all its members know alike; `me` is the
 * caller's place in it. */
namespace ddl::allreduce {

/** Along a binomial tree to group[0], in the order of the group; the others' elements are then partial sums. */
void binomial_reduce(Exchange& x, std::span<const int> group, std::size_t me, Range range);
void binomial_broadcast(Exchange& x, std::span<const int> group, std::size_t me, Range range);

/** Around the ring; member i ends with the result of the group in range.part(i, group.size()). */
void ring_reduce_scatter(Exchange& x, std::span<const int> group, std::size_t me, Range range);
/** From there to all members. */
void ring_allgather(Exchange& x, std::span<const int> group, std::size_t me, Range range);

/** 0, 1, ..., ranks - 1. */
std::vector<int> all_ranks(const Exchange& x);

/**
 * Where the number of ranks is not a power of two: of the first 2 (p - 2^k) ranks each odd one hands its contribution
 * to the even one before it (`fold`), which takes part for both and hands the result back at the end (`unfold`).
 * Neighbours in rank order, so that operations that do not commute stay in order. */
class Fold {
 public:
  explicit Fold(Exchange& x);
  void fold();
  void unfold();

  bool takes_part() const { return place_ >= 0; }
  int place() const { return place_; }  ///< among those who take part
  int participants() const { return participants_; }
  int rank_of(int place) const { return place < surplus_ ? 2 * place : place + surplus_; }

 private:
  Exchange& x_;
  int participants_;
  int surplus_;
  int place_;
};

}  // namespace ddl::allreduce
