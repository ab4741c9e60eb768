// First pass over one process's records: what must be known before its events are written.
//
//   steps        also those that were begun and never ended, and those whose end only the ring still has
//   open calls   records that stayed kOpen at the end of their thread: where a killed or hung process sat. An open
//                record that its thread has left behind (it recorded something that ended later) is not a call in
//                progress, whatever happened to it: counted.
//                has left behind (it recorded something that ended later) is not a call in progress, whatever
//                happened to it: counted.
//   chunks       when each events chunk begins, so that they can be merged in the order of time
//
// Ring records count only here: they tell which calls are open and which steps ended, they are not events.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/reader.h"

namespace ddl::store {

struct Step {
  uint32_t thread = 0;
  uint64_t number = 0;
  uint64_t start_ticks = 0;
  std::optional<uint64_t> duration_ticks;  ///< unset: never ended
  uint64_t mpi_ticks = 0;
};

/// The step at a moment of a process. Steps of several threads may overlap; the one that began last counts. A number
/// that is used again (each epoch counts from 0, or a job goes back to its checkpoint) names its first use that ended,
/// which is the one that the analyzer measures: what lies in the others only is in no step, or sums by number would be
/// of all uses, and their time of one.
class StepIndex {
 public:
  StepIndex() = default;
  /// A step that never ended lasts until the next one of its thread, or for ever.
  explicit StepIndex(const std::vector<Step>& steps);
  std::optional<uint64_t> at(uint64_t ticks) const { return at(ticks, spans_before(ticks)); }
  /// Whether `steps[i]` is the use of its number that counts.
  bool is_measured(size_t i) const { return spans_[i].is_counted; }

  /// Answers as at(), faster where moments come nearly in order. Refers to the index.
  class Cursor {
   public:
    explicit Cursor(const StepIndex& index) : index_(index) {}
    std::optional<uint64_t> at(uint64_t ticks);

   private:
    const StepIndex& index_;
    size_t before_ = 0;  ///< spans_before() the last moment
  };

 private:
  /// How many begin at a moment or before it.
  size_t spans_before(uint64_t ticks) const;
  bool are_before(size_t count, uint64_t ticks) const {
    return (count == 0 || spans_[count - 1].begin <= ticks) && (count >= spans_.size() || ticks < spans_[count].begin);
  }
  std::optional<uint64_t> at(uint64_t ticks, size_t before) const;

  struct Span {
    uint64_t begin, end, number;
    uint64_t counted_begin, counted_end;  ///< of the use of the number that counts
    uint64_t latest_end;                  ///< of this span and all before it
    bool is_counted;                      ///< it is that use
  };
  std::vector<Span> spans_;  ///< by begin
};

struct EventChunk {
  SpoolChunk chunk;
  uint64_t first_ticks;         ///< earliest start of a record in it
  uint32_t kinds;               ///< of its records: bits 1 << RecordKind
  std::vector<Record> records;  ///< all of them, for a small spool: it is not read again for each kind
};

struct ThreadRecord {
  uint32_t thread;
  Record record;
};

struct Timeline {
  std::vector<Step> steps;  ///< by start
  StepIndex step_index;
  std::vector<ThreadRecord> open_calls;                ///< by thread and start
  std::map<uint32_t, std::vector<EventChunk>> events;  ///< by thread; chunks without records are left out
  bool has_nccl_calls = false;
  uint64_t newest_ticks = 0;  ///< the latest moment in the spool
  uint64_t abandoned = 0;     ///< open records left behind by their thread
  std::vector<Skip> skips;    ///< damaged records

  /// Are there records of these kinds (bits 1 << RecordKind)?
  bool has(uint32_t kinds) const { return (all_kinds & kinds) != 0; }
  uint32_t all_kinds = 0;
};

Timeline read_timeline(const SpoolReader& reader);

}  // namespace ddl::store
