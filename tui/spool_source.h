// Follows the spools of a running job, or reads those of an ended one (spool_process.h): which processes are its ranks,
// on which time axis, and whether they still exist.
//
// A poll costs what is new, and a few system calls per process: a few milliseconds for 1,024 ranks. A job that
// runs already is joined at the end of its logs; a watcher that started with the job (Join::kWhole) reads them
// from the beginning.
//
// Processes on this host are looked up in /proc; on other hosts only silence shows. There the live file is read if it
// exists (core/live_file.h), since stores into a mapped spool reach this host when the other kernel writes them back.
//
// One world is shown: of several the one that runs and has the most ranks; where all are over, the first one, as the
// report does it. When all its ranks are over and another one runs, that one is shown: the Job begins anew
// (Job::generation), as it does when another recording has taken the directory.
//
// A spool keeps a descriptor open. If ranks outnumber descriptors, spools are read in turns, for two more system calls
// per spool and look.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "store/run_directory.h"
#include "tui/numbering.h"
#include "tui/source.h"
#include "tui/spool_process.h"

namespace ddl::tui {

class SpoolSource : public Source {
 public:
  /// How much of a running job's logs is read: the recent part, or all.
  enum class Join { kRecent, kWhole };

  /// `shown`: the run's name as the user would type it. `most_open`: spools beyond that are opened for each look
  /// and closed again.
  SpoolSource(RunDirectory run, std::string shown, Join join = Join::kRecent,
              size_t most_open = descriptors_for_spools());

  /// Raises the soft limit of descriptors to the hard one; what that leaves for spools.
  static size_t descriptors_for_spools();

  void poll(Job& job, double interval_s) override;

 private:
  /// By size too, and by launch: a restart may have the same key.
  struct WorldId {
    uint64_t key = 0;
    int32_t size = 0;
    size_t launch = 0;
    friend bool operator==(const WorldId&, const WorldId&) = default;
    friend auto operator<=>(const WorldId&, const WorldId&) = default;
  };
  struct Place {
    int32_t rank = -1, size = 0;
    std::optional<WorldId> world;
    std::optional<size_t> replaces, replaced_by;  ///< the process of the same rank in the launch before, and after
  };

  void look_for_spools(Job& job);
  void start_afresh(Job& job);
  void release(size_t process);
  std::unique_ptr<SpoolProcess> open(const std::filesystem::path& stem);
  void read_job(Job& job);
  void read_told_stalls(Job& job);
  uint64_t recent_bytes();
  void read_spools(Job& job);
  static int32_t world_size(const SpoolProcess& process);
  bool is_child(size_t process, size_t earlier) const;
  void find_worlds();
  WorldId best_world(const Job& job) const;
  bool runs(const Job& job, size_t process) const;
  bool another_world_runs(const Job& job) const;
  void choose_world(const Job& job);
  void add_ranks(Job& job);
  void add_rank(Job& job, SpoolProcess& process);
  void fit(Job& job);
  bool is_here(const SpoolProcess& process) const;
  Life life_of(const SpoolProcess& process, bool recorded_end) const;
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
  size_t asked_of_ = 0;                            ///< processes that recent_bytes() has asked
  uint64_t asked_bytes_ = 0;
  std::vector<Place> places_;         ///< as processes_
  std::map<WorldId, size_t> worlds_;  ///< with their first process
  std::optional<WorldId> world_;      ///< that is shown
  int64_t world_begin_ns_ = 0;
  std::unordered_set<int32_t> numbers_;  ///< of its ranks
  std::optional<int64_t> ended_ns_;      ///< when the shown world was first seen to have ended
  int64_t epoch_realtime_ns_ = 0;
  size_t fitted_ranks_ = SIZE_MAX;
  int64_t next_fit_ns_ = 0;
  int64_t directory_changed_ns_ = -1;
  int64_t job_changed_ns_ = -1;
  int64_t stalls_changed_ns_ = -1;
  std::string host_, boot_;
};

}  // namespace ddl::tui
