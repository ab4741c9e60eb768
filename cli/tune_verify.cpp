// The emitted files at work: a command run with them, and the question whether they are in force and
// better, asked anew.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autotuner/emitted.h"
#include "autotuner/paired.h"
#include "autotuner/predict.h"
#include "autotuner/probe_report.h"
#include "cli/library.h"
#include "cli/mpirun.h"
#include "cli/open_run.h"
#include "cli/process.h"
#include "cli/terminal.h"
#include "cli/tune.h"
#include "cli/tune_trial.h"
#include "core/error.h"
#include "core/regular_file.h"
#include "reports/format.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

const char* const kRemoveIt = "remove it: what the jobs of a verification write goes there";

bool has(const std::vector<std::string>& command, const std::string& text) {
  return std::any_of(command.begin(), command.end(),
                     [&](const std::string& word) { return word.find(text) != std::string::npos; });
}

/// The directory's choices as tunables of the command. Their values are all that is needed: what goes by the
/// environment is in the files.
struct Choices {
  std::vector<tune::JobTunable> tunables;
  std::map<std::string, std::string> tuned, defaults;
};

Choices choices_of(const tune::Emitted& emitted) {
  Choices choices;
  for (const tune::Choice& choice : emitted.tuned.choices) {
    tune::JobTunable tunable{choice.name, tune::How::kCommand, "", choice.numeric, {choice.default_value}, false};
    if (choice.value != choice.default_value) tunable.values.push_back(choice.value);
    choices.tunables.push_back(std::move(tunable));
    choices.tuned[choice.name] = choice.value;
    choices.defaults[choice.name] = choice.default_value;
  }
  return choices;
}

/// The same as knobs of a running job: what is not part of the command is a variable.
std::vector<tune::JobTunable> tunables_in_run(const tune::Emitted& emitted) {
  std::vector<tune::JobTunable> tunables = choices_of(emitted).tunables;
  for (tune::JobTunable& tunable : tunables) {
    const std::string sign = fmt::format("{{{}}}", tunable.name);
    if (has(emitted.tuned.command, sign)) continue;
    tunable.how = tune::How::kVariable;
    tunable.variable = tunable.name;
    for (const tune::KnownTunable& known : tune::known_tunables())
      if (known.name == tunable.name && known.how != tune::How::kCommand)
        tunable.how = known.how, tunable.variable = known.variable;
  }
  return tunables;
}

/// Refuses a command that leaves out what was tuned: it would run, and be called tuned.
void require_placeholders(const tune::Emitted& emitted, const std::vector<std::string>& command) {
  for (const tune::Choice& choice : emitted.tuned.choices) {
    const std::string sign = fmt::format("{{{}}}", choice.name);
    if (choice.value != choice.default_value && has(emitted.tuned.command, sign) && !has(command, sign))
      throw Error(fmt::format("the command does not say where {} goes", choice.name),
                  fmt::format("write {} in the place of its value, as in the tuned command", sign), ExitCode::kUsage);
  }
}

tune::PlacedJob tuned_job(const tune::Emitted& emitted, const std::vector<std::string>& command,
                          const LaneHosts& hosts) {
  require_placeholders(emitted, command);
  const Choices choices = choices_of(emitted);
  return placed_on(
      {tune::place(command, choices.tunables, choices.tuned, "").command, emitted.environment, emitted.tuned.unset},
      hosts);
}

/// How long the trials of a verification may take, by the rule of a tuning.
class Limits {
 public:
  explicit Limits(double budget_s) : budget_s_(budget_s) {}
  double most_s(double work) const { return trial_limit_s(default_s_, work, budget_s_ - spent_s_); }
  /// The first is the default's.
  void took(double wall_s) {
    if (default_s_ == 0) default_s_ = wall_s;
    spent_s_ += wall_s;
  }

 private:
  double budget_s_, default_s_ = 0, spent_s_ = 0;
};

