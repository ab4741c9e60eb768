#include "core/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/error.h"
#include "core/regular_file.h"

namespace ddl {

namespace {

/// Records may be newer than every stamp that we know, by what can happen between two refreshes of the
/// header: never hours.
constexpr uint64_t kSlackTicks = 1ull << 44;
constexpr uint64_t kFewestEarly = 8;  // records in a row: damage does not make so many alike
/// Bounds of profile sums: petabytes and years, small enough that sums over all entries of a run stay far from 2^63.
constexpr uint64_t kMaxCalls = 1ull << 48;
constexpr uint64_t kMaxProfileBytes = 1ull << 53;
constexpr uint64_t kMaxProfileTicks = 1ull << 56;

bool is_chunk(const ChunkHeader& h) {
  return h.magic == kChunkMagic && h.check == chunk_check(h) && h.bytes >= kPageBytes && h.bytes <= kMaxChunkBytes &&
         h.bytes % kPageBytes == 0;
}

bool all_zero(const unsigned char* bytes, size_t count) {
  return count == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0);
}

Error unreadable(const std::string& path, const std::string& why, std::string hint = {}) {
  return Error("cannot read " + path + ": " + why, std::move(hint), ExitCode::kDataMissing);
}

/// As a writer leaves it: a text, and zeros.
template <size_t kBytes>
bool is_padded(const char (&field)[kBytes]) {
  const char* end = std::find(field, field + kBytes, '\0');
  return end != field + kBytes && std::all_of(end, field + kBytes, [](char c) { return c == '\0'; });
}

/// Values that no writer leaves. What they should be nobody knows, and others of the page may be wrong unseen.
bool repair(FileHeader& h) {
  bool wrong = !is_padded(h.host) || !is_padded(h.library_version) ||
               std::any_of(std::begin(h.loss), std::end(h.loss), [](uint64_t count) { return count >= kMaxCalls; });
  if (!is_padded(h.boot_id)) {
    memset(h.boot_id, 0, sizeof h.boot_id);
    wrong = true;
  }
  if (h.latest.ticks > h.begin.ticks && h.latest.ticks - h.begin.ticks > kMaxProfileTicks) {
    h.latest = h.begin;
    wrong = true;
  }
  if (h.overhead_ticks > kMaxProfileTicks) {
    h.overhead_ticks = 0;
    wrong = true;
  }
  return wrong;
}

void add_skip(std::vector<Skip>* skips, uint64_t offset, uint64_t bytes, const char* reason) {
  if (skips && bytes > 0) skips->push_back({offset, bytes, reason});
}

}  // namespace

uint64_t handed_over_ticks(std::string_view fact) {
  uint64_t ticks = 0;
  std::from_chars(fact.data(), fact.data() + fact.size(), ticks);
  return ticks;
}

std::string_view handed_over_to(std::string_view fact) {
  const size_t space = fact.find(' ');
  return space == std::string_view::npos ? std::string_view() : fact.substr(space + 1);
}

// ------------------------------------------------------------------------------------------------------------- opening

SpoolReader::SpoolReader(const std::string& path) : path_(path) {
  fd_ = open_regular_file(path, NamedBy::kFolder);
  try {
    refresh();
  } catch (...) {
    close(fd_);
    throw;
  }
}

SpoolReader::~SpoolReader() {
  if (fd_ >= 0) close(fd_);
}

