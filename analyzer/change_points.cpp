#include "analyzer/change_points.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ddl {
namespace {

constexpr double kOutlier = 3;                           // standard deviations
constexpr double kPriorMean = 0.01, kPriorVariance = 1;  // weights of the prior, in observations and in half of them

/// Sums that tell how likely any stretch is.
class Series {
 public:
  explicit Series(const std::vector<double>& values) : sums_(1, 0), squares_(1, 0) {
    const auto n = static_cast<double>(values.size());
    mean_ = std::accumulate(values.begin(), values.end(), 0.0) / n;
    double variance = 0;
    for (const double v : values) variance += (v - mean_) * (v - mean_) / n;
    // The prior's variance is that of what changes from one value to the next: a level that changes must not widen it.
    std::vector<double> steps;
    for (size_t i = 1; i < values.size(); ++i)
      steps.push_back((values[i] - values[i - 1]) * (values[i] - values[i - 1]) / 2);
    std::nth_element(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2), steps.end());
    scale_ = std::max({steps[steps.size() / 2], variance * 1e-6, mean_ * mean_ * 1e-12, 1e-300});
    for (const double v : values) {
      sums_.push_back(sums_.back() + (v - mean_));
      squares_.push_back(squares_.back() + (v - mean_) * (v - mean_));
    }
  }

  double mean(size_t first, size_t last) const {
    return mean_ + (sums_[last] - sums_[first]) / static_cast<double>(last - first);
  }

  /// Log of the probability density of values [first, last) under one normal distribution, its mean and variance
  /// integrated out (normal-gamma prior), up to a constant for each value.
  double evidence(size_t first, size_t last) const {
    const auto n = static_cast<double>(last - first);
    const double sum = sums_[last] - sums_[first], average = sum / n;
    const double spread = std::max(0.0, squares_[last] - squares_[first] - sum * average);
    const double weight = kPriorMean + n, shape = kPriorVariance + n / 2;
    const double rate = kPriorVariance * scale_ + spread / 2 + kPriorMean * n * average * average / (2 * weight);
    return std::lgamma(shape) - std::lgamma(kPriorVariance) + kPriorVariance * std::log(kPriorVariance * scale_) -
           shape * std::log(rate) + (std::log(kPriorMean) - std::log(weight)) / 2;
  }

 private:
  std::vector<double> sums_, squares_;
  double mean_ = 0, scale_ = 0;
};

void cut(const Series& series, size_t first, size_t last, std::vector<size_t>& cuts) {
  if (last - first < 2 * kMinBetweenChanges) return;
  const double whole = series.evidence(first, last);
  std::vector<double> gains;
  for (size_t at = first + kMinBetweenChanges; at + kMinBetweenChanges <= last; ++at)
    gains.push_back(series.evidence(first, at) + series.evidence(at, last) - whole);
  const auto best = std::max_element(gains.begin(), gains.end());
  double odds = 0;  // relative to e^best
  for (const double gain : gains) odds += std::exp(gain - *best) / static_cast<double>(gains.size());
  const double log_odds = *best + std::log(odds);
  if (log_odds < std::log(kMinChangeProbability / (1 - kMinChangeProbability))) return;
  const size_t at = first + kMinBetweenChanges + static_cast<size_t>(best - gains.begin());
  cut(series, first, at, cuts);
  cuts.push_back(at);
  cut(series, at, last, cuts);
}

}  // namespace

std::vector<ChangePoint> change_points(const std::vector<double>& values) {
  if (values.size() < 2 * kMinBetweenChanges) return {};
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double variance = 0;
  for (const double v : values) variance += (v - mean) * (v - mean) / n;
  std::vector<double> kept;
  std::vector<size_t> places;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::abs(values[i] - mean) > kOutlier * std::sqrt(variance)) continue;
    kept.push_back(values[i]);
    places.push_back(i);
  }
  if (kept.size() < 2 * kMinBetweenChanges) return {};
  const Series series(kept);
  std::vector<size_t> cuts;
  cut(series, 0, kept.size(), cuts);

  // Cuts that mark no real change are left out, and the stretches beside them are one.
  for (bool again = true; again;) {
    again = false;
    for (size_t i = 0; i < cuts.size(); ++i) {
      const size_t from = i == 0 ? 0 : cuts[i - 1], to = i + 1 < cuts.size() ? cuts[i + 1] : kept.size();
      const double before = series.mean(from, cuts[i]), after = series.mean(cuts[i], to);
      if (std::abs(after - before) > kMinChange * std::max(before, after)) continue;
      cuts.erase(cuts.begin() + static_cast<std::ptrdiff_t>(i));
      again = true;
      break;
    }
  }
  std::vector<ChangePoint> result;
  for (size_t i = 0; i < cuts.size(); ++i) {
    const size_t from = i == 0 ? 0 : cuts[i - 1], to = i + 1 < cuts.size() ? cuts[i + 1] : kept.size();
    result.push_back({places[cuts[i]], series.mean(from, cuts[i]), series.mean(cuts[i], to)});
  }
  return result;
}

size_t rise_at(const std::vector<double>& values, size_t min_length, double factor) {
  const double total = std::accumulate(values.begin(), values.end(), 0.0);
  double before = 0, best_gain = 0;
  size_t best = 0;
  for (size_t k = 1; k + min_length <= values.size(); ++k) {
    before += values[k - 1];
    if (k < min_length) continue;
    const auto left = static_cast<double>(k), right = static_cast<double>(values.size() - k);
    const double mean_before = before / left, mean_after = (total - before) / right;
    const double gain = (mean_after - mean_before) * (mean_after - mean_before) * left * right;
    if (mean_after > factor * mean_before && gain > best_gain) {
      best_gain = gain;
      best = k;
    }
  }
  return best;
}

}  // namespace ddl
