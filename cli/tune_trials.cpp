#include "cli/tune_trials.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "autotuner/predict.h"
#include "cli/mpirun.h"
#include "cli/open_run.h"
#include "cli/terminal.h"
#include "cli/tune_hosts.h"
#include "core/error.h"
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
  for (const JobTunable& tunable : tunables)
    text += fmt::format("{}={};", tunable.name, fmt::join(tunable.values, ","));
  return text;
}

/// Rounds that ran at the same time shared no node, whatever their commands made of what they were told.
void require_apart(const std::vector<std::vector<RanTrial>>& rounds) {
  std::map<std::string, size_t> lane_of;
  for (size_t lane = 0; lane < rounds.size(); ++lane)
    for (const RanTrial& trial : rounds[lane])
      for (const std::string& host : trial.hosts)
        if (const auto [known, is_new] = lane_of.emplace(host, lane); !is_new && known->second != lane)
          throw Error(fmt::format("two trials ran on {} at the same time: neither time is valid",
                                  host.substr(0, host.find(' '))),
                      "does the command start its ranks on the nodes that --host, --nodelist or {hosts} tell it?");
}

void discard(const TrialRun& trial) {
  std::error_code ignored;
  fs::remove_all(trial.recording(), ignored);
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
            {"seed", std::to_string(request.seed)},
            {"trials side by side", request.lanes.size() > 1 ? std::to_string(request.lanes.size()) : ""}}),
      tunables_(request.tunables),
      goal_(request.goal) {}

void Trials::search_in(const tune::Space& space, const std::vector<JobTunable>& tunables, const tune::Goal& goal,
                       const std::vector<double>& prediction) {
  space_ = &space;
  tunables_ = tunables;
  goal_ = goal;
  prediction_ = &prediction;
}

std::string Trials::hosts_of(size_t lane) const { return request_.lanes.empty() ? "" : words_of(request_.lanes[lane]); }

tune::PlacedJob Trials::placed(tune::PlacedJob job, size_t lane) const {
  return placed_on(std::move(job), request_.lanes.empty() ? LaneHosts() : request_.lanes[lane]);
}

bool Trials::is_known(Wanted& wanted) {
  wanted.number = ++count_;
  std::optional<tune::LoggedTrial> before =
      log_.replay(wanted.round, wanted.stage, wanted.words, hosts_of(wanted.lane));
  if (before && !wanted.point && !before->cost) {  // the job failed with its defaults: that may be mended by now
    log_.forget_earlier();
    before.reset();
  }
  if (!before) return false;
  if (!before->run.empty()) runs_[wanted.words] = before->run;
  wanted.outcome = Outcome{before->cost, before->why, before->wall_s};
  count(wanted);
  return true;
}

TrialRun Trials::run_of(const Wanted& wanted) const {
  const std::string number = fmt::format("{:04}", wanted.number);
  return {placed(tune::place(request_.command, tunables_, wanted.values, (folder_ / "allreduce.rules").string()),
                 wanted.lane),
          folder_ / (number + ".ddl"), folder_ / (number + ".log"), goal_};
}

Launch Trials::launch_of(const TrialRun& trial, const Wanted& wanted) const {
  Launch launch = trial.launch();
  launch.most_s = [this, wanted] { return most_s(wanted); };
  return launch;
}

// What takes longer because it does more is given the time for that.
double Trials::most_s(const Wanted& wanted) const {
  const double left_s = budget_left_s() - std::chrono::duration<double>(Clock::now() - last_).count();
  double work = 1;
  if (const auto batch = wanted.values.find(tune::kBatch); default_s_ > 0 && batch != wanted.values.end())
    work = std::max(1.0, std::stod(batch->second) / std::stod(default_values_.at(tune::kBatch)));
  return trial_limit_s(default_s_, work, left_s);
}

/// What starts the ranks; the whole command where that cannot be told.
std::vector<std::string> Trials::launcher_of(const std::map<std::string, std::string>& values) const {
  std::vector<std::string> command = tune::place(request_.command, tunables_, values, "").command;
  if (const std::optional<size_t> program = program_of(command)) command.resize(*program);
  return command;
}

// The launcher takes their number from a host file or an allocation, which may be another than when the log was begun.
// A tunable may say it, too.
void Trials::require_same_ranks(const Wanted& wanted, const tune::TrialFacts& facts) const {
  if (ranks_ == 0 || facts.ranks == ranks_) return;
  if (launcher_of(wanted.values) != default_launcher_) return;
  throw Error(fmt::format("trial {} ran on {}, the first trial in {} on {}", wanted.number,
                          reports::plural(facts.ranks, "rank"), (request_.directory / "tune.sqlite").string(), ranks_),
              "tune into another directory (-o), or run on as many ranks as before");
}

