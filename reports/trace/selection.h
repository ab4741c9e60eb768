// Selects the ranks and steps of a run for a trace.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reports/run_view.h"

namespace ddl::reports {

struct TraceRequest {
  struct Steps {
    int64_t first, last;  ///< both included
  };
  std::optional<Steps> steps;  ///< unset: all, and time outside of steps
  std::vector<int64_t> ranks;  ///< ascending; empty: all
};

struct TraceProcess {
  int64_t id = 0;
  std::optional<int64_t> rank;
  std::string host, ended;
  int64_t pid = 0;
  int64_t start_ns = 0, end_ns = 0;
  std::optional<int64_t> init_ns, finalize_ns;
  int64_t keep_level = 0;
  std::optional<double> sigma_ns;  ///< of its host's clock
};

/// The chosen processes, by rank. Also makes temp.trace_process(process, first_step, last_step, begin_ns, end_ns) for
/// conditions like in_window(). Throws ddl::Error: no such rank (kUsage), none of them left a recording, or has such a
/// step (kDataMissing).
std::vector<TraceProcess> select_processes(const RunView& run, const TraceRequest& request);

/// SQL condition to export a row of `table`, which has columns step and `time`, with temp.trace_process as t. Rows
/// without a step count by their time, from the begin of the first step to the end of the last one.
std::string in_window(const std::string& table, const std::string& time = "start_ns");

/// The requested ranks that left no recording.
std::vector<int64_t> missing_ranks(const RunView& run, const TraceRequest& request);

/// Called with the share that is done.
using TraceProgress = std::function<void(double ratio)>;

}  // namespace ddl::reports
