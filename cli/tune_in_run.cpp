// ddl tune --in-run: the search of autotuner/search.h over blocks of steps of one running job (in_run.h) in
// place of launches.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autotuner/blocks.h"
#include "autotuner/paired.h"
#include "autotuner/trial_log.h"
#include "cli/in_run.h"
#include "cli/open_run.h"
#include "cli/output_file.h"
#include "cli/terminal.h"
#include "cli/tune.h"
#include "cli/tune_report.h"
#include "core/error.h"
#include "reports/format.h"
#include "store/text.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

using tune::JobTunable;
using tune::Space;

// Rounds are cheap and many, and a neighbour's load lasts for several: more is asked for than of launches. With 99 %
// and 12 rounds one of 40 tunings of a job with nothing to gain, on a busy machine, claimed a gain
// (tests/autotuner/tune_in_run.py soak).
tune::SearchSettings settings_of(uint64_t seed) {
  return {.seed = seed,
          .confidence = 0.999,
          .early_confidence = 0.9999,
          .least_confirm_rounds = 4,
          .most_confirm_rounds = 24};
}

std::string duration_words(double seconds) { return reports::short_duration(static_cast<int64_t>(seconds * 1e9)); }

Space plain_space(const std::vector<JobTunable>& tunables) {
  std::vector<tune::Tunable> result;
  for (const JobTunable& tunable : tunables) result.push_back({tunable.name, tunable.values, false});
  return Space(result);
}

std::map<std::string, std::string> first_values(const std::vector<JobTunable>& tunables) {
  std::map<std::string, std::string> values;
  for (const JobTunable& tunable : tunables) values[tunable.name] = tunable.values[0];
  return values;
}

InRun::Request run_of(const std::vector<std::string>& command, const std::vector<JobTunable>& tunables,
                      const LaneHosts& hosts, const fs::path& folder) {
  const std::map<std::string, std::string> values = first_values(tunables);
  InRun::Request request{.job = placed_on(tune::place(command, tunables, values, ""), hosts), .folder = folder};
  for (const auto& [name, value] : values) request.start.emplace_back(name, value);
  return request;
}

/// Those that cannot change in a running job stay at their default, and why is noted. Throws if none is left.
void keep_what_can_change(std::vector<JobTunable>& tunables,
                          const std::function<std::string(const JobTunable&)>& why_not,
                          std::vector<std::string>& notes) {
  std::vector<std::string> reasons;
  bool any = false;
  for (JobTunable& tunable : tunables) {
    if (tunable.values.size() < 2) continue;
    const std::string why = why_not(tunable);
    if (why.empty()) {
      any = true;
      continue;
    }
    reasons.push_back(fmt::format("{} ({})", tunable.name, why));
    notes.push_back(
        fmt::format("{} cannot change while the job runs, and stays at {}: {}", tunable.name, tunable.values[0], why));
    tunable.values.resize(1);
  }
  if (any) return;
  throw Error(reasons.empty() ? "nothing to tune: no knob has several values"
                              : fmt::format("no knob can change while the job runs: {}", fmt::join(reasons, "; ")),
              "leave --in-run out to start the job for each trial", ExitCode::kUsage);
}

std::string not_asked_for(const InRun& run, const JobTunable& tunable) {
  if (run.is_asked_for(tunable.name)) return "";
  const std::set<std::string> known = run.knobs();
  if (known.contains(tunable.name)) return "not every rank asks for it";
  return known.empty() ? "the job reads DDL_TUNE_FILE, and asks for no value"
                       : fmt::format("the job does not ask for it, only for {}", fmt::join(known, ", "));
}

void refuse_what_needs_launches(const TuneRequest& request) {
  const auto refuse = [](const char* option, const char* why) {
    throw Error(fmt::format("--in-run excludes {}: {}", option, why), "leave one of them out", ExitCode::kUsage);
  };
  if (!request.goal.needs_steps()) refuse("--metric and --goal elapsed", "it compares step times");
  if (request.goal.target_loss) refuse("--target-loss", "one run reaches its loss once");
  if (request.lanes.size() > 1) refuse("--parallel", "it starts one job");
  if (request.max_memory) refuse("--max-memory", "batches do not change in a run");
  if (request.max_global_batch) refuse("--max-global-batch", "batches do not change in a run");
}

tune::TrialFacts facts_of(const InRun& run, double step_s) {
  tune::TrialFacts facts;
  facts.ranks = run.ranks();
  facts.nodes = run.hosts();
  facts.mpi_library = run.mpi();
  facts.step_s = step_s;
  facts.steps = static_cast<int64_t>(run.steps_counted());
  facts.warmup_steps = static_cast<int64_t>(run.steps_left_out());
  facts.samples = run.samples();
  return facts;
}

