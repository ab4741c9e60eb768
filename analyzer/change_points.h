// Change points in a series of step times (specification.md R4, after Greyhound): from which step on a job was slower,
// or faster, and stayed so.
//
// Single outliers (|z| > 3) are dropped first. A stretch is then cut where two normal distributions of unknown mean and
// variance explain it better than one: the posterior probability of a change, with all places equally likely and a
// change as likely as none, must exceed 0.8; its two sides are cut again. A cut counts if the means differ by more than
// a tenth of the larger one and it is at least ten steps from the ends and from other cuts.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <vector>

namespace ddl {

constexpr double kMinChangeProbability = 0.8;
constexpr double kMinChange = 0.1;  ///< of the larger mean
constexpr size_t kMinBetweenChanges = 10;

struct ChangePoint {
  size_t first = 0;              ///< index in `values` of the first one after the change
  double before = 0, after = 0;  ///< means of the stretches on both sides
};

/// In order. Nothing below 2 * kMinBetweenChanges values.
std::vector<ChangePoint> change_points(const std::vector<double>& values);

/// Where one cut into two stretches of at least `min_length` values explains most of the variance, of the cuts after
/// which the mean is more than `factor` times that before. For findings, which judge the two sides by more than these
/// values. 0: there is none.
size_t rise_at(const std::vector<double>& values, size_t min_length, double factor);

}  // namespace ddl
