// Pipeline bubbles (specification.md B1 to B4): GPipe and 1F1B, interleaved 1F1B (Megatron), zero bubble (ZB-H1,
// ZB-H2).
//
// Two denominators are in use: of the total time (GPipe) and relative to the ideal one (Megatron). total =
// ideal / (1 + ideal).
#pragma once

#include <cstdint>
#include <vector>

namespace ddl::models {

struct Bubble {
  double of_total = 0;
  double of_ideal = 0;
};

/// `chunks` > 1: interleaved, each device holds that many chunks of the model; micro_batches must then be a
/// multiple of stages.
Bubble pipeline_bubble(int64_t stages, int64_t micro_batches, int64_t chunks = 1);

/// Times of one micro-batch on one stage. `backward_s` is for the input's gradient, `weight_s` for the weights'.
struct StageTimes {
  double forward_s = 0, backward_s = 0, weight_s = 0;
};
enum class Schedule { k1F1B, kZeroBubbleH1, kZeroBubbleH2 };
/// Idle time of a device in a step. ZB-H2 holds more activations; 0 at least.
double bubble_seconds(Schedule schedule, int64_t stages, const StageTimes& times);

/// Makespan of a GPipe step whose stages take the given times per micro-batch forward and backward; transfers are free.
/// For equal stages this is (micro_batches + stages - 1) x (forward + backward).
double gpipe_seconds(const std::vector<double>& forward_s, const std::vector<double>& backward_s,
                     int64_t micro_batches);

/// all forward passes before all backward ones, or one and one in turn once the pipeline is full
enum class PassOrder { kGpipe, k1F1B };

/// Makespan of a step (s) in which stage i takes forward_s[i] and backward_s[i] for each micro-batch and a message to a
/// neighbour hop_s, which holds up nobody but who waits for it: every pass begins when the one before it on its stage
/// and its message are there. For hop_s = 0 and kGpipe it is gpipe_seconds(). Both orders are those of Huang et al.
/// (1811.06965) and of Narayanan et al. (PipeDream-Flush, 2006.09503). O(stages x micro_batches).
double pipeline_seconds(PassOrder order, const std::vector<double>& forward_s, const std::vector<double>& backward_s,
                        int64_t micro_batches, double hop_s = 0);

}  // namespace ddl::models
