#include "analyzer/findings/uneven_steps.h"

#include <algorithm>
#include <map>

#include "analyzer/findings/crowding.h"
#include "analyzer/findings/findings.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"
#include "analyzer/waiting_parts.h"

namespace ddl {
namespace {

constexpr double kUnevenMinSaving = 0.1;  // of the step
constexpr double kUnevenMinExcess = 0.1;  // longest against the mean of the ranks: less is noise
constexpr size_t kUnevenMinSteps = 10;
constexpr size_t kUnevenBlock = 25;  // steps over which a rank is compared with itself
constexpr double kNoChance = 0.001;
// median excess against the mean: else a few steps make it up, which are stalls
constexpr double kInMostSteps = 1 / 3.0;

constexpr double kMostlySleep = 0.5;  // of the excess

struct ComputingOfStep {
  std::vector<std::pair<int64_t, double>> ranks;  // ns
  double wait_ns = 0;                             // mean of the ranks
};

enum class Counted { kAll, kSleep };

/// Steady steps that have the same ranks and waits that are known. Of threads their time outside
/// communication counts, else what GPUs compute.
std::vector<ComputingOfStep> computing_of_steps(const FindingInput& input, Counted counted) {
  std::map<int64_t, ComputingOfStep> steps;
  Query rows(input.db, R"(
    SELECT w.step, w.rank, w.duration_ns - w.exposed_ns - coalesce(p.input_ns, 0), w.wait_ns, w.compute_ns, o.waits_by = 'device'
    FROM steady_wait w
    JOIN steady_world o ON o.world = w.world
    JOIN steady_step s ON s.world = w.world AND s.step = w.step
    LEFT JOIN steady_part p ON p.world = w.world AND p.step = w.step AND p.rank = w.rank
    WHERE w.world = ? AND s.wait_ns IS NOT NULL
    ORDER BY w.step, w.rank)");
  size_t most = 0;
  for (rows.bind(input.world); rows.next();) {
    ComputingOfStep& step = steps[rows.integer(0)];
    const double own_ns = rows.real(2), compute_ns = rows.real(4);
    const bool on_device = rows.integer(5) != 0;
    const double counted_ns = counted == Counted::kAll ? on_device ? std::min(compute_ns, own_ns) : own_ns
                              : on_device              ? 0
                                                       : own_ns - compute_ns;
    step.ranks.emplace_back(rows.integer(1), std::max(0.0, counted_ns));
    step.wait_ns += rows.real(3);
    most = std::max(most, step.ranks.size());
  }
  std::vector<ComputingOfStep> whole;
  for (auto& [number, step] : steps) {
    if (step.ranks.size() < most) continue;
    step.wait_ns /= static_cast<double>(most);
    whole.push_back(std::move(step));
  }
  return whole;
}

/// Longest less mean of each step, after each rank's mean over the block is brought to that of all: a rank that is
/// slower throughout, or from some step on, is a straggler and not meant here.
std::vector<double> excesses_of(const std::vector<ComputingOfStep>& steps) {
  std::vector<double> excesses;
  const size_t ranks = steps.front().ranks.size(), blocks = std::max<size_t>(1, steps.size() / kUnevenBlock);
  for (size_t block = 0; block < blocks; ++block) {
    const size_t first = block * steps.size() / blocks, last = (block + 1) * steps.size() / blocks;
    std::vector<double> mean_of(ranks);
    for (size_t s = first; s < last; ++s)
      for (size_t r = 0; r < ranks; ++r) mean_of[r] += steps[s].ranks[r].second / static_cast<double>(last - first);
    for (size_t s = first; s < last; ++s) {
      double longest = steps[s].ranks[0].second - mean_of[0], sum = 0;
      for (size_t r = 0; r < ranks; ++r) {
        const double own = steps[s].ranks[r].second - mean_of[r];
        longest = std::max(longest, own);
        sum += own;
      }
      excesses.push_back(longest - sum / static_cast<double>(ranks));
    }
  }
  return excesses;
}

int64_t longest_rank(const ComputingOfStep& step) {
  return std::max_element(step.ranks.begin(), step.ranks.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

/// Whether a single rank makes up most of what the longest take longer than the mean, or has become the longest of all
/// steps from some step on, more of them than chance makes it.
bool is_of_one(const std::vector<ComputingOfStep>& steps) {
  const auto ranks = static_cast<double>(steps.front().ranks.size());
  std::map<int64_t, double> over_ns;
  double all_ns = 0;
  for (const ComputingOfStep& step : steps) {
    double sum_ns = 0, longest_ns = 0;
    for (const auto& [rank, ns] : step.ranks) {
      sum_ns += ns;
      longest_ns = std::max(longest_ns, ns);
    }
    over_ns[longest_rank(step)] += longest_ns - sum_ns / ranks;
    all_ns += longest_ns - sum_ns / ranks;
  }
  for (const auto& [rank, ns] : over_ns)
    if (ns > (1 + 1 / ranks) / 2 * all_ns) return true;
  const int64_t last = longest_rank(steps.back());
  double by_chance = ranks;  // probability that the last steps are all of one rank
  for (auto step = steps.rbegin(); step != steps.rend() && longest_rank(*step) == last; ++step) by_chance /= ranks;
  return by_chance < kNoChance;
}

double mean_of_steps(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

std::optional<UnevenSteps> find_uneven_steps(const FindingInput& input) {
  if (!input.steps.annotated || input.step_ns <= 0) return std::nullopt;
  const bool crowded = is_crowded(input);
  const std::vector<ComputingOfStep> steps = computing_of_steps(input, crowded ? Counted::kSleep : Counted::kAll);
  if (steps.size() < kUnevenMinSteps || steps.front().ranks.size() < 2) return std::nullopt;
  UnevenSteps found;
  found.steps = steps.size();
  std::vector<double> excesses = excesses_of(steps);
  std::map<int64_t, size_t> longest;
  double wait_ns = 0;
  for (const ComputingOfStep& step : steps) {
    double sum_ns = 0;
    for (const auto& [rank, ns] : step.ranks) sum_ns += ns;
    found.mean_ns += sum_ns / static_cast<double>(step.ranks.size() * steps.size());
    wait_ns += step.wait_ns / static_cast<double>(steps.size());
    ++longest[longest_rank(step)];
  }
  found.excess_ns = mean_of_steps(excesses);
  found.saving_ns = std::min(found.excess_ns, wait_ns);
  if (found.saving_ns < kUnevenMinSaving * mean_step_ns(input) || found.excess_ns < kUnevenMinExcess * found.mean_ns ||
      median_of(excesses) < kInMostSteps * found.excess_ns || is_of_one(steps))
    return std::nullopt;
  if (!parts_of_world(input.db, input.world, true).empty()) return std::nullopt;
  found.sleeping = crowded || mean_of_steps(excesses_of(computing_of_steps(input, Counted::kSleep))) >
                                  kMostlySleep * found.excess_ns;
  for (const auto& [rank, times] : longest) found.longest.emplace_back(times, rank);
  std::stable_sort(found.longest.begin(), found.longest.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  return found;
}

}  // namespace ddl
