// How the error of a network falls with the size of its data set: e(m) = a m^b + c (Hestness et al., 1712.00409), with
// b below 0, and how much data an error would need.
#pragma once

#include <vector>

namespace ddl::models {

struct DataPoint {
  double samples = 0;  ///< in the data set, above 0
  double error = 0;    ///< on test data, any unit
};

struct DatasetLaw {
  double a = 0, b = 0, c = 0;
  double r2 = 0;
  double worst_residual = 0;   ///< largest |fitted - given|
  double largest_samples = 0;  ///< that the fit is made of
  double error(double samples) const;
  /// Samples for that error. Throws ddl::Error (kDataMissing) at or below c: no data set is large enough.
  double samples(double error) const;
  /// Hestness et al. saw exponents from -0.35 to -0.07.
  bool is_plausible() const { return b >= -0.35 && b <= -0.07; }
};

/// Least squares: for each b the best a and c >= 0 are linear, b is searched from -2 to -0.001. Throws ddl::Error
/// (kDataMissing): fewer than four distinct sizes, or errors that do not fall.
DatasetLaw fit_dataset_law(const std::vector<DataPoint>& points);

}  // namespace ddl::models
