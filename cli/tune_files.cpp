// Files of a tuning: its folders, and what the emitted files say.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <fstream>

#include "autotuner/emit.h"
#include "autotuner/emit/write_files.h"
#include "autotuner/openmpi_rules.h"
#include "autotuner/predict.h"
#include "cli/flavour.h"
#include "cli/library.h"
#include "cli/tune.h"
#include "core/error.h"
#include "core/regular_file.h"

namespace fs = std::filesystem;

namespace ddl::cli {

namespace {

/// A tuning into a project's own folder would replace a file there that has the name of one of ours.
void refuse_files_of_others(const fs::path& directory) {
  std::error_code error;
  // of an earlier tuning
  if (fs::exists(directory / "tune.sqlite", error) || fs::exists(directory / "manifest.json", error)) return;
  std::vector<std::string> names = tune::emitted_names();
  for (const char* name : {"report.html", "report.json"}) names.emplace_back(name);
  for (const std::string& name : names)
    if (fs::is_regular_file(directory / name, error))
      throw Error(fmt::format("{} is not of a tuning, and would be replaced", (directory / name).string()),
                  "name another directory with -o", ExitCode::kUsage);
}

}  // namespace

fs::path trials_folder(const TuneRequest& request) {
  // The directory by itself: what can hold no files at the end is refused before the first trial.
  const fs::path directory = tune::absolute_directory(request.directory), trials = directory / "trials";
  refuse_files_of_others(directory);
  for (const fs::path& folder : {directory, trials})
    make_folder(folder.string(), "remove it, or name another directory with -o");
  return trials;
}

std::string machine_words() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line, processor = "unknown processor";
  while (std::getline(cpuinfo, line))
    if (line.starts_with("model name")) {
      processor = line.substr(line.find(':') + 2);
      break;
    }
  return fmt::format("{}, {}", host, processor);
}

tune::Tuned tuned_of(const TuneRequest& request, const Tuning& tuning) {
  tune::Tuned tuned;
  const tune::SearchResult& result = tuning.result;
  const std::map<std::string, std::string> values = tune::values_at(tuning.space, result.winner);
  tuned.command = request.command;
  tuned.run = fs::absolute(request.directory / "trials").string();
  tuned.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  tuned.machine = machine_words();
  tuned.mpi_library = tuning.base.mpi_library;
  tuned.goal = tuning.goal.words();
  tuned.goal_kind = tuning.goal.kind();
  tuned.target_loss = tuning.goal.target_loss;
  tuned.metric = tuning.goal.metric;
  tuned.ranks = tuning.base.ranks;
  tuned.nodes = tuning.base.nodes;
  tuned.in_run = tuning.in_run;
  tuned.noise_scale = tuning.base.noise_scale;
  if (result.winner != 0)
    tuned.gain = result.gain;
  else
    tuned.kept = conclusion_words(tuning);
  for (const tune::JobTunable& tunable : tuning.tunables) {
    const std::string& value = values.at(tunable.name);
    tuned.choices.push_back({tunable.name, value, tunable.values[0], tunable.numeric});
    if (tunable.name == tune::kBatch && value != tunable.values[0])
      tuned.batch_per_rank = static_cast<int64_t>(std::stod(value));
    if (tunable.name == tune::kBucketMb) {
      const auto bytes = [](const std::string& mib) { return static_cast<int64_t>(std::stod(mib) * (1 << 20)); };
      tuned.default_bucket_bytes = bytes(tunable.values[0]);
      if (value != tunable.values[0]) tuned.bucket_bytes = bytes(value);
    }
    if (tunable.name != tune::kAlgorithm || tune::is_left_alone(value)) continue;
    if (value == tune::kRules) {
      tuned.allreduce_rules = tuning.rules;
      continue;
    }
    const auto ids = tune::openmpi_algorithms(openmpi_parameters(), tune::kAllreduceParameter);
    tuned.allreduce_rules = tune::preset_rules(value, ids);
    if (const auto forced = tune::is_preset(value) ? std::nullopt : tune::forced_rule(value, ids))
      tuned.allreduce_rules = {*forced};
  }
  // The rules file takes the place of a forced algorithm: it has guards for communicators of other sizes.
  const tune::PlacedJob placed = tune::place(request.command, tuning.tunables, values, "");
  for (const auto& [name, value] : placed.environment)
    if (tuned.allreduce_rules.empty() || !tune::is_decided_by_rules(name)) tuned.environment.emplace_back(name, value);
  tuned.unset = placed.unset;
  const tune::PlacedJob before = tune::place(request.command, tuning.tunables, tune::values_at(tuning.space, 0), "");
  tuned.default_environment = before.environment;
  tuned.default_unset = before.unset;
  tuned.tuned_command = placed.command;
  tuned.nccl_tuner_plugin = find_own_library("libnccl-tuner-ddl.so").string();
  return tuned;
}

}  // namespace ddl::cli
