// Ranks where no table of a trace has them: from the launcher's environment, each process's GPUs, and the names of
// files and processes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "store/import/imported_run.h"

namespace ddl::store {

/// One environment, and the processes that started in it.
struct RankHints {
  std::vector<size_t> processes;
  std::map<std::string, int64_t> environment;   ///< launchers' variables that are whole numbers
  std::map<size_t, std::set<int64_t>> devices;  ///< by process

  /// Kept if launchers use it for ranks, and it is a whole number, in quotes or not.
  void add_variable(std::string_view name, std::string_view value);
};

/// If each environment has one process and its own rank. False: not so.
bool rank_by_environment(ImportedRun& run, const std::vector<RankHints>& environments);
/// By the order of GPUs, if each process has its own.
void rank_by_device(ImportedRun& run, const RankHints& hints);

/// The rank in the name of a trace's file: "worker0", "rank-3".
std::optional<int64_t> rank_in_trace_name(const std::string& file);
/// The rank in the name of a dump's file: "rank-3", "rank=3", else the number at its end.
std::optional<int64_t> rank_in_dump_name(const std::string& file);
/// The rank in the name of a traced process: "rank 3", "Rank: 3".
std::optional<int64_t> rank_in_process_name(const std::string& name);
/// "HOST_PID.MILLISECONDS.pt.trace.json.gz", as tensorboard_trace_handler() names files. A worker name chosen by a job
/// ("worker0_step_5.1623143089861.pt.trace.json") is not a host.
std::optional<std::string> host_in_trace_name(const std::string& file);

}  // namespace ddl::store
