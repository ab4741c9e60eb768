// One trial of the tuner: the job at one point of the space, run under `ddl record` and read back.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "autotuner/goal.h"
#include "autotuner/trial_facts.h"
#include "autotuner/tunables.h"

namespace ddl::cli {

struct RanTrial {
  std::optional<tune::TrialFacts> facts;  ///< unset: it failed
  std::string why;
  double wall_s = 0;
  bool told_to_end = false;  ///< Ctrl-C: neither good nor bad
};

/// Records the job into `run` (removed first if it is there) with its output in `log`. Never throws for what the job does.
RanTrial run_trial(const tune::PlacedJob& job, const std::filesystem::path& run, const std::filesystem::path& log, const tune::Goal& goal);

/// The command with the job's variables, as it is started: where it is Open MPI's launcher they are forwarded to other hosts.
std::vector<std::string> launched(const tune::PlacedJob& job);

}  // namespace ddl::cli
