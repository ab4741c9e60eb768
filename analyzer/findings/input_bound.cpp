// Steps that wait for data: the ranks load the next batch, in ranges whose names say so (passes/input_ranges.h), and
// nothing else goes on.
//
// What it would save is told step by step: the longest time of a rank outside communication, with loading and without
// it. So loading that another rank's computing hides costs nothing. Loading between two steps belongs to the later one.
// Means over the steps, because loaders stall every now and then: a median would not see it. Where there are GPUs, only
// what they idled for it counts: what the host loads while they compute is free. One rank whose GPU idles for data
// while the others wait for it is told by what a step takes less without it (passes/waited_for.h).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "analyzer/findings/findings.h"
#include "analyzer/findings/loader_stall.h"
#include "analyzer/findings/waited_for.h"
#include "analyzer/passes/input_ranges.h"
#include "analyzer/passes/process_steps.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr double kInputMinSavingShare = 0.03;  // of the step
constexpr double kStalledShare = 0.01;         // of the step: less is not a stall
constexpr size_t kMinStalledSteps = 3;

using ByStepAndRank = std::map<std::pair<int64_t, int64_t>, double>;

/// Loading between the steps of each rank, by the step that follows.
ByStepAndRank input_between_steps(const FindingInput& input) {
  ByStepAndRank between;
  if (!input.inputs.any()) return between;
  ProcessSteps steps(input.db);
  for (const auto& [id, process] : input.catalog.processes) {
    if (process.world != input.world || process.rank < 0) continue;
    const std::vector<InputRange>& all = input.inputs.of(id);
    auto range = all.begin();
    int64_t loaded_until_ns = INT64_MIN;  // ranges may lie within each other
    bool first = true;
    for (const ProcessStep& step : steps.of(id)) {
      for (; range != all.end() && range->interval.begin_ns < step.begin_ns; ++range) {
        const int64_t begin_ns = std::max(range->interval.begin_ns, loaded_until_ns),
                      end_ns = std::min(range->interval.end_ns, step.begin_ns);
        // before the first step: a cold start
        if (range->thread != step.thread || first || end_ns <= begin_ns) continue;
        between[{step.step, process.rank}] += static_cast<double>(end_ns - begin_ns);
        loaded_until_ns = end_ns;
      }
      first = false;
      loaded_until_ns = std::max(loaded_until_ns, step.end_ns);
    }
  }
  return between;
}

/// What each steady step would be shorter by. `before_ns`: mean of what they wait for loading before them.
std::vector<double> savings_of_host(const FindingInput& input, double& before_ns) {
  const ByStepAndRank between = input_between_steps(input);
  struct Step {
    double longest_ns = 0, without_ns = 0, before_ns = 0;
  };
  std::map<int64_t, Step> steps;
  Query rows(
      input.db,
      "SELECT step, rank, duration_ns - exposed_ns, coalesce(input_ns, 0) FROM steady_part WHERE world = ? AND annotated");
  rows.bind(input.world);
  while (rows.next()) {
    const auto outside = between.find({rows.integer(0), rows.integer(1)});
    const double outside_ns = outside == between.end() ? 0 : outside->second;
    Step& step = steps[rows.integer(0)];
    step.longest_ns = std::max(step.longest_ns, rows.real(2) + outside_ns);
    step.without_ns = std::max(step.without_ns, rows.real(2) - rows.real(3));
    step.before_ns = std::max(step.before_ns, outside_ns);
  }
  std::vector<double> savings;
  for (const auto& [number, step] : steps) {
    savings.push_back(step.longest_ns - step.without_ns);
    before_ns += step.before_ns / static_cast<double>(steps.size());
  }
  return savings;
}

/// The longest idling for data of a GPU in each steady step.
std::vector<double> savings_of_gpus(const FindingInput& input) {
  std::vector<double> savings;
  Query rows(
      input.db,
      "SELECT max(g.idle_input_ns) FROM gpu_part g JOIN process p ON p.id = g.process JOIN steady_number n ON n.world = p.world"
      " AND n.step = g.step WHERE p.world = ? GROUP BY g.step");
  rows.bind(input.world);
  while (rows.next()) savings.push_back(rows.real(0));
  return savings;
}

constexpr const char* kInputAdvice =
    "load the next batch while this one computes: more loader processes (num_workers), prefetching (prefetch_factor, pin_memory), data on a "
    "local disk or in memory, decoding and augmentation on the GPU";

Finding late_loader(const FindingInput& input, const WaitedFor& found) {
  Finding finding = describe(input, found);
  finding.sentence = idling_sentence(input, found, "for data");
  finding.advice =
      fmt::format("see how {} loads: its disk or share of the file system, its files, its loader's processes; else {}",
                  ranks_text(found.ranks), kInputAdvice);
  return finding;
}

}  // namespace

DDL_FINDING(
    input_bound, kSpeed, "where", "steps wait for data; or one rank does, and the others wait for it",
    "ranges that load data: the longest time of a rank outside communication in a step, with and without them; of "
    "GPUs, their idling for it") {
  if (!input.steps.annotated || input.step_ns <= 0) return {};
  if (const auto late = waited_for(input, "input")) return {late_loader(input, *late)};
  if (find_slow_loader(input)) return {};  // loader_stall
  std::vector<double> savings = savings_of_gpus(input);
  const bool gpus = !savings.empty();
  double before_ns = 0;
  if (!gpus) savings = savings_of_host(input, before_ns);
  if (savings.empty()) return {};
  const double saving_ns = std::accumulate(savings.begin(), savings.end(), 0.0) / static_cast<double>(savings.size());
  const auto step_ns = static_cast<double>(input.step_ns);
  const auto stalled = static_cast<size_t>(
      std::count_if(savings.begin(), savings.end(), [&](double ns) { return ns > kStalledShare * step_ns; }));
  if (saving_ns < kInputMinSavingShare * step_ns || stalled < std::min(kMinStalledSteps, savings.size())) return {};

  Finding finding;
  finding.saving_ns = static_cast<int64_t>(saving_ns);
  finding.before_ns = before_ns;
  finding.confidence = "likely";
  finding.sentence = fmt::format("{} of {} steps wait for data: {}/step on average{}", stalled, savings.size(),
                                 duration_text(saving_ns), gpus ? " in which a GPU has nothing to do" : "");
  finding.evidence = fmt::format("Loading takes up to {} in a step; the mean step takes {}{}.",
                                 duration_text(*std::max_element(savings.begin(), savings.end())),
                                 duration_text(mean_step_ns(input) + before_ns),
                                 before_ns > 0 ? ", with what is loaded before it" : "");
  finding.evidence_sql =
      gpus
          ? fmt::format(
                "SELECT step, rank, device, idle_input_ns, duration_ns FROM v_gpu_part WHERE world = {} AND step IS NOT NULL"
                " ORDER BY idle_input_ns DESC LIMIT 100",
                input.world)
          : fmt::format(
                "SELECT step, rank, input_ns, compute_ns, idle_ns, duration_ns FROM v_step WHERE world = {} AND measured ORDER BY step, rank LIMIT 200",
                input.world);
  finding.advice = kInputAdvice;
  return {finding};
}

}  // namespace ddl
