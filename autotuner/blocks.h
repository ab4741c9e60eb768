// A round of an in-run tuning: lays points over the steps of one job, and computes their step times.
//
// Points A, B, C run as A B C C B A. Whatever drifts evenly during the round - samples that grow, a processor that
// warms up, a neighbour's rising load - weighs on all alike, since the two parts of each point lie around the same
// moment, and cancels in their ratios. The last point's two parts are one block. The first steps after a switch still
// show the values before, and are not counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ddl::tune {

constexpr uint64_t kWarmUpSteps = 2;  ///< of each block

/// A block of steps with the values of one of the round's points.
struct PlannedBlock {
  size_t index = 0;    ///< index of the point in the round
  uint64_t steps = 0;  ///< including those not counted
};

/// `half_steps`: for each point of the round, how many steps of each of its two parts count; at least 1.
std::vector<PlannedBlock> plan_round(const std::vector<uint64_t>& half_steps);

/// The step time of a point: the geometric mean of the medians of its parts. `blocks`: the step times of each of its
/// blocks in order, uncounted steps included. Nothing: no block has a step that counts.
std::optional<double> step_s_of(const std::vector<std::vector<double>>& blocks);

/// The number of steps of `step_s` that take about `wanted_s`, within bounds.
uint64_t steps_for(double wanted_s, double step_s, uint64_t least, uint64_t most);

/// How long ranks go on by themselves before they take the tuner for gone. They look once in a block of `filler_steps`,
/// and the tuner, which sees a step only when it has ended, publishes behind such a block.
uint64_t patience_s_for(uint64_t filler_steps, double step_s);

}  // namespace ddl::tune
