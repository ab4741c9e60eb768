// One trial of the tuner: the job at one point of the space, run under `ddl record` and read back.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "autotuner/goal.h"
#include "autotuner/metric_matches.h"
#include "autotuner/trial_facts.h"
#include "autotuner/tunables.h"
#include "cli/process.h"

namespace ddl::cli {

struct RanTrial {
  std::optional<tune::TrialFacts> facts;  ///< unset: it failed
  std::string why;
  double wall_s = 0;
  bool told_to_end = false;          ///< by Ctrl-C: neither good nor bad
  std::set<std::string> hosts = {};  ///< of its ranks, as recorded: names and boots
};

/// A trial that the caller starts and waits for.
class TrialRun {
 public:
  /// Removes an existing `run`. Everything must outlive this.
  TrialRun(const tune::PlacedJob& job, std::filesystem::path run, std::filesystem::path log, const tune::Goal& goal);
  const Launch& launch() const { return launch_; }
  const std::filesystem::path& recording() const { return run_; }
  /// Reads its recording, unless it was ended for the time that it took. Never throws because of the job.
  RanTrial finish(const LaneEnd& end) const;

 private:
  std::filesystem::path run_, log_, told_;
  const tune::Goal& goal_;
  Launch launch_;
  std::filesystem::file_time_type written_{};
  std::vector<tune::MetricMatch> before_;  ///< in its file at the start
};

/// Throws a usage error unless the metric's pattern is a regular expression with a group for the number.
void check_pattern(const tune::Metric& metric);

/// Records the job into `run` (removed first if it exists), with its output in `log`, for `most_s` at most. Never
/// throws because of the job.
RanTrial run_trial(const tune::PlacedJob& job, const std::filesystem::path& run, const std::filesystem::path& log,
                   const tune::Goal& goal, double most_s);

/// How long a trial may take, since a value may dead-lock the job: ten times as long as the default and a minute at
/// least; where the budget ends sooner three times as long and ten seconds at least. The default itself may take the
/// whole budget, and a minute at least. `default_s`: what the default took; 0: it is the default's turn. `work`: how
/// much more than the default it does. `left_s`: of the budget.
double trial_limit_s(double default_s, double work, double left_s);
constexpr double kLeastLimit_s = 60;

/// "did not end within 1m 12s"; the beginning of that is kDidNotEnd.
std::string did_not_end(double limit_s);
constexpr const char* kDidNotEnd = "did not end within ";

/// Beginning of RanTrial::why where the job failed.
constexpr const char* kExitCode = "exit code ";
constexpr const char* kNeeded = "needed ";  ///< more memory than it may

/// A job's own words about its failure: the first line of output with "error" in it, since launchers add paragraphs of
/// their own; else the last line. Without secrets, since the report has it.
std::string words_of_failure(const std::filesystem::path& log);

/// The command with the job's variables, as started: Open MPI's launcher forwards them to other hosts.
std::vector<std::string> launched(const tune::PlacedJob& job);

}  // namespace ddl::cli
