// A rank that keeps the others waiting for a second and more, but in a few steps only.
//
// The rule of the straggler (straggler_case.h) looks for lateness that goes on: it wants five steps of it, and more
// than chance. One stall of half a minute in a run of minutes is no habit, yet it is where the time went, and who came
// last to the collective is no matter of chance.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/findings/straggler_case.h"

namespace ddl {

constexpr double kLeastStallNs = 1e9;  ///< waiting of the others, on average, in one step ...
constexpr double kStallOfStep = 10;    ///< ... and against the median step
constexpr double kStallsOfRun = 0.05;  ///< of the time of all steps that count: less is not worth a finding

struct RareStalls {
  int64_t rank = 0;
  size_t others = 0;           ///< ranks
  std::vector<int64_t> steps;  ///< in which it stalled, ascending
  size_t all_steps = 0;
  double stalled_ns = 0;  ///< what the others waited for it in those steps: their mean
  double longest_ns = 0;  ///< in one of them
  double share = 0;       ///< of the time of all steps
  double compute_ns = 0;  ///< of the rank, mean of those steps
  double blocked_ns = 0;  ///< likewise: neither computing nor in communication
};

/// The rank that cost most so; nothing where steps are not known, or ranks left no record, for which it may
/// have waited itself.
std::optional<RareStalls> find_rare_stalls(const StragglerInput& input);

}  // namespace ddl
