// Reads one spool file (core/format.h) from outside the process that writes it: finished, still growing, torn by a
// kill, truncated or damaged.
//
// Nothing in the file is believed. The file is read with pread into buffers whose size comes from format.h (at most one
// chunk, 4 MiB), never mapped: a mapped file that is truncated under us would be SIGBUS. The index holds one entry per
// valid chunk header; a chunk is at least a page, so the index is bounded by the file's real size. When a chunk header
// is damaged, the next valid one is looked for page by page.
//
// What is checked here: chunk headers, kinds, lengths, offsets, times that cannot be. What is not: whether the
// contexts, communicators, strings and operations that records name were ever described (the ingest decides), and their
// text, which may be any bytes.
//
// Threads: one thread at a time per reader. Reading does not change the reader, only refresh() does.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/format.h"

namespace ddl {

constexpr int32_t kMaxWorldSize = 1 << 21;  ///< of an MPI_COMM_WORLD; more is damage

/// Something in the file that could not be used.
struct Skip {
  uint64_t offset;
  uint64_t bytes;
  std::string reason;  ///< a few words: "damaged chunk header"
};

/// Reason for records from before their process began, one after the other, as a clock leaves them that was set back.
constexpr const char* kEarlyRecords = "records from before the process began";

struct SpoolChunk {
  uint64_t offset;     ///< in the file
  ChunkHeader header;  ///< as it was at the last refresh(); valid
};

/// Fact "gpu.until" of a process whose program uses CUPTI itself (collectors/cupti.cpp): "TICKS CLIENT", when we made
/// way and for whom. 0, "": not that.
uint64_t handed_over_ticks(std::string_view fact);
std::string_view handed_over_to(std::string_view fact);

/// Receives decoded meta entries in the order in which they were written. Override what you need. Views are valid
/// during the call only.
class MetaVisitor {
 public:
  virtual ~MetaVisitor() = default;
  virtual void on_string(uint32_t /*id*/, std::string_view /*text*/) {}
  virtual void on_context(const ContextMeta&) {}
  virtual void on_communicator(const CommunicatorMeta&, std::span<const RankRun>) {}
  virtual void on_communicator_name(const CommNameMeta&) {}
  virtual void on_communicator_topology(const CommNameMeta&) {}
  virtual void on_communicator_split(const CommSplitMeta&) {}
  virtual void on_operation(const OperationMeta&, std::string_view /*name*/) {}
  virtual void on_module(const ModuleMeta&, std::string_view /*path*/) {}
  virtual void on_clock(const ClockPair&) {}
  virtual void on_clock_sync(const ClockSyncMeta&) {}
  virtual void on_device_clock(const DeviceClockMeta&) {}
  virtual void on_graph_node(const GraphNodeMeta&) {}
  virtual void on_thread(const ThreadMeta&, std::string_view /*name*/) {}
  virtual void on_sample(const SampleMeta&, std::span<const SampleValue>) {}
  virtual void on_fact(std::string_view /*key*/, std::string_view /*value*/) {}
};

/// How far somebody who follows a running job has read an events, ring, device or meta chunk. A new one
/// stands at the begin.
struct FollowPosition {
  struct Open {
    uint64_t slot;  ///< as `read`, of the record
    Record record;
  };
  uint64_t read = 0;       ///< records, of a ring ever; meta: bytes of entries
  uint64_t missed = 0;     ///< records of a ring that were written over before they were read
  std::vector<Open> open;  ///< calls that had not returned
};

class SpoolReader {
 public:
  /// Opens the file, checks its header and indexes its chunks. Throws Error (kDataMissing) when this is not a spool
  /// that can be read: no such file, not a regular file, too short, wrong magic, foreign byte order, newer format.
  explicit SpoolReader(const std::string& path);
  ~SpoolReader();
  SpoolReader(SpoolReader&& other) noexcept;
  SpoolReader& operator=(SpoolReader&&) = delete;
  SpoolReader(const SpoolReader&) = delete;
  SpoolReader& operator=(const SpoolReader&) = delete;

  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return file_bytes_; }
  /// Page 0 at the last refresh(). rank and world_size make sense or are -1 and 0; latest.ticks is 0 if it
  /// was being written.
  const FileHeader& header() const { return header_; }

  /// Looks again: live part of the header, chunks that have come since, tables that were replaced. For whoever
  /// follows a running job.
  void refresh();

  /// All chunks of one kind in the order of the file; of profile tables only those that were not replaced
  /// by a larger copy.
  std::vector<SpoolChunk> chunks(ChunkKind kind) const;

