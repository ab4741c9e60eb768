// Where one window of one rank went (specification.md "Time sets" and "Computing and communication", for CPU jobs).
//
// The window is cut by set algebra, so that the parts add up to the nanosecond: compute + exposed + idle = duration,
// wait + xfer = exposed.
//   exposed  inside MPI calls of the thread that owns the window (K, compute, is everything else; idle is 0 on
//            CPU jobs). Where a trace tells what computes, K is that, exposed is inside calls and outside of K,
//            and idle is the rest
//            Where a trace tells what computes, K is that, exposed is inside calls and outside of K, and idle is the
//            rest
//   comm     union of those calls, of other threads' calls, and of requests in flight (an upper bound of their
//            transfer)
//   wait     the part of exposed in which a collective of this rank, blocking or in flight, waited for other ranks, or
//            in which a call waited for a message's sender or receiver (specification.md W5, W6)
//   bubble   the part of wait for other stages of the same pipeline
//   input    the part of compute and idle in ranges that load data
//   unsplit  the part of exposed in calls that completed messages of which nobody can tell how long they waited; counts
//            as transfer, and makes the waiting of the window unknown if it is more than kUnsplitShare of exposed
//   undefined  the same of calls for which waiting is not defined, though they may wait for other ranks
//              (Operation::wait); it may be
//            kUnsplitShare of the whole window as well, where it is not the most of exposed
// Polling calls that found nothing leave no event; the time inside MPI that is known from the profile may therefore
// exceed that of the events, and what is more counts as exposed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/intervals.h"
#include "analyzer/passes/instance.h"

namespace ddl {

constexpr double kUnsplitShare = 0.01;

/// A non-blocking collective in flight.
struct Flight {
  Interval interval;
  int64_t bytes = 0;  ///< S
};

/// The events of one window. Intervals may reach over its edges.
struct WindowEvents {
  std::vector<Interval> calls;        ///< MPI calls of the owning thread
  std::vector<Interval> completions;  ///< those of them that complete requests: Wait and Test families
  std::vector<Interval> background;   ///< calls of other threads, requests in flight
  /// [enter, enter + wait) of collectives and message calls of the owning thread, and of requests
  std::vector<Interval> waiting;
  std::vector<Interval> bubble;     ///< those of `waiting` that are for other stages of the same pipeline
  std::vector<Interval> inputs;     ///< ranges of the owning thread that load data
  std::vector<Interval> unsplit;    ///< calls of the owning thread that completed messages, with an unknown wait
  std::vector<Interval> undefined;  ///< calls of the owning thread whose waiting is not defined
  std::vector<Interval> undefined_flights;         ///< requests of that kind: what completes them may wait
  std::optional<std::vector<Interval>> computing;  ///< nothing: all that is outside of `calls`
  std::vector<Flight> flights;
  /// parts of `completions` that may be waiting as well (late_completion.h)
  std::vector<Interval> late_completions;
  double sigma_ns = 0;           ///< clock sigma of `waiting`: sum over them, as if all errors went one way
  Why why = Why::kNone;          ///< why some collective could not be split; kNone: all could
  Why unsplit_why = Why::kNone;  ///< the same of `unsplit`
  bool bounded = false;          ///< some of `waiting` is a lower bound (specification.md J7)
};

/// One event, as far as windows care.
struct Activity {
  Interval interval;
  int64_t thread = 0;
  bool request = false;
  bool completion = false;
  bool collective = false;
  bool bubble = false;     ///< waits for another stage of its pipeline
  bool unsplit = false;    ///< a call in which messages completed, and nobody knows how long it waited; see `why`
  bool undefined = false;  ///< may wait for other ranks, and for how long is not defined
  std::optional<int64_t> wait_ns;
  double sigma_ns = 0;   ///< clock sigma of wait_ns
  bool bounded = false;  ///< wait_ns is a lower bound
  Why why = Why::kNone;
  int64_t bytes = 0;
};

/// Books the event in the window that `owner`, a thread, opened.
void add_to(WindowEvents& window, const Activity& event, int64_t owner);

struct Partition {
  int64_t duration_ns = 0;
  int64_t compute_ns = 0;
  int64_t comm_ns = 0;
  int64_t exposed_ns = 0;
  int64_t wait_ns = 0;
  int64_t bubble_ns = 0;
  int64_t input_ns = 0;
  int64_t unsplit_ns = 0;
  int64_t undefined_ns = 0;
  int64_t idle_ns = 0;  ///< 0 but of training threads (training_thread.h), and where it is told what computes

  bool is_split() const { return is_small(unsplit_ns, exposed_ns) && is_negligible(undefined_ns); }
  /// Why it is not split; `unsplit_why`: why what is `unsplit` is not.
  Why why_not_split(Why unsplit_why) const {
    return is_small(unsplit_ns, exposed_ns) ? Why::kNotApplicable : unsplit_why;
  }

 private:
  static bool is_small(int64_t part_ns, int64_t whole_ns) {
    return static_cast<double>(part_ns) <= kUnsplitShare * static_cast<double>(whole_ns);
  }
  bool is_negligible(int64_t part_ns) const {
    return is_small(part_ns, exposed_ns) || (is_small(part_ns, duration_ns) && part_ns <= exposed_ns / 2);
  }
};

/// `mpi_ns`: time inside MPI by the profile; 0 if not known.
Partition partition(const Interval& window, const WindowEvents& events, int64_t mpi_ns);

/// The end of a step after the last non-blocking collective was posted: nothing is left to hide what still moves.
struct Tail {
  /// inside completing calls with collectives in flight, without the waiting that is known and what may be waiting as
  /// well
  int64_t xfer_ns = 0;
  int64_t buckets = 0;      ///< collectives posted in the step that completed in the tail
  int64_t bytes = 0;        ///< theirs
  int64_t all_buckets = 0;  ///< posted in the step
  int64_t all_bytes = 0;    ///< theirs
  int64_t last_bytes = 0;   ///< of the one posted last
  bool split = true;        ///< false: the clocks do not tell the waiting, which `xfer_ns` then contains
};

/// Nothing if no non-blocking collective was posted in the window, or members of one were not recorded.
std::optional<Tail> tail_of(const Interval& window, const WindowEvents& events);

}  // namespace ddl
