// The steps' computing is uneven: ranks take turns at being the slowest - samples of unlike length, experts, adaptive
// work -, and whoever it is makes all others wait. No rank is late again and again, so that no straggler is found.
// Where training threads are sampled, what they sleep outside communication counts, too.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/findings/finding.h"

namespace ddl {

struct UnevenSteps {
  size_t steps = 0;
  /// longest less mean, mean over the steps; what a rank computes longer or shorter throughout is not in it
  double excess_ns = 0;
  double mean_ns = 0;                               ///< of a rank
  bool sleeping = false;                            ///< most of the excess: the training thread is blocked
  double saving_ns = 0;                             ///< per step: no more than is waited
  std::vector<std::pair<size_t, int64_t>> longest;  ///< in how many steps a rank was, most first
};

/// What steps compute as threads see it; where GPUs carry out collectives, what these compute. Nothing: it is even, one
/// rank is mostly the longest, or it costs too little. Computing on cores that ranks share is uneven by itself
/// (crowding.h): there only sleep counts.
std::optional<UnevenSteps> find_uneven_steps(const FindingInput& input);

}  // namespace ddl
