// The events of collectives in the order of their instances: by number, then communicator, then event.
//
// The store holds them process by process. Its index leads from one event to the next of an instance by a jump into the table for each, which
// takes twenty times as long as reading the table from its begin to its end; so that is done, and what was read is sorted here, a bounded
// piece of the numbers at a time. Where all of them are one piece they are read once, however often they are gone through.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/query.h"

namespace ddl {

/// A row of `event`, and of `nccl_collective` where that has one: times are then those of the kernel.
struct InstanceEvent {
  struct Share {
    int64_t begin = 0, end = 1, total = 1;
  };
  static constexpr int64_t kNone = INT64_MIN;  ///< millions are held: no std::optional
  static constexpr int32_t kNobody = INT32_MIN;

  int64_t id = 0, seq = 0;
  int64_t enter_ns = 0, duration_ns = 0;
  int64_t payload_bytes = kNone, step = kNone;
  uint32_t communicator = 0, process = 0, op = 0;
  int32_t root = kNobody;       ///< comm rank
  int32_t comm_rank = kNobody;  ///< NCCL's, if it is known
  uint32_t share = 0;           ///< place in InstanceEvents::share_of(); 0: none
  bool nonblocking = false;
  bool near_in_time = false;  ///< timed by NCCL's profiler
};

class InstanceEvents {
 public:
  /// At most about so many are held; those of one number, or of 1/4096 of the numbers up to it, are held together however many they are.
  static constexpr int64_t kHeld = 7 << 19;

  /// `threads` as read_in_parallel() takes them (analyzer/parallel_reads.h).
  explicit InstanceEvents(SQLite::Database& db, int64_t held = kHeld, unsigned threads = 1);

  /// The next one; null: there are no more. Valid until the next call.
  const InstanceEvent* next();
  /// Starts over.
  void rewind();
  /// Are all of them held, so that next() does not read the store any more once it was called?
  bool are_held() const { return ends_.size() <= 1; }
  /// Gives their memory back: there are no more.
  void forget();
  const InstanceEvent::Share& share_of(const InstanceEvent& event) const { return shares_[event.share]; }

 private:
  /// In the order of instances.
  struct Run {
    std::vector<InstanceEvent> events;
    size_t next = 0;
  };
  void cut(SQLite::Database& db, int64_t held);
  void read_piece();
  void read_runs(SQLite::Database& db, int64_t last_id, unsigned threads);
  void read(Query& rows, Run& run);

  bool joined_;  ///< rows have the columns of nccl_collective
  std::string sql_;
  Query rows_;
  std::vector<int64_t> ends_;  ///< of the pieces: first number behind each, the last one is beyond all
  size_t next_piece_ = 0;
  std::vector<Run> runs_;  ///< of the piece at hand: one, or as many as threads read; earlier events are in earlier ones
  std::vector<InstanceEvent::Share> shares_;
};

}  // namespace ddl
