// Job and finished steps -> Snapshot. Keeps what must outlive a window: the history, the best bandwidths.
#pragma once

#include <deque>
#include <map>
#include <string>

#include "tui/snapshot.h"
#include "tui/steps.h"

namespace ddl::tui {

class Observer {
 public:
  static constexpr size_t kHistory = 4096;

  /// Finishes what can be finished, and says what there is now. `replay`: the job is not running.
  Snapshot look(Job& job, bool replay);

 private:
  void take_history(const Job& job);
  void rank_rows(const Job& job, Snapshot& s) const;
  void collective_rows(const Job& job, Snapshot& s);
  void layer_rows(const Job& job, Snapshot& s) const;
  void feed(const Job& job, bool replay, Snapshot& s);
  void headline(const Job& job, Snapshot& s) const;

  Steps steps_;
  bool annotated_ = false;
  uint64_t taken_ = 0;  ///< finished steps that are in the history
  std::deque<HistoryPoint> history_;
  std::map<std::string, double> best_busbw_;
  std::vector<const FinishedStep*> window_;
};

/// Who waits for whom, when nothing goes on; nothing while the job runs.
std::optional<Stall> find_live_stall(const Job& job, double least_ns);

}  // namespace ddl::tui
