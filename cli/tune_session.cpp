// From the first trial to the winner: the default, what it says can be tuned, a sweep of the algorithms, a second
// calibrating trial, the search.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "autotuner/calibration.h"
#include "autotuner/openmpi_allreduce.h"
#include "autotuner/openmpi_rules.h"
#include "autotuner/paired.h"
#include "autotuner/predict.h"
#include "cli/flavour.h"
#include "cli/mpirun.h"
#include "cli/output_file.h"
#include "cli/process.h"
#include "cli/terminal.h"
#include "cli/tune.h"
#include "cli/tune_report.h"
#include "cli/tune_trials.h"
#include "core/error.h"
#include "core/regular_file.h"
#include "reports/format.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

using tune::JobTunable;
using tune::Outcome;
using tune::Space;
using tune::Stage;

Space space_of(const std::vector<JobTunable>& tunables, bool pipeline) {
  std::vector<tune::Tunable> result;
  for (const JobTunable& tunable : tunables)
    result.push_back(
        {tunable.name, tunable.values, tune::is_modelled(tunable.name, tunable.values, pipeline), tunable.added});
  return Space(result);
}

const JobTunable* find(const std::vector<JobTunable>& tunables, const std::string& name) {
  const auto found =
      std::find_if(tunables.begin(), tunables.end(), [&](const JobTunable& tunable) { return tunable.name == name; });
  return found == tunables.end() ? nullptr : &*found;
}

std::map<std::string, std::string> defaults_of(const std::vector<JobTunable>& tunables) {
  std::map<std::string, std::string> values;
  for (const JobTunable& tunable : tunables) values[tunable.name] = tunable.values[0];
  return values;
}

std::string words_of_defaults(const std::vector<JobTunable>& tunables) {
  std::vector<std::string> words;
  for (const JobTunable& tunable : tunables) words.push_back(tunable.name + "=" + tunable.values[0]);
  return words.empty() ? "as it is" : fmt::format("{}", fmt::join(words, " "));
}

/// bin/allreduce of a build folder; an installed copy keeps it out of the users' PATH, in libexec/ddl.
fs::path allreduce_program() {
  const fs::path bin = fs::read_symlink("/proc/self/exe").parent_path(),
                 installed = bin.parent_path() / "libexec" / "ddl" / "allreduce";
  return fs::exists(installed) ? installed : bin / "allreduce";
}

std::string read_text(const fs::path& file) { return read_regular_file(file.string(), NamedBy::kFolder); }

/// The launcher of the job with bin/allreduce in place of its program.
std::optional<tune::Sweep> sweep_algorithms(const TuneRequest& request, Trials& trials, const fs::path& folder,
                                            int64_t ranks, double seconds, std::vector<std::string>& notes) {
  const fs::path program = allreduce_program(), output = folder / "sweep.csv";
  const std::vector<std::string> job = trials.placed({request.command, {}}).command;
  const std::optional<size_t> at = program_of(job);
  if (!at || !fs::exists(program)) {
    notes.push_back(
        at ? "bin/allreduce is not there: the algorithms were not swept in one launch but raced without"
           : "cannot tell where the launcher's options end: the algorithms were not swept in one launch but raced without");
    return std::nullopt;
  }
  std::optional<std::string> text = trials.log().sweep();
  if (!text) {
    std::vector<std::string> command(job.begin(), job.begin() + static_cast<std::ptrdiff_t>(*at));
    for (const std::string& word :
         {program.string(), std::string("--algorithms"), std::string("openmpi"), std::string("--segments"),
          std::string("128K,1M"), std::string("--seconds"), fmt::format("{:.0f}", seconds)})
      command.push_back(word);
    print_note(fmt::format("sweep of Open MPI's allreduce algorithms, {:.0f} s", seconds));
    const fs::path aside = folder / "sweep.part";
    const Launch launch{.command = command, .settings = {}, .output = aside.string(), .most_s = [&] {
                          return kLeastLimit_s + 2 * seconds;
                        }};
    const LaneEnd end = run_lanes({{launch}}).at(0).at(0);
    const Ended& ended = end.ended;
    if (ended.told_to_end) {
      trials.end();
      return std::nullopt;
    }
    if (end.ended_after_s || ended.shell_code() != 0) {
      notes.push_back(fmt::format(
          "the sweep of the algorithms {} (see {}): they were raced without it",
          end.ended_after_s ? did_not_end(*end.ended_after_s) : fmt::format("failed, exit code {}", ended.shell_code()),
          aside.string()));
      return std::nullopt;
    }
    text = read_text(aside);
    trials.log().keep_sweep(*text);
    write_output(output.string(), *text, Readers::kOwner, NamedBy::kFolder);
    std::error_code ignored;
    fs::remove(aside, ignored);
  }
  trials.spend_on_sweep(seconds);  // also when it was made before: the search is to go the same way again
  try {
    tune::Sweep sweep = tune::read_sweep(*text);
    if (sweep.ranks == ranks) return sweep;
    notes.push_back(fmt::format("the sweep ran on {}, the job on {}: its times were not used",
                                reports::plural(sweep.ranks, "rank"), ranks));
  } catch (const Error& error) {
    notes.push_back(fmt::format("{}: {}", output.string(), error.what()));
  }
  return std::nullopt;
}

