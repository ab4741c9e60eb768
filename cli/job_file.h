// job.json: the command, place and settings of a job, and how it ended. Written by `ddl record`, read by the ingest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddl::cli {

struct JobFile {
  std::vector<std::string> command;
  int64_t started_realtime_ns = 0;
  std::optional<int64_t> ended_realtime_ns;
  std::optional<int> exit_code;  ///< unset while it runs, and when a signal ended it
  std::optional<int> signal;
  std::optional<int> told_to_end;  ///< SIGINT or SIGTERM, which reached it while it ran
  std::string launcher;            ///< mpirun, srun, ...; empty: unknown
  std::string job_id;              ///< of the batch system; empty: none
  std::map<std::string, std::string> env;
  std::string host;
  std::string cwd;
  std::string commit;  ///< of the Git repository around cwd; empty: none
  /// the script or word which shows that the job communicates through Gloo, which is not recorded; empty: none
  std::string gloo;
};

/// Fills in all that is known before the start. `environment` as environ(7).
JobFile describe_job(const std::vector<std::string>& command, const char* const* environment);

/// The text of job.json; arguments that carry a secret (TOKEN=..., --password ...) are masked.
std::string to_json(const JobFile& job);

/// Replaces `directory`/job.json, mode 0600, in one step.
void write_job_file(const std::filesystem::path& directory, const JobFile& job);

/// Variables that affect a job's speed and hold no secret.
bool is_recorded_variable(std::string_view name);

/// A short name for the job: the program behind mpirun and python, without folder and extension.
std::string program_name(const std::vector<std::string>& command);

int64_t realtime_ns();

}  // namespace ddl::cli
