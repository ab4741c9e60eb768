// Steps of groups of ranks that repeat by themselves and wait for each other now and then (a coupled model): the ocean
// reduces three times while the atmosphere reduces once, and then they exchange.
//
//   ocean        r . r . r X r . r . r X r        X: the exchange; each r ends what looks like a step
//   atmosphere   r . . . . X r . . . . X r
//
// By their numbers the third step of one would be compared with the third of the other, which is not over when the
// first one's seventh is. So a step of each group is what lies from the reduction before an exchange to the one before
// the next, if that holds as many reductions nearly always; the steps of groups whose exchanges are over at the same
// time get the same number.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/passes/partition.h"

namespace ddl {

/// What one member of a group did.
struct GroupSteps {
  std::vector<Interval> units;      ///< what repeats, in order; of those without a time an empty one
  std::vector<Interval> exchanges;  ///< its calls with ranks of other groups, by their begin
};

struct CoupledSteps {
  struct Step {
    size_t first = 0, last = 0;  ///< [first, last) units
    int64_t number = 0;
  };
  std::vector<Step> steps;
  size_t units = 1;  ///< in each of them
};

/// The groups make as many units in the time in which all of them do, but for a tenth and those at its ends.
bool keep_step(std::span<const GroupSteps> groups);

/// By group. Nothing: groups do not exchange regularly, or not as often as the others.
std::optional<std::vector<CoupledSteps>> couple_steps(std::span<const GroupSteps> groups);

}  // namespace ddl