/// The geometric mean over the rounds of the last stage that it was in.
double step_s_of(const std::vector<InRun::Trial>& trials, size_t point) {
  double sum = 0, count = 0;
  tune::Stage last = tune::Stage::kCalibrate;
  for (const InRun::Trial& trial : trials)
    if (trial.point == point && trial.step_s) last = std::max(last, trial.stage);
  for (const InRun::Trial& trial : trials) {
    if (trial.point != point || !trial.step_s || trial.stage != last) continue;
    sum += std::log(*trial.step_s);
    ++count;
  }
  return count > 0 ? std::exp(sum / count) : 0;
}

}  // namespace

Tuning tune_in_run(const TuneRequest& request, std::unique_ptr<InRun>& run) {
  refuse_what_needs_launches(request);
  Tuning tuning{.space = plain_space({{.name = "job", .values = {"as it is"}}}),
                .tunables = request.tunables,
                .goal = request.goal};
  tuning.in_run = true;
  keep_what_can_change(tuning.tunables, tune::not_in_run, tuning.notes);

  const fs::path folder = trials_folder(request);
  std::vector<std::string> question;
  for (const JobTunable& tunable : tuning.tunables)
    question.push_back(fmt::format("{}={}", tunable.name, fmt::join(tunable.values, ",")));
  tune::TrialLog log(request.directory / "tune.sqlite",
                     {{"command", fmt::format("{}", fmt::join(without_secrets(request.command), " "))},
                      {"tunables", fmt::format("{}", fmt::join(question, ";"))},
                      {"measured", "in one run"}});
  log.forget_earlier();  // blocks are compared within one run

  std::vector<InRun::Trial> trials;
  const auto left_words = [&] {
    return request.trials
               ? reports::plural(static_cast<int64_t>(*request.trials - std::min(*request.trials, trials.size())),
                                 "trial")
               : duration_words(std::max(0.0, request.budget_s - run->spent_s()));
  };
  std::optional<double> samples;
  const auto told = [&](const InRun::Trial& trial) {
    trials.push_back(trial);
    const std::string words = tuning.space.words(trial.point), stage(tune::name_of(trial.stage));
    const std::string result = trial.step_s ? duration_words(*trial.step_s) + "/step" : "no step could be counted";
    tune::LoggedTrial row{.round = trial.round, .stage = stage, .point = words};
    if (trial.step_s) {
      row.cost = *trial.step_s / samples.value_or(static_cast<double>(run->ranks()));
      row.step_s = *trial.step_s;
    } else {
      row.why = result;
    }
    row.samples = samples;
    row.wall_s = trial.wall_s;
    log.add(row);
    print_note(fmt::format("trial {} ({}) {}: {}; {} left", trials.size(), stage, words, result, left_words()));
  };
  InRun::Request job =
      run_of(request.command, tuning.tunables, request.lanes.empty() ? LaneHosts() : request.lanes[0], folder);
  job.budget_s = request.budget_s;
  job.trials = request.trials;
  run = std::make_unique<InRun>(std::move(job), told);
  keep_what_can_change(
      tuning.tunables, [&](const JobTunable& tunable) { return not_asked_for(*run, tunable); }, tuning.notes);
  print_note(fmt::format("all {} follow the schedule: {} a step with the defaults; its output is in {}",
                         reports::plural(run->ranks(), "rank"), duration_words(run->default_step_s()),
                         shown_path(run->output())));
  tuning.space = plain_space(tuning.tunables);
  samples = run->samples();
  run->search_in(tuning.space, samples.value_or(static_cast<double>(run->ranks())));
  tuning.prediction.assign(tuning.space.size(), 0.0);  // nothing is known of where to look
  const std::optional<tune::Outcome> first = run->measure(0, tune::Stage::kCalibrate, 0);
  if (!first || !first->cost)
    throw Error(first ? first->why : run->why_over() + ", before the default was measured",
                fmt::format("see {}", run->output().string()), ExitCode::kDataMissing);
  tuning.result = tune::search(tuning.space, tuning.prediction, std::vector<bool>(tuning.space.size(), true),
                               {{0, tune::Stage::kCalibrate, 0, *first}}, *run, settings_of(request.seed));
  tuning.prediction.clear();
  const std::optional<uint64_t> settled = run->settle(tuning.result.winner);
  if (settled && !run->is_over())
    tuning.notes.push_back(fmt::format(
        "measured in one run, by blocks of its steps: {} counted, the first {} of each block left out; from "
        "step {} on it runs with {}",
        reports::plural(static_cast<int64_t>(run->steps_counted()), "step"), tune::kWarmUpSteps, *settled,
        tuning.space.words(tuning.result.winner)));
  else
    tuning.notes.push_back(
        fmt::format("measured in one run, by blocks of its steps: {} counted, the first {} of each block left out",
                    reports::plural(static_cast<int64_t>(run->steps_counted()), "step"), tune::kWarmUpSteps));
  for (const size_t i : tuning.result.idle)
    tuning.notes.push_back(fmt::format("{} makes no difference beside the rest: left at {}",
                                       tuning.space.tunables()[i].name, tuning.space.value(0, i)));
  const bool is_open = tuning.result.conclusion == tune::Conclusion::kNotExplored ||
                       tuning.result.conclusion == tune::Conclusion::kNotConfirmed;
  if (!run->why_over().empty())
    tuning.notes.push_back(run->why_over() + ", before the tuning was over" +
                           (run->over_in().empty() ? "" : ": " + run->over_in()));
  else if (is_open)
    tuning.notes.push_back(
        request.trials
            ? *request.trials > 3 * settings_of(request.seed).least_confirm_rounds + 2
                  ? untried_words(request, tuning)
                  : fmt::format("--trials {} is too few: confirming a gain takes at least {} beside those that explore",
                                *request.trials, 3 * settings_of(request.seed).least_confirm_rounds)
            : fmt::format("--budget {} is too short: the default takes {} of a round, and confirming a gain takes "
                          "at least {} rounds with the default twice",
                          duration_words(request.budget_s), duration_words(first->wall_s),
                          settings_of(request.seed).least_confirm_rounds));
  tuning.base = facts_of(*run, step_s_of(trials, 0));
  if (tuning.result.winner != 0) tuning.best = facts_of(*run, step_s_of(trials, tuning.result.winner));
  tuning.spent_s = run->spent_s();
  write_output((folder / "schedule.csv").string(), run->schedule_csv(), Readers::kOwner, NamedBy::kFolder);
  return tuning;
}

