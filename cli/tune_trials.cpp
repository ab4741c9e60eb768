#include "cli/tune_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autotuner/predict.h"
#include "cli/open_run.h"
#include "cli/terminal.h"
#include "reports/format.h"
#include "store/text.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

using tune::JobTunable;
using tune::Outcome;
using tune::Stage;

constexpr size_t kNoLimit = 1'000'000;

std::string question_of(const std::vector<JobTunable>& tunables) {
  std::string text;
  for (const JobTunable& tunable : tunables) text += fmt::format("{}={};", tunable.name, fmt::join(tunable.values, ","));
  return text;
}

}  // namespace

Trials::Trials(const TuneRequest& request, fs::path folder)
    : request_(request),
      folder_(std::move(folder)),
      log_(request.directory / "tune.sqlite",
           {{"command", fmt::format("{}", fmt::join(without_secrets(request.command), " "))},
            {"tunables", question_of(request.tunables)},
            {"goal", request.goal.words()},
            {"most samples", request.max_global_batch ? std::to_string(*request.max_global_batch) : "any"},
            {"most memory", request.max_memory ? std::to_string(*request.max_memory) : "any"},
            {"seed", std::to_string(request.seed)}}),
      tunables_(request.tunables),
      goal_(request.goal) {}

void Trials::search_in(const tune::Space& space, const std::vector<JobTunable>& tunables, const tune::Goal& goal,
                       const std::vector<double>& prediction) {
  space_ = &space;
  tunables_ = tunables;
  goal_ = goal;
  prediction_ = &prediction;
}

std::optional<Outcome> Trials::measure(size_t round, Stage stage, size_t point) {
  return measure_values(round, stage, space_->words(point), tune::values_at(*space_, point), point);
}

std::optional<Outcome> Trials::measure_first(const std::string& words, const std::map<std::string, std::string>& values) {
  return measure_values(0, Stage::kCalibrate, words, values, std::nullopt);
}

std::optional<Outcome> Trials::measure_values(size_t round, Stage stage, const std::string& words,
                                              const std::map<std::string, std::string>& values, std::optional<size_t> point) {
  if (ended_) return std::nullopt;
  if (const std::optional<tune::LoggedTrial> before = log_.replay(round, stage, words)) {
    ++count_;
    spend(before->wall_s, point);
    if (!before->run.empty()) runs_[words] = before->run;
    return Outcome{before->cost, before->why, before->wall_s};
  }
  tune::LoggedTrial row{.round = round, .stage = std::string(tune::name_of(stage)), .point = words};
  const std::string number = fmt::format("{:04}", ++count_);
  const fs::path run = folder_ / (number + ".ddl");
  const RanTrial ran = run_trial(tune::place(request_.command, tunables_, values, (folder_ / "allreduce.rules").string()), run,
                                 folder_ / (number + ".log"), goal_);
  if (ran.told_to_end) {
    ended_ = true;
    std::error_code ignored;
    fs::remove_all(run, ignored);
    return std::nullopt;
  }
  Outcome outcome{std::nullopt, ran.why};
  if (ran.facts) {
    const auto batch = values.find(tune::kBatch);
    outcome = tune::outcome_of(*ran.facts, goal_, batch == values.end() ? std::nullopt : std::optional(std::stod(batch->second)));
    if (request_.max_memory && ran.facts->memory_bytes.value_or(0) > static_cast<double>(*request_.max_memory))
      outcome = {std::nullopt,
                 fmt::format("needed {} of a rank, more than --max-memory {}",
                             reports::size_text(static_cast<int64_t>(*ran.facts->memory_bytes)), reports::size_text(*request_.max_memory))};
    row.step_s = ran.facts->step_s;
    row.samples = ran.facts->samples;
    row.noise_scale = ran.facts->noise_scale;
    row.wait_s = ran.facts->wait_s;
    row.transfer_s = ran.facts->transfer_s;
  }
  row.cost = outcome.cost;
  row.why = outcome.why;
  row.wall_s = outcome.wall_s = ran.wall_s;
  spend(ran.wall_s, point);
  // What only chose among points is in the log; runs that claims rest on are kept.
  if (stage == Stage::kExplore || stage == Stage::kRace) {
    std::error_code ignored;
    fs::remove_all(run, ignored);
  } else {
    row.run = run.string();
    if (ran.facts) runs_[words] = row.run;
  }
  log_.add(row);
  tell(stage, words, outcome, ran, point);
  return outcome;
}

size_t Trials::trials_left() const {
  if (ended_) return 0;
  const size_t by_count = request_.trials ? *request_.trials - std::min(*request_.trials, count_) : kNoLimit;
  // The default may be much slower than what is tried in its place.
  const double mean_s = others_ > 0 ? others_s_ / static_cast<double>(others_) : count_ > 0 ? spent_s_ / static_cast<double>(count_) : 1;
  return std::min(by_count, static_cast<size_t>(budget_left_s() / std::max(mean_s, 1e-3)));
}

void Trials::spend(double seconds, std::optional<size_t> point) {
  spent_s_ += seconds;
  if (!point || *point == 0) return;
  others_s_ += seconds;
  ++others_;
}

tune::TrialFacts Trials::facts(const std::string& words) const {
  SQLite::Database db = std::move(open_run(runs_.at(words)).db);
  return tune::read_trial(db, goal_.target_loss, goal_.needs_steps());
}

// Whether what differs from the default is known to the predictor.
bool Trials::is_predicted(size_t point) const {
  if (prediction_ == nullptr || prediction_->empty() || goal_.target_loss || !goal_.needs_steps() || point == 0) return false;
  for (size_t i = 0; i < space_->tunables().size(); ++i)
    if (space_->value_index(point, i) != 0 && !space_->tunables()[i].modelled) return false;
  return true;
}

void Trials::tell(Stage stage, const std::string& words, const Outcome& outcome, const RanTrial& ran, std::optional<size_t> point) const {
  const std::string left = request_.trials
                               ? reports::plural(static_cast<int64_t>(trials_left()), "trial")
                               : reports::short_duration(static_cast<int64_t>(std::max(0.0, request_.budget_s - spent_s()) * 1e9));
  std::string result = outcome.why;
  if (outcome.cost) {
    result = goal_.metric    ? fmt::format("{:g}", *ran.facts->metric)
             : goal_.elapsed ? reports::short_duration(static_cast<int64_t>(ran.facts->elapsed_s * 1e9)) + " elapsed"
                             : reports::short_duration(static_cast<int64_t>(ran.facts->step_s * 1e9)) + "/step";
    if (goal_.target_loss) result += fmt::format(", {} to the loss", reports::short_duration(static_cast<int64_t>(*outcome.cost * 1e9)));
    if (point && is_predicted(*point))
      result += fmt::format(" ({:+.0f}% from the prediction)", 100 * (*outcome.cost / std::exp((*prediction_)[*point]) - 1));
  }
  print_note(fmt::format("trial {} ({}) {}: {}; {} left", count_, tune::name_of(stage), words, result, left));
}

}  // namespace ddl::cli
