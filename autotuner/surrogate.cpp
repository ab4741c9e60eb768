#include "autotuner/surrogate.h"

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "analyzer/statistics.h"

namespace ddl::tune {
namespace {

// Standard deviations of log cost. The grid spans predictions that are off by 3 % to a factor of seven, which a default
// may be where nothing is predicted, and machines from quiet to shared.
constexpr std::array<double, 6> kErrors = {0.03, 0.08, 0.2, 0.4, 0.8, 2.0};
constexpr std::array<double, 7> kNoises = {0.003, 0.008, 0.02, 0.05, 0.12, 0.3, 0.7};
/// Bursts hit trials by themselves, or whole rounds, which may then be three times slower. On a quiet machine rounds
/// are alike, which can be told only where the level of all is learned.
constexpr std::array<double, 4> kRounds = {0.1, 1.0, 0.03, 0.01};
constexpr size_t kRoundsPredicted = 2;  ///< the first of them
constexpr double kLevel = 1;            ///< standard deviation of the level, around the median of what was measured
/// above the best of a round, in log cost: from there on costs count by their logarithm
constexpr double kFar = 0.1;
constexpr double kFreedom = 4;  ///< degrees of Student's noise
constexpr int kTrusted = 3;     ///< times that trust is adapted to what is believed then
/// Where nothing is predicted, what a tunable does is all error.
constexpr double kUnmodelledError = 0.1;
constexpr double kAloneShare = 0.7;          ///< of the error's variance: by each tunable alone
constexpr double kNeighbourDistance = 2.0;   ///< values apart at which resemblance has fallen to 1/e
constexpr double kOtherWordResembles = 0.4;  ///< correlation of two values without an order

double scaled(double above) { return above <= kFar ? above : kFar * (1 + std::log(above / kFar)); }
double unscaled(double above) { return above <= kFar ? above : kFar * std::exp(above / kFar - 1); }

}  // namespace

class Surrogate::Process {
 public:
  Process(const Space& space, std::vector<double> prediction, Scale scale);
  void add(const Observation& observation);
  void fit();
  void condition();
  std::vector<Belief> beliefs(const std::vector<size_t>& points, size_t reference) const;
  Belief loss(size_t point, size_t best) const;
  double level(size_t point) const;
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
  double covariance(size_t a, size_t b) const;
  double value(const Observation& observation) const;
  Eigen::VectorXd with_measured(size_t point) const;
  void factor_errors();
  Evidence evidence() const;
  double solve(const Evidence& evidence);
  double trust(const Evidence& evidence);

