// Compares two configurations measured in the same rounds: a burst of other load slows both and leaves their ratio.
#pragma once

#include <cstddef>
#include <span>

namespace ddl::tune {

struct PairedRatio {
  double ratio = 1;       ///< geometric mean of first / second
  double lo = 0, hi = 0;  ///< its interval; [0, infinity) below kMinRounds
  size_t rounds = 0;
  bool of_rounds = false;  ///< lo and hi are single rounds', see compare_beside_noise()
  bool excludes_one() const { return lo > 1 || hi < 1; }
};

/// With fewer rounds the spread of a ratio is too uncertain to conclude anything.
constexpr size_t kMinRounds = 3;
constexpr double kConfidence = 0.95;  ///< of intervals that are shown

/// Costs of two configurations by round, positive and equally many. The interval is Student's t of the
/// logarithms of their ratios.
PairedRatio compare(std::span<const double> first, std::span<const double> second, double confidence = kConfidence);

/// compare() of `base` and `tuned`, where the base ran twice in each round (`first`, `second`; `base` is their
/// geometric mean). Gains may differ much between rounds, and Student's interval then mistakes that spread for doubt.
/// So, where the interval includes one, each round is tested against the noise: the ratios of `first` to `second` show
/// how far single trials are off, with as many degrees of freedom as rounds. If every round's ratio exceeds one by more
/// than noise explains (99 %, each), the interval is that from the lowest to the highest round.
PairedRatio compare_beside_noise(std::span<const double> base, std::span<const double> tuned,
                                 std::span<const double> first, std::span<const double> second,
                                 double confidence = kConfidence);

}  // namespace ddl::tune
