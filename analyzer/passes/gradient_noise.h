// The gradient noise scale (specification.md G1 to G3, after McCandlish et al., 1812.06162): how much samples of a
// batch differ, which bounds the batch that is worth while.
//
// From the norm of each rank's own mean gradient (ddl_value "local_gradient_norm", over b samples: "samples") and of
// the reduced one ("gradient_norm", over all B): of each step
//   |G|^2     = (B |G_B|^2 - b |G_b|^2) / (B - b)         without bias, may be negative
//   tr(Sigma) = (|G_b|^2 - |G_B|^2) / (1/b - 1/B)
// and B_simple = tr(Sigma) / |G|^2 in samples, from averages of both: never the average of a ratio. Averages are
// exponential with kNoiseMemory per step, so that the end of the run counts; ranks with different b count as their
// harmonic mean, because the variance of each is tr(Sigma) / b. Steps with a value that is not finite are left out.
#pragma once

#include <SQLiteCpp/Database.h>

#include <optional>
#include <vector>

#include "analyzer/statistics.h"

namespace ddl {

constexpr double kNoiseMemory = 0.99;  ///< a step's weight is multiplied by this with each later one
constexpr size_t kMinNoiseSteps = 5;

/// One step: mean of squared norms over the ranks, squared norm of the reduced gradient, samples of one rank and of
/// all.
struct NoiseSample {
  double own_square = 0;
  double reduced_square = 0;
  double own_samples = 0;
  double all_samples = 0;
};

struct GradientNoise {
  double square = 0;            ///< |G|^2
  double trace = 0;             ///< tr(Sigma)
  std::optional<double> scale;  ///< B_simple; nothing: |G|^2 or tr(Sigma) is not above zero, the noise drowns it
  /// bootstrap 95 % of the scale over steps; nothing: too few steps, or a bound is not above zero
  std::optional<Range> interval;
};

/// In the order of the steps. Nothing: fewer than kMinNoiseSteps, or one rank.
std::optional<GradientNoise> gradient_noise(const std::vector<NoiseSample>& samples);

/// Fills `noise`; needs `steady_step`.
void analyze_gradient_noise(SQLite::Database& db);

}  // namespace ddl
