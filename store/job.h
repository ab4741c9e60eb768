// job.json: what `ddl record` wrote about the job as a whole. Absent for bare LD_PRELOAD jobs.
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
  /// Everything else that is a text or a number, by its name: launcher, job_id, ddl_version, host, cwd, env.NAME, libraries.NAME.
  std::map<std::string, std::string> facts;
  /// Why the file could not be used as a whole or in part; empty: all well.
  std::string problem;
};

/// Fact of jobs that talk by Gloo, of which nothing is recorded where its library exports no functions: the word or script that says so.
inline constexpr const char* kGlooFact = "gloo";
inline constexpr const char* kGlooHint =
    "record steps and layers with ddl_annotate.py (docs/how-to/python.md), or trace it with torch.profiler: ddl import kineto";

/// Never throws: an absent file is an empty Job, a broken one has a `problem` and what could be read.
Job read_job(const std::filesystem::path& path);

}  // namespace ddl
