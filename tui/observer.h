// Job and finished steps -> Snapshot. Keeps what must outlive a window: the history, the best bandwidths.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/waiting_parts.h"
#include "tui/snapshot.h"
#include "tui/steps.h"

namespace ddl::reports {
struct JobNumbers;
}

namespace ddl::tui {

class Observer {
 public:
  static constexpr size_t kHistory = 4096;

  /// Finishes what can be finished, and returns the present state. `replay`: the job is not running.
  Snapshot look(Job& job, bool replay);

 private:
  bool are_gpus_shown(const Job& job) const;
  const std::vector<RankPart>& parts(const FinishedStep& step) const {
    return background_ ? none_ : by_device_ ? step.parts : step.thread_parts;
  }
  /// For each kind that is shown.
  template <class Use>
  void each_lateness(const FinishedStep& step, Use use) const {
    use(step.by_thread);
    if (by_device_) use(step.by_device);
  }
  void take_history(const Job& job);
  void find_parts(const Job& job);
  void feed(const Job& job, bool replay, Snapshot& s) const;
  // observer_ranks.cpp
  void rank_rows(const Job& job, Snapshot& s) const;
  Blame sum_blame() const;
  // observer_tables.cpp
  void sum_collectives(const Job& job);
  void collective_rows(const Job& job, Snapshot& s);
  void axis_rows(const Job& job, Snapshot& s) const;
  void layer_rows(const Job& job, Snapshot& s) const;
  // observer_headline.cpp
  void headline(const Job& job, Snapshot& s) const;
  bool blame_straggler(const Job& job, Snapshot& s) const;

  uint32_t generation_ = 0;  ///< Job's
  Steps steps_;
  bool annotated_ = false;
  bool by_device_ = false;   ///< ranks with GPUs are shown by them
  bool background_ = false;  ///< as Job
  std::vector<RankPart> none_;
  uint64_t taken_ = 0;  ///< finished steps that are in the history
  std::deque<HistoryPoint> history_;
  std::map<std::tuple<uint32_t, uint32_t, int64_t>, double> best_busbw_;  ///< by operation, communicator, bytes
  std::vector<const FinishedStep*> window_;
  std::vector<CollectiveUse> collectives_;            ///< of the window
  PartOfRank parts_of_ranks_;                         ///< in the window
  std::pair<size_t, std::set<uint32_t>> parts_from_;  ///< number of ranks, communicators: what these come from
};

/// "rank 3", "ranks 0, 2-1023".
std::string ranks_phrase(const std::vector<int64_t>& ranks);

/// A moment of a running job for a monitoring system: the window of the newest kWindow finished steps.
reports::JobNumbers job_numbers(const Snapshot& snapshot);

}  // namespace ddl::tui
