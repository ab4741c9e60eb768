// Where the time of a training thread went while a background thread communicated for it (specification.md J2, J3),
// from samples of how long it had run. Between two samples it is taken to have run evenly; communication begins and
// ends at samples, so that lengths inside it are nearly exact.
//
//   busy      on a CPU or ready for one, and not polling for another thread: computing
//   blocked   the rest: asleep, or polling
//   exposed   in MPI calls of its own, or blocked while data was being moved or this rank waited for others
//   waiting   blocked, in collectives before the last rank entered, and from when this rank was ready for a reduction
//             until all were; or waiting in its own calls
//   idle      otherwise blocked: input, coordination, sleep
//   input     loading data, outside of exposed: idle as far as there is any, since loaders mostly wait, and
//             computing beyond that
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analyzer/passes/background.h"
#include "analyzer/passes/partition.h"

namespace ddl {

/// Activities of a rank's training thread.
enum class TrainingState { kUnknown, kComputing, kPolling, kAsleep };
/// From its shares of a time. `busy`: on a CPU or ready for one; `spun`: of that, polling for another thread.
TrainingState training_state(double busy, double spun);
/// "computing", "polling", "asleep", as in table pending_negotiation; empty: unknown.
std::string_view name_of(TrainingState state);

/// How long a thread was busy, from its samples.
class BusyTime {
 public:
  struct Sample {
    int64_t at_ns;
    double busy_ns;  ///< since the thread began; never less than the one before
  };
  explicit BusyTime(std::vector<Sample> samples) : samples_(std::move(samples)) {}

  /// Are there samples near both its ends?
  bool covers(const Interval& interval) const;
  double busy_ns(const Interval& interval) const;
  double blocked_ns(const Interval& interval) const;
  double blocked_ns(const IntervalSet& intervals) const;

 private:
  double busy_until(int64_t at_ns) const;

  std::vector<Sample> samples_;
};

BusyTime read_busy_time(SQLite::Database& db, int64_t process);

/// The training thread of one process.
class TrainingThread {
 public:
  TrainingThread(SQLite::Database& db, int64_t process, const BackgroundProcess& background);

  /// `inputs`: ranges of the training thread that load data. Nothing: not sampled then.
  std::optional<Partition> partition(const Interval& window, const std::vector<Interval>& inputs) const;
  /// False: ranks negotiate, and what they say cannot be read. Then `idle` contains waiting for others.
  bool tells_waiting() const { return tells_waiting_; }
  /// Whether the waiting of a window is a lower bound: ranks left no record of a data operation in it
  /// (specification.md J7).
  bool is_bounded(const Interval& window) const { return reaches_into(bounded_, window); }
  /// Whether it holds data operations of whose waiting nothing is known, because too many ranks left no record.
  bool is_unsplit(const Interval& window) const { return reaches_into(unsplit_, window); }

 private:
  static bool reaches_into(const IntervalSet& set, const Interval& window);

  BusyTime busy_;
  IntervalSet data_;         ///< H: data operations of background threads
  IntervalSet moving_;       ///< H without the waiting in it
  IntervalSet waiting_;      ///< for other ranks, within data operations and before
  IntervalSet own_;          ///< MPI calls of the training thread itself
  IntervalSet own_waiting_;  ///< for other ranks, within those
  IntervalSet bounded_;      ///< data operations whose waiting is a lower bound
  IntervalSet unsplit_;      ///< data operations whose waiting is not known
  bool tells_waiting_ = true;
};

}  // namespace ddl
