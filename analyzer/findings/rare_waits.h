// A rank that keeps the others waiting in messages now and then, each time for far longer than anybody waits else: it
// was stopped, paged out, or something else ran on its core.
//
// The rule of the straggler (straggler_case.h) counts how often a rank is late, and most messages of such a rank
// are in time; that of rare_stalls.h wants a second in a step. Here the long waits alone count: nearly all are for
// one rank, more than chance would have it, and they are few among the waits for it and come now and then, else it
// is late as a habit.
#pragma once

#include <cstdint>
#include <optional>

#include "analyzer/findings/finding.h"

namespace ddl {

struct RareWaits {
  int64_t rank = 0;
  size_t others = 0;      ///< ranks
  size_t stalls = 0;      ///< of the rank; several may wait during one
  size_t all_stalls = 0;  ///< of all ranks
  double least_ns = 0;    ///< a wait as long as this is a long one ...
  double median_ns = 0;   ///< ... while that of all waits in messages is this
  double typical_ns = 0;  ///< median length of the rank's stalls
  double longest_ns = 0;
  double waited_ns = 0;  ///< in long waits for it: mean of the others
  double share = 0;      ///< of the run
};

/// Nothing where ranks left no record, for which the rank may have waited itself.
std::optional<RareWaits> find_rare_waits(const FindingInput& input, size_t ranks);

}  // namespace ddl
