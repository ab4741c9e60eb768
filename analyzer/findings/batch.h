// Samples of a step against the gradient noise scale, for the findings about the batch.
#pragma once

#include <optional>
#include <string>

#include "analyzer/findings/finding.h"

namespace ddl {

constexpr double kBatchMinSavingShare = 0.05;  // of the step

struct Batch {
  double samples = 0;  ///< of all ranks in a step
  double per_rank = 0;
  double compute_ns = 0;                  ///< of a step, on GPUs where there are any
  std::optional<double> noise, noise_hi;  ///< noise scale, and the upper end of its interval
};

/// Nothing if the job marks no steps or reports no samples.
std::optional<Batch> batch_of(const FindingInput& input);

/// Evidence: samples and times, step by step.
std::string batch_values_sql(const FindingInput& input);

}  // namespace ddl