/// The sweep, and the file of rules that follows from it; no rules where the default is best at all sizes.
void sweep_for_rules(const TuneRequest& request, Trials& trials, const fs::path& folder, double trial_s,
                     const std::map<std::string, int64_t>& ids, Tuning& tuning) {
  tuning.sweep =
      sweep_algorithms(request, trials, folder, tuning.base.ranks,
                       std::max(1.0, std::min(std::max(2 * trial_s, 3.0), request.budget_s / 10)), tuning.notes);
  if (!tuning.sweep) return;
  tuning.rules = tune::rules_of(*tuning.sweep, ids);
  if (!tuning.rules.empty())
    write_output((folder / "allreduce.rules").string(), tune::write_openmpi_rules(tuning.base.ranks, tuning.rules),
                 Readers::kOwner, NamedBy::kFolder);
}

/// The files that the user's values stand for, whoever starts the job: Open MPI says nothing of one that is missing,
/// and the trial would be one of the default.
void write_asked_rules(const TuneRequest& request, Trials& trials, const fs::path& folder, double trial_s,
                       JobTunable& asked, Tuning& tuning) {
  if (std::all_of(asked.values.begin(), asked.values.end(), tune::is_left_alone)) return;
  const auto ids = tune::openmpi_algorithms(openmpi_parameters(), tune::kAllreduceParameter);
  for (const std::string& value : asked.values)
    if (tune::is_preset(value))
      write_output((folder / (value + ".rules")).string(),
                   tune::write_openmpi_rules(tuning.base.ranks, tune::preset_rules(value, ids)), Readers::kOwner,
                   NamedBy::kFolder);
  const auto rules = std::find(asked.values.begin(), asked.values.end(), tune::kRules);
  if (rules == asked.values.end()) return;
  sweep_for_rules(request, trials, folder, trial_s, ids, tuning);
  if (!tuning.rules.empty()) return;
  asked.values.erase(rules);
  tuning.notes.push_back(fmt::format(
      "algorithm=rules was not tried: {}",
      tuning.sweep ? "no algorithm was clearly better than the default at any size" : "there was no sweep"));
}

/// What the job turned out to use and nobody has spoken of: algorithms of its allreduces.
void add_algorithms(const TuneRequest& request, Trials& trials, const fs::path& folder, double trial_s,
                    Tuning& tuning) {
  const auto asked = std::find_if(tuning.tunables.begin(), tuning.tunables.end(),
                                  [](const JobTunable& tunable) { return tunable.name == tune::kAlgorithm; });
  const bool is_asked = asked != tuning.tunables.end();
  if (is_asked) write_asked_rules(request, trials, folder, trial_s, *asked, tuning);
  if (!is_open_mpi_launcher(request.command)) return;
  const std::string info = openmpi_parameters();
  if (tuning.base.nonblocking && find(tuning.tunables, "iallreduce") == nullptr) {
    const auto ids = tune::openmpi_algorithms(info, "coll_libnbc_iallreduce_algorithm");
    JobTunable tunable{
        "iallreduce", tune::How::kOpenmpiIallreduce, tune::kIallreduceVariable, false, {"default"}, false, true};
    // Nobody knows whether the operations of the job commute.
    for (const auto& [name, id] : ids)
      if (id != 0 && !tune::openmpi_iallreduce_needs_commutative(name)) tunable.values.push_back(name);
    if (tunable.values.size() > 1) tuning.tunables.push_back(tunable);
  }
  if (is_asked || !tuning.base.blocking) return;
  const auto ids = tune::openmpi_algorithms(info, tune::kAllreduceParameter);
  if (ids.empty()) return;
  JobTunable tunable{tune::kAlgorithm, tune::How::kOpenmpiAllreduce, "", false, {"default"}, false, true};
  sweep_for_rules(request, trials, folder, trial_s, ids, tuning);
  if (tuning.sweep) {
    if (!tuning.rules.empty()) tunable.values.emplace_back(tune::kRules);
    for (const auto& [algorithm, times] : tuning.sweep->seconds)
      if (const std::string value = tune::algorithm_value(algorithm); !value.empty()) tunable.values.push_back(value);
  } else {
    for (const auto& [name, id] : ids)
      if (id != 0) tunable.values.push_back(name);
  }
  tuning.tunables.push_back(tunable);
}

