// Beliefs about every point of the space after a few trials: a Gaussian process over the logarithm of the cost.
//
//   log cost(point, round) = prediction(point) + error(point) + round + noise
//
// `prediction` is the predictor's (0 where it knows nothing). `error` is similar at neighbouring points: a part for
// each tunable, a part for all together. `round` is what all trials of a round suffered alike, of unknown size: this is
// how pairing enters - only differences within a round count, unless rounds turn out to share little. `noise` is
// Student's, so that a trial that is far off is trusted less instead of moving its point's belief. The sizes of error,
// round and noise are those of a small grid under which the measurements are most likely (Rasmussen and Williams,
// Gaussian Processes for Machine Learning, 2006, chapters 2, 5 and 9).
//
// Where nothing is predicted (Scale::kMeasured) the level of costs is learned too, so that a quiet machine's rounds are
// found to be alike and trials of different rounds can be compared. Costs over a tenth above the best of their round
// then count by their logarithm: how bad bad points are must not decide how much good ones differ.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "autotuner/space.h"

namespace ddl::tune {

struct Observation {
  size_t point = 0;
  size_t round = 0;
  double log_cost = 0;
};

struct Belief {
  double mean = 0;
  double sd = 0;
};

enum class Scale { kPredicted, kMeasured };

class Surrogate {
 public:
  /// `prediction`: log cost of each point of `space`, which must outlive this. Not thread-safe.
  Surrogate(const Space& space, std::vector<double> prediction, Scale scale = Scale::kPredicted);
  Surrogate(const Surrogate& other);
  Surrogate& operator=(Surrogate&& other) noexcept;
  ~Surrogate();

  void add(const Observation& observation);
  /// After add(), call one of these before beliefs(): fit() chooses the sizes of error, round and noise anew,
  /// condition() keeps them.
  void fit();
  void condition();
  /// Log cost of each point over that of `reference`, on the scale. A difference, since the level of all costs is
  /// known far less well.
  std::vector<Belief> beliefs(const std::vector<size_t>& points, size_t reference) const;
  /// The same for one point over the best, in true log cost.
  Belief loss(size_t point, size_t best) const;
  /// The log cost of an imagined trial of a point in an average round: its belief; on Scale::kPredicted, where each
  /// round has its own level, its prediction.
  double level(size_t point) const;
  /// Root mean square error of trials, in log cost; after fit().
  double noise() const;

 private:
  class Process;  // Eigen's headers are for surrogate.cpp alone: they cost every file a second
  std::unique_ptr<Process> process_;
};

}  // namespace ddl::tune
