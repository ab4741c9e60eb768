// One rank waits for its data, and the others wait for it. What is saved if it loaded in each step as long as the
// median of the others; where all load as long, or one loads for all, it is input_bound, and where GPUs carry out
// collectives, too.
#include "analyzer/findings/loader_stall.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/pauses.h"
#include "analyzer/findings/shared.h"
#include "analyzer/passes/input_ranges.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr double kMinLoaderShare = 0.03;  // of the step
// of what the steps would save without any loading: else it is not this rank alone
constexpr double kOfAllLoading = 0.6;
constexpr double kLateShare = 0.01;  // of the step

double median_of_others(const StepPauses& step, int64_t rank) {
  std::vector<double> others;
  for (const RankPause& other : step.ranks)
    if (other.rank != rank) others.push_back(other.pause_ns);
  return others.empty() ? 0 : median_of(others);
}

std::optional<SlowLoader> look_for_slow_loader(const FindingInput& input) {
  Query by_device(input.db, "SELECT 1 FROM steady_world WHERE world = ? AND waits_by = 'device'");
  by_device.bind(input.world);
  if (by_device.next()) return std::nullopt;  // what the host loads while its GPU computes is free: input_bound tells
  const std::vector<StepPauses> steps = pauses_in(input, kInputRanges);
  if (steps.empty()) return std::nullopt;
  std::map<int64_t, double> loading;
  for (const StepPauses& step : steps)
    for (const RankPause& rank : step.ranks) loading[rank.rank] += rank.pause_ns;
  const auto loads = std::count_if(loading.begin(), loading.end(), [](const auto& rank) { return rank.second > 0; });
  if (loading.size() < 2 || 2 * loads <= static_cast<ptrdiff_t>(loading.size())) return std::nullopt;
  const auto most = std::max_element(loading.begin(), loading.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  SlowLoader found;
  found.rank = most->first;
  found.saving_ns = saving_without(steps, [&](const StepPauses& step, const RankPause& rank) {
    return rank.rank == found.rank ? std::max(0.0, rank.pause_ns - median_of_others(step, found.rank)) : 0.0;
  });
  const double without_any_ns =
      saving_without(steps, [](const StepPauses&, const RankPause& rank) { return rank.pause_ns; });
  if (found.saving_ns < kMinLoaderShare * static_cast<double>(input.step_ns) ||
      found.saving_ns < kOfAllLoading * without_any_ns)
    return std::nullopt;
  found.before_ns = mean_before_ns(steps);
  found.steps = static_cast<int64_t>(steps.size());
  for (const StepPauses& step : steps) {
    const double others_ns = median_of_others(step, found.rank);
    found.others_ns += others_ns / static_cast<double>(steps.size());
    for (const RankPause& rank : step.ranks)
      if (rank.rank == found.rank)
        found.late_steps += rank.pause_ns - others_ns > kLateShare * static_cast<double>(input.step_ns);
  }
  found.own_ns = most->second / static_cast<double>(steps.size());
  return found;
}

}  // namespace

std::optional<SlowLoader> find_slow_loader(const FindingInput& input) {
  return input.shared.slow_loader.get([&] { return look_for_slow_loader(input); });
}

DDL_FINDING(loader_stall, kSpeed, "late", "one rank's loader is slower than the others', which wait for it",
            "ranges that load data, step by step: the longest busy rank as it was, and if that one loaded as the "
            "median of the others does") {
  const auto found = find_slow_loader(input);
  if (!found) return {};
  Finding finding;
  finding.rank = found->rank;
  finding.saving_ns = static_cast<int64_t>(found->saving_ns);
  finding.confidence = "likely";
  finding.sentence =
      fmt::format("the others wait for the loader of {} in {} of {} steps: it loads for {}/step, the others for {}",
                  rank_on_host(input.catalog, input.world, found->rank), found->late_steps, found->steps,
                  duration_text(found->own_ns), duration_text(found->others_ns));
  finding.before_ns = found->before_ns;
  finding.evidence =
      fmt::format("If it loaded as long as the median of the others, the mean step of {}{} would take {} less.",
                  duration_text(mean_step_ns(input) + found->before_ns),
                  found->before_ns > 0 ? ", with what is loaded before it," : "", duration_text(found->saving_ns));
  bound_by_missing(input, finding, {found->rank});
  finding.evidence_sql = pauses_sql(input.world, kInputRanges);
  finding.advice = fmt::format(
      "see how rank {} loads: its disk or share of the file system, its files (their sizes and number), its loader's processes and their CPUs (num_workers, "
      "prefetch_factor, affinity)",
      found->rank);
  return {finding};
}

}  // namespace ddl
