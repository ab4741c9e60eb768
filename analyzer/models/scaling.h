// How well a job uses more workers (specification.md "Scaling"): throughput, speed-up and efficiency against a base
// that is always named, what each enlargement kept of the one before, and what the loss consists of.
//
// Efficiency E(N; N0) = X(N) / X(N0) * N0 / N with throughput X: the same for weak, strong and mixed scaling. N counts
// workers (GPUs, ranks); the base is the smallest size of the series unless another is asked for. A throughput is as
// certain as its digits or its interval.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/models/link_fit.h"
#include "analyzer/models/printed.h"

namespace ddl::models {

/// Mean over ranks and steady steps. compute + transfer + wait + copy + idle = step.
struct StepParts {
  double step_s = 0, compute_s = 0, transfer_s = 0, wait_s = 0, copy_s = 0, idle_s = 0;
};

struct ScalingPoint {
  std::string series;  ///< points of different series are not compared
  std::string label;   ///< of a run: its name
  double workers = 1;
  std::optional<double> nodes;
  Printed throughput;  ///< in any unit that is the same within the series
  std::optional<double> global_batch;
  /// with `time_s`: time to a target, of which the time of an epoch is the hardware's part
  std::optional<double> epoch_s;
  std::optional<double> time_s;
  std::optional<std::string> quoted_efficiency;  ///< as somebody printed it beside
  std::optional<StepParts> parts;
};

enum class ScalingKind { kUnknown, kWeak, kStrong, kMixed };
const char* name_of(ScalingKind kind);
/// From the batch sizes of a series: weak if the local batch (global / workers) is the same everywhere, strong if
/// the global one is (within half a percent: a last batch may be short); kUnknown if some batch is not known or
/// there is one size only.
ScalingKind scaling_kind(const std::vector<ScalingPoint>& series);

struct LossSplit {
  double transfer = 0, wait = 0, copy = 0, idle = 0, compute = 0;  ///< sum: 1 - E of the step times
};

struct ScalingRow {
  ScalingPoint point;
  double base_workers = 1;
  std::string base;  ///< "1 node = 4 GPUs"
  Printed speedup, efficiency;
  /// E(N_i; N_i-1); unset for the first and for one as large as that before
  std::optional<double> incremental;
  /// efficiency of the epoch time, and epochs(N0) / epochs(N): their product is `efficiency`
  std::optional<double> hardware, statistical;
  std::optional<LossSplit> loss;
  std::vector<std::string> flags;  ///< rises, superlinear, quoted numbers that do not follow
};

/// Rows by series (in the order of their first points) and size. `base_workers`: of all series; unset: the smallest
/// size of each. `worker`: the name of a worker. Throws ddl::Error: no points, a size that is not positive, a
/// throughput that is not, a series without the base.
std::vector<ScalingRow> scaling_rows(const std::vector<ScalingPoint>& points, std::optional<double> base_workers,
                                     const std::string& worker);

/// The rows of each series.
std::vector<std::vector<ScalingRow>> by_series(const std::vector<ScalingRow>& rows);

/// Loss of step time against the base, per part: (part(N) - k part(N0)) / step(N), k the ratio of the local
/// batches (S6; weak: 1).
LossSplit loss_split(const StepParts& now, const StepParts& base, double local_batch_ratio);

// ---------------------------------------------------------------------------------------------------------- projection

struct Projection {
  double workers = 1;
  Printed efficiency;  ///< 95 % prediction interval
};

/// 1 / E = a + b f(N) by least squares over a series, f the logarithm (trees, late ranks) or N itself (rings),
/// whichever fits better.
struct ScalingTrend {
  bool linear = false;
  double a = 1, b = 0;
  double r2 = 0;
  double largest = 1;  ///< measured
  /// Throws ddl::Error (usage) for a size that is not positive.
  Projection project(double workers) const;

  // For the interval: residual standard deviation, mean and squared spread of f, number of points, Student's t.
  double sigma = 0, mean_f = 0, spread_f = 0, points = 0, t = 0, base_workers = 1;
};

constexpr size_t kTrendMinSizes = 4;

/// Throws ddl::Error (kDataMissing) with fewer than kTrendMinSizes distinct sizes: a line through three points has an
/// interval from one number.
ScalingTrend fit_trend(const std::vector<ScalingRow>& series);

// ---- A run at another size, from the latency and bandwidth that its own transfers show: t(N) = k (compute + copies +
// idle) + wait + transfer times model(N) / model(now), k = 1 for weak and now/N for strong scaling. Waiting stays what
// it is: it grows with the number of ranks in ways that one run does not tell. That transfers hide behind computing, or
// are slower than the model, is in the measured transfer time and is kept as a factor.
constexpr Algorithm kProjectedAlgorithm = Algorithm::kRing;

struct RecordedScale {
  int64_t ranks = 1;
  StepParts parts;
  Printed efficiency = {};  ///< of the run itself
  /// its collectives; `instances` weighs them. Those on all ranks will be on all ranks
  std::vector<Sample> samples = {};
  LinkFit fit = {};  ///< by kProjectedAlgorithm
};

/// 95 % interval from the standard errors of the fit and from that of the run's own efficiency. `strong`: the
/// global batch stays.
Projection project_run(const RecordedScale& run, int64_t ranks, bool strong);

}  // namespace ddl::models
