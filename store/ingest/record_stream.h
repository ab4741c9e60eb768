// The finished records of one process's log, over all threads, in order of start.
//
// A thread's calls are already in that order; requests and ranges are written when they end and so lie later in the log
// than they began. So each chunk is sorted by itself and the chunks are merged; a chunk is read when the merge reaches
// its earliest record and dropped when used up. That holds two or three chunks of each thread at a time unless requests
// stay open for very long. Beyond kMaxChunks and one a thread, order is given up rather than memory.
#pragma once

#include <cstdint>
#include <vector>

#include "core/reader.h"
#include "store/ingest/timeline.h"

namespace ddl::store {

/// A kind, for RecordStream::rewind().
constexpr uint32_t bit(RecordKind kind) { return 1u << static_cast<uint32_t>(kind); }

class RecordStream {
 public:
  RecordStream(const SpoolReader& reader, const Timeline& timeline);

  /// Starts over with the records of `kinds` (bits of `bit()`) only. Chunks without any are not read.
  void rewind(uint32_t kinds);
  /// The next record, or nullptr at the end. Valid until the next call.
  const Record* next();
  /// For that record.
  uint32_t thread() const { return loaded_.front().thread; }
  /// Bytes of chunks read since rewind().
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  struct Waiting {
    const EventChunk* chunk;
    uint32_t thread;
  };
  struct Loaded {
    uint32_t thread = 0;
    std::vector<Record> records;
    size_t position = 0;
    const Record& front() const { return records[position]; }
  };
  void load(const Waiting& waiting);

  const SpoolReader& reader_;
  const Timeline& timeline_;
  std::vector<Waiting> waiting_;  ///< latest first
  std::vector<Loaded> loaded_;    ///< heap: the one with the earliest record on top
  std::vector<Loaded> spare_;
  uint32_t kinds_ = 0;
  uint64_t bytes_read_ = 0;
};

}  // namespace ddl::store
