#include "analyzer/passes/repetition.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr size_t kWindow = 20'000;       // collectives that the period is looked for in, from the middle of the run
constexpr double kNearlyAsGood = 0.6;    // of the best lag's score
constexpr double kMinCovered = 0.5;      // of the collectives, or of the time
constexpr double kOncePerPeriod = 0.15;  // a run of calls occurs once in a period if its number is off by no more
constexpr size_t kLongestRun = 16;

/// The collectives as small numbers, and how much less often than always each occurs.
struct Tokens {
  explicit Tokens(std::span<const Beat> beats) {
    std::unordered_map<int64_t, size_t> numbers;
    for (const Beat& beat : beats) {
      const auto [entry, is_new] = numbers.try_emplace(beat.token, numbers.size());
      if (is_new) rarity.push_back(0);
      number.push_back(entry->second);
      ++rarity[entry->second];
    }
    double chance = 0;
    for (double& count : rarity) {
      const double share = count / static_cast<double>(beats.size());
      chance += share * share;
      count = 1 - share;
    }
    mean_rarity = 1 - chance;
  }

  std::vector<size_t> number;
  std::vector<double> rarity;
  double mean_rarity = 0;
};

/// The stretch in which the sequence agrees best with itself `lag` later: what lies before and behind (reading
/// input, printing statistics) does not count. An agreement counts the more the rarer the call, so that what agrees
/// by chance counts nothing.
struct Stretch {
  double score = 0;
  size_t first = 0, last = 0;  ///< of the collectives, the repetition included
  size_t same = 0;
};

Stretch best_stretch(const Tokens& tokens, size_t lag) {
  Stretch best;
  double score = 0;
  size_t first = 0, same = 0;
  for (size_t i = 0; i + lag < tokens.number.size(); ++i) {
    const bool equal = tokens.number[i] == tokens.number[i + lag];
    score += equal ? tokens.rarity[tokens.number[i]] : -tokens.mean_rarity;
    same += equal ? 1 : 0;
    if (score <= 0) {
      score = 0, same = 0, first = i + 1;
    } else if (score > best.score) {
      best = {score, first, i + lag + 1, same};
    }
  }
  return best;
}

struct Period {
  size_t length = 0;
  double agreement = 0;
  size_t first = 0, last = 0;  ///< where it repeats
};

std::optional<Period> find_period(std::span<const Beat> beats) {
  const Tokens all(beats);
  if (all.rarity.size() == 1) return Period{1, 1, 0, beats.size()};
  const size_t n = std::min(beats.size(), kWindow);
  const Tokens window(beats.subspan((beats.size() - n) / 2, n));
  std::vector<double> scores(1, 0);
  for (size_t lag = 1; lag <= std::min(kMaxPeriod, n / kMinRepetitions); ++lag)
    scores.push_back(best_stretch(window, lag).score);
  const double best = *std::max_element(scores.begin(), scores.end());
  if (best <= 0) return std::nullopt;
  size_t lag = 1;
  while (scores[lag] < kNearlyAsGood * best) ++lag;

  const Stretch stretch = best_stretch(all, lag);
  if (stretch.last < stretch.first + kMinRepetitions * lag) return std::nullopt;
  const auto compared = static_cast<double>(stretch.last - stretch.first - lag);
  const double chance = 1 - all.mean_rarity;
  const double agreement = (static_cast<double>(stretch.same) / compared - chance) / (1 - chance);
  const auto span_ns = [&](size_t first, size_t last) {
    return static_cast<double>(beats[last - 1].leave_ns - beats[first].enter_ns);
  };
  const double covered = std::max(static_cast<double>(stretch.last - stretch.first) / static_cast<double>(beats.size()),
                                  span_ns(stretch.first, stretch.last) / span_ns(0, beats.size()));
  if (agreement < kMinAgreement || covered < kMinCovered) return std::nullopt;
  return Period{lag, agreement, stretch.first, stretch.last};
}

/// Where the step begins: all places that follow the run of `length` calls ending there; the longest pause wins. Longer
/// runs tell more places apart, up to a length.
std::vector<size_t> find_begins(std::span<const Beat> beats, const Period& found) {
  const size_t period = found.length;
  std::vector<size_t> begins;
  double longest_ns = -std::numeric_limits<double>::infinity();
  size_t told_before = 0;
  for (size_t length = 1; length <= std::min(period, kLongestRun); ++length) {
    std::map<std::vector<int64_t>, std::vector<size_t>> places;
    std::vector<int64_t> run;
    for (size_t i = std::max({length - 1, size_t{1}, found.first}); i < found.last; ++i) {
      run.clear();
      for (size_t k = i + 1 - length; k <= i; ++k) run.push_back(beats[k].token);
      places[run].push_back(i);
    }
    const double wanted = static_cast<double>(found.last - found.first) / static_cast<double>(period);
    size_t told = 0;
    for (const auto& [tokens, at] : places) {
      const auto times = static_cast<double>(at.size());
      if (times < (1 - kOncePerPeriod) * wanted - 1 || times > (1 + kOncePerPeriod) * wanted + 1) continue;
      ++told;
      std::vector<double> pauses_ns;
      for (const size_t i : at) pauses_ns.push_back(static_cast<double>(beats[i].enter_ns - beats[i - 1].leave_ns));
      const double pause_ns = median_of(pauses_ns);
      if (pause_ns > longest_ns) longest_ns = pause_ns, begins = at;
    }
    if (told > 0 && (told >= period || told <= told_before)) break;
    told_before = told;
  }
  return begins;
}

}  // namespace

std::optional<Repetition> find_repetition(std::span<const Beat> beats) {
  if (beats.size() < kMinRepetitions) return std::nullopt;
  const std::optional<Period> found = find_period(beats);
  if (!found) return std::nullopt;
  const size_t period = found->length;
  const std::vector<size_t> begins = find_begins(beats, *found);
  Repetition result{period, found->agreement, {}};
  for (size_t k = 0; k < begins.size(); ++k) {
    const size_t first = begins[k];
    // The last one has no successor: it ends where the one before would have.
    const size_t last = k + 1 < begins.size() ? begins[k + 1] : first + period;
    const bool whole = last <= beats.size() && 2 * (last - first) >= period && last - first <= 2 * period;
    const bool same = k + 1 < begins.size() || (k > 0 && whole && beats[last - 1].token == beats[begins[k] - 1].token);
    if (whole && same) result.steps.push_back({first, last});
  }
  if (result.steps.size() < kMinRepetitions) return std::nullopt;
  std::vector<double> lengths_ns;
  for (const auto& [first, last] : result.steps)
    lengths_ns.push_back(static_cast<double>(beats[last - 1].leave_ns - beats[first - 1].leave_ns));
  if (median_of(lengths_ns) < static_cast<double>(kMinPeriodNs)) return std::nullopt;
  return result;
}

}  // namespace ddl