void Trials::keep(Wanted& wanted, const RanTrial& ran, const fs::path& recording) {
  tune::LoggedTrial row{.round = wanted.round,
                        .stage = std::string(tune::name_of(wanted.stage)),
                        .point = wanted.words,
                        .hosts = hosts_of(wanted.lane)};
  Outcome outcome{std::nullopt, ran.why};
  if (ran.facts) {
    require_same_ranks(wanted, *ran.facts);
    const auto batch = wanted.values.find(tune::kBatch);
    outcome = tune::outcome_of(*ran.facts, goal_,
                               batch == wanted.values.end() ? std::nullopt : std::optional(std::stod(batch->second)));
    if (request_.max_memory && ran.facts->memory_bytes.value_or(0) > static_cast<double>(*request_.max_memory))
      outcome = {std::nullopt, fmt::format("{}{} of a rank, more than --max-memory {}", kNeeded,
                                           reports::size_text(static_cast<int64_t>(*ran.facts->memory_bytes)),
                                           reports::size_text(*request_.max_memory))};
    row.step_s = ran.facts->step_s;
    row.samples = ran.facts->samples;
    row.noise_scale = ran.facts->noise_scale;
    row.wait_s = ran.facts->wait_s;
    row.transfer_s = ran.facts->transfer_s;
  }
  row.cost = outcome.cost;
  row.why = outcome.why;
  row.wall_s = outcome.wall_s = ran.wall_s;
  // What only chose among points is in the log; runs that claims rest on are kept.
  if (wanted.stage == Stage::kExplore || wanted.stage == Stage::kRace) {
    std::error_code ignored;
    fs::remove_all(recording, ignored);
  } else {
    row.run = recording.string();
    if (ran.facts) runs_[wanted.words] = row.run;
  }
  log_.add(row);
  wanted.outcome = outcome;
  count(wanted);
  tell(wanted, ran);
}

double Trials::since_last_s() {
  const auto now = Clock::now();
  return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
}

void Trials::spend_on_sweep(double seconds) {
  sweep_s_ += seconds;
  since_last_s();
}

// What cannot be started any more ends the tuning as Ctrl-C does: what was measured counts. The first trial tells
// of a wrong command.
bool Trials::start(const std::vector<std::vector<Launch>>& launches, std::vector<std::vector<LaneEnd>>& ends) {
  try {
    ends = run_lanes(launches);
    return true;
  } catch (const Error& error) {
    if (default_s_ == 0 || error.code() != ExitCode::kCannotLaunch) throw;
    print_note(fmt::format("{}: the tuning ends here", error.what()));
    ended_ = true;
    return false;
  }
}

std::optional<Outcome> Trials::measure_one(Wanted wanted) {
  if (ended_) return std::nullopt;
  if (!is_known(wanted)) {
    const TrialRun trial = run_of(wanted);
    std::vector<std::vector<LaneEnd>> ends;
    if (!start({{launch_of(trial, wanted)}}, ends)) return std::nullopt;
    const LaneEnd end = ends.at(0).at(0);
    RanTrial ran = trial.finish(end);
    if (ran.told_to_end) {
      ended_ = true;
      discard(trial);
      return std::nullopt;
    }
    if (default_s_ == 0 && end.ended_after_s) {
      discard(trial);
      throw Error(
          fmt::format("the job with its defaults {}", ran.why),
          fmt::format("let it run fewer steps, or give it more --budget; its output is in {}", trial.launch().output));
    }
    ran.wall_s = since_last_s();
    spent_s_ += ran.wall_s;
    keep(wanted, ran, trial.recording());
  } else {
    spent_s_ += wanted.outcome->wall_s;
    since_last_s();
  }
  return wanted.outcome;
}

std::optional<Outcome> Trials::measure(size_t round, Stage stage, size_t point) {
  return measure_one({round, stage, point, space_->words(point), tune::values_at(*space_, point)});
}

std::optional<Outcome> Trials::measure_first(const std::string& words,
                                             const std::map<std::string, std::string>& values) {
  default_values_ = values;
  default_launcher_ = launcher_of(values);
  const std::optional<Outcome> outcome = measure_one({0, Stage::kCalibrate, std::nullopt, words, values});
  if (outcome && outcome->cost) {
    default_s_ = outcome->wall_s;
    ranks_ = facts(words).ranks;
  }
  return outcome;
}

