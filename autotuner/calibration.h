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

}  // namespace ddl::tune
