// What is fuzzed: each target hands bytes to the readers of one kind of input. libfuzzer.cpp searches for inputs that
// reach new code (tools/fuzz), replay.cpp tries the seeds and a few damaged ones of each (CI).
#pragma once

#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/core/damage.h"

namespace ddl::fuzz {

struct Target {
  const char* name;
  const char* what;  ///< is read
  /// Inputs that are taken, made of the samples of the other tests.
  std::vector<std::string> (*seeds)();
  /// True: taken, as by a verb that ends with exit code 0. False: refused, by a ddl::Error. Any other exception, and
  /// false for a seed, is a defect.
  bool (*take)(const std::string& input);
  std::string (*damage)(std::string input, std::mt19937_64& random) = test::damage_text;
};

std::span<const Target> targets();

/// Runs a verb in this process. True: exit code 0; false: a ddl::Error, or another exit code.
bool verb(const std::vector<std::string>& words);

/// For work that is worth doing with one of `n` inputs; always the same ones, and all in tests.
bool is_one_of(size_t n, const std::string& input);

/// Where targets write their files: a folder of this process, in memory where there is such a place.
const std::filesystem::path& scratch();
/// Writes the file, and returns its path.
std::string write(const std::filesystem::path& path, const std::string& contents);

std::string damage_spool(std::string input, std::mt19937_64& random);
std::string damage_database(std::string input, std::mt19937_64& random);

// The targets, by file; those of ddl import are in traces.h.
// recordings.cpp
std::vector<std::string> spools();
bool take_spool(const std::string& input);
bool take_recording(const std::string& input);
bool take_live(const std::string& input);
std::vector<std::string> jobs();
bool take_job(const std::string& input);
std::vector<std::string> stall_logs();
bool take_stall_log(const std::string& input);
// tables.cpp
std::vector<std::string> topologies();
bool take_topology(const std::string& input);
std::vector<std::string> sweeps();
bool take_sweep(const std::string& input);
std::vector<std::string> profiles();
bool take_profile(const std::string& input);
std::vector<std::string> scaling_tables();
bool take_scaling_table(const std::string& input);
// tunings.cpp
std::vector<std::string> trial_logs();
bool take_trial_log(const std::string& input);
std::vector<std::string> manifests();
bool take_manifest(const std::string& input);
std::vector<std::string> rule_files();
bool take_rule_file(const std::string& input);
std::vector<std::string> probe_files();
bool take_probe_file(const std::string& input);
// words.cpp
std::vector<std::string> command_lines();
bool take_command_line(const std::string& input);
std::vector<std::string> setups();
bool take_setup(const std::string& input);
std::vector<std::string> filters();
bool take_filter(const std::string& input);
std::vector<std::string> messages();
bool take_message(const std::string& input);

}  // namespace ddl::fuzz
