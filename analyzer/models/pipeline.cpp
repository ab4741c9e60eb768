#include "analyzer/models/pipeline.h"

#include <algorithm>

namespace ddl::models {

Bubble pipeline_bubble(int64_t stages, int64_t micro_batches, int64_t chunks) {
  const double idle = static_cast<double>(stages - 1);
  const double busy = static_cast<double>(micro_batches * chunks);
  return {idle / (busy + idle), idle / busy};
}

double bubble_seconds(Schedule schedule, int64_t stages, const StageTimes& times) {
  const double f_and_b = times.forward_s + times.backward_s;
  const double one = schedule == Schedule::k1F1B           ? f_and_b + times.weight_s
                     : schedule == Schedule::kZeroBubbleH1 ? f_and_b - times.weight_s
                                                           : f_and_b - 2 * times.weight_s;
  return static_cast<double>(stages - 1) * std::max(0.0, one);
}

namespace {

// When the last of `micro_batches` has passed all stages in order. A flow shop in which every item takes the same time on a machine: the
// first passes all of them, the others follow at the pace of the slowest.
double flow_seconds(const std::vector<double>& stage_s, int64_t micro_batches) {
  double first = 0, slowest = 0;
  for (const double s : stage_s) first += s, slowest = std::max(slowest, s);
  return first + static_cast<double>(micro_batches - 1) * slowest;
}

}  // namespace

double gpipe_seconds(const std::vector<double>& forward_s, const std::vector<double>& backward_s, int64_t micro_batches) {
  return flow_seconds(forward_s, micro_batches) + flow_seconds(backward_s, micro_batches);
}

}  // namespace ddl::models