SpoolReader::SpoolReader(SpoolReader&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      device_(other.device_),
      inode_(other.inode_),
      file_bytes_(other.file_bytes_),
      next_offset_(other.next_offset_),
      latest_ticks_(other.latest_ticks_),
      header_(other.header_),
      chunks_(std::move(other.chunks_)),
      indices_(std::move(other.indices_)),
      skips_(std::move(other.skips_)),
      tail_(std::move(other.tail_)),
      header_damaged_(other.header_damaged_) {}

void SpoolReader::acquire() {
  if (fd_ < 0 && !reopen()) throw unreadable(path_, strerror(errno));
}

void SpoolReader::release() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

bool SpoolReader::reopen() const {
  fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
  struct stat status;
  if (fd_ < 0 || fstat(fd_, &status) != 0) return false;
  if (status.st_dev == device_ && status.st_ino == inode_) return true;
  close(std::exchange(fd_, -1));
  errno = ESTALE;
  return false;
}

void SpoolReader::refresh() {
  struct stat status;
  if ((fd_ < 0 && !reopen()) || fstat(fd_, &status) != 0) throw unreadable(path_, strerror(errno));
  if (!S_ISREG(status.st_mode)) throw unreadable(path_, "not a regular file");
  device_ = status.st_dev;
  inode_ = status.st_ino;
  file_bytes_ = static_cast<uint64_t>(status.st_size);
  read_header();
  for (SpoolChunk& chunk : chunks_) {  // rings are written: their headers change
    ChunkHeader now;
    if (chunk.header.kind == static_cast<uint32_t>(ChunkKind::kRing) &&
        read_at(chunk.offset, &now, sizeof now) == sizeof now && is_chunk(now))
      chunk.header = now;
  }
  index();
}

void SpoolReader::read_header() {
  FileHeader h;
  if (read_at(0, &h, sizeof h) != sizeof h)
    throw unreadable(path_, "shorter than a spool's header", "the process ended before it recorded anything");
  if (memcmp(h.magic, kSpoolMagic, sizeof h.magic) != 0) {
    static const char nothing[sizeof h.magic] = {};
    if (memcmp(h.magic, nothing, sizeof nothing) == 0)
      throw unreadable(path_, "its header was never finished, or is lost",
                       "the process ended while it made the file, or somebody has emptied it");
    throw unreadable(path_, "not a ddl spool");
  }
  if (h.byte_order != kByteOrderMark) {
    if (h.byte_order == __builtin_bswap32(kByteOrderMark)) {
      throw unreadable(path_, "written on a machine of the other byte order",
                       "run ddl on a machine like the one that ran the job");
    }
    throw unreadable(path_, "its header is damaged");
  }
  if (h.format_version > kFormatVersion) {
    throw unreadable(path_, "spool format " + std::to_string(h.format_version) + " is newer than this program",
                     "use the ddl that belongs to the libddl.so of the job, or a later one");
  }
  if (h.format_version != 0 && h.format_version < kFormatVersion) {
    throw unreadable(path_, "spool format " + std::to_string(h.format_version) + " is older than this program",
                     "use the ddl that belongs to the libddl.so of the job");
  }
  const bool known_clock =
      h.clock == static_cast<uint32_t>(ClockKind::kTsc) || h.clock == static_cast<uint32_t>(ClockKind::kMonotonic);
  if (h.format_version == 0 || h.record_bytes != sizeof(Record) || !known_clock)
    throw unreadable(path_, "its header is damaged");

  header_damaged_ = repair(h);
  if (h.header_bytes < kPageBytes || h.header_bytes % kPageBytes != 0 || h.header_bytes > kMaxChunkBytes) {
    h.header_bytes = kPageBytes;
    header_damaged_ = true;
  }
  const bool no_world = h.rank == -1 && h.world_size == 0;
  if (!no_world && (h.world_size < 0 || h.world_size > kMaxWorldSize || h.rank < -1 || h.rank >= h.world_size)) {
    h.rank = -1;
    h.world_size = 0;
    header_damaged_ = true;
  }
  if (header_damaged_) std::fill(std::begin(h.loss), std::end(h.loss), 0);
  header_ = h;
  latest_ticks_ = std::max({latest_ticks_, h.begin.ticks, h.latest.ticks});
}

size_t SpoolReader::read_at(uint64_t offset, void* to, size_t bytes) const {
  size_t done = 0;
  if (fd_ < 0 && !reopen()) return 0;
  while (done < bytes) {
    const ssize_t got = pread(fd_, static_cast<char*>(to) + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;  // end of file, or a bad sector: what is missing shows as such
    done += static_cast<size_t>(got);
  }
  return done;
}

// ----------------------------------------------------------------------------------------------------------- the index

void SpoolReader::index() {
  tail_.reset();
  if (next_offset_ == 0) next_offset_ = header_.header_bytes;
  while (next_offset_ < file_bytes_) {
    bool only_zeros = false;
    SpoolChunk chunk = {};
    const uint64_t found = find_chunk(next_offset_, chunk.header, only_zeros);
    if (found == file_bytes_) {  // zeros: space that was allocated for later
      if (!only_zeros) tail_ = Skip{next_offset_, file_bytes_ - next_offset_, "no chunk header"};
      return;
    }
    if (found > next_offset_) skips_.push_back({next_offset_, found - next_offset_, "damaged chunk header"});
    chunk.offset = found;
    next_offset_ = found + chunk.header.bytes;
    if (chunk.header.kind == 0 || chunk.header.kind > static_cast<uint32_t>(ChunkKind::kDevice)) {
      skips_.push_back({found, chunk.header.bytes, "chunk of an unknown kind"});
    } else if (!indices_.insert(chunk.header.index).second) {
      skips_.push_back({found, chunk.header.bytes, "the same chunk twice"});
    } else {
      latest_ticks_ = std::max(latest_ticks_, chunk.header.begin_ticks);
      chunks_.push_back(chunk);
    }
  }
  if (next_offset_ > file_bytes_) tail_ = Skip{file_bytes_, next_offset_ - file_bytes_, "the file ends inside a chunk"};
}

/// Offset of the first valid chunk header at or after `offset`, on page boundaries relative to the first chunk, and
/// that header; the file's size if there is none.
uint64_t SpoolReader::find_chunk(uint64_t offset, ChunkHeader& header, bool& only_zeros) const {
  if (read_at(offset, &header, sizeof header) == sizeof header && is_chunk(header)) return offset;
  only_zeros = true;
  thread_local std::vector<unsigned char> block(64 * kPageBytes);
  while (offset < file_bytes_) {
    const size_t got = read_at(offset, block.data(), block.size());
    if (got == 0) break;
    bool zeros = true;
    for (size_t at = 0; at < got; at += kPageBytes) {
      const size_t bytes = std::min<size_t>(kPageBytes, got - at);
      if (all_zero(&block[at], bytes)) continue;
      zeros = only_zeros = false;
      if (bytes < sizeof header) continue;
      memcpy(&header, &block[at], sizeof header);
      if (is_chunk(header)) return offset + at;
    }
    offset += got;
    if (zeros && offset < file_bytes_) {  // a file may claim terabytes that are holes
      const off_t data = lseek(fd_, static_cast<off_t>(offset), SEEK_DATA);
      if (data < 0 && errno == ENXIO) break;
      if (data > static_cast<off_t>(offset)) offset += (static_cast<uint64_t>(data) - offset) / kPageBytes * kPageBytes;
    }
  }
  return file_bytes_;
}

std::vector<SpoolChunk> SpoolReader::chunks(ChunkKind kind) const {
  std::vector<SpoolChunk> found;
  for (const SpoolChunk& chunk : chunks_) {
    if (chunk.header.kind == static_cast<uint32_t>(kind)) found.push_back(chunk);
  }
  return found;
}

std::vector<Skip> SpoolReader::skipped() const {
  std::vector<Skip> all = skips_;
  if (tail_) all.push_back(*tail_);
  return all;
}

// -------------------------------------------------------------------------------------------------------------- chunks

std::span<const unsigned char> SpoolReader::read_chunk(const SpoolChunk& chunk,
                                                       std::vector<unsigned char>& buffer) const {
  const size_t bytes = std::min<uint64_t>(chunk.header.bytes, kMaxChunkBytes);
  if (buffer.size() < bytes) buffer.resize(bytes);
  return {buffer.data(), read_at(chunk.offset, buffer.data(), bytes)};
}

bool SpoolReader::plausible(uint64_t start_ticks, uint64_t end_ticks) const {
  return start_ticks >= header_.begin.ticks && end_ticks >= start_ticks &&
         (end_ticks <= latest_ticks_ || end_ticks - latest_ticks_ <= kSlackTicks);
}

bool SpoolReader::plausible(const DeviceRecord& r) const {
  const bool known = device_kind(r.what) >= DeviceKind::kKernel && device_kind(r.what) <= DeviceKind::kEvent;
  // The device's clock may be any; what its length is does not depend on it.
  const bool timed = device_flags(r.what) & kDeviceTime
                         ? r.end >= r.start && r.end - r.start <= kSlackTicks && r.end <= INT64_MAX
                         : plausible(r.start, r.end);
  return known && timed && r.bytes <= kMaxPayloadBytes;
}

bool SpoolReader::plausible(const Record& r) const {
  return plausible(r.start_ticks, r.start_ticks + record_duration_ticks(r.word)) && is_known(r);
}

/// Whole, but from before the process began: by a clock that was set back meanwhile. Not if the first chunk says the
/// same, for then the header is wrong.
bool SpoolReader::is_early(const Record& r) const {
  const uint64_t begin = header_.begin.ticks;
  return r.start_ticks < begin && begin - r.start_ticks <= kSlackTicks &&
         record_duration_ticks(r.word) <= kSlackTicks && is_known(r) && chunks_.front().header.begin_ticks >= begin;
}

bool SpoolReader::is_known(const Record& r) {
  const uint32_t op = record_op(r.word);
  switch (record_kind(r.word)) {
    case RecordKind::kOpen:
    case RecordKind::kCall:
    case RecordKind::kRequest:
    case RecordKind::kCompleteCall:
      return op >= kFirstCallOp;
    case RecordKind::kRange:
      return is_range_kind(op) && op != static_cast<uint32_t>(ContextKind::kStep);
    case RecordKind::kStepBegin:
    case RecordKind::kStep:
      return op == static_cast<uint32_t>(ContextKind::kStep);
    case RecordKind::kCounter:
      return op < kMaxCounters;
    case RecordKind::kValue:
    case RecordKind::kThreadSample:
      return true;
    case RecordKind::kAgreement:
      return op >= kFirstCallOp;
    case RecordKind::kNcclDetails:
    case RecordKind::kNcclTag:
    case RecordKind::kNcclGroup:
      return op >= kFirstNcclOp;
    case RecordKind::kLaunch:
      return op >= static_cast<uint32_t>(LaunchKind::kKernel) && op <= static_cast<uint32_t>(LaunchKind::kSynchronize);
    case RecordKind::kNone:
      break;
  }
  return false;
}

void SpoolReader::add_record(const Record& record, std::vector<Record>& out) {
  out.push_back(record);
  if (record_kind(record.word) != RecordKind::kCompleteCall) return;
  const uint64_t duration = record_duration_ticks(record.word);
  out.back().word = record_word(RecordKind::kCall, record_op(record.word), duration);
  out.push_back(record);
  out.back().word = record_word(RecordKind::kRequest, record_op(record.word), duration);
}

/// A chunk of the log is given up when it is full.
bool SpoolReader::has_later(const SpoolChunk& chunk) const {
  return std::any_of(chunks_.rbegin(), chunks_.rend(), [&](const SpoolChunk& other) {
    return other.header.kind == chunk.header.kind && other.header.thread == chunk.header.thread &&
           other.header.index > chunk.header.index;
  });
}

void SpoolReader::read_records(const SpoolChunk& chunk, std::vector<Record>& out, std::vector<Skip>* skips) const {
  out.clear();
  const bool ring = chunk.header.kind == static_cast<uint32_t>(ChunkKind::kRing);
  thread_local std::vector<unsigned char> buffer, buffer_again;
  const std::span<const unsigned char> bytes = read_chunk(chunk, buffer);
  if (ring && bytes.size() >= sizeof(ChunkHeader) &&
      all_zero(bytes.data() + sizeof(ChunkHeader), bytes.size() - sizeof(ChunkHeader)))
    return;  // as nearly always: the log took everything
  // A ring's slots are written over while we read. A slot that is the same in two reads was not being
  // written at the first.
  const std::span<const unsigned char> again =
      ring ? read_chunk(chunk, buffer_again) : std::span<const unsigned char>();
  const size_t end = ring ? std::min(bytes.size(), again.size()) : bytes.size();
  uint64_t bad = 0, missing = 0, empty = 0, early = 0, longest_early = 0;
  uint64_t first_bad = 0, first_missing = 0;
  for (size_t at = sizeof(ChunkHeader); at + sizeof(Record) <= end; at += sizeof(Record)) {
    Record record;
    memcpy(&record, &bytes[at], sizeof record);
    if (record.word == 0) {  // not written yet, not finished, or lost
      empty += record.start_ticks == 0 ? 1 : 0;
      continue;
    }
    if (missing == 0) first_missing = at - empty * sizeof(Record);
    missing += empty;  // a log is filled from its begin
    empty = 0;
    if (ring && memcmp(&bytes[at], &again[at], sizeof record) != 0) continue;
    if (plausible(record)) {
      add_record(record, out);
      early = 0;
      continue;
    }
    if (bad++ == 0) first_bad = at;
    early = is_early(record) ? early + 1 : 0;
    longest_early = std::max(longest_early, early);
  }
  if (ring)
    std::stable_sort(out.begin(), out.end(),
                     [](const Record& a, const Record& b) { return a.start_ticks < b.start_ticks; });
  if (!ring) {
    if (missing == 0) first_missing = end - empty * sizeof(Record);
    if (empty > 0 && has_later(chunk)) missing += empty;
    add_skip(skips, chunk.offset + first_missing, missing * sizeof(Record), "missing records");
  }
  add_skip(skips, chunk.offset + first_bad, bad * sizeof(Record),
           longest_early >= kFewestEarly ? kEarlyRecords : "damaged records");
}

void SpoolReader::read_profile(const SpoolChunk& chunk, std::vector<ProfileEntry>& out,
                               std::vector<Skip>* skips) const {
  out.clear();
  thread_local std::vector<unsigned char> buffer;
  const std::span<const unsigned char> bytes = read_chunk(chunk, buffer);
  uint64_t bad = 0;
  uint64_t first_bad = 0;
  for (size_t at = kProfileOffset; at + sizeof(ProfileEntry) <= bytes.size(); at += sizeof(ProfileEntry)) {
    ProfileEntry e;
    memcpy(&e, &bytes[at], sizeof e);
    if (e.op == 0) continue;
    const bool counter = e.op >= kFirstCounterOp && e.op < kFirstCallOp;
    const bool range = is_range_kind(e.op) || counter;
    const bool call = e.op >= kFirstCallOp && e.op <= 0xfff;
    if ((range || call) && e.size_class <= 63 && all_calls(e) < kMaxCalls && e.ticks < kMaxProfileTicks &&
        (counter || e.bytes < (range ? kMaxProfileTicks : kMaxProfileBytes))) {
      if (all_calls(e) > 0) out.push_back(e);  // none yet: the entry has just been made
    } else if (bad++ == 0) {
      first_bad = at;
    }
  }
  add_skip(skips, chunk.offset + first_bad, bad * sizeof(ProfileEntry), "damaged profile entries");
}

void SpoolReader::read_device(const SpoolChunk& chunk, std::vector<DeviceRecord>& out, std::vector<Skip>* skips) const {
  out.clear();
  thread_local std::vector<unsigned char> buffer;
  const std::span<const unsigned char> bytes = read_chunk(chunk, buffer);
  uint64_t bad = 0;
  uint64_t first_bad = 0;
  for (size_t at = sizeof(ChunkHeader); at + sizeof(DeviceRecord) <= bytes.size(); at += sizeof(DeviceRecord)) {
    DeviceRecord r;
    memcpy(&r, &bytes[at], sizeof r);
    if (r.what == 0) continue;
    if (plausible(r)) {
      out.push_back(r);
    } else if (bad++ == 0) {
      first_bad = at;
    }
  }
  add_skip(skips, chunk.offset + first_bad, bad * sizeof(DeviceRecord), "damaged records of GPUs");
}

}  // namespace ddl