  /// What the index skipped: damaged headers of chunks, chunks that the file's end cuts off, duplicates.
  std::vector<Skip> skipped() const;
  /// The file's header holds values that cannot be: they were repaired, and none of the others is proven.
  bool header_damaged() const { return header_damaged_; }

  /// Records of an events or ring chunk into `out` (replaced). Events: in the order of the file. Ring: sorted by
  /// start_ticks. Slots that are empty, or in a ring half-written, are left out; what cannot be a record is appended to
  /// `skips`, if given, as one entry per chunk.
  void read_records(const SpoolChunk& chunk, std::vector<Record>& out, std::vector<Skip>* skips = nullptr) const;
  /// Entries in use of a profile table.
  void read_profile(const SpoolChunk& chunk, std::vector<ProfileEntry>& out, std::vector<Skip>* skips = nullptr) const;
  /// Records of a device chunk.
  void read_device(const SpoolChunk& chunk, std::vector<DeviceRecord>& out, std::vector<Skip>* skips = nullptr) const;
  /// Decodes a meta chunk. A damaged entry ends its chunk, because the next one cannot be found without its length.
  void read_meta(const SpoolChunk& chunk, MetaVisitor& visitor, std::vector<Skip>* skips = nullptr) const;
  /// What has come since: records of an events or ring chunk that are finished, appended to `out` in the order of
  /// the file; calls that were open and have returned come first. Costs one read where nothing has. `chunk` as of
  /// the last refresh().
  void follow_records(const SpoolChunk& chunk, FollowPosition& position, std::vector<Record>& out) const;
  /// Leaves out all but about the newest `records` of an events or device chunk that nobody has begun to follow.
  /// Returns how many it holds.
  uint64_t follow_from_end(const SpoolChunk& chunk, FollowPosition& position, uint64_t records) const;
  /// follow_records() for a device chunk; follow_from_end() knows them, too.
  void follow_device(const SpoolChunk& chunk, FollowPosition& position, std::vector<DeviceRecord>& out) const;
  /// follow_records() for entries of a meta chunk.
  void follow_meta(const SpoolChunk& chunk, FollowPosition& position, MetaVisitor& visitor) const;
  /// Closes the file until the next read opens it again, for a program that follows more files than it may have
  /// open. Only the file that it was counts: in the place of a removed or another one refresh() throws, and other
  /// reads find nothing.
  void release();
  /// Opens it before the next read does; throws if that cannot be done.
  void acquire();
  /// All chunks in the order of the file, also tables that were replaced. More may be appended by refresh(), none goes.
  std::span<const SpoolChunk> all_chunks() const { return chunks_; }

  /// All meta chunks.
  void read_meta(MetaVisitor& visitor, std::vector<Skip>* skips = nullptr) const;

 private:
  size_t read_at(uint64_t offset, void* to, size_t bytes) const;
  /// What there is of the chunk, in `buffer`, which only ever grows: whoever reads many chunks keeps it.
  std::span<const unsigned char> read_chunk(const SpoolChunk& chunk, std::vector<unsigned char>& buffer) const;
  void read_header();
  void index();
  uint64_t find_chunk(uint64_t offset, ChunkHeader& header, bool& only_zeros) const;
  bool plausible(uint64_t start_ticks, uint64_t end_ticks) const;
  bool plausible(const Record& record) const;
  bool is_early(const Record& record) const;
  static bool is_known(const Record& record);  ///< kind and operation
  bool plausible(const DeviceRecord& record) const;
  bool has_later(const SpoolChunk& chunk) const;  ///< one of its thread and kind
  /// Appends what the record says.
  static void add_record(const Record& record, std::vector<Record>& out);

  bool reopen() const;

  std::string path_;
  mutable int fd_ = -1;  ///< -1: released
  uint64_t device_ = 0, inode_ = 0;
  uint64_t file_bytes_ = 0;
  uint64_t next_offset_ = 0;   ///< where the walk over the chunks goes on
  uint64_t latest_ticks_ = 0;  ///< newest moment that a checked field names
  FileHeader header_ = {};
  std::vector<SpoolChunk> chunks_;
  std::unordered_set<uint64_t> indices_;
  std::vector<Skip> skips_;
  std::optional<Skip> tail_;  ///< damage at the end of the file that may yet turn out to be a chunk in the making
  bool header_damaged_ = false;
};

/// Text of a fixed-size field, up to its first NUL.
template <size_t N>
std::string_view fixed_text(const char (&field)[N]) {
  const std::string_view all(field, N);
  return all.substr(0, all.find('\0'));
}

}  // namespace ddl
