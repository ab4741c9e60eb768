// What the predictor is told: the job as it is, once more with another batch and finer buckets, and the sweep of the algorithms.
#pragma once

#include <optional>
#include <vector>

#include "autotuner/predict.h"
#include "autotuner/sweep.h"
#include "autotuner/trial_facts.h"

namespace ddl::tune {

struct CalibratingTrial {
  const TrialFacts& facts;
  double batch = 0;                          ///< per rank; 0: it is not tuned
  std::optional<double> bucket_mb = {};      ///< likewise
  std::optional<double> micro_batches = {};  ///< likewise
};

/// Computing that does not grow with the batch follows from the two batches; gradients are those of the trial that sent more of them, on
/// the first one's time; how they become buckets is told by what the first one sent of them. What a micro-batch costs follows from the two
/// trials where they have the same batch. Without a sweep an allreduce takes what the default's took by its bytes: then nothing is known of
/// small messages, and all bucket sizes cost the same. `rules`: what algorithm=rules stands for.
Calibration calibration_of(const CalibratingTrial& base, const CalibratingTrial& second, const std::optional<Sweep>& sweep,
                           const std::vector<AllreduceRule>& rules);

struct MemoryUse {
  double batch = 0;  ///< samples per rank
  double peak_bytes = 0;
};

/// How much memory a rank needs at a batch: a part that is always there (weights, optimiser, libraries) and a part for each sample (activations).
struct MemoryModel {
  double fixed_bytes = 0, bytes_per_sample = 0;
  double peak_bytes(double batch) const { return fixed_bytes + bytes_per_sample * batch; }
};

/// From what it needed at two batches. Nothing: both are the same. Where the larger batch did not need more, all batches are taken to need what the
/// more hungry one did.
std::optional<MemoryModel> memory_model(const MemoryUse& one, const MemoryUse& other);

}  // namespace ddl::tune