/// One more launch, with the probe and without recording. Nothing where the files leave Open MPI's algorithms alone.
std::optional<tune::Proof> prove(const tune::Emitted& emitted, const tune::PlacedJob& tuned, const fs::path& folder,
                                 double most_s) {
  if (emitted.tuned.allreduce_rules.empty()) return std::nullopt;
  const fs::path out = folder / "probes";
  fs::remove_all(out);
  make_folder(out.string(), kRemoveIt);
  tune::PlacedJob job = tuned;
  job.environment.emplace_back("LD_PRELOAD", preload_value(find_own_library("libddl-probe-openmpi.so")));
  job.environment.emplace_back("DDL_PROBE_OUT", out.string());
  const std::string log = (folder / "probe.log").string();
  const LaneEnd end = run_lanes({{{.command = launched(job),
                                   .settings = job.environment,
                                   .output = log,
                                   .unset = job.unset,
                                   .most_s = [most_s] { return most_s; }}}})
                          .at(0)
                          .at(0);
  if (end.ended.told_to_end) throw Error("interrupted");
  if (end.ended_after_s)
    throw Error(fmt::format("the tuned job {} under the probe", did_not_end(*end.ended_after_s)), "see " + log);
  if (end.ended.shell_code() != 0)
    throw Error(fmt::format("the tuned job fails under the probe: exit code {}", end.ended.shell_code()), "see " + log);
  return tune::prove_openmpi(tune::read_probe_files(out), emitted.allreduce_rules, emitted.tuned.ranks);
}

}  // namespace

int apply_tuned(const fs::path& directory, const std::vector<std::string>& command, const LaneHosts& hosts) {
  const tune::PlacedJob job = tuned_job(tune::read_emitted(directory), command, hosts);
  return run_job({.command = launched(job), .settings = job.environment, .output = {}, .unset = job.unset})
      .shell_code();
}

