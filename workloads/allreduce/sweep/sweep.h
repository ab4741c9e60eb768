#pragma once

#include <string>
#include <vector>

#include "workloads/allreduce/sweep/candidates.h"

namespace ddl::allreduce {

/**
 * Measures every candidate at every size in every round and prints a row for each (rank 0). Collective.
 *
 * All candidates take a size in turn, and each round begins with another one, so that whatever disturbs the machine for
 * a while meets all alike and their ratios within a round stand. A time is the mean of back-to-back calls, the longest
 * of all ranks: rank 0's alone, or one call after a barrier, would reward algorithms that let some ranks leave early.
 * How many calls make a mean follows from the time that one took last and the time that is left.
 *
 * A size of a round is printed when it is complete; when the time is up in the middle of one, that one is left out and
 * a comment says so. Returns what is wrong with a sum: a sentence on the rank that is to say it, a single blank on the
 * others; empty: all are right. */
std::string run_sweep(const Options& options, const std::vector<Candidate>& candidates);

}  // namespace ddl::allreduce
