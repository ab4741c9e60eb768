// Follows the spools of a running job, or reads those of one that has ended (spool_process.h): which processes are its ranks, on what axis
// of time, and whether they are still there.
//
// What a poll costs goes with what is new, and a few system calls per process: 1,024 ranks are a few milliseconds. A job that has been
// running for long is joined at the end of its logs; who began with the job (Join::kWhole) reads them from their beginning.
//
// Whether a process is still there is looked up in /proc where it runs on this host; of others, silence is all that can be seen. For those
// the live file is read where there is one (core/live_file.h): what stores into their mapped spool reaches this host when its kernel sees
// fit.
//
// A spool keeps a descriptor open. Jobs of more ranks than the process may have descriptors are read in turns, which costs two system calls more
// for each spool and look.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/run_directory.h"
#include "tui/numbering.h"
#include "tui/source.h"
#include "tui/spool_process.h"

namespace ddl::tui {

class SpoolSource : public Source {
 public:
  /// How much of its logs is read of a job that runs already: what came lately, or all.
  enum class Join { kRecent, kWhole };

  /// `shown`: the run's name as the user would type it. `most_open`: of more spools those that have come later are opened for each look and
  /// closed again.
  SpoolSource(RunDirectory run, std::string shown, Join join = Join::kRecent, size_t most_open = descriptors_for_spools());

  /// Raises the soft limit of descriptors to the hard one; what that leaves for spools.
  static size_t descriptors_for_spools();

  void poll(Job& job, double interval_s) override;

 private:
  void look_for_spools();
  void release(size_t process);
  std::unique_ptr<SpoolProcess> open(const std::filesystem::path& stem);
  void read_job(Job& job);
  void read_told_stalls(Job& job);
  uint64_t recent_bytes();
  void read_spools(Job& job);
  void choose_world(Job& job);
  void add_rank(Job& job, SpoolProcess& process);
  void fit(Job& job);
  void read_lives(Job& job);

  RunDirectory run_;
  std::string shown_;
  Join join_;
  size_t most_open_;
  Numbering numbering_;
  NcclSizes sizes_;
  std::vector<std::unique_ptr<SpoolProcess>> processes_;
  std::set<std::filesystem::path> known_;          ///< paths of `processes_`, without .spool or .live
  std::map<std::string, std::string> unreadable_;  ///< path -> why
  size_t asked_of_ = 0;                            ///< so many processes there were when recent_bytes() asked some of them
  uint64_t asked_bytes_ = 0;
  std::optional<uint64_t> world_key_;
  int64_t epoch_realtime_ns_ = 0;
  size_t fitted_ranks_ = SIZE_MAX;
  int64_t next_fit_ns_ = 0;
  int64_t directory_changed_ns_ = -1;
  int64_t job_changed_ns_ = -1;
  int64_t stalls_changed_ns_ = -1;
  std::string host_, boot_;
};

}  // namespace ddl::tui
