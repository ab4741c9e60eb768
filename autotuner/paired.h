// Comparing two configurations that were measured in the same rounds: a burst of somebody else's load slows both, and their ratio stays.
#pragma once

#include <cstddef>
#include <span>

namespace ddl::tune {

struct PairedRatio {
  double ratio = 1;       ///< geometric mean of first / second
  double lo = 0, hi = 0;  ///< its interval; [0, infinity) below kMinRounds
  size_t rounds = 0;
  bool of_rounds = false;  ///< lo and hi are those of single rounds, see compare_beside_noise()
  bool excludes_one() const { return lo > 1 || hi < 1; }
};

/// With fewer rounds the spread of a ratio is not known well enough to say anything.
constexpr size_t kMinRounds = 3;
constexpr double kConfidence = 0.95;  ///< of intervals that are shown

/// Costs of two configurations by round, positive and equally many. The interval is Student's t of the logarithms of their ratios.
PairedRatio compare(std::span<const double> first, std::span<const double> second, double confidence = kConfidence);

/// compare() of `base` and `tuned`, where the base configuration ran twice in each round (`first`, `second`; `base` is their geometric mean).
/// A change can help very much in one round and much in another one, and Student's interval then takes that spread for doubt. So, where the
/// interval includes one, each round is held against the noise: the ratios of `first` to `second` tell how far a single trial is off, with as many
/// degrees of freedom as there are rounds. Where every round's ratio is above one by more than noise explains (99 %, each), the interval is
/// that from the lowest to the highest round.
PairedRatio compare_beside_noise(std::span<const double> base, std::span<const double> tuned, std::span<const double> first,
                                 std::span<const double> second, double confidence = kConfidence);

}  // namespace ddl::tune
