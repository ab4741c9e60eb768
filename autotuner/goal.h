// What a trial is worth: seconds per sample at equal statistical efficiency, seconds to a target loss, seconds of the whole job, or a number that
// the job prints.
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
  std::optional<double> target_loss;  ///< time until the loss is there, of the same run that gave the speed
  bool raw_throughput = false;        ///< asked for: what the samples are worth is left out
  bool elapsed = false;               ///< asked for: TrialFacts::elapsed_s
  std::optional<Metric> metric;       ///< asked for: TrialFacts::metric
  // For the default's trial, for efficiency:
  std::optional<double> noise_scale;
  double base_samples = 0;  ///< of its step, all ranks

  /// "samples per second at equal statistical efficiency"
  std::string words() const;
  std::string kind() const;  ///< "efficiency", "throughput", "loss", "elapsed" or "metric"
  /// Whether a trial has to have steps: speed is that of a step, unless the job says itself how fast it was.
  bool needs_steps() const { return !elapsed && !metric; }
};

/// What the files were tuned for. For files that do not say: efficiency, unless their words are those of another goal.
Goal goal_of(const Tuned& tuned);

/// Throws ddl::Error (kUsage) if a numeric tunable with several values would be chosen by speed alone: a batch whose worth the job
/// does not tell (`base`: no noise scale, no samples), or anything else that changes what is computed. Who names a metric says by that what
/// counts.
void require_honest_goal(const Goal& goal, const std::vector<JobTunable>& tunables, const TrialFacts& base);

/// `batch_per_rank`: of the point, where the program reports no samples itself.
Outcome outcome_of(const TrialFacts& facts, const Goal& goal, std::optional<double> batch_per_rank);

}  // namespace ddl::tune
