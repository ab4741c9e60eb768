#include "analyzer/models/training_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/error.h"

namespace ddl::models {

int64_t steps_per_epoch(double samples, double global_batch) {
  return static_cast<int64_t>(std::ceil(samples / global_batch));
}

EpochModel fit_epochs(const std::vector<BatchEpochs>& points) {
  std::set<double> batches;
  double mean_batch = 0, mean_epochs = 0;
  for (const BatchEpochs& p : points) batches.insert(p.batch), mean_batch += p.batch, mean_epochs += p.epochs;
  if (batches.size() < 3) {
    throw Error(fmt::format("no fit of epochs: {} distinct batch sizes, 3 are needed", batches.size()),
                "add runs with other batch sizes", ExitCode::kDataMissing);
  }
  const double n = static_cast<double>(points.size());
  mean_batch /= n;
  mean_epochs /= n;
  double both = 0, square = 0, total = 0;
  for (const BatchEpochs& p : points) {
    both += (p.batch - mean_batch) * (p.epochs - mean_epochs);
    square += (p.batch - mean_batch) * (p.batch - mean_batch);
    total += (p.epochs - mean_epochs) * (p.epochs - mean_epochs);
  }
  const double slope = std::max(0.0, both / square);
  EpochModel model;
  model.least_epochs = mean_epochs - slope * mean_batch;
  if (model.least_epochs <= 0)
    throw Error("no fit of epochs: the line reaches 0 epochs at small batches",
                "check the rows, or leave out the smallest batches", ExitCode::kDataMissing);
  model.knee_batch = slope > 0 ? model.least_epochs / slope : std::numeric_limits<double>::infinity();
  double residual = 0;
  for (const BatchEpochs& p : points) {
    const double off = p.epochs - model.epochs(p.batch);
    residual += off * off;
    model.worst_residual_epochs = std::max(model.worst_residual_epochs, std::abs(off));
  }
  model.r2 = total > 0 ? 1 - residual / total : 0;
  return model;
}

double amdahl(double fraction, double speedup) { return 1 / (1 - fraction + fraction / speedup); }

double amdahl_fraction(double speedup, double whole) {
  if (!(whole >= 1) || !(whole <= speedup) || !(speedup > 1))
    throw Error(
        fmt::format(
            "no share of communication makes the step {:g} times as fast when communication is {:g} times as fast",
            whole, speedup),
        "--whole must lie between 1 and --speedup", ExitCode::kUsage);
  return (1 - 1 / whole) / (1 - 1 / speedup);
}

}  // namespace ddl::models
