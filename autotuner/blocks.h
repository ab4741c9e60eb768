// A round of an in-run tuning: how points are laid over the steps of one job, and what their steps say of them.
//
// The points of a round come one after the other, and then once more in the opposite order: A B C C B A. What drifts evenly while the round
// goes on - a dataset whose samples grow, a processor that warms up, a neighbour whose load rises - then weighs on all of them alike,
// since the two parts of each point lie around the same moment, and is in no ratio of two of them. The last point's two parts are one block.
// The first steps after a switch show what is left of the values before, and are not counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ddl::tune {

constexpr uint64_t kWarmUpSteps = 2;  ///< of each block

/// A block of steps with the values of one of the round's points.
struct PlannedBlock {
  size_t index = 0;    ///< of the point in the round
  uint64_t steps = 0;  ///< with those that are not counted
};

/// `half_steps`: of each point of the round, how many steps of each of its two parts count; at least 1.
std::vector<PlannedBlock> plan_round(const std::vector<uint64_t>& half_steps);

/// The time of a step of one point: the geometric mean of the medians of its parts. `blocks`: of one point, the times of their steps in order, those that are
/// not counted among them. Nothing: no block has a step that counts.
std::optional<double> step_s_of(const std::vector<std::vector<double>>& blocks);

/// So many steps of `step_s` as take about `wanted_s`, within bounds.
uint64_t steps_for(double wanted_s, double step_s, uint64_t least, uint64_t most);

}  // namespace ddl::tune
