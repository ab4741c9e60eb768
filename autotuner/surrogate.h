// What is believed of every point of the space after a few were measured: a Gaussian process over the logarithm of the cost.
//
//   log cost(point, round) = prediction(point) + error(point) + round + noise
//
// `prediction` is the predictor's (0 where it knows nothing), `error` resembles itself at neighbouring points: a part by each tunable
// alone, a part by all together. `round` is what everything in one round suffered alike, of unknown size: that is how pairing enters - only
// differences within a round tell anything, unless rounds turn out to share little. `noise` is Student's: now and then a trial is far off,
// and is then trusted less instead of moving what is believed of its point. The sizes of error, round and noise are those of a small grid
// under which the measurements are most likely (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapters 2, 5 and
// 9).
//
// Where nothing is predicted (Scale::kMeasured) costs have a level of their own, which is learned, so that a quiet machine's rounds are found
// to be alike and trials of different rounds can be compared; and what costs over a tenth more than the best of its round counts
// by its logarithm: how bad bad points are shall not tell how much the good ones differ.
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
  /// After add(), one of them comes before beliefs(): fit() chooses the sizes of error, round and noise anew, condition() keeps them.
  void fit();
  void condition();
  /// Log cost of each point over that of `reference`, on the scale. The difference is asked for, since the level of all costs is known much worse.
  std::vector<Belief> beliefs(const std::vector<size_t>& points, size_t reference) const;
  /// The same of one point over the best, in true log cost.
  Belief loss(size_t point, size_t best) const;
  /// The log cost to imagine a trial of a point with, in a round like all: what is believed of it; on Scale::kPredicted, where each round has a
  /// level of its own, what was predicted.
  double level(size_t point) const;
  /// How far trials are off in the root mean square, in log cost; after fit().
  double noise() const;

 private:
  class Process;  // Eigen's headers are for surrogate.cpp alone: they cost every file a second
  std::unique_ptr<Process> process_;
};

}  // namespace ddl::tune