/// Before the first trial, which may take long. Throws ddl::Error (kUsage).
void check_asked_algorithms(const TuneRequest& request) {
  const JobTunable* asked = find(request.tunables, tune::kAlgorithm);
  if (asked == nullptr || std::all_of(asked->values.begin(), asked->values.end(), tune::is_left_alone)) return;
  const std::string& today = asked->values[0];
  if (tune::is_preset(today) || today == tune::kRules)
    throw Error(fmt::format("algorithm={} cannot be the first value, which the job runs with today", today),
                "--tunable algorithm=default,...", ExitCode::kUsage);
  tune::check_algorithms(asked->values, tune::openmpi_algorithms(openmpi_parameters(), tune::kAllreduceParameter));
  const bool asks_for_rules =
      std::find(asked->values.begin(), asked->values.end(), tune::kRules) != asked->values.end();
  if (asks_for_rules &&
      (!is_open_mpi_launcher(request.command) || !program_of(request.command) || !fs::exists(allreduce_program())))
    throw Error("algorithm=rules: rules come from the sweep, which this command has not",
                "start it by Open MPI's mpirun with one program, or leave rules out", ExitCode::kUsage);
}

// Among values that are numbers the largest or smallest that may be tried.
std::string extreme(const JobTunable& tunable, bool largest, double most) {
  std::string best = tunable.values[0];
  for (const std::string& value : tunable.values)
    if ((largest ? std::stod(value) > std::stod(best) : std::stod(value) < std::stod(best)) && std::stod(value) <= most)
      best = value;
  return best;
}

// The other batch of the calibrating trials. Where memory is short it is a smaller one, if there is one,
// else the next larger.
std::string calibrating_batch(const JobTunable& tunable, double most_batch, bool short_of_memory) {
  if (!short_of_memory) return extreme(tunable, true, most_batch);
  const std::string smallest = extreme(tunable, false, most_batch);
  if (smallest != tunable.values[0]) return smallest;
  std::string next = smallest;
  for (const std::string& value : tunable.values)
    if (std::stod(value) > std::stod(smallest) && std::stod(value) <= most_batch &&
        (next == smallest || std::stod(value) < std::stod(next)))
      next = value;
  return next;
}

/// Points that may be tried as far as the request tells; the others are noted with the reason. `most_batch`: per rank.
std::vector<bool> feasible_points(const TuneRequest& request, double most_batch, Tuning& tuning) {
  const Space& space = tuning.space;
  std::vector<bool> feasible(space.size(), true);
  const auto refuse = [&](std::string why, const auto& is_refused) {
    size_t refused = 0;
    for (size_t point = 0; point < space.size(); ++point)
      if (feasible[point] && is_refused(point)) feasible[point] = false, ++refused;
    if (refused > 0) tuning.refused.push_back({std::move(why), refused});
  };
  const auto number = [&](size_t point, const char* name) { return std::stod(space.value(point, name)); };
  if (request.max_global_batch && space.has(tune::kBatch)) {
    refuse(fmt::format("more than {} samples a step (--max-global-batch)", *request.max_global_batch),
           [&](size_t point) { return number(point, tune::kBatch) > most_batch; });
    if (!feasible[0]) throw Error("the default batch is above --max-global-batch", "", ExitCode::kUsage);
  }
  if (space.has(tune::kBatch) && space.has(tune::kMicroBatches))
    refuse("more micro-batches than samples of a rank", [&](size_t point) {
      return point != 0 && number(point, tune::kMicroBatches) > number(point, tune::kBatch);
    });
  return feasible;
}

