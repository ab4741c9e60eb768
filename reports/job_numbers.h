// A job in the few numbers that a monitoring system keeps, of a recorded or a running job (tui/job_numbers.cpp). Times
// are ns, ratios 0 to 1, unknown values absent.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reports/run_view.h"

namespace ddl::reports {

struct JobNumbers {
  /// For a step, mean over the steady ones (live: over the newest).
  struct Rank {
    int64_t rank = 0;
    std::string node;
    std::optional<double> late_ns, wait_ns, step_ns;
  };
  /// For a call, mean over calls and ranks.
  struct Collective {
    std::string op, comm;
    std::optional<int64_t> bytes;
    double time_ns = 0;
    std::optional<double> wait_ns, xfer_ns, busbw;
  };

  std::string run;  ///< of the run directory: tells a machine's jobs apart
  std::string name, job_id;
  bool running = false;
  std::optional<bool> stalled;      ///< ranks sit in a collective that others never entered
  std::optional<double> silent_ns;  ///< since anything happened
  int64_t ranks = 0, expected_ranks = 0, nodes = 0;
  /// ranks left no record: waits are lower bounds, transfers upper ones (specification.md J7)
  std::optional<bool> bounded;
  std::optional<int64_t> step;  ///< newest
  std::optional<double> step_p99_ns;
  std::optional<double> samples_per_s;
  std::map<std::string, double> metrics;               ///< metric.id -> value, in the metric's unit
  std::vector<std::pair<std::string, double>> shares;  ///< where the time goes: part, ratio
  std::vector<Rank> by_rank;
  std::vector<Collective> collectives;  ///< most time first
  int64_t lost_events = 0;
};

JobNumbers job_numbers(const RunView& run, const std::string& shown);

}  // namespace ddl::reports
