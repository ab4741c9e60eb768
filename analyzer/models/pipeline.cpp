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

// When the last of `micro_batches` has passed all stages in order. A flow shop in which every item takes the same time
// on a machine: the first passes all of them, the others follow at the pace of the slowest.
double flow_seconds(const std::vector<double>& stage_s, int64_t micro_batches) {
  double first = 0, slowest = 0;
  for (const double s : stage_s) first += s, slowest = std::max(slowest, s);
  return first + static_cast<double>(micro_batches - 1) * slowest;
}

}  // namespace

double gpipe_seconds(const std::vector<double>& forward_s, const std::vector<double>& backward_s,
                     int64_t micro_batches) {
  return flow_seconds(forward_s, micro_batches) + flow_seconds(backward_s, micro_batches);
}

double pipeline_seconds(PassOrder order, const std::vector<double>& forward_s, const std::vector<double>& backward_s,
                        int64_t micro_batches, double hop_s) {
  const size_t stages = forward_s.size(), m = static_cast<size_t>(micro_batches);
  struct Lane {
    size_t forward = 0, backward = 0;  // passes done
    double now_s = 0;
  };
  std::vector<Lane> lanes(stages);
  // when a pass of the stage was over
  std::vector<std::vector<double>> sent(stages, std::vector<double>(m)), returned = sent;
  const auto next_is_backward = [&](size_t stage) {
    const Lane& lane = lanes[stage];
    if (lane.forward == m) return true;
    if (order == PassOrder::kGpipe) return false;
    // stages - 1 - stage passes fill the pipeline; from then on a forward pass before each backward one.
    return lane.forward > lane.backward + (stages - 1 - stage);
  };
  // A stage goes on as long as what it waits for is there; a sweep in which none does cannot be before all are done.
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t i = 0; i < 2 * stages; ++i) {  // there and back again: messages go both ways
      const size_t stage = i < stages ? i : 2 * stages - 1 - i;
      Lane& lane = lanes[stage];
      while (lane.backward < m) {
        const bool back = next_is_backward(stage);
        const size_t number = back ? lane.backward : lane.forward;
        double ready_s = lane.now_s;
        if (back && stage + 1 < stages) {
          if (lanes[stage + 1].backward <= number) break;
          ready_s = std::max(ready_s, returned[stage + 1][number] + hop_s);
        } else if (!back && stage > 0) {
          if (lanes[stage - 1].forward <= number) break;
          ready_s = std::max(ready_s, sent[stage - 1][number] + hop_s);
        }
        lane.now_s = ready_s + (back ? backward_s[stage] : forward_s[stage]);
        (back ? returned : sent)[stage][number] = lane.now_s;
        ++(back ? lane.backward : lane.forward);
        moved = true;
      }
    }
  }
  double end_s = 0;
  for (const Lane& lane : lanes) end_s = std::max(end_s, lane.now_s);
  return end_s;
}

}  // namespace ddl::models