std::vector<std::vector<Outcome>> Trials::measure_rounds(Stage stage, const std::vector<tune::Round>& rounds) {
  if (rounds.size() < 2) return Bench::measure_rounds(stage, rounds);
  std::vector<std::vector<Outcome>> outcomes;
  if (ended_) return outcomes;
  std::vector<std::vector<Wanted>> wanted(rounds.size());
  std::vector<std::vector<TrialRun>> trials(rounds.size());
  std::vector<std::vector<Launch>> launches(rounds.size());
  std::vector<double> elapsed_s(rounds.size(), 0);
  for (size_t lane = 0; lane < rounds.size(); ++lane)
    for (const size_t point : rounds[lane].points) {
      Wanted& one = wanted[lane].emplace_back(
          Wanted{rounds[lane].number, stage, point, space_->words(point), tune::values_at(*space_, point), lane});
      if (is_known(one)) {
        elapsed_s[lane] += one.outcome->wall_s;
      } else {
        trials[lane].push_back(run_of(one));
        launches[lane].push_back(launch_of(trials[lane].back(), one));
      }
    }
  std::vector<std::vector<LaneEnd>> ends;
  if (!start(launches, ends)) return outcomes;
  std::vector<std::vector<RanTrial>> ran(rounds.size());
  for (size_t lane = 0; lane < rounds.size(); ++lane)
    for (size_t i = 0; i < ends[lane].size(); ++i) {
      ran[lane].push_back(trials[lane][i].finish(ends[lane][i]));
      elapsed_s[lane] += ends[lane][i].wall_s;
    }
  require_apart(ran);
  spent_s_ += std::max(since_last_s(), *std::max_element(elapsed_s.begin(), elapsed_s.end()));
  for (size_t lane = 0; lane < rounds.size(); ++lane) {
    outcomes.emplace_back();
    size_t next = 0;
    for (Wanted& one : wanted[lane]) {
      if (!one.outcome) {
        if (next == ran[lane].size() || ran[lane][next].told_to_end) {
          ended_ = true;
          // What comes later in the log could not be read back without this one.
          for (size_t later = lane; later < rounds.size(); ++later)
            for (size_t i = later == lane ? next : 0; i < trials[later].size(); ++i) discard(trials[later][i]);
          return outcomes;
        }
        keep(one, ran[lane][next], trials[lane][next].recording());
        ++next;
      }
      outcomes.back().push_back(*one.outcome);
    }
  }
  return outcomes;
}

size_t Trials::trials_left() const {
  if (ended_) return 0;
  const size_t by_count = request_.trials ? *request_.trials - std::min(*request_.trials, count_) : kNoLimit;
  // The default may be much slower than what is tried in its place.
  const double mean_s = others_ > 0  ? others_s_ / static_cast<double>(others_)
                        : count_ > 0 ? all_s_ / static_cast<double>(count_)
                                     : 1;
  return std::min(by_count,
                  static_cast<size_t>(static_cast<double>(lanes()) * budget_left_s() / std::max(mean_s, 1e-3)));
}

// What did not end is not tried again: nothing follows from it for how many trials fit into the time that is left.
void Trials::count(const Wanted& wanted) {
  if (wanted.outcome->why.starts_with(kDidNotEnd)) return;
  all_s_ += wanted.outcome->wall_s;
  if (!wanted.point || *wanted.point == 0) return;
  others_s_ += wanted.outcome->wall_s;
  ++others_;
}

tune::TrialFacts Trials::facts(const std::string& words) const {
  SQLite::Database db = std::move(open_run(runs_.at(words)).db);
  return tune::read_trial(db, goal_.target_loss, goal_.needs_steps());
}

// Whether what differs from the default is known to the predictor.
bool Trials::is_predicted(size_t point) const {
  if (prediction_ == nullptr || prediction_->empty() || goal_.target_loss || !goal_.needs_steps() || point == 0)
    return false;
  for (size_t i = 0; i < space_->tunables().size(); ++i)
    if (space_->value_index(point, i) != 0 && !space_->tunables()[i].modelled) return false;
  return true;
}

void Trials::tell(const Wanted& wanted, const RanTrial& ran) const {
  const Outcome& outcome = *wanted.outcome;
  const std::string left =
      request_.trials
          ? reports::plural(static_cast<int64_t>(trials_left()), "trial")
          : reports::short_duration(static_cast<int64_t>(std::max(0.0, request_.budget_s - spent_s()) * 1e9));
  std::string result = outcome.why;
  if (outcome.cost) {
    result = goal_.metric    ? fmt::format("{:g}", *ran.facts->metric)
             : goal_.elapsed ? reports::short_duration(static_cast<int64_t>(ran.facts->elapsed_s * 1e9)) + " elapsed"
                             : reports::short_duration(static_cast<int64_t>(ran.facts->step_s * 1e9)) + "/step";
    if (goal_.target_loss)
      result += fmt::format(", {} to the loss", reports::short_duration(static_cast<int64_t>(*outcome.cost * 1e9)));
    if (wanted.point && is_predicted(*wanted.point))
      result += fmt::format(" ({:+.0f}% from the prediction)",
                            100 * (*outcome.cost / std::exp((*prediction_)[*wanted.point]) - 1));
  }
  const std::string where = request_.lanes.empty() ? "" : " on " + hosts_of(wanted.lane);
  print_note(fmt::format("trial {} ({}) {}{}: {}; {} left", wanted.number, tune::name_of(wanted.stage), wanted.words,
                         where, result, left));
}

}  // namespace ddl::cli
