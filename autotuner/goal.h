// The cost of a trial: seconds per sample at equal statistical efficiency, seconds to a target loss, seconds of the
// whole job, or a number that the job prints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autotuner/search.h"
#include "autotuner/trial_facts.h"
#include "autotuner/tunables.h"
#include "autotuner/tuned.h"

namespace ddl::tune {

struct Goal {
  std::optional<double> target_loss;  ///< time until that loss, within the run that gave the speed
  bool raw_throughput = false;        ///< requested: ignore what the samples are worth
  bool elapsed = false;               ///< requested: TrialFacts::elapsed_s
  std::optional<Metric> metric;       ///< requested: TrialFacts::metric
  // For the default's trial, for efficiency:
  std::optional<double> noise_scale;
  double base_samples = 0;  ///< of a step, all ranks

  /// "samples per second at equal statistical efficiency"
  std::string words() const;
  std::string kind() const;  ///< "efficiency", "throughput", "loss", "elapsed" or "metric"
  /// Whether a trial needs steps: speed is that of a step, unless the job reports its own.
  bool needs_steps() const { return !elapsed && !metric; }
};

/// The goal that the files were tuned for. Files that do not say: efficiency, unless their words name another goal.
Goal goal_of(const Tuned& tuned);

/// Throws ddl::Error (kUsage) if a numeric tunable with several values would be chosen by speed alone: a batch whose
/// worth is unknown (`base` has no noise scale or no samples), or another one that changes what is computed. A metric
/// named by the user is what counts, so it passes.
void require_honest_goal(const Goal& goal, const std::vector<JobTunable>& tunables, const TrialFacts& base);

/// `batch_per_rank`: at the point, for programs that do not report samples.
Outcome outcome_of(const TrialFacts& facts, const Goal& goal, std::optional<double> batch_per_rank);

}  // namespace ddl::tune