/// Points that are predicted to need more than --max-memory.
void refuse_by_memory(const TuneRequest& request, const std::optional<tune::MemoryModel>& model, Tuning& tuning,
                      std::vector<bool>& feasible) {
  if (!model) {
    tuning.notes.emplace_back(
        "memory is not predicted, for lack of trials with two batches: a trial that needs more than --max-memory counts as failed");
    return;
  }
  const auto limit = static_cast<double>(*request.max_memory);
  size_t refused = 0;
  for (size_t point = 0; point < tuning.space.size(); ++point) {
    if (!feasible[point] || model->peak_bytes(std::stod(tuning.space.value(point, tune::kBatch))) <= limit) continue;
    feasible[point] = false;
    ++refused;
  }
  const auto words = [](double bytes) { return reports::size_text(static_cast<int64_t>(bytes)); };
  const std::string model_words =
      fmt::format("{} and {} a sample, by the {} of two trials", words(model->fixed_bytes),
                  words(model->bytes_per_sample), tuning.base.memory_of_gpu ? "GPUs' memory" : "peak memory");
  if (refused > 0)
    tuning.refused.push_back(
        {fmt::format("more than {} of a rank (--max-memory): {}", words(limit), model_words), refused});
  else
    tuning.notes.push_back(fmt::format("all batches fit into {} of a rank: {}", words(limit), model_words));
}

/// Rules for sizes that the winner's calls do not have do nothing: it goes on without them.
void leave_out_idle_rules(Tuning& tuning) {
  const Space& space = tuning.space;
  if (!space.has(tune::kAlgorithm) || space.value(tuning.result.winner, tune::kAlgorithm) != tune::kRules) return;
  if (tune::serves_any(tuning.rules, tuning.best->allreduce_size_classes)) return;
  for (size_t i = 0; i < space.tunables().size(); ++i) {
    if (space.tunables()[i].name != tune::kAlgorithm) continue;
    tuning.result.winner = tuning.result.best_seen = space.with(tuning.result.winner, i, 0);
    tuning.result.idle.push_back(i);
    tuning.result.worth[i] = {};
  }
  if (tuning.result.winner != 0) return;
  tuning.result.conclusion = tuning.result.explored ? tune::Conclusion::kNoneBetter : tune::Conclusion::kNotExplored;
  tuning.result.gain.reset();
  tuning.best.reset();
}

/// What each choice does to a step, where several were made: a round of the winner, and of it without each of them.
/// Whether the winner was measured.
bool explain(Trials& trials, const std::vector<bool>& feasible, Tuning& tuning) {
  const Space& space = tuning.space;
  const size_t winner = tuning.result.winner, round = tuning.result.trials.back().round + 1;
  std::vector<size_t> changed;
  for (size_t i = 0; i < space.tunables().size(); ++i)
    if (const size_t point = space.with(winner, i, 0); point != winner && point != 0 && feasible[point])
      changed.push_back(i);
  if (changed.empty()) return false;
  if (trials.trials_left() <= changed.size()) {
    tuning.notes.emplace_back("no trials were left to measure each choice by itself");
    return false;
  }
  const std::optional<Outcome> tuned = trials.measure(round, Stage::kExplain, winner);
  if (!tuned || !tuned->cost) return false;
  for (const size_t i : changed) {
    const size_t point = space.with(winner, i, 0);
    const std::optional<Outcome> outcome = trials.measure(round, Stage::kExplain, point);
    if (!outcome) return true;
    const std::string words = fmt::format("{}={}", space.tunables()[i].name, space.value(point, i));
    if (outcome->cost) tuning.put_back.push_back({words, trials.facts(space.words(point))});
  }
  return true;
}

