#include "bench/search_peers.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <map>
#include <nlopt.hpp>
#include <numbers>
#include <numeric>
#include <random>

#include "analyzer/statistics.h"

namespace ddl::bench {
namespace {

using tune::Space;
using tune::Stage;

constexpr size_t kEta = 3;          ///< of halving
constexpr size_t kRacedBefore = 5;  ///< rounds before the race drops anybody
constexpr double kDropConfidence = 0.95;
constexpr size_t kFirstRandom = 10;     ///< trials before the Gaussian process is asked
constexpr size_t kLikelihoodEvery = 5;  ///< trials between two fits of its length scales

struct Seen {
  double cost;
  size_t point;
};

size_t best_of(const std::vector<Seen>& seen) {
  return seen.empty() ? 0 : std::min_element(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) {
                              return a.cost < b.cost;
                            })->point;
}

/// A trial in a round of its own; nothing: the bench has ended.
std::optional<double> tried(tune::Bench& bench, size_t round, size_t point) {
  const auto outcome = bench.measure(round, Stage::kExplore, point);
  return outcome ? outcome->cost : std::nullopt;
}

size_t random_search(const Space& space, tune::Bench& bench, size_t trials, uint64_t seed) {
  std::mt19937_64 random(seed ^ 0x5bd1e995);
  std::vector<Seen> seen;
  for (size_t i = 0; i < trials; ++i) {
    const size_t point = i == 0 ? 0 : random() % space.size();
    if (const auto cost = tried(bench, i, point)) seen.push_back({*cost, point});
  }
  return best_of(seen);
}

/// Values of a tunable as neighbours: ascending where they are numbers.
std::vector<size_t> in_order(const Space& space, size_t tunable) {
  const auto& values = space.tunables()[tunable].values;
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (space.is_ordered(tunable))
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return std::stod(values[a]) < std::stod(values[b]); });
  return order;
}

size_t black_box(const Space& space, tune::Bench& bench, size_t trials, uint64_t seed, nlopt::algorithm algorithm) {
  nlopt::srand(seed);
  nlopt::opt optimiser(algorithm, static_cast<unsigned>(space.tunables().size()));
  optimiser.set_lower_bounds(0.0);
  optimiser.set_upper_bounds(1.0);
  optimiser.set_maxeval(static_cast<int>(trials));
  struct Context {
    const Space& space;
    tune::Bench& bench;
    std::vector<Seen> seen;
    std::vector<std::vector<size_t>> orders;
  } context{space, bench, {}, {}};
  for (size_t i = 0; i < space.tunables().size(); ++i) context.orders.push_back(in_order(space, i));
  optimiser.set_min_objective(
      [](const std::vector<double>& x, std::vector<double>&, void* data) {
        auto& c = *static_cast<Context*>(data);
        size_t point = 0;
        for (size_t i = 0; i < x.size(); ++i) {
          const size_t count = c.orders[i].size();
          point = c.space.with(
              point, i, c.orders[i][std::min(count - 1, static_cast<size_t>(x[i] * static_cast<double>(count)))]);
        }
        const auto cost = tried(c.bench, c.seen.size(), point);
        if (!cost) return 0.0;
        c.seen.push_back({*cost, point});
        return std::log(*cost);
      },
      &context);
  std::vector<double> x(space.tunables().size(), 0.5);
  double value = 0;
  try {
    optimiser.optimize(x, value);
  } catch (const std::exception&) {  // it gives up on noise now and then; what it saw counts
  }
  return best_of(context.seen);
}

size_t direct(const Space& space, tune::Bench& bench, size_t trials, uint64_t seed) {
  return black_box(space, bench, trials, seed, nlopt::GN_DIRECT_L);
}

size_t controlled_random(const Space& space, tune::Bench& bench, size_t trials, uint64_t seed) {
  return black_box(space, bench, trials, seed, nlopt::GN_CRS2_LM);
}

/// So many points, drawn, the default among them.
std::vector<size_t> drawn(const Space& space, size_t count, uint64_t seed) {
  std::vector<size_t> field(space.size());
  std::iota(field.begin(), field.end(), size_t{0});
  std::mt19937_64 random(seed ^ 0x2545f491);
  std::shuffle(field.begin() + 1, field.end(), random);
  field.resize(std::clamp<size_t>(count, 1, field.size()));
  return field;
}

