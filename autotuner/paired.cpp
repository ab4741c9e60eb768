#include "autotuner/paired.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "analyzer/statistics.h"

namespace ddl::tune {

PairedRatio compare(std::span<const double> first, std::span<const double> second, double confidence) {
  if (first.size() != second.size()) throw std::invalid_argument("compare: rounds of both configurations are needed");
  PairedRatio result{.hi = std::numeric_limits<double>::infinity(), .rounds = first.size()};
  if (first.empty()) return result;
  const auto count = static_cast<double>(first.size());
  double mean = 0;
  for (size_t i = 0; i < first.size(); ++i) mean += std::log(first[i] / second[i]) / count;
  result.ratio = std::exp(mean);
  if (first.size() < kMinRounds) return result;
  double squares = 0;
  for (size_t i = 0; i < first.size(); ++i) squares += std::pow(std::log(first[i] / second[i]) - mean, 2);
  const double half = student_t(count - 1, confidence) * std::sqrt(squares / (count - 1) / count);
  result.lo = std::exp(mean - half);
  result.hi = std::exp(mean + half);
  return result;
}

PairedRatio compare_beside_noise(std::span<const double> base, std::span<const double> tuned,
                                 std::span<const double> first, std::span<const double> second, double confidence) {
  constexpr double kEachRound = 0.99;
  PairedRatio result = compare(base, tuned, confidence);
  if (result.rounds < kMinRounds || result.excludes_one()) return result;
  double squares = 0;  // of ratios of two trials, whose mean is known to be 1
  for (size_t i = 0; i < first.size(); ++i) squares += std::pow(std::log(first[i] / second[i]), 2);
  const double trial_sd = std::sqrt(squares / 2 / static_cast<double>(first.size()));
  // One trial of the tuned configuration against the mean of two.
  const double noise = student_t(static_cast<double>(first.size()), kEachRound) * trial_sd * std::sqrt(1.5);
  double lowest = std::numeric_limits<double>::infinity(), highest = 0;
  for (size_t i = 0; i < base.size(); ++i) {
    lowest = std::min(lowest, base[i] / tuned[i]);
    highest = std::max(highest, base[i] / tuned[i]);
  }
  if (std::log(lowest) <= noise) return result;
  result.lo = lowest;
  result.hi = highest;
  result.of_rounds = true;
  return result;
}

}  // namespace ddl::tune