/// Why the search ended before its end: a value that ate the time, a limit below the least that a tuning takes,
/// or just that limit.
std::string why_open(const TuneRequest& request, const Trials& trials, double default_s, size_t calibrating,
                     const Tuning& tuning) {
  const auto words = [](double seconds) { return reports::short_duration(static_cast<int64_t>(seconds * 1e9)); };
  double hung_s = 0;
  std::vector<std::string> hung;
  for (const tune::Trial& trial : tuning.result.trials)
    if (trial.outcome.why.starts_with(kDidNotEnd))
      hung_s += trial.outcome.wall_s, hung.push_back(tuning.space.words(trial.point));
  constexpr size_t kExploring = 2,
                   // the best so far and another point; the winner and the default twice
      kConfirming = 3 * tune::kMinRounds;
  const size_t least = calibrating + kExploring + kConfirming;
  const std::string why = fmt::format("{} make the least: {} of the default{}, {} that explore, {} that confirm a gain",
                                      least, calibrating > 1 ? "1" : "one",
                                      calibrating > 1 ? " and 1 that calibrates" : "", kExploring, kConfirming);
  if (request.trials) {
    if (*request.trials < least) return fmt::format("--trials {} is too few: {}", *request.trials, why);
    return untried_words(request, tuning);
  }
  if (!hung.empty())
    return fmt::format("{} of --budget {} went to {}, which did not end: leave {} out", words(hung_s),
                       words(request.budget_s), fmt::join(hung, " and "),
                       hung.size() == 1 ? "that value" : "such values");
  if (request.budget_s - trials.sweep_s() < static_cast<double>(least) * default_s)
    return fmt::format("--budget {} is too short: a trial of the default takes {}, and {}{}", words(request.budget_s),
                       words(default_s), why,
                       trials.sweep_s() > 0 ? fmt::format(", beside {} for the sweep", words(trials.sweep_s())) : "");
  return untried_words(request, tuning);
}

}  // namespace

