// A run as the history keeps it: the row of ddl_run and what hangs on it (history/schema.sql says what each member
// is, in its unit).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddl::history {

struct RunRow {
  std::string run, name, path, added_by;
  std::optional<std::string> command, commit_id, job_id, job_step_id, verdict, ddl_version, analysis;
  int64_t started_ns = 0, world = 0, ranks = 0, expected_ranks = 0, hosts = 0, gpus = 0, steps = 0, bounded = 0,
          findings = 0, lost_events = 0, added_ns = 0, updated_ns = 0;
  std::optional<int64_t> duration_ns, exit_code, signal, step_time_ns, step_p99_ns;
  std::optional<double> step_lo_ns, step_hi_ns, throughput, efficiency, ccr, compute_ns, overlap_ns, transfer_ns,
      wait_ns, unsplit_ns, copy_ns, idle_ns, loss;
  std::map<std::string, std::string> why;  ///< why a column is NULL: column -> reason

  struct Metric {
    std::string id;
    std::optional<double> value;
    std::string unit;
    std::optional<std::string> why;
    std::optional<double> lo, hi;
  };
  struct Axis {
    std::string axis;
    double transfer_ns = 0, wait_ns = 0;
  };
  struct Finding {
    std::string id, sentence;
    std::optional<int64_t> rank, saving_ns;
    std::optional<double> share_ratio;
    std::string confidence;
    std::optional<std::string> saving_bound;  ///< lower, upper: of saving_ns and share_ratio
  };
  struct Host {
    std::string host;
    int64_t ranks = 0;
    bool slow = false;
    std::optional<int64_t> slow_rank;
  };
  std::vector<Metric> metrics;  ///< written, not read back: SQL reads them
  std::vector<Axis> axes;
  std::vector<Finding> found;  ///< most important first
  std::vector<Host> on;

  /// Why `column` is not known; NO_DATA where nobody said.
  std::string why_not(const std::string& column) const;
};

}  // namespace ddl::history
