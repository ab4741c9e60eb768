// The events of collectives in the order of their instances: by number, then communicator, then event.
//
// The store holds them process by process. Its index leads from one event to the next of an instance by a jump into the
// table for each, which takes twenty times as long as reading the table from its begin to its end; so that is done, and
// what was read is sorted here, a bounded piece of the numbers at a time. Where all of them are one piece they are read
// once, however often they are gone through.
//
// What comes of an event, a row of table `collective`, takes its place: millions are held, and their rows come out in
// the order of the store.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "analyzer/each_row.h"
#include "analyzer/passes/instance.h"

namespace ddl {

/// A row of `event`, and of `nccl_collective` where that has one: times are then those of the kernel.
struct InstanceEvent {
  static constexpr int64_t kNone = INT64_MIN;  ///< millions are held: no std::optional
  static constexpr int32_t kNobody = INT32_MIN;

  int64_t id, seq;
  int64_t enter_ns, duration_ns;
  int64_t payload_bytes, step;  ///< kNone
  uint32_t communicator, process;
  uint32_t op : 31;
  uint32_t nonblocking : 1;
  int32_t root;  ///< comm rank; kNobody
};

/// A row of `collective`.
struct SplitEvent {
  static constexpr int64_t kNone = InstanceEvent::kNone;

  int64_t event, duration_ns;
  int64_t bytes, wait_ns, min_duration_wait_ns;  ///< kNone
  double sigma_ns;                               ///< NaN: not known
  WaitMethod method;
  Why why;
};

/// Columns of `nccl_collective` beside its times.
struct KernelOfEvent {
  int64_t share_begin = 0, share_end = 1, share_total = 1;
  int32_t comm_rank = InstanceEvent::kNobody;  ///< if it is known
  bool near_in_time = false;                   ///< timed by NCCL's profiler
};

class InstanceEvents {
 public:
  /// At most about so many are held; those of one number, or of 1/4096 of the numbers up to it, are held together
  /// however many they are.
  static constexpr int64_t kHeld = 7 << 19;

  /// Those of communicators that the store describes. `threads` as read_in_parallel() takes them
  /// (analyzer/parallel_reads.h).
  explicit InstanceEvents(SQLite::Database& db, int64_t held = kHeld, unsigned threads = 1);

  /// Goes to the next piece, at first to the first one; false: there are no more. Instances are not divided.
  /// Forgets what was put.
  bool next_piece();
  /// The next event of the piece; null: there are no more. Valid until the next piece, or until put() takes its place.
  const InstanceEvent* next();
  const KernelOfEvent& kernel_of(const InstanceEvent& event) const;
  /// Does the run have any of those?
  bool of_kernels() const { return joined_; }
  /// In place of `event`, which next() returned.
  static void put(const InstanceEvent& event, const SplitEvent& row);
  /// The rows of the piece, of whose events all were replaced, one after the other in the order of events; null:
  /// there are no more.
  class Rows {
   public:
    /// From that of `first_event` on.
    explicit Rows(const InstanceEvents& events, int64_t first_event = INT64_MIN);
    const SplitEvent* operator()() {
      while (run_ < events_.runs_.size() && place_ == events_.runs_[run_].slots.size()) ++run_, place_ = 0;
      return run_ == events_.runs_.size() ? nullptr : &events_.runs_[run_].slots[place_++].row;
    }

   private:
    const InstanceEvents& events_;
    size_t run_ = 0, place_ = 0;
  };

  /// Starts over, where nothing was put.
  void rewind();
  /// Are all of them held, so that the store is not read any more once next_piece() was called?
  bool are_held() const { return ends_.size() <= 1; }
  /// Have all of the store's been replaced, and are held?
  bool has_all_rows() const { return read_ && runs_.front().order.empty(); }
  /// When all were replaced: gives back what leads from instance to instance.
  void keep_rows();
  /// Gives their memory back: there are no more.
  void forget();

 private:
  union Slot {
    InstanceEvent event;
    SplitEvent row;
  };
  /// In the order of the store, and of instances.
  struct Run {
    std::vector<Slot> slots;
    std::vector<uint32_t> order;
    size_t next = 0;
    const InstanceEvent& front() const { return slots[order[next]].event; }
  };
  void cut(SQLite::Database& db, int64_t held);
  void read_runs(SQLite::Database& db, int64_t last_id, unsigned threads);
  EachRow rows_of(SQLite::Database& db) const;
  /// Those with these numbers and ids, the ends excluded.
  void read(EachRow& rows, Run& run, int64_t first_seq, int64_t end_seq, int64_t first_id, int64_t end_id);

  bool joined_;       ///< rows have the columns of nccl_collective
  bool coordinates_;  ///< some events are in table coordination
  EachRow rows_;
  std::unordered_set<int64_t> communicators_;
  std::vector<int64_t> ends_;  ///< of the pieces: first number behind each, the last one is beyond all
  size_t next_piece_ = 0;
  bool read_ = false;  ///< the one piece that there is
  /// of the piece at hand: one, or as many as threads read; earlier events are in earlier ones
  std::vector<Run> runs_;
  std::vector<KernelOfEvent> kernels_;  ///< of joined ones, by place in the run
};

}  // namespace ddl
