// Searches of others, to set the tuner's beside (tune_search.cpp): the product has none of them. All are given the same
// bench and the same number of trials, and say which point they would take. None uses a prediction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "autotuner/search.h"

namespace ddl::bench {

struct Peer {
  const char* name;
  size_t (*search)(const tune::Space& space, tune::Bench& bench, size_t trials, uint64_t seed);
};

/// random search; NLopt's DIRECT-L and CRS2 (all three take the point of the best trial that they saw); paired
/// successive halving (each third of the field three times as often, medians); racing (a point leaves once a paired
/// t-test of log times against the leader says so with 95 %, as F-race and irace do); a Gaussian process with expected
/// improvement (Matern 5/2, length scales and noise by likelihood; takes the point of the best posterior mean).
const std::vector<Peer>& peers();

/// So many trials paired successive halving needs to begin with all points.
size_t halving_trials(size_t points);

}  // namespace ddl::bench