Tuning tune_job(const TuneRequest& request) {
  check_asked_algorithms(request);
  // refused before anything is made
  for (const LaneHosts& lane : request.lanes) placed_on({request.command, {}}, lane);
  const fs::path folder = trials_folder(request);
  Trials trials(request, folder);

  const std::map<std::string, std::string> defaults = defaults_of(request.tunables);
  const std::optional<Outcome> first = trials.measure_first(words_of_defaults(request.tunables), defaults);
  if (!first) throw Error("interrupted before anything was measured");
  if (!first->cost) {
    const bool fails = first->why.starts_with(kExitCode) || first->why.starts_with(kNeeded);
    throw Error(fmt::format("the job {}: {}",
                            fails ? "fails with its defaults" : "ran with its defaults, but tells nothing to tune by",
                            first->why),
                fmt::format("see {}", (folder / "0001.log").string()));
  }
  Tuning tuning{.space = space_of({{.name = "job", .values = {"as it is"}}}, false),
                .tunables = request.tunables,
                .goal = request.goal};
  tuning.base = trials.facts(words_of_defaults(request.tunables));
  tuning.goal.noise_scale = tuning.base.noise_scale;
  tuning.goal.base_samples = tuning.base.samples.value_or(0);
  require_honest_goal(tuning.goal, tuning.tunables, tuning.base);
  if (request.max_memory && !tuning.base.memory_bytes)
    throw Error("--max-memory: the trial does not show how much memory the job needs",
                "let its ranks end by themselves: killed ranks report none", ExitCode::kDataMissing);
  for (JobTunable& tunable : tuning.tunables) {
    const std::string why = tune::without_effect(tunable, tuning.base.nodes);
    if (why.empty() || tunable.values.size() < 2) continue;
    tunable.values.resize(1);
    tuning.notes.push_back(fmt::format("{} was not tried: {}", tunable.name, why));
  }
  add_algorithms(request, trials, folder, trials.spent_s(), tuning);
  tuning.space = space_of(tuning.tunables, tuning.base.pipeline.has_value());
  const Space& space = tuning.space;
  trials.search_in(space, tuning.tunables, tuning.goal, tuning.prediction);

  const double most_batch =
      request.max_global_batch ? static_cast<double>(*request.max_global_batch) / static_cast<double>(tuning.base.ranks)
                               : std::numeric_limits<double>::infinity();
  std::vector<bool> feasible = feasible_points(request, most_batch, tuning);

  // Another batch, the largest, tells what computing grows with, the smallest bucket the tensors one by one.
  std::vector<tune::Trial> calibrating = {{0, Stage::kCalibrate, 0, *first}};
  size_t other = 0;
  for (size_t i = 0; i < tuning.tunables.size(); ++i) {
    const JobTunable& tunable = tuning.tunables[i];
    const bool micro_batches = tunable.name == tune::kMicroBatches && tuning.base.pipeline && !space.has(tune::kBatch);
    if (tunable.name != tune::kBatch && tunable.name != tune::kBucketMb && !micro_batches) continue;
    const std::string value = micro_batches ? extreme(tunable, true, 1e9)
                              : tunable.name == tune::kBatch
                                  ? calibrating_batch(tunable, most_batch, request.max_memory.has_value())
                                  : extreme(tunable, false, 1e9);
    other = space.with(
        other, i,
        static_cast<size_t>(std::find(tunable.values.begin(), tunable.values.end(), value) - tunable.values.begin()));
  }
  tune::TrialFacts second = tuning.base;
  if (other != 0) {
    const std::optional<Outcome> outcome = trials.measure(0, Stage::kCalibrate, other);
    if (outcome) calibrating.push_back({0, Stage::kCalibrate, other, *outcome});
    if (outcome && outcome->cost)
      second = trials.facts(space.words(other));
    else
      other = 0;  // nothing is known of it
  }
  const bool tunes_batch = space.has(tune::kBatch);
  const auto number_at = [&](size_t point, const char* name) {
    return space.has(name) ? std::optional(std::stod(space.value(point, name))) : std::nullopt;
  };
  const auto batch_at = [&](size_t point) { return number_at(point, tune::kBatch).value_or(0); };
  const auto calibrating_trial = [&](const tune::TrialFacts& facts, size_t point) {
    return tune::CalibratingTrial{facts, batch_at(point), number_at(point, tune::kBucketMb),
                                  number_at(point, tune::kMicroBatches)};
  };
  if (request.max_memory)
    refuse_by_memory(request,
                     second.memory_bytes ? tune::memory_model({batch_at(0), *tuning.base.memory_bytes},
                                                              {batch_at(other), *second.memory_bytes})
                                         : std::nullopt,
                     tuning, feasible);
  tune::Calibration calibration = tune::calibration_of(calibrating_trial(tuning.base, 0),
                                                       calibrating_trial(second, other), tuning.sweep, tuning.rules);
  if (tunes_batch && !tuning.goal.raw_throughput) calibration.noise_scale = tuning.goal.noise_scale;
  // Nothing predicts a number that the job prints.
  tuning.prediction =
      tuning.goal.needs_steps() ? tune::predict(space, calibration) : std::vector<double>(space.size(), 0.0);
  tuning.result = tune::search(space, tuning.prediction, feasible, calibrating, trials, {.seed = request.seed});
  if (tuning.result.winner != 0) {
    tuning.best = trials.facts(space.words(tuning.result.winner));
    leave_out_idle_rules(tuning);
  }
  for (const size_t i : tuning.result.idle)
    tuning.notes.push_back(
        fmt::format("{} makes no difference beside the rest: left at {}", space.tunables()[i].name, space.value(0, i)));
  for (const size_t i : tuning.result.unproven)
    tuning.notes.push_back(
        fmt::format("what {} gains beside the rest is not shown, and nobody asked for it: left at {}",
                    space.tunables()[i].name, space.value(0, i)));
  const bool is_open = tuning.result.conclusion == tune::Conclusion::kNotExplored ||
                       tuning.result.conclusion == tune::Conclusion::kNotConfirmed;
  if (is_open && !trials.is_interrupted()) {
    tuning.notes.push_back(why_open(request, trials, first->wall_s, calibrating.size(), tuning));
  }
  if (tuning.result.winner != 0) {
    if (explain(trials, feasible, tuning)) tuning.best = trials.facts(space.words(tuning.result.winner));
    tuning.base_again = trials.facts(space.words(0));
  }
  if (trials.resumed() > 0)
    tuning.notes.push_back(fmt::format("{} were read from the log of an earlier run of this tuning",
                                       reports::plural(static_cast<int64_t>(trials.resumed()), "trial")));
  tuning.spent_s = trials.spent_s();
  return tuning;
}

}  // namespace ddl::cli
