// job.json: `ddl record` about the whole job. Absent for bare LD_PRELOAD jobs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddl {

struct Job {
  std::vector<std::string> command;
  std::optional<int64_t> started_realtime_ns;
  std::optional<int64_t> ended_realtime_ns;
  std::optional<int64_t> exit_code;
  std::optional<int64_t> signal;
  /// All other texts and numbers, by name: launcher, job_id, ddl_version, host, cwd, env.NAME, libraries.NAME.
  std::map<std::string, std::string> facts;
  /// Why the file could not be used, wholly or in part; empty: no problem.
  std::string problem;
};

/// Fact of jobs that communicate through Gloo, which is not recorded if its library exports no functions: the word or
/// script that shows it.
inline constexpr const char* kGlooFact = "gloo";
inline constexpr const char* kGlooHint =
    "record steps and layers with ddl_annotate.py (docs/how-to/python.md), or trace it with torch.profiler: ddl import kineto";

/// Never throws: an absent file is an empty Job, a broken one has a `problem` and its readable part.
Job read_job(const std::filesystem::path& path);

}  // namespace ddl
