// Builds the predictor's input from the calibrating trials: the job as it is, once more with another batch and finer
// buckets, and the sweep.
#pragma once

#include <optional>
#include <vector>

#include "autotuner/predict.h"
#include "autotuner/sweep.h"
#include "autotuner/trial_facts.h"

namespace ddl::tune {

struct CalibratingTrial {
  const TrialFacts& facts;
  double batch = 0;                          ///< per rank; 0: not tuned
  std::optional<double> bucket_mb = {};      ///< likewise
  std::optional<double> micro_batches = {};  ///< likewise
};

/// The two batches show how much computing does not grow with the batch; gradients come from the trial that sent more
/// of them, on the first one's time; the buckets that the first one sent show the rule that fills them; trials of equal
/// batch show the cost of a micro-batch. Without a sweep an allreduce takes what the default's took by its bytes, so
/// nothing is known about small messages and all bucket sizes cost the same. `rules`: what algorithm=rules stands for.
Calibration calibration_of(const CalibratingTrial& base, const CalibratingTrial& second,
                           const std::optional<Sweep>& sweep, const std::vector<AllreduceRule>& rules);

struct MemoryUse {
  double batch = 0;  ///< samples per rank
  double peak_bytes = 0;
};

/// Memory of a rank by batch: a constant part (weights, optimiser, libraries) and a part for each sample (activations).
struct MemoryModel {
  double fixed_bytes = 0, bytes_per_sample = 0;
  double peak_bytes(double batch) const { return fixed_bytes + bytes_per_sample * batch; }
};

/// From the peaks at two batches. Nothing: both batches are the same. If the larger batch needed no more, every batch
/// is taken to need the larger peak.
std::optional<MemoryModel> memory_model(const MemoryUse& one, const MemoryUse& other);

}  // namespace ddl::tune
