// Time to train and its price: steps, epochs that a batch size needs, and Amdahl's law for compressing communication.
#pragma once

#include <cstdint>
#include <vector>

namespace ddl::models {

/// ceil(samples / batch): the last batch of an epoch may be small.
int64_t steps_per_epoch(double samples, double global_batch);

/// Epochs to the target by global batch: E(B) = E0 (1 + B / B0) (McCandlish et al., 1812.06162: steps S = Smin (1 +
/// Bnoise / B), in epochs).
struct EpochModel {
  double least_epochs = 0;  ///< E0: as B goes to 0
  double knee_batch = 0;    ///< B0: where it takes twice as many. Infinite: epochs do not grow
  double worst_residual_epochs = 0;
  double r2 = 0;
  double epochs(double batch) const { return least_epochs * (1 + batch / knee_batch); }
};
struct BatchEpochs {
  double batch, epochs;
};
/// Least squares of epochs on batch. Throws ddl::Error (kDataMissing) with fewer than three distinct batch sizes, or if
/// E0 would not be positive.
EpochModel fit_epochs(const std::vector<BatchEpochs>& points);

/// Speed-up of a whole of which `fraction` gets `speedup` times faster.
double amdahl(double fraction, double speedup);
/// The fraction for which amdahl() is `whole`. Throws ddl::Error (kUsage) where there is none: `whole` outside 1 to
/// `speedup`, or both 1.
double amdahl_fraction(double speedup, double whole);

}  // namespace ddl::models
