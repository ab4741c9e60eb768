// Puts a spool together byte by byte from core/format.h alone. It shares no code with the recorder, so that a
// misunderstanding between the two sides shows in a test. It checks nothing: odd spools are what it is for.
//
//     SpoolBuilder spool;
//     spool.header().rank = 0;
//     const size_t log = spool.add_chunk(ChunkKind::kEvents, kMinChunkBytes, 0);
//     spool.append(log, {100, record_word(RecordKind::kCall, 16, 50), 0, 1, 0, 1, -1});
//     spool.string(1, "forward");
//     spool.write(folder / "n0.1.1.spool");
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "core/format.h"

namespace ddl::test {

class SpoolBuilder {
 public:
  /// A header as the recorder writes it before MPI_Init: valid, rank unknown.
  SpoolBuilder();

  FileHeader& header() { return header_; }
  const FileHeader& header() const { return header_; }

  /// Appends a zeroed chunk with a valid header. Its number is its position in the file. `bytes` may be anything that
  /// holds the header.
  size_t add_chunk(ChunkKind kind, uint32_t bytes = kMinChunkBytes, uint32_t thread = 0);
  /// The begin of chunks that are added from now on.
  void set_time(uint64_t ticks, uint64_t monotonic_ns);
  size_t chunk_count() const { return chunks_.size(); }
  /// The chunk's header, in place. After a change of a constant field call seal().
  ChunkHeader& chunk(size_t number);
  /// All of the chunk, header included.
  std::span<unsigned char> bytes(size_t number) { return chunks_[number].bytes; }
  /// Where the chunk begins in the file.
  uint64_t offset(size_t number) const;
  void seal(size_t number) { chunk(number).check = chunk_check(chunk(number)); }

  static uint32_t record_slots(uint32_t chunk_bytes) {
    return static_cast<uint32_t>((chunk_bytes - sizeof(ChunkHeader)) / sizeof(Record));
  }
  /// Writes one record. False: no such slot.
  bool put(size_t number, uint32_t slot, const Record& record);
  /// Behind the records that append() wrote so far. False: the chunk is full.
  bool append(size_t number, const Record& record);
  bool append_device(size_t number, const DeviceRecord& record);
  bool put_profile(size_t number, uint32_t slot, const ProfileEntry& entry);

  // Meta entries go to the last meta chunk; a new one is made when it is full (or there is none).
  void string(uint32_t id, std::string_view text);
  void context(const ContextMeta& meta) { meta_entry(MetaKind::kContext, {bytes_of(meta)}); }
  void communicator(CommunicatorMeta meta, const std::vector<RankRun>& runs);
  void communicator_name(uint32_t index, uint32_t string_id) {
    meta_entry(MetaKind::kCommName, {bytes_of(CommNameMeta{index, string_id})});
  }
  void operation(uint32_t op, OpClass op_class, bool nonblocking, std::string_view name);
  void module(uint64_t begin, uint64_t end, uint64_t file_offset, std::string_view path);
  void clock_sync(const ClockSyncMeta& meta) { meta_entry(MetaKind::kClockSync, {bytes_of(meta)}); }
  void clock(const ClockPair& pair) { meta_entry(MetaKind::kClock, {bytes_of(pair)}); }
  void device_clock(const DeviceClockMeta& meta) { meta_entry(MetaKind::kDeviceClock, {bytes_of(meta)}); }
  void graph_node(const GraphNodeMeta& meta) { meta_entry(MetaKind::kGraphNode, {bytes_of(meta)}); }
  void thread(uint32_t thread, uint32_t tid, std::string_view name);
  void fact(std::string_view key, std::string_view value);
  /// Any entry: `parts` one behind the other, padded to 8.
  void meta_entry(MetaKind kind, std::initializer_list<std::string_view> parts);

  template <class T>
  static std::string_view bytes_of(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }

  /// The whole file in memory: for tests that damage it before they write it.
  std::vector<unsigned char> image() const;
  void write(const std::filesystem::path& path) const;

 private:
  struct Chunk {
    std::vector<unsigned char> bytes;
    size_t used = sizeof(ChunkHeader);  ///< by append() and meta entries
  };
  std::vector<unsigned char> first_page() const;

  FileHeader header_ = {};
  std::vector<Chunk> chunks_;
  size_t meta_chunk_ = SIZE_MAX;
  uint64_t ticks_ = 0, monotonic_ns_ = 0;
};

/// Writes a file with mode 0600; throws std::runtime_error when it cannot.
void write_bytes(const std::filesystem::path& path, std::span<const unsigned char> bytes);

}  // namespace ddl::test