  const Space& space_;
  std::vector<double> prediction_;
  const bool is_measured_;  ///< the scale
  double level_ = 0;
  std::vector<double> least_;                            ///< log cost by round
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

Surrogate::Process::Process(const Space& space, std::vector<double> prediction, Scale scale)
    : space_(space), prediction_(std::move(prediction)), is_measured_(scale == Scale::kMeasured) {
  for (size_t i = 0; i < space.tunables().size(); ++i) {
    const size_t values = space.tunables()[i].values.size();
    std::vector<std::vector<double>>& alike = alike_.emplace_back(values, std::vector<double>(values));
    for (size_t a = 0; a < values; ++a) {
      for (size_t b = 0; b < values; ++b) {
        const double distance = space.distance(i, a, b);
        alike[a][b] = space.is_ordered(i) ? std::exp(-distance / kNeighbourDistance)
                      : distance == 0     ? 1
                                          : kOtherWordResembles;
      }
    }
  }
}

void Surrogate::Process::add(const Observation& observation) {
  const auto known = std::find(measured_.begin(), measured_.end(), observation.point);
  measured_at_.push_back(static_cast<size_t>(known - measured_.begin()));
  if (known == measured_.end()) measured_.push_back(observation.point);
  observations_.push_back(observation);
  trust_.push_back(1);
  rounds_ = std::max(rounds_, observation.round + 1);
  least_.resize(rounds_, std::numeric_limits<double>::infinity());
  least_[observation.round] = std::min(least_[observation.round], observation.log_cost);
}

// What a trial gave, less what is predicted and the level of all.
double Surrogate::Process::value(const Observation& observation) const {
  const double least = least_[observation.round];
  const double log_cost = is_measured_ ? least + scaled(observation.log_cost - least) : observation.log_cost;
  return log_cost - level_ - prediction_[observation.point];
}

// Relative to error_^2.
double Surrogate::Process::error_covariance(size_t a, size_t b) const {
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

double Surrogate::Process::covariance(size_t a, size_t b) const {
  return error_ * error_ * error_covariance(a, b) + (is_measured_ ? kLevel * kLevel : 0);
}

void Surrogate::Process::factor_errors() {
  const auto count = static_cast<Eigen::Index>(measured_.size());
  Eigen::MatrixXd errors(count, count);
  for (Eigen::Index i = 0; i < count; ++i)
    for (Eigen::Index j = 0; j <= i; ++j)
      errors(i, j) = errors(j, i) = covariance(measured_[static_cast<size_t>(i)], measured_[static_cast<size_t>(j)]);
  errors_.compute(errors);
}

// A round's own effect is integrated out: of independent measurements with precisions p it leaves diag(p) - p p' / (sum
// p + 1 / kRound^2).
Surrogate::Process::Evidence Surrogate::Process::evidence() const {
  const auto count = static_cast<Eigen::Index>(measured_.size());
  Evidence result{Eigen::MatrixXd::Zero(count, count), Eigen::VectorXd::Zero(count), 0,
                  std::vector<double>(rounds_, 0.0), std::vector<double>(rounds_, 1 / (round_ * round_))};
  std::vector<double> sum(rounds_, 0.0);
  std::vector<std::vector<size_t>> of_round(rounds_);
  for (size_t i = 0; i < observations_.size(); ++i) {
    const double precision = trust_[i] / (noise_ * noise_);
    const double value = this->value(observations_[i]);
    const size_t round = observations_[i].round;
    const auto at = static_cast<Eigen::Index>(measured_at_[i]);
    result.precision(at, at) += precision;
    result.pull(at) += precision * value;
    result.log_likelihood += (std::log(precision) - precision * value * value) / 2;
    result.round_weight[round] += precision;
    sum[round] += precision * value;
    of_round[round].push_back(i);
  }
  for (size_t round = 0; round < rounds_; ++round) {
    const double weight = result.round_weight[round];
    result.round_mean[round] = sum[round] / weight;
    result.log_likelihood += (sum[round] * sum[round] / weight - std::log(weight * round_ * round_)) / 2;
    for (const size_t i : of_round[round]) {
      const auto at = static_cast<Eigen::Index>(measured_at_[i]);
      const double precision = trust_[i] / (noise_ * noise_);
      result.pull(at) -= precision * result.round_mean[round];
      for (const size_t j : of_round[round])
        result.precision(at, static_cast<Eigen::Index>(measured_at_[j])) -=
            precision * trust_[j] / (noise_ * noise_) / weight;
    }
  }
  return result;
}

// The log of the likelihood of the measurements.
double Surrogate::Process::solve(const Evidence& evidence) {
  Eigen::MatrixXd inner = errors_.matrixU() * evidence.precision;
  inner *= errors_.matrixL();
  inner.diagonal().array() += 1;
  factor_.compute(inner);
  const Eigen::VectorXd pull = errors_.matrixU() * evidence.pull;
  weights_ = factor_.solve(pull);
  const double explained = pull.dot(weights_);
  errors_.matrixU().solveInPlace(weights_);
  return evidence.log_likelihood + explained / 2 - factor_.matrixLLT().diagonal().array().log().sum();
}

// Trusts measurements by how far they are off what is believed now; the log of the density of that trust.
double Surrogate::Process::trust(const Evidence& evidence) {
  const Eigen::VectorXd error = errors_.matrixL() * (errors_.matrixU() * weights_);
  std::vector<double> off(rounds_, 0.0);
  for (size_t i = 0; i < observations_.size(); ++i)
    off[observations_[i].round] += trust_[i] / (noise_ * noise_) * error(static_cast<Eigen::Index>(measured_at_[i])) /
                                   evidence.round_weight[observations_[i].round];
  std::vector<double> at_point(measured_.size(), 0.0);
  for (size_t i = 0; i < observations_.size(); ++i) at_point[measured_at_[i]] += trust_[i];
  double density = 0;
  for (size_t i = 0; i < observations_.size(); ++i) {
    const double alone = trust_[i] / at_point[measured_at_[i]];  // then it is not off what it alone says
    const size_t round = observations_[i].round;
    const double residual = (value(observations_[i]) - error(static_cast<Eigen::Index>(measured_at_[i])) -
                             evidence.round_mean[round] + off[round]) /
                            noise_;
    trust_[i] = (kFreedom + 1) / (kFreedom + residual * residual + alone);
    density += kFreedom / 2 * (std::log(trust_[i]) - trust_[i]);
  }
  return density;
}

void Surrogate::Process::condition() {
  if (observations_.empty()) return;
  factor_errors();
  solve(evidence());
}

void Surrogate::Process::fit() {
  if (observations_.empty()) return;
  double best = -std::numeric_limits<double>::infinity(), best_error = error_, best_noise = noise_, best_round = round_;
  std::vector<double> best_trust;
  if (is_measured_) {
    level_ = 0;
    std::vector<double> values;
    for (const Observation& observation : observations_) values.push_back(value(observation));
    level_ = median_of(values);
  }
  const size_t rounds = is_measured_ ? kRounds.size() : kRoundsPredicted;
  for (const double error : kErrors) {
    error_ = error;
    factor_errors();
    for (const double noise : kNoises) {
      for (size_t i = 0; i < rounds; ++i) {
        noise_ = noise;
        round_ = kRounds[i];
        trust_.assign(observations_.size(), 1.0);
        double density = 0;
        for (int adapted = 0; adapted < kTrusted; ++adapted) {
          const Evidence now = evidence();
          solve(now);
          density = trust(now);
        }
        // Log-normal priors around 10 % and 1 % keep a handful of measurements from claiming that there is no noise.
        const double prior = std::pow(std::log(error / 0.1), 2) / 2 + std::pow(std::log(noise / 0.01), 2) / 2;
        const double likelihood = solve(evidence()) + density - prior;
        if (likelihood > best)
          best = likelihood, best_error = error, best_noise = noise, best_round = round_, best_trust = trust_;
      }
    }
  }
  error_ = best_error;
  noise_ = best_noise;
  round_ = best_round;
  trust_ = best_trust;
  condition();
}

double Surrogate::Process::noise() const {
  double sum = 0;
  for (const double one : trust_) sum += 1 / one;
  return trust_.empty() ? noise_ : noise_ * std::sqrt(sum / static_cast<double>(trust_.size()));
}

Eigen::VectorXd Surrogate::Process::with_measured(size_t point) const {
  Eigen::VectorXd result(static_cast<Eigen::Index>(measured_.size()));
  for (size_t i = 0; i < measured_.size(); ++i) result(static_cast<Eigen::Index>(i)) = covariance(point, measured_[i]);
  return result;
}

std::vector<Belief> Surrogate::Process::beliefs(const std::vector<size_t>& points, size_t reference) const {
  const double scale = error_ * error_;
  const Eigen::VectorXd reference_with = with_measured(reference);
  std::vector<Belief> result(points.size());
  for (size_t i = 0; i < points.size(); ++i) {
    result[i].mean = prediction_[points[i]] - prediction_[reference];
    double variance = scale * (error_covariance(points[i], points[i]) + error_covariance(reference, reference) -
                               2 * error_covariance(points[i], reference));
    if (!observations_.empty()) {
      Eigen::VectorXd difference = with_measured(points[i]) - reference_with;
      result[i].mean += difference.dot(weights_);
      errors_.matrixL().solveInPlace(difference);
      variance -= difference.squaredNorm();
      factor_.matrixL().solveInPlace(difference);
      variance += difference.squaredNorm();
    }
    result[i].sd = std::sqrt(std::max(0.0, variance));
  }
  return result;
}

double Surrogate::Process::level(size_t point) const {
  return level_ + prediction_[point] +
         (is_measured_ && !observations_.empty() ? with_measured(point).dot(weights_) : 0);
}

Belief Surrogate::Process::loss(size_t point, size_t best) const {
  Belief belief = beliefs({point}, best)[0];
  if (!is_measured_ || belief.mean <= kFar) return belief;
  belief.sd *= std::exp(belief.mean / kFar - 1);
  belief.mean = unscaled(belief.mean);
  return belief;
}

Surrogate::Surrogate(const Space& space, std::vector<double> prediction, Scale scale)
    : process_(std::make_unique<Process>(space, std::move(prediction), scale)) {}
Surrogate::Surrogate(const Surrogate& other) : process_(std::make_unique<Process>(*other.process_)) {}
Surrogate& Surrogate::operator=(Surrogate&& other) noexcept = default;
Surrogate::~Surrogate() = default;
void Surrogate::add(const Observation& observation) { process_->add(observation); }
void Surrogate::fit() { process_->fit(); }
void Surrogate::condition() { process_->condition(); }
double Surrogate::noise() const { return process_->noise(); }
Belief Surrogate::loss(size_t point, size_t best) const { return process_->loss(point, best); }
double Surrogate::level(size_t point) const { return process_->level(point); }
std::vector<Belief> Surrogate::beliefs(const std::vector<size_t>& points, size_t reference) const {
  return process_->beliefs(points, reference);
}

}  // namespace ddl::tune
