// Critical paths of the steps of all ranks with GPUs, into table critical_path (specification.md J12). Activities of a
// process wait in files until they come step by step; a step at a time is in memory.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "analyzer/passes/critical_path.h"
#include "analyzer/query.h"
#include "store/sorted_records.h"

namespace ddl {

/// A kernel, copy, memset or synchronisation.
struct PathActivity {
  int64_t start_ns = 0, end_ns = 0;
  int64_t launch_ns = 0, launch_duration_ns = 0;
  int64_t step = -1;  ///< -1: outside steps
  int64_t call = 0, context = -1, stream = -1;
  int64_t wait_ns = 0;
  int64_t name = 0, region = 0;
  DeviceClass device_class = DeviceClass::kCompute;
  bool is_synchronization = false, is_launched = false, has_wait = false;
};

class CriticalPaths {
 public:
  explicit CriticalPaths(SQLite::Database& db);
  /// The activities of a process, by their begin.
  void add(const PathActivity& activity) { activities_->add(activity); }
  /// The process is complete. `steps`: without any, `run` counts as one.
  void finish(int64_t process, const std::map<int64_t, Interval>& steps, const Interval& run);
  /// Steps left out because they have more activities than are held.
  int64_t too_long() const { return too_long_; }

 private:
  struct ByStep {
    bool operator()(const PathActivity& a, const PathActivity& b) const { return a.step < b.step; }
  };
  void keep(const PathActivity& activity, PathStep& step);
  void write(int64_t process, std::optional<int64_t> number, const PathStep& step);
  std::optional<size_t> stream_of_any_context(int64_t stream) const;
  size_t stream_number(int64_t context, int64_t stream);

  Query waits_, ranges_, insert_;
  std::optional<store::SortedRecords<PathActivity, ByStep>> activities_{std::in_place};
  int64_t too_long_ = 0;
  std::map<std::pair<int64_t, int64_t>, size_t> streams_;  ///< of the process: context, stream
  EarlierEnds earlier_;
};

}  // namespace ddl
