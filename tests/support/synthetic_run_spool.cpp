#include "tests/support/synthetic_run_spool.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <stdexcept>

namespace ddl::test {
namespace {

void append_to(std::ofstream& file, std::span<const unsigned char> bytes) {
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

std::ofstream open_for_writing(const std::filesystem::path& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file) throw std::runtime_error("cannot write " + path.string());
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  return file;
}

void finish(std::ofstream& file, const std::filesystem::path& path) {
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

SpoolBuilder::SpoolBuilder() {
  std::memcpy(header_.magic, kSpoolMagic, sizeof header_.magic);
  header_.format_version = kFormatVersion;
  header_.byte_order = kByteOrderMark;
  header_.header_bytes = kPageBytes;
  header_.record_bytes = sizeof(Record);
  header_.clock = static_cast<uint32_t>(ClockKind::kMonotonic);
  header_.pid = 1;
  header_.process_start = 1;
  std::strcpy(header_.host, "node0");
  std::strcpy(header_.boot_id, "00000000-0000-4000-8000-000000000000");
  std::strcpy(header_.library_version, "synthetic");
  header_.rank = -1;
  header_.thread_level = -1;
}

size_t SpoolBuilder::add_chunk(ChunkKind kind, uint32_t bytes, uint32_t thread) {
  chunks_.emplace_back().bytes.resize(std::max<size_t>(bytes, sizeof(ChunkHeader)));
  const size_t number = chunks_.size() - 1;
  ChunkHeader& h = chunk(number);
  h.magic = kChunkMagic;
  h.kind = static_cast<uint32_t>(kind);
  h.bytes = bytes;
  h.thread = kind == ChunkKind::kMeta || kind == ChunkKind::kDevice ? UINT32_MAX : thread;
  h.index = number;
  h.begin_ticks = ticks_;
  h.begin_monotonic_ns = monotonic_ns_;
  seal(number);
  if (kind == ChunkKind::kEvents || kind == ChunkKind::kDevice) header_.log_bytes += bytes;
  if (kind == ChunkKind::kMeta) meta_chunk_ = number;
  return number;
}

void SpoolBuilder::set_time(uint64_t ticks, uint64_t monotonic_ns) {
  ticks_ = ticks;
  monotonic_ns_ = monotonic_ns;
}

// The vector's memory comes from operator new, which aligns it for any of the structs.
ChunkHeader& SpoolBuilder::chunk(size_t number) {
  return *reinterpret_cast<ChunkHeader*>(chunks_[number].bytes.data());
}

uint64_t SpoolBuilder::offset(size_t number) const {
  uint64_t offset = std::max<uint64_t>(header_.header_bytes, sizeof(FileHeader));
  for (size_t i = 0; i < number; ++i) offset += chunks_[i].bytes.size();
  return offset;
}

bool SpoolBuilder::put(size_t number, uint32_t slot, const Record& record) {
  Chunk& to = chunks_[number];
  const size_t at = sizeof(ChunkHeader) + size_t{slot} * sizeof record;
  if (at + sizeof record > to.bytes.size()) return false;
  std::memcpy(&to.bytes[at], &record, sizeof record);
  return true;
}

bool SpoolBuilder::append(size_t number, const Record& record) {
  Chunk& to = chunks_[number];
  if (!put(number, static_cast<uint32_t>((to.used - sizeof(ChunkHeader)) / sizeof record), record)) return false;
  to.used += sizeof record;
  return true;
}

bool SpoolBuilder::append_device(size_t number, const DeviceRecord& record) {
  Chunk& to = chunks_[number];
  if (to.used + sizeof record > to.bytes.size()) return false;
  std::memcpy(&to.bytes[to.used], &record, sizeof record);
  to.used += sizeof record;
  return true;
}

bool SpoolBuilder::put_profile(size_t number, uint32_t slot, const ProfileEntry& entry) {
  Chunk& to = chunks_[number];
  const size_t at = kProfileOffset + size_t{slot} * sizeof entry;
  if (at + sizeof entry > to.bytes.size()) return false;
  std::memcpy(&to.bytes[at], &entry, sizeof entry);
  return true;
}

void SpoolBuilder::string(uint32_t id, std::string_view text) {
  meta_entry(MetaKind::kString, {bytes_of(StringMeta{id, static_cast<uint32_t>(text.size())}), text});
}

void SpoolBuilder::communicator(CommunicatorMeta meta, const std::vector<RankRun>& runs) {
  meta.runs = static_cast<uint32_t>(runs.size());
  meta_entry(MetaKind::kCommunicator,
             {bytes_of(meta), {reinterpret_cast<const char*>(runs.data()), runs.size() * sizeof(RankRun)}});
}

void SpoolBuilder::operation(uint32_t op, OpClass op_class, bool nonblocking, std::string_view name) {
  const OperationMeta meta = {op, static_cast<uint32_t>(op_class), nonblocking ? 1u : 0u,
                              static_cast<uint32_t>(name.size())};
  meta_entry(MetaKind::kOperation, {bytes_of(meta), name});
}

void SpoolBuilder::module(uint64_t begin, uint64_t end, uint64_t file_offset, std::string_view path) {
  meta_entry(MetaKind::kModule,
             {bytes_of(ModuleMeta{begin, end, file_offset, static_cast<uint32_t>(path.size()), 0}), path});
}

void SpoolBuilder::thread(uint32_t thread, uint32_t tid, std::string_view name) {
  meta_entry(MetaKind::kThread, {bytes_of(ThreadMeta{thread, tid, static_cast<uint32_t>(name.size()), 0}), name});
}

void SpoolBuilder::fact(std::string_view key, std::string_view value) {
  meta_entry(MetaKind::kFact,
             {bytes_of(FactMeta{static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())}), key, value});
}

void SpoolBuilder::meta_entry(MetaKind kind, std::initializer_list<std::string_view> parts) {
  size_t total = sizeof(MetaHeader);
  for (const std::string_view part : parts) total += part.size();
  total = (total + 7) / 8 * 8;
  if (meta_chunk_ == SIZE_MAX || chunks_[meta_chunk_].used + total > chunks_[meta_chunk_].bytes.size()) {
    const size_t needed = (sizeof(ChunkHeader) + total + kPageBytes - 1) / kPageBytes * kPageBytes;
    add_chunk(ChunkKind::kMeta, static_cast<uint32_t>(std::max<size_t>(needed, kMinChunkBytes)));
  }
  Chunk& to = chunks_[meta_chunk_];
  const uint64_t word = meta_word(kind, total);
  std::memcpy(&to.bytes[to.used], &word, sizeof word);
  size_t at = to.used + sizeof word;
  for (const std::string_view part : parts) {
    if (!part.empty()) std::memcpy(&to.bytes[at], part.data(), part.size());
    at += part.size();
  }
  to.used += total;
}

std::vector<unsigned char> SpoolBuilder::first_page() const {
  std::vector<unsigned char> page(offset(0));
  std::memcpy(page.data(), &header_, sizeof header_);
  return page;
}

std::vector<unsigned char> SpoolBuilder::image() const {
  std::vector<unsigned char> all = first_page();
  for (const Chunk& chunk : chunks_) all.insert(all.end(), chunk.bytes.begin(), chunk.bytes.end());
  return all;
}

void SpoolBuilder::write(const std::filesystem::path& path) const {
  std::ofstream file = open_for_writing(path);
  append_to(file, first_page());
  for (const Chunk& chunk : chunks_) append_to(file, chunk.bytes);
  finish(file, path);
}

void write_bytes(const std::filesystem::path& path, std::span<const unsigned char> bytes) {
  std::ofstream file = open_for_writing(path);
  append_to(file, bytes);
  finish(file, path);
}

}  // namespace ddl::test