int verify_tuned(const fs::path& directory, const std::vector<std::string>& given, size_t rounds,
                 const std::optional<tune::Goal>& asked, const LaneHosts& hosts, bool in_run, double budget_s) {
  if (rounds < tune::kMinRounds)
    throw Error(fmt::format("--rounds {}: must be at least {}", rounds, tune::kMinRounds), "", ExitCode::kUsage);
  const tune::Emitted emitted = tune::read_emitted(directory);
  const Choices choices = choices_of(emitted);
  const std::vector<std::string> command = given.empty() ? emitted.tuned.command : given;
  if (given.empty() && has(command, "***"))
    throw Error("the tuned command had secrets, which the files leave out",
                fmt::format("ddl tune --verify {} -- COMMAND", directory.string()), ExitCode::kUsage);
  if (!emitted.changes_anything && choices.tuned == choices.defaults) {
    print_note(fmt::format("{} changes nothing: {}", shown_path(directory), emitted.tuned.kept));
    return static_cast<int>(ExitCode::kGate);
  }
  const fs::path folder = fs::absolute(directory) / "verify";
  make_folder(folder.string(), kRemoveIt);
  const tune::PlacedJob before = placed_on({tune::place(command, choices.tunables, choices.defaults, "").command,
                                            emitted.tuned.default_environment, emitted.tuned.default_unset},
                                           hosts);
  const tune::PlacedJob after = tuned_job(emitted, command, hosts);

  tune::Goal goal = asked.value_or(tune::goal_of(emitted.tuned));
  if (asked && asked->words() != emitted.tuned.goal)
    print_note(
        fmt::format("{} was tuned for {}; judged by {}", shown_path(directory), emitted.tuned.goal, asked->words()));
  for (const std::string& note : tune::overridden_by_rules(emitted.tuned)) print_note(note);
  if (in_run && (!goal.needs_steps() || goal.target_loss))
    throw Error(fmt::format("--in-run compares step times, not {}", goal.words()), "leave --in-run out",
                ExitCode::kUsage);
  std::vector<double> defaults, tuned, first, second;
  Limits limits(budget_s);
  if (in_run) {
    InRunVerification run = verify_in_run(directory, command, tunables_in_run(emitted), rounds, hosts, budget_s);
    defaults = std::move(run.defaults), tuned = std::move(run.tuned), first = std::move(run.first),
    second = std::move(run.second);
  }
  const auto cost = [&](const tune::PlacedJob& job, const std::map<std::string, std::string>& values,
                        const char* name) {
    const auto batch = values.find(tune::kBatch);
    const double work = batch == values.end()
                            ? 1
                            : std::max(1.0, std::stod(batch->second) / std::stod(choices.defaults.at(tune::kBatch)));
    const std::string log = (folder / (std::string(name) + ".log")).string();
    const RanTrial trial = run_trial(job, folder / (std::string(name) + ".ddl"), log, goal, limits.most_s(work));
    if (trial.told_to_end) throw Error("interrupted");
    limits.took(trial.wall_s);
    if (trial.why.starts_with(kDidNotEnd))
      throw Error(fmt::format("the {} job {}", name, trial.why),
                  fmt::format("let it run fewer steps, or give more --budget; see {}", log));
    if (!trial.facts) throw Error(fmt::format("the {} job fails: {}", name, trial.why), fmt::format("see {}", log));
    if (goal.base_samples == 0) {  // the first is the default's
      goal.base_samples = trial.facts->samples.value_or(0);
      goal.noise_scale = trial.facts->noise_scale;
      tune::require_honest_goal(goal, choices.tunables, *trial.facts);
    }
    const tune::Outcome outcome = tune::outcome_of(
        *trial.facts, goal, batch == values.end() ? std::nullopt : std::optional(std::stod(batch->second)));
    if (!outcome.cost) throw Error(fmt::format("the {} job: {}", name, outcome.why));
    return *outcome.cost;
  };
  for (size_t round = 0; round < rounds && !in_run; ++round) {
    first.push_back(cost(before, choices.defaults, "default"));
    tuned.push_back(cost(after, choices.tuned, "tuned"));
    second.push_back(cost(before, choices.defaults, "default-again"));
    defaults.push_back(std::sqrt(first.back() * second.back()));
    print_note(fmt::format("round {} of {}: tuned {:+.1f}%, the default against itself {:+.1f}%", round + 1, rounds,
                           100 * (defaults.back() / tuned.back() - 1), 100 * (first.back() / second.back() - 1)));
  }
  const tune::PairedRatio gain = tune::compare_beside_noise(defaults, tuned, first, second),
                          noise = tune::compare(first, second);
  const std::optional<tune::Proof> proof = prove(emitted, after, folder, limits.most_s(1));

  const bool better = gain.lo > 1;
  print_out(fmt::format("gain    {:+.1f}% [{:+.1f}%, {:+.1f}%]{} over {}: {}\n", 100 * (gain.ratio - 1),
                        100 * (gain.lo - 1), 100 * (gain.hi - 1), gain.of_rounds ? ", lowest and highest round," : "",
                        reports::plural(static_cast<int64_t>(rounds), "round"),
                        better ? "better than the default" : "not better than the default"));
  print_out(fmt::format("noise   the default against itself [{:+.1f}%, {:+.1f}%]\n", 100 * (noise.lo - 1),
                        100 * (noise.hi - 1)));
  print_out(fmt::format("goal    {}\n", goal.words()));
  if (in_run) print_out("by      blocks of steps in one run\n");
  if (proof) {
    print_out(fmt::format("in use  {}\n", proof->sentence));
    for (const tune::ProofRow& row : proof->rows)
      print_out(fmt::format("        {} ranks, {} bytes: {} (expected {}), {} calls\n", row.calls.ranks,
                            row.calls.bytes, row.ran, row.expected.empty() ? "anything" : row.expected,
                            row.calls.calls));
    for (const std::string& note : proof->notes) print_out(fmt::format("note    {}\n", note));
  }
  const bool used = !proof || (proof->verdict == tune::Proof::Verdict::kInForce && !proof->wrong_results);
  return better && used ? 0 : static_cast<int>(ExitCode::kGate);
}

}  // namespace ddl::cli
