// Who is which rank, where no table of a trace says it: what the launcher told each process in its environment, and which GPU each used.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "store/import/imported_run.h"

namespace ddl::store {

/// What one environment says, of the processes that were started in it.
struct RankHints {
  std::vector<size_t> processes;
  std::map<std::string, int64_t> environment;   ///< launchers' variables that are whole numbers
  std::map<size_t, std::set<int64_t>> devices;  ///< by process

  /// Kept if launchers tell ranks by it, and it is a whole number, in quotes or not.
  void add_variable(std::string_view name, std::string_view value);
};

/// If each environment has one process, and each tells another rank. False: not so.
bool rank_by_environment(ImportedRun& run, const std::vector<RankHints>& environments);
/// By the order of their GPUs, if each process has one of its own.
void rank_by_device(ImportedRun& run, const RankHints& hints);

}  // namespace ddl::store
