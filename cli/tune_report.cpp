#include "cli/tune_report.h"

#include <fmt/format.h>

#include <cmath>

#include "autotuner/openmpi_allreduce.h"
#include "cli/lint_table.h"
#include "reports/format.h"
#include "reports/html/figure.h"

namespace ddl::cli {
namespace {

using reports::Column;
using reports::Table;
using reports::Unit;
using reports::Value;

Value text_or_dash(const std::string& text) { return text.empty() ? Value::null(Unit::kText) : Value::text(text); }
Value seconds(std::optional<double> value) {
  return value ? Value::duration_ns(static_cast<int64_t>(*value * 1e9)) : Value::null(Unit::kDuration);
}

std::string interval(double ratio, double lo, double hi) {
  return fmt::format("{:+.1f}% [{:+.1f}%, {:+.1f}%]", 100 * (ratio - 1), 100 * (lo - 1), 100 * (hi - 1));
}

// Why the winner won, of its recorded step and the default's. The parts add up to the mean step.
Table split_table(const Tuning& tuning) {
  Table table{
      .id = "split",
      .caption =
          "Where a step goes: \"Step\" is the median of the slowest rank; the mean step and its parts are means over ranks; memory is that of "
          "the rank that needs most. \"tuned, but\": a trial each, in the round of \"tuned\".",
      .columns = {{"configuration", "Configuration", Unit::kText},
                  {"step_ns", "Step", Unit::kDuration},
                  {"mean_step_ns", "Mean", Unit::kDuration},
                  {"compute_ns", "Compute", Unit::kDuration},
                  {"wait_ns", "Waiting", Unit::kDuration},
                  {"transfer_ns", "Transfer", Unit::kDuration},
                  {"unsplit_ns", "Not split", Unit::kDuration, 7},
                  {"copy_ns", "Copies", Unit::kDuration, 6},
                  {"idle_ns", "Idle", Unit::kDuration, 8},
                  {"memory_bytes", "Memory", Unit::kBytes, 2},
                  {"samples", "Samples", Unit::kReal, 1},
                  {"allreduces", "Allreduces", Unit::kCount, 3}}};
  const auto row = [&](const std::string& name, const tune::TrialFacts& facts) {
    const bool known = facts.steps > 0 && facts.parts;
    const auto part = [&](double models::StepParts::*which) {
      return seconds(known ? std::optional((*facts.parts).*which) : std::nullopt);
    };
    // Where none of it can be split, neither is 0.
    const bool none = known && facts.unsplit_s > 0 && facts.parts->wait_s + facts.parts->transfer_s == 0;
    table.rows.push_back(
        {Value::text(name), seconds(facts.steps > 0 ? std::optional(facts.step_s) : std::nullopt),
         part(&models::StepParts::step_s), part(&models::StepParts::compute_s),
         none ? Value::absent(Unit::kDuration) : part(&models::StepParts::wait_s),
         none ? Value::absent(Unit::kDuration) : part(&models::StepParts::transfer_s),
         seconds(known ? std::optional(facts.unsplit_s) : std::nullopt), part(&models::StepParts::copy_s),
         part(&models::StepParts::idle_s),
         facts.memory_bytes ? Value::bytes(static_cast<int64_t>(*facts.memory_bytes)) : Value::null(Unit::kBytes),
         facts.samples ? Value::real(*facts.samples) : Value::null(Unit::kReal),
         // Of a job that reduces by other means than MPI and NCCL none are known.
         facts.gradients.empty() ? Value::absent(Unit::kCount)
                                 : Value::count(static_cast<int64_t>(facts.gradients.size()))});
  };
  row("default", tuning.base_again.value_or(tuning.base));  // as near in time to the winner's as there is
  if (tuning.best) row("tuned", *tuning.best);
  for (const PutBack& one : tuning.put_back) row("tuned, but " + one.words, one.facts);
  return table;
}

Table choices_table(const Tuning& tuning) {
  Table table{.id = "choices",
              .caption = "Tunables: the believed cost of going back to the default, from all trials.",
              .columns = {{"tunable", "Tunable", Unit::kText},
                          {"default", "Default", Unit::kText},
                          {"best", "Best", Unit::kText},
                          {"tried", "Tried", Unit::kText},
                          {"worth", "Worth", Unit::kText},
                          {"values", "Values", Unit::kText, 1}}};
  for (size_t i = 0; i < tuning.tunables.size(); ++i) {
    const tune::JobTunable& tunable = tuning.tunables[i];
    const std::string& best = tuning.space.value(tuning.result.best_seen, i);
    std::string worth;
    if (best != tunable.values[0] && i < tuning.result.worth.size()) {
      const tune::Belief& belief = tuning.result.worth[i];
      worth = fmt::format("{:+.1f}% +- {:.1f}%", 100 * std::expm1(belief.mean), 100 * 2 * belief.sd);
    }
    table.rows.push_back(
        {Value::text(tunable.name), Value::text(tunable.values[0]), Value::text(best),
         Value::text(fmt::format("{} of {}", tried_values(tuning.result, tuning.space, i), tunable.values.size())),
         text_or_dash(worth), Value::text(fmt::format("{}", fmt::join(tunable.values, " ")))});
  }
  return table;
}

const char* cost_name(const Tuning& tuning) {
  if (tuning.goal.metric) return "Metric";
  return tuning.goal.elapsed ? "Elapsed" : tuning.goal.target_loss ? "To loss" : "Per sample";
}

// Only what follows from the times of steps is predicted.
std::optional<double> predicted_s(const Tuning& tuning, size_t point) {
  if (tuning.goal.target_loss || !tuning.goal.needs_steps() || tuning.prediction.empty()) return std::nullopt;
  return std::exp(tuning.prediction[point]);
}

// As the job told it where that is the goal.
Value cost_value(const Tuning& tuning, std::optional<double> cost) {
  if (!tuning.goal.metric) return seconds(cost);
  if (!cost) return Value::null(Unit::kReal);
  return Value::real(tuning.goal.metric->lower_is_better ? *cost : 1 / *cost);
}

Table trials_table(const Tuning& tuning) {
  Table table{.id = "trials",
              .caption = fmt::format("Trials: {}.", tuning.goal.words()),
              .columns = {{"round", "Round", Unit::kCount},
                          {"stage", "Stage", Unit::kText},
                          {"point", "Point", Unit::kText},
                          tuning.goal.metric ? reports::Column{"metric", cost_name(tuning), Unit::kReal}
                                             : reports::Column{"cost_ns", cost_name(tuning), Unit::kDuration},
                          {"predicted_ns", "Predicted", Unit::kDuration, 3},
                          {"why", "Failed", Unit::kText, 2}}};
  for (const tune::Trial& trial : tuning.result.trials) {
    table.rows.push_back({Value::count(static_cast<int64_t>(trial.round)),
                          Value::text(std::string(tune::name_of(trial.stage))),
                          Value::text(tuning.space.words(trial.point)), cost_value(tuning, trial.outcome.cost),
                          seconds(predicted_s(tuning, trial.point)), text_or_dash(trial.outcome.why)});
  }
  return table;
}

Table rules_table(const Tuning& tuning) {
  Table table{
      .id = "rules",
      .caption =
          "Algorithm rules: for MPI_Allreduce, as the sweep of one launch suggests against the default within rounds.",
      .columns = {{"from_bytes", "From", Unit::kBytes},
                  {"algorithm", "Algorithm", Unit::kText},
                  {"segment_bytes", "Segment", Unit::kBytes},
                  {"default", "Default would have used", Unit::kText}}};
  for (size_t i = 0; i < tuning.rules.size(); ++i) {
    const tune::AllreduceRule& rule = tuning.rules[i];
    const auto below = i + 1 < tuning.rules.size() ? std::optional(tuning.rules[i + 1].from_bytes) : std::nullopt;
    table.rows.push_back({Value::bytes(rule.from_bytes),
                          Value::text(rule.algorithm == 0 ? "default" : rule.algorithm_name),
                          rule.segment_bytes > 0 ? Value::bytes(rule.segment_bytes) : Value::null(Unit::kBytes),
                          Value::text(tune::openmpi_default(tuning.base.ranks, rule.from_bytes, below))});
  }
  return table;
}

}  // namespace

std::string conclusion_words(const Tuning& tuning) {
  const tune::SearchResult& result = tuning.result;
  const auto& gain = result.gain;
  const std::string best = tuning.space.words(result.best_seen);
  const size_t tried = tried_points(result), points = tuning.space.size();
  switch (result.conclusion) {
    case tune::Conclusion::kBetterFound:
      return fmt::format(
          "{}: {} over the default, by {} of paired {}{}", best, interval(gain->ratio, gain->lo, gain->hi),
          reports::plural(gain->rounds, "round"), tuning.in_run ? "blocks of steps in one run" : "trials",
          fmt::format(
              "{}{}", gain->of_rounds ? "; the interval is that of single rounds, each far above the noise" : "",
              gain->spans_search ? "; it reaches to what the trials before them showed: conditions changed" : ""));
    case tune::Conclusion::kNoneBetter:
      if (tried < points)
        return fmt::format(
            "none of the {} of {} points tried was better than the default, nor promised any other to be: keep it",
            tried, points);
      return "nothing was better than the default: keep it";
    case tune::Conclusion::kNoDifference:
      return fmt::format("no significant difference: keep the default. The best of the others, {}, gave {}", best,
                         interval(gain->ratio, gain->lo, gain->hi));
    case tune::Conclusion::kFails:
      return fmt::format("the best of the others, {}, failed while being confirmed: keep the default", best);
    case tune::Conclusion::kNotConfirmed:
      return fmt::format("not confirmed: the tuning ended first. Keep the default; the best so far is {}", best);
    case tune::Conclusion::kNotExplored:
      if (tried > 1)
        return fmt::format(
            "not explored: the tuning ended, and none of the {} of {} points tried was better than the default: keep it",
            tried, points);
      break;
  }
  return "not explored: the tuning ended before anything better than the default was seen";
}

std::string untried_words(const TuneRequest& request, const Tuning& tuning) {
  const size_t untried = tuning.space.size() - tried_points(tuning.result);
  const std::string limit = request.trials
                                ? fmt::format("--trials {}", *request.trials)
                                : "--budget " + reports::short_duration(static_cast<int64_t>(request.budget_s * 1e9));
  if (tuning.result.conclusion == tune::Conclusion::kNotConfirmed)
    return limit + " did not suffice to confirm the best of those tried";
  return fmt::format("{} did not suffice to try {} of {}, beside the trials that confirm a gain", limit, untried,
                     reports::plural(static_cast<int64_t>(tuning.space.size()), "point"));
}

reports::Document tune_document(const TuneRequest& request, const Tuning& tuning, bool every_trial) {
  reports::Document document;
  const tune::SearchResult& result = tuning.result;
  document.headline = {"ddl tune", reports::plural(tuning.base.ranks, "rank"),
                       reports::plural(tuning.base.nodes, "node"), tuning.goal.words()};
  size_t failed = 0;
  for (const tune::Trial& trial : result.trials) failed += !trial.outcome.cost;
  document.data = {
      reports::plural(static_cast<int64_t>(result.trials.size()), "trial"),
      fmt::format("{} of {}", tried_points(result),
                  reports::plural(static_cast<int64_t>(tuning.space.size()), "point")),
      reports::short_duration(static_cast<int64_t>(tuning.spent_s * 1e9)) + (tuning.in_run ? " of the run" : "")};
  if (tuning.in_run) {
    const auto words = [](double step_s) {
      return reports::short_duration(static_cast<int64_t>(step_s * 1e9)) + " a step";
    };
    document.data.push_back("default " + words(tuning.base.step_s));
    if (tuning.best) document.data.push_back("tuned " + words(tuning.best->step_s));
  }
  if (failed > 0) document.data.push_back(fmt::format("{} failed", failed));
  document.source = request.directory.string();
  document.verdict = conclusion_words(tuning);
  document.facts = {{"winner", Value::text(tuning.space.words(result.winner))},
                    {"default", Value::text(tuning.space.words(0))},
                    {"goal", Value::text(tuning.goal.words())},
                    {"confirmed", Value::text(result.winner != 0 ? "yes" : "no")},
                    {"measured", Value::text(tuning.in_run ? "in one run" : "by launches")}};
  if (result.gain) {
    for (const auto& [key, value] :
         {std::pair("gain", result.gain->ratio), std::pair("gain_lo", result.gain->lo),
          std::pair("gain_hi", result.gain->hi), std::pair("noise_lo", result.gain->noise_lo),
          std::pair("noise_hi", result.gain->noise_hi)})
      document.facts.push_back({key, Value::real(value)});
    document.verdict += fmt::format(". The default against itself, in the same rounds: [{:+.1f}%, {:+.1f}%]",
                                    100 * (result.gain->noise_lo - 1), 100 * (result.gain->noise_hi - 1));
  }
  if (!tuning.in_run) document.tables.push_back(split_table(tuning));
  document.tables.push_back(choices_table(tuning));
  if (!tuning.rules.empty()) document.tables.push_back(rules_table(tuning));
  if (every_trial) document.tables.push_back(trials_table(tuning));
  document.tables.push_back(lint_table(stated_of(tuning, machine_words()), request.stated));
  for (const RefusedPoints& refused : tuning.refused)
    document.alerts.push_back(
        fmt::format("{} not tried: {}", reports::plural(static_cast<int64_t>(refused.count), "point"), refused.why));
  for (const std::string& note : tuning.notes) document.alerts.push_back(note);
  const std::string directory = request.directory.string();
  if (result.winner != 0) {
    document.more = {fmt::format("ddl tune --apply {} -- COMMAND", directory),
                     fmt::format("ddl tune --verify {}{}", directory, tuning.in_run ? " --in-run" : "")};
  }
  return document;
}

std::vector<reports::html::Figure> tune_figures(const Tuning& tuning) {
  if (tuning.goal.metric) return {};  // the drawings are of times
  const auto ns = [](std::optional<double> s) { return s ? std::optional(*s * 1e9) : std::nullopt; };
  std::vector<reports::html::TrialMark> marks;
  for (const tune::Trial& trial : tuning.result.trials)
    marks.push_back({.stage = std::string(tune::name_of(trial.stage)),
                     .point = tuning.space.words(trial.point),
                     .cost_ns = ns(trial.outcome.cost),
                     .predicted_ns = ns(predicted_s(tuning, trial.point)),
                     .is_default = trial.point == 0,
                     .is_winner = trial.point != 0 && trial.point == tuning.result.winner});
  return reports::html::tuning_figures(marks, cost_name(tuning));
}

}  // namespace ddl::cli
