// What is believed of every point of the space after a few were measured: a Gaussian process over the logarithm of the cost.
//
//   log cost(point, round) = prediction(point) + error(point) + round + noise
//
// `prediction` is the predictor's (0 where it knows nothing), `error` resembles itself at neighbouring points: a part by each tunable
// alone, a part by all together. `round` is what everything in one round suffered alike, of unknown size: that is how pairing enters - only
// differences within a round tell anything. The sizes of error and noise are those of a small grid under which the measurements are most
// likely (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapters 2 and 5).
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
  /// After add(), one of them comes before beliefs(): fit() chooses the sizes of error and noise anew, condition() keeps them.
  void fit();
  void condition();
  /// Log cost of each point over that of `reference`. The difference is asked for, since the level of all costs is known much worse.
  std::vector<Belief> beliefs(const std::vector<size_t>& points, size_t reference) const;

 private:
  double error_covariance(size_t a, size_t b) const;
  Eigen::VectorXd with_observations(size_t point) const;
  Eigen::VectorXd residuals() const;
  Eigen::MatrixXd covariance() const;

  const Space& space_;
  std::vector<double> prediction_;
  std::vector<std::vector<std::vector<double>>> alike_;  ///< by tunable, value and value: correlation of what they do
  std::vector<Observation> observations_;
  double error_ = 0.1, noise_ = 0.01;
  Eigen::LLT<Eigen::MatrixXd> factor_;
  Eigen::VectorXd weights_;
};

}  // namespace ddl::tune
