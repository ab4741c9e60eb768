// The finished records of one process's log, thread by thread, in the order of their start.
//
// A thread's calls are already in that order; requests and ranges are written when they end and so lie later in the log than they
// began. So each chunk is sorted by itself and the chunks of a thread are merged; a chunk is read when the merge reaches its earliest
// record and forgotten when it is used up. That holds two or three chunks at a time unless requests stay open for very long. Beyond
// kMaxChunks the order is given up rather than the memory.
#pragma once

#include <cstdint>
#include <vector>

#include "core/reader.h"
#include "store/ingest/timeline.h"

namespace ddl::store {

class RecordStream {
 public:
  RecordStream(const SpoolReader& reader, const Timeline& timeline);

  /// Starts over and delivers only records whose kind is in `kinds` (bit 1 << kind). Chunks without any are not read.
  void rewind(uint32_t kinds);
  /// The next record, or nullptr at the end. Valid until the next call.
  const Record* next();
  uint32_t thread() const { return thread_->first; }
  /// Bytes of chunks read since rewind().
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  struct Loaded {
    std::vector<Record> records;
    size_t position = 0;
    const Record& front() const { return records[position]; }
  };
  void enter_thread();
  void load(const EventChunk& chunk);

  const SpoolReader& reader_;
  const Timeline& timeline_;
  std::map<uint32_t, std::vector<EventChunk>>::const_iterator thread_;
  std::vector<EventChunk> waiting_;  ///< of this thread, latest first
  std::vector<Loaded> loaded_;       ///< heap: the one with the earliest record on top
  std::vector<Loaded> spare_;
  uint32_t kinds_ = 0;
  uint64_t bytes_read_ = 0;
};

}  // namespace ddl::store
