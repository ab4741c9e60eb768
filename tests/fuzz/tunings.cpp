#include <fstream>
#include <iterator>

#include "autotuner/emit.h"
#include "autotuner/emitted.h"
#include "autotuner/goal.h"
#include "autotuner/openmpi_rules.h"
#include "autotuner/probe_report.h"
#include "autotuner/sweep.h"
#include "autotuner/trial_log.h"
#include "core/error.h"
#include "tests/autotuner/sweep_sample.h"
#include "tests/autotuner/tuned_samples.h"
#include "tests/fuzz/target.h"

namespace ddl::fuzz {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::string> kQuestion = {{"command", "./train"}, {"seed", "1"}};
constexpr const char* kRules = "1 # one\n2 1\n4 3\n0 3 0 0\n8192 5 0 4096\n1048576 0 0 0\n";
// in manifests, which hold the path that differs from process to process
constexpr const char* kFolderWord = "@FOLDER@";

std::string contents_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace

std::vector<std::string> trial_logs() {
  const fs::path file = scratch() / "seed.sqlite";
  fs::remove(file);
  {
    tune::TrialLog log(file, kQuestion);
    log.add({0, "calibrate", "batch=32", 1.5, "", 0.25, 32, {}, 0.1, 0.2, 9.5, ""});
    log.add({0, "explore", "batch=64", {}, "exit code 1", 0, {}, {}, {}, {}, 1.5, "run.ddl"});
    log.keep_sweep(test::sweep_text());
  }
  return {contents_of(file)};
}

bool take_trial_log(const std::string& input) {
  const fs::path file = scratch() / "tune.sqlite";
  fs::remove(file);
  write(file, input);
  try {
    tune::TrialLog log(file, kQuestion);
    log.replay(0, tune::Stage::kCalibrate, "batch=32");
    if (const auto text = log.sweep()) tune::read_sweep(*text);
    log.replay(0, tune::Stage::kRace, "batch=96");
    log.add({1, "race", "batch=96", 1.0, "", 0.25, {}, {}, {}, {}, 9.5, ""});
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<std::string> manifests() {
  std::vector<std::string> seeds;
  // the files of the last one stay
  for (const tune::Tuned& tuned : {tune::default_sample(), tune::other_sample(), tune::tuned_sample()}) {
    tune::emit(tuned, scratch() / "tuned");
    seeds.push_back(
        replaced(contents_of(scratch() / "tuned" / "manifest.json"), (scratch() / "tuned").string(), kFolderWord));
  }
  return {seeds.back()};
}

bool take_manifest(const std::string& input) {
  static const bool emitted = !manifests().empty();
  const fs::path folder = scratch() / "tuned";
  if (emitted) write(folder / "manifest.json", replaced(input, kFolderWord, folder.string()));
  try {
    tune::goal_of(tune::read_emitted(folder).tuned);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<std::string> rule_files() {
  return {kRules, tune::write_openmpi_rules(4, tune::tuned_sample().allreduce_rules),
          "1 2 3  2 3  0 1 0 0  4096 2 0 0  1024 3 0 0  8 1  0 4 0 0  4 1  0 6 0 0"};
}

bool take_rule_file(const std::string& input) {
  const tune::OpenMpiRules rules = tune::read_openmpi_rules(input);
  for (const int64_t ranks : {0, 1, 4, 1000000})
    for (const int64_t bytes : {int64_t{0}, int64_t{4096}, int64_t{1} << 40}) tune::ruled(rules, ranks, bytes);
  return rules.dropped.empty();
}

std::vector<std::string> probe_files() {
  return {
      "ddl-probe-openmpi 1\nlibrary Open MPI v4.1.4\nrank 0 of 4\nsymbols 1\nlost 0\n4 1 4 3 3 0 1 7\n4 10000 40000 5 5 4096 1 9\nend\n"};
}

bool take_probe_file(const std::string& input) {
  const fs::path folder = scratch() / "probe";
  fs::create_directories(folder);
  write(folder / "a.probe", input);
  try {
    tune::prove_openmpi(tune::read_probe_files(folder), kRules, 4);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace ddl::fuzz