size_t halve(const Space& space, tune::Bench& bench, size_t trials, uint64_t seed) {
  size_t count = space.size();
  while (count > 1 && halving_trials(count) > trials) --count;
  std::vector<size_t> field = drawn(space, count, seed);
  std::map<size_t, std::vector<double>> costs;
  size_t round = 0;
  for (size_t repeats = 1; field.size() > 1; repeats *= kEta) {
    for (size_t i = 0; i < repeats; ++i, ++round)
      for (const size_t point : field)
        if (const auto cost = tried(bench, round, point)) costs[point].push_back(*cost);
    std::map<size_t, double> medians;
    for (const size_t point : field) {
      std::vector<double> own = costs[point];
      medians[point] = median_of(own);
    }
    std::sort(field.begin(), field.end(), [&](size_t a, size_t b) { return medians[a] < medians[b]; });
    field.resize(std::max<size_t>(1, field.size() / kEta));
  }
  return field[0];
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

size_t race(const Space& space, tune::Bench& bench, size_t trials, uint64_t seed) {
  std::vector<size_t> field = drawn(space, trials / (kRacedBefore + 1), seed);
  std::map<size_t, std::vector<double>> logs;  // of the same rounds
  size_t leader = field[0];
  for (size_t round = 0; field.size() > 1 && trials >= field.size(); ++round) {
    for (const size_t point : field) logs[point].push_back(std::log(tried(bench, round, point).value_or(1e9)));
    trials -= field.size();
    leader = *std::min_element(field.begin(), field.end(),
                               [&](size_t a, size_t b) { return mean_of(logs[a]) < mean_of(logs[b]); });
    const double rounds = static_cast<double>(round + 1);
    if (round + 1 < kRacedBefore) continue;
    const double t = student_t(rounds - 1, kDropConfidence);
    std::erase_if(field, [&](size_t point) {
      if (point == leader) return false;
      double squares = 0;
      const double mean = mean_of(logs[point]) - mean_of(logs[leader]);
      for (size_t i = 0; i <= round; ++i) squares += std::pow(logs[point][i] - logs[leader][i] - mean, 2);
      return mean > t * std::sqrt(squares / (rounds * (rounds - 1)));
    });
  }
  return leader;
}

/// A Gaussian process over the points of a space. Several trials of a point are its mean with so much less noise.
class GaussianProcess {
 public:
  explicit GaussianProcess(const Space& space) : space_(space), lengths_(space.tunables().size(), 0.5) {
    for (size_t i = 0; i < lengths_.size(); ++i) {
      std::vector<double>& at = places_.emplace_back(space.tunables()[i].values.size(), 0.0);
      const std::vector<size_t> order = in_order(space, i);
      for (size_t k = 0; k < order.size(); ++k)
        at[order[k]] = at.size() > 1 ? static_cast<double>(k) / static_cast<double>(at.size() - 1) : 0;
    }
  }

  void add(size_t point, double log_cost) {
    auto& [sum, count] = seen_[point];
    sum += log_cost;
    count += 1;
  }

  /// Coordinate descent over length scales, signal and noise; then the factor for beliefs.
  void fit(bool likelihood) {
    points_.clear();
    values_.resize(static_cast<Eigen::Index>(seen_.size()));
    counts_.resize(static_cast<Eigen::Index>(seen_.size()));
    for (const auto& [point, of] : seen_) {
      const auto i = static_cast<Eigen::Index>(points_.size());
      points_.push_back(point);
      values_[i] = of.first / of.second;
      counts_[i] = of.second;
    }
    mean_ = values_.mean();
    if (likelihood) {
      double best = log_likelihood();
      const auto improve = [&](double& parameter, std::initializer_list<double> grid) {
        const double was = parameter;
        double chosen = was;
        for (const double value : grid) {
          parameter = value;
          if (const double now = log_likelihood(); now > best) best = now, chosen = value;
        }
        parameter = chosen;
      };
      improve(signal_, {0.05, 0.1, 0.2, 0.4, 0.8, 1.6});
      improve(noise_, {0.01, 0.03, 0.1, 0.2, 0.4});
      for (double& length : lengths_) improve(length, {0.1, 0.25, 0.5, 1, 2, 8});
    }
    factor();
    weights_ = cholesky_.solve(Eigen::VectorXd(values_.array() - mean_));
  }

  /// Mean and standard deviation of what a point truly costs (log).
  std::pair<double, double> belief(size_t point) const {
    Eigen::VectorXd with(static_cast<Eigen::Index>(points_.size()));
    for (size_t i = 0; i < points_.size(); ++i) with[static_cast<Eigen::Index>(i)] = covariance(point, points_[i]);
    const double variance = signal_ * signal_ - with.dot(cholesky_.solve(with));
    return {mean_ + with.dot(weights_), std::sqrt(std::max(0.0, variance))};
  }

  const std::vector<size_t>& measured() const { return points_; }

 private:
  double covariance(size_t a, size_t b) const {
    double squares = 0;
    for (size_t i = 0; i < lengths_.size(); ++i) {
      const size_t va = space_.value_index(a, i), vb = space_.value_index(b, i);
      const double apart = space_.is_ordered(i) ? places_[i][va] - places_[i][vb] : static_cast<double>(va != vb);
      squares += std::pow(apart / lengths_[i], 2);
    }
    const double r = std::sqrt(5 * squares);
    return signal_ * signal_ * (1 + r + r * r / 3) * std::exp(-r);
  }

  void factor() {
    const auto n = static_cast<Eigen::Index>(points_.size());
    Eigen::MatrixXd k(n, n);
    for (Eigen::Index i = 0; i < n; ++i)
      for (Eigen::Index j = 0; j <= i; ++j)
        k(i, j) = k(j, i) = covariance(points_[static_cast<size_t>(i)], points_[static_cast<size_t>(j)]);
    for (Eigen::Index i = 0; i < n; ++i) k(i, i) += noise_ * noise_ / counts_[i] + 1e-9;
    cholesky_.compute(k);
  }

  double log_likelihood() {
    factor();
    const Eigen::VectorXd centred = values_.array() - mean_;
    const Eigen::MatrixXd l = cholesky_.matrixL();
    return -0.5 * centred.dot(cholesky_.solve(centred)) - l.diagonal().array().log().sum();
  }

  const Space& space_;
  std::vector<std::vector<double>> places_;
  std::map<size_t, std::pair<double, double>> seen_;  ///< sum of logs, number
  std::vector<double> lengths_;
  double signal_ = 0.4, noise_ = 0.1, mean_ = 0;
  std::vector<size_t> points_;
  Eigen::VectorXd values_, counts_, weights_;
  Eigen::LLT<Eigen::MatrixXd> cholesky_;
};

size_t expected_improvement(const Space& space, tune::Bench& bench, size_t trials, uint64_t seed) {
  GaussianProcess process(space);
  std::mt19937_64 random(seed ^ 0x9e3779b9);
  size_t made = 0;
  const auto measure = [&](size_t point) {
    if (const auto cost = tried(bench, made, point)) process.add(point, std::log(*cost));
    ++made;
  };
  const auto best_measured = [&] {
    std::pair<double, size_t> best = {1e300, 0};
    for (const size_t point : process.measured()) best = std::min(best, {process.belief(point).first, point});
    return best;
  };
  for (const size_t point : drawn(space, std::min(trials, kFirstRandom), seed)) measure(point);
  while (made < trials) {
    process.fit(made % kLikelihoodEvery == 0);
    const double best = best_measured().first;
    double most = -1;
    size_t next = 0;
    for (size_t point = 0; point < space.size(); ++point) {
      const auto [mean, sd] = process.belief(point);
      if (sd <= 0) continue;
      const double z = (best - mean) / sd;
      const double gain = (best - mean) * std::erfc(-z / std::numbers::sqrt2) / 2 +
                          sd * std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
      if (gain > most) most = gain, next = point;
    }
    measure(next);
  }
  process.fit(true);
  return best_measured().second;
}

}  // namespace

size_t halving_trials(size_t points) {
  size_t trials = 0;
  for (size_t repeats = 1; points > 1; repeats *= kEta, points /= kEta) trials += points * repeats;
  return trials;
}

const std::vector<Peer>& peers() {
  static const std::vector<Peer> all = {{"random", random_search},
                                        {"NLopt DIRECT-L", direct},
                                        {"NLopt CRS2", controlled_random},
                                        {"paired successive halving", halve},
                                        {"racing", race},
                                        {"GP with EI", expected_improvement}};
  return all;
}

}  // namespace ddl::bench
