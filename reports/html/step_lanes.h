// One step on the common time axis: what each rank did when (in the thread that opened the step), and for whom it
// waited. Lanes are read on demand, so that a figure of a few of thousands of ranks stays cheap.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/intervals.h"
#include "reports/run_view.h"

namespace ddl::reports::html {

/// A rank's wait in a call from begin_ns to end_ns, until `culprit` entered (a collective), sent, or was
/// ready to receive.
struct Blocked {
  int64_t begin_ns = 0, end_ns = 0;
  int64_t culprit = -1;  ///< rank; -1: unknown
};

/// A rank's compute, transfer, wait and unsplit are disjoint and add up to the window, except for idling where the
/// trace shows computing. So do a GPU's compute, overlap, transfer, wait, unsplit and copy, and the rest is idling.
struct Lane {
  int64_t rank = 0;
  Interval window;
  IntervalSet compute, transfer, wait;
  IntervalSet unsplit;           ///< inside calls with unknown waiting
  IntervalSet backward;          ///< of ranks, of compute: in phases named backward, as far as they were kept
  IntervalSet overlap, copy;     ///< of GPUs: computing beside collectives; copies beside which nothing runs
  std::vector<Blocked> blocked;  ///< by end_ns
};

class StepLanes {
 public:
  StepLanes(const RunView& run, int64_t step);

  int64_t step() const { return step_; }
  /// Ranks that recorded the step, ascending.
  const std::vector<int64_t>& ranks() const { return ranks_; }
  /// First begin and last end of the step on any rank.
  Interval window() const { return window_; }
  int64_t last_rank() const { return last_rank_; }  ///< the rank that ends last
  /// `rank` is one of ranks().
  const Lane& lane(int64_t rank);

 private:
  struct Place {
    int64_t process = 0, thread = 0;
    Interval window;
  };
  struct Message {
    Interval call;                   // in which it completed
    std::optional<int64_t> wait_ns;  // at its begin; nothing: not known
    int64_t culprit = -1;            // rank at the other end
  };
  Lane read(int64_t rank);
  void read_operations();
  void read_collectives(const Place& place, Lane& lane, std::vector<Interval>& waits, std::vector<Interval>& unsplit);
  void read_messages();
  void read_backward();
  void read_computing();
  int64_t last_to_enter(int64_t comm, int64_t seq, int64_t kind);

  const RunView& run_;
  int64_t step_;
  std::set<int64_t> waits_unnumbered_;                  // operations: Operation::waits_unnumbered
  std::map<int64_t, Place> places_;                     // by rank
  std::map<int64_t, std::vector<Message>> messages_;    // by process
  std::map<int64_t, std::vector<Interval>> backward_;   // by process: phases of that name
  std::map<int64_t, std::vector<Interval>> computing_;  // by process, where that is told
  // by communicator, number and kind of event: rank, or -1
  std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> last_to_enter_;
  std::vector<int64_t> ranks_;
  Interval window_;
  int64_t last_rank_ = 0;
  std::map<int64_t, Lane> lanes_;
};

/// The critical path to the step's end, backwards from the rank that ends last: it stays on a rank while that works,
/// and continues on the rank that it waited for. Parts are in order and do not overlap.
struct PathPart {
  int64_t rank = 0;
  Interval interval;
};
std::vector<PathPart> critical_path(StepLanes& lanes);

/// Is computing what threads do outside their own calls? Not where other threads communicate for them: they may wait
/// for these at any time. A lane and a path tell nothing then.
bool calls_show_computing(const RunView& run);

/// How far lanes of different hosts may be off, for a caption, with a blank before it; empty: one clock.
std::string clock_note(const RunView& run);
/// How far moments of two hosts may be off: 3 sigma; 0: not at all; nothing: unknown.
std::optional<double> clock_error_ns(const RunView& run);

}  // namespace ddl::reports::html
