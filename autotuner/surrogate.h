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
#pragma once

#include <Eigen/Dense>
#include <cstddef>
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

class Surrogate {
 public:
  /// `prediction`: log cost of each point of `space`, which must outlive this. Not thread-safe.
  Surrogate(const Space& space, std::vector<double> prediction);

  void add(const Observation& observation);
  /// After add(), one of them comes before beliefs(): fit() chooses the sizes of error, round and noise anew, condition() keeps them.
  void fit();
  void condition();
  /// Log cost of each point over that of `reference`. The difference is asked for, since the level of all costs is known much worse.
  std::vector<Belief> beliefs(const std::vector<size_t>& points, size_t reference) const;
  /// How far trials are off in the root mean square, in log cost; after fit().
  double noise() const;

 private:
  // The measurements at given noise and trust, without the rounds: what they say of the points that were measured.
  struct Evidence {
    Eigen::MatrixXd precision;
    Eigen::VectorXd pull;            ///< precision times what was measured
    double log_likelihood = 0;       ///< of the measurements if all errors were none
    std::vector<double> round_mean;  ///< by round: what its trials were off by, and its precision
    std::vector<double> round_weight;
  };
  double error_covariance(size_t a, size_t b) const;
  Eigen::VectorXd with_measured(size_t point) const;
  void factor_errors();
  Evidence evidence() const;
  double solve(const Evidence& evidence);
  double trust(const Evidence& evidence);

  const Space& space_;
  std::vector<double> prediction_;
  std::vector<std::vector<std::vector<double>>> alike_;  ///< by tunable, value and value: correlation of what they do
  std::vector<Observation> observations_;
  std::vector<double> trust_;        ///< by observation: its share of the precision of a usual one
  std::vector<size_t> measured_;     ///< points, each once
  std::vector<size_t> measured_at_;  ///< by observation: place in `measured_`
  size_t rounds_ = 0;
  double error_ = 0.1, noise_ = 0.01, round_ = 1;
  Eigen::LLT<Eigen::MatrixXd> errors_;  ///< of the covariance of the errors of measured points
  Eigen::LLT<Eigen::MatrixXd> factor_;  ///< of 1 + L' precision L, L that of errors_
  Eigen::VectorXd weights_;
};

}  // namespace ddl::tune
