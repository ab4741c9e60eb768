#include "autotuner/goal.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "autotuner/predict.h"
#include "core/error.h"
#include "core/number.h"

namespace ddl::tune {

std::string Goal::words() const {
  if (metric)
    return fmt::format("'{}' in {}, {} is better", metric->pattern, metric->file.empty() ? "the output" : metric->file,
                       metric->lower_is_better ? "lower" : "higher");
  if (elapsed) return "elapsed time of the job, from MPI_Init's end to MPI_Finalize";
  if (target_loss) return fmt::format("time until the loss is {:g} (mean of {} steps)", *target_loss, kLossWindow);
  if (raw_throughput) return "samples per second, whatever they are worth (raw throughput)";
  return "samples per second at equal statistical efficiency";
}

std::string Goal::kind() const {
  return metric ? "metric" : elapsed ? "elapsed" : target_loss ? "loss" : raw_throughput ? "throughput" : "efficiency";
}

Goal goal_of(const Tuned& tuned) {
  constexpr std::string_view kUntil = "time until the loss is ";
  Goal goal;
  goal.raw_throughput =
      tuned.goal_kind == "throughput" || (tuned.goal_kind.empty() && tuned.goal.ends_with("(raw throughput)"));
  goal.target_loss = tuned.target_loss;
  goal.elapsed = tuned.goal_kind == "elapsed";
  goal.metric = tuned.metric;
  if (tuned.goal_kind.empty() && tuned.goal.starts_with(kUntil)) {
    std::string_view loss = std::string_view(tuned.goal).substr(kUntil.size());
    if (const auto target = take_number<double>(loss)) goal.target_loss = target;
  }
  return goal;
}

void require_honest_goal(const Goal& goal, const std::vector<JobTunable>& tunables, const TrialFacts& base) {
  if (goal.raw_throughput || goal.target_loss || goal.metric) return;
  for (const JobTunable& tunable : tunables) {
    if (!tunable.numeric || tunable.values.size() < 2) continue;
    if (tunable.name == kBatch && base.noise_scale && base.samples) continue;
    throw Error(
        tunable.name == kBatch
            ? "larger batches make each sample worth less, and the job does not report by how much: no gradient norms"
            : fmt::format("{} changes what is computed, so speed alone cannot choose it", tunable.name),
        "tune by the time to a loss (--target-loss X), by samples whatever they are worth (--goal throughput) or by a number that the job prints (--metric); or give it one value",
        ExitCode::kUsage);
  }
}

Outcome outcome_of(const TrialFacts& facts, const Goal& goal, std::optional<double> batch_per_rank) {
  if (goal.metric) {
    if (!facts.metric)
      return {std::nullopt,
              fmt::format("no line of {} has the number that '{}' is to match",
                          goal.metric->file.empty() ? "the output" : goal.metric->file, goal.metric->pattern)};
    const double number = *facts.metric, cost = goal.metric->lower_is_better ? number : 1 / number;
    if (!(number > 0)) return {std::nullopt, fmt::format("'{}' gives {:g}: not above 0", goal.metric->pattern, number)};
    if (!std::isfinite(number) || !std::isfinite(cost))
      return {std::nullopt, fmt::format("'{}' gives {:g}: not a finite number", goal.metric->pattern, number)};
    return {cost, ""};
  }
  if (goal.elapsed) return {facts.elapsed_s, ""};
  if (goal.target_loss) {
    if (!facts.target_s && facts.reports_no_loss)
      return {std::nullopt, "the job reports no loss: ddl_value(\"loss\", ...) does, of ddl/annotate.h"};
    if (!facts.target_s)
      return {std::nullopt, fmt::format("the loss did not come to {:g} in {} steps", *goal.target_loss, facts.steps)};
    return {*facts.target_s, ""};
  }
  const double ranks = static_cast<double>(facts.ranks);
  const double samples = facts.samples.value_or(batch_per_rank.value_or(1) * ranks);
  const double efficiency = goal.raw_throughput || goal.base_samples <= 0
                                ? 1
                                : relative_efficiency(samples, goal.base_samples, goal.noise_scale);
  return {facts.step_s / (samples * efficiency), ""};
}

}  // namespace ddl::tune
