#include "autotuner/surrogate.h"

#include <array>
#include <cmath>
#include <limits>

namespace ddl::tune {
namespace {

// Standard deviations of log cost. The grid spans predictions that are off by 3 % to 40 %, and machines from quiet to shared.
constexpr std::array<double, 4> kErrors = {0.03, 0.08, 0.2, 0.4};
constexpr std::array<double, 5> kNoises = {0.003, 0.008, 0.02, 0.05, 0.12};
constexpr double kRound = 1.0;  ///< a round may well be three times slower than another
/// Where nothing is predicted, what a tunable does is all error.
constexpr double kUnmodelledError = 0.1;
constexpr double kAloneShare = 0.7;          ///< of the error's variance: by each tunable alone
constexpr double kNeighbourDistance = 2.0;   ///< values apart at which resemblance has fallen to 1/e
constexpr double kOtherWordResembles = 0.4;  ///< correlation of two values without an order

}  // namespace

Surrogate::Surrogate(const Space& space, std::vector<double> prediction) : space_(space), prediction_(std::move(prediction)) {
  for (size_t i = 0; i < space.tunables().size(); ++i) {
    const size_t values = space.tunables()[i].values.size();
    std::vector<std::vector<double>>& alike = alike_.emplace_back(values, std::vector<double>(values));
    for (size_t a = 0; a < values; ++a) {
      for (size_t b = 0; b < values; ++b) {
        const double distance = space.distance(i, a, b);
        alike[a][b] = space.is_ordered(i) ? std::exp(-distance / kNeighbourDistance) : distance == 0 ? 1 : kOtherWordResembles;
      }
    }
  }
}

void Surrogate::add(const Observation& observation) { observations_.push_back(observation); }

// Relative to error_^2.
double Surrogate::error_covariance(size_t a, size_t b) const {
  const auto& tunables = space_.tunables();
  double alone = 0, together = 1;
  for (size_t i = 0; i < tunables.size(); ++i) {
    const double alike = alike_[i][space_.value_index(a, i)][space_.value_index(b, i)];
    const double unmodelled = tunables[i].modelled ? 1.0 : std::max(1.0, kUnmodelledError / error_);
    alone += alike * unmodelled * unmodelled;
    together *= alike;
  }
  return kAloneShare * alone / static_cast<double>(tunables.size()) + (1 - kAloneShare) * together;
}

Eigen::MatrixXd Surrogate::covariance() const {
  const auto count = static_cast<Eigen::Index>(observations_.size());
  Eigen::MatrixXd result(count, count);
  for (Eigen::Index i = 0; i < count; ++i) {
    for (Eigen::Index j = 0; j <= i; ++j) {
      const Observation &a = observations_[static_cast<size_t>(i)], &b = observations_[static_cast<size_t>(j)];
      double value = error_ * error_ * error_covariance(a.point, b.point);
      if (a.round == b.round) value += kRound * kRound;
      if (i == j) value += noise_ * noise_;
      result(i, j) = result(j, i) = value;
    }
  }
  return result;
}

Eigen::VectorXd Surrogate::residuals() const {
  Eigen::VectorXd result(static_cast<Eigen::Index>(observations_.size()));
  for (size_t i = 0; i < observations_.size(); ++i)
    result(static_cast<Eigen::Index>(i)) = observations_[i].log_cost - prediction_[observations_[i].point];
  return result;
}

void Surrogate::condition() {
  if (observations_.empty()) return;
  factor_.compute(covariance());
  weights_ = factor_.solve(residuals());
}

void Surrogate::fit() {
  if (observations_.empty()) return;
  const Eigen::VectorXd residual = residuals();
  double best = -std::numeric_limits<double>::infinity(), best_error = error_, best_noise = noise_;
  for (const double error : kErrors) {
    for (const double noise : kNoises) {
      error_ = error;
      noise_ = noise;
      condition();
      const double log_determinant = 2 * factor_.matrixLLT().diagonal().array().log().sum();
      // Log-normal priors around 10 % and 1 % keep a handful of measurements from claiming that there is no noise.
      const double prior = std::pow(std::log(error / 0.1), 2) / 2 + std::pow(std::log(noise / 0.01), 2) / 2;
      const double likelihood = -0.5 * residual.dot(weights_) - 0.5 * log_determinant - prior;
      if (likelihood > best) best = likelihood, best_error = error, best_noise = noise;
    }
  }
  error_ = best_error;
  noise_ = best_noise;
  condition();
}

Eigen::VectorXd Surrogate::with_observations(size_t point) const {
  Eigen::VectorXd result(static_cast<Eigen::Index>(observations_.size()));
  for (size_t i = 0; i < observations_.size(); ++i)
    result(static_cast<Eigen::Index>(i)) = error_ * error_ * error_covariance(point, observations_[i].point);
  return result;
}

std::vector<Belief> Surrogate::beliefs(const std::vector<size_t>& points, size_t reference) const {
  const double scale = error_ * error_;
  const Eigen::VectorXd reference_with = with_observations(reference);
  std::vector<Belief> result(points.size());
  for (size_t i = 0; i < points.size(); ++i) {
    result[i].mean = prediction_[points[i]] - prediction_[reference];
    double variance = scale * (error_covariance(points[i], points[i]) + error_covariance(reference, reference) -
                               2 * error_covariance(points[i], reference));
    if (!observations_.empty()) {
      Eigen::VectorXd difference = with_observations(points[i]) - reference_with;
      result[i].mean += difference.dot(weights_);
      factor_.matrixL().solveInPlace(difference);
      variance -= difference.squaredNorm();
    }
    result[i].sd = std::sqrt(std::max(0.0, variance));
  }
  return result;
}

}  // namespace ddl::tune