InRunVerification verify_in_run(const fs::path& directory, const std::vector<std::string>& command,
                                const std::vector<JobTunable>& given, size_t rounds, const LaneHosts& hosts,
                                double budget_s) {
  std::vector<JobTunable> tunables = given;
  std::vector<std::string> notes;
  keep_what_can_change(tunables, tune::not_in_run, notes);
  if (!notes.empty()) throw Error(notes.front(), "leave --in-run out to compare by launches", ExitCode::kUsage);
  InRunVerification result;
  std::map<size_t, std::vector<double>> costs;
  InRun::Request job = run_of(command, tunables, hosts, fs::absolute(directory) / "verify");
  job.budget_s = budget_s;
  InRun run(std::move(job), [&](const InRun::Trial& trial) {
    if (trial.step_s) costs[trial.point].push_back(*trial.step_s);
  });
  keep_what_can_change(
      tunables, [&](const JobTunable& tunable) { return not_asked_for(run, tunable); }, notes);
  if (!notes.empty()) throw Error(notes.front(), "leave --in-run out to compare by launches", ExitCode::kUsage);
  // The point in which all knobs have their second value.
  std::vector<tune::Tunable> axes;
  for (const JobTunable& tunable : tunables) axes.push_back({tunable.name, tunable.values, false});
  const Space values(axes);
  size_t tuned = 0;
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].values.size() > 1) tuned = values.with(tuned, i, 1);
  run.search_in(values, 1);
  for (size_t round = 0; round < rounds; ++round) {
    costs.clear();
    // The tuned one's place among the three goes round.
    std::vector<size_t> points = {0, 0, 0};
    points[round % points.size()] = tuned;
    run.measure_rounds(tune::Stage::kConfirm, {{round, points}});
    if (!run.why_over().empty() || costs[0].size() != 2 || costs[tuned].size() != 1)
      throw Error(run.why_over().empty() ? "no step could be counted" : run.why_over() + ", before it was verified",
                  fmt::format("see {}; let it run longer", run.output().string()), ExitCode::kDataMissing);
    result.first.push_back(costs[0][0]);
    result.second.push_back(costs[0][1]);
    result.tuned.push_back(costs[tuned][0]);
    result.defaults.push_back(std::sqrt(costs[0][0] * costs[0][1]));
    print_note(fmt::format("round {} of {}: tuned {:+.1f}%, the default against itself {:+.1f}%", round + 1, rounds,
                           100 * (result.defaults.back() / result.tuned.back() - 1),
                           100 * (result.first.back() / result.second.back() - 1)));
  }
  return result;
}

}  // namespace ddl::cli
