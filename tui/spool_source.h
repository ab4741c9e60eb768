// Follows the spools of a running job, or reads those of one that has ended: reading only, from files that are never mapped
// (core/reader.h).
//
// What a poll costs goes with what is new, and a few system calls per process: 1,024 ranks are a few milliseconds. A job that has been
// running for long is joined at the end of its logs, not read from the begin.
//
// Whether a process is still there is looked up in /proc where it runs on this host; of others, silence is all that can be seen.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/reader.h"
#include "store/run_directory.h"
#include "tui/source.h"

namespace ddl::tui {

class SpoolSource : public Source {
 public:
  /// `shown`: the run's name as the user would type it.
  SpoolSource(RunDirectory run, std::string shown);
  ~SpoolSource() override;

  void poll(Job& job) override;

 private:
  struct Process;

  uint32_t layers_id(Job& job, const std::string& phase, const std::string& name);
  void look_for_spools();
  void read_job(Job& job);
  void choose_world(Job& job);
  void fit(Job& job);
  void read_lives(Job& job);

  RunDirectory run_;
  std::string shown_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::unordered_map<std::string, Process*> by_path_;
  std::unordered_map<uint64_t, uint32_t> communicators_;  ///< Job::communicators by uid
  std::unordered_map<std::string, uint32_t> operations_;  ///< Job::operations by name
  std::unordered_map<std::string, uint32_t> layers_;      ///< Job::layers by phase and name
  std::optional<uint64_t> world_key_;
  int64_t epoch_realtime_ns_ = 0;
  size_t fitted_ranks_ = SIZE_MAX;
  int64_t next_fit_ns_ = 0;
  int64_t directory_changed_ns_ = -1;
  int64_t job_changed_ns_ = -1;
  std::string host_, boot_;
};

}  // namespace ddl::tui
