// One trial of the tuner: the job at one point of the space, run under `ddl record` and read back.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "autotuner/goal.h"
#include "autotuner/trial_facts.h"
#include "autotuner/tunables.h"
#include "cli/process.h"

namespace ddl::cli {

struct RanTrial {
  std::optional<tune::TrialFacts> facts;  ///< unset: it failed
  std::string why;
  double wall_s = 0;
  bool told_to_end = false;          ///< Ctrl-C: neither good nor bad
  std::set<std::string> hosts = {};  ///< that its ranks ran on, as recorded: names and boots
};

/// A trial that somebody else starts and waits for.
class TrialRun {
 public:
  /// Removes `run` if it is there. All of it must outlive this.
  TrialRun(const tune::PlacedJob& job, std::filesystem::path run, std::filesystem::path log, const tune::Goal& goal);
  const Launch& launch() const { return launch_; }
  const std::filesystem::path& recording() const { return run_; }
  /// Reads back what it recorded. Never throws for what the job did.
  RanTrial finish(const Ended& ended, double wall_s) const;

 private:
  std::filesystem::path run_, log_, told_;
  const tune::Goal& goal_;
  Launch launch_;
  std::filesystem::file_time_type written_{};
  std::vector<double> before_;  ///< numbers that were in its file when it began
};

/// Throws a usage error where the metric's pattern is not a regular expression that says where the number is.
void check_pattern(const tune::Metric& metric);

/// Records the job into `run` (removed first if it is there) with its output in `log`. Never throws for what the job does.
RanTrial run_trial(const tune::PlacedJob& job, const std::filesystem::path& run, const std::filesystem::path& log, const tune::Goal& goal);

/// What a job says of its failure in its output: the first line with "error" in it, since launchers add paragraphs of their own; else the last line.
/// Without secrets: it goes into the report.
std::string words_of_failure(const std::filesystem::path& log);

/// The command with the job's variables, as it is started: where it is Open MPI's launcher they are forwarded to other hosts.
std::vector<std::string> launched(const tune::PlacedJob& job);

}  // namespace ddl::cli
