// Thousands of damaged spools: the reader never crashes, never hangs, never allocates without bound, and what it
// returns is within the format.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "core/error.h"
#include "core/reader.h"
#include "tests/core/allocation_meter.h"
#include "tests/core/damage.h"
#include "tests/core/sample_spools.h"

namespace ddl {
namespace {

using test::Image;

constexpr int kCases = 12000;
/// Chunks are at most 4 MiB: the bytes of one, for rings twice, and its records with room to grow; the index is
/// small beside that.
constexpr size_t kMemoryLimit = 24 << 20;

struct Visitor : MetaVisitor {
  void on_string(uint32_t, std::string_view text) override { bytes += text.size(); }
  void on_communicator(const CommunicatorMeta&, std::span<const RankRun> runs) override { bytes += runs.size_bytes(); }
  void on_fact(std::string_view key, std::string_view value) override { bytes += key.size() + value.size(); }
  uint64_t bytes = 0;
};

/// Reads everything; the checks are bounds that any file must keep.
void read_all(SpoolReader& reader) {
  std::vector<Skip> skips;
  std::vector<Record> records;
  std::vector<ProfileEntry> entries;
  uint64_t record_bytes = 0, chunks = 0;
  for (const ChunkKind kind : {ChunkKind::kEvents, ChunkKind::kRing}) {
    for (const SpoolChunk& chunk : reader.chunks(kind)) {
      ASSERT_LE(chunk.offset + sizeof(ChunkHeader), reader.file_bytes());
      ASSERT_LE(chunk.header.bytes, kMaxChunkBytes);
      reader.read_records(chunk, records, &skips);
      record_bytes += records.size() * sizeof(Record);
      ++chunks;
      for (const Record& r : records) {
        ASSERT_GE(r.start_ticks, reader.header().begin.ticks);
        ASSERT_GE(static_cast<uint32_t>(record_kind(r.word)), 1u);
        ASSERT_LE(record_kind(r.word), RecordKind::kAgreement);
      }
    }
  }
  for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kProfile)) {
    reader.read_profile(chunk, entries, &skips);
    for (const ProfileEntry& e : entries) ASSERT_TRUE(e.op != 0 && e.size_class <= 63);
  }
  std::vector<DeviceRecord> device;
  for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kDevice)) {
    reader.read_device(chunk, device, &skips);
    for (const DeviceRecord& r : device) ASSERT_TRUE(r.start <= r.end && device_kind(r.what) <= DeviceKind::kEvent);
  }
  Visitor visitor;
  reader.read_meta(visitor, &skips);
  ASSERT_LE(record_bytes, reader.file_bytes());
  ASSERT_LE(visitor.bytes, reader.file_bytes());
  ASSERT_LE(chunks, reader.file_bytes() / kPageBytes);
  ASSERT_LE(skips.size() + reader.skipped().size(), reader.file_bytes() / sizeof(MetaHeader) + 2);
}

TEST(ReaderFuzz, DamagedSpoolsAreReadWithinBounds) {
  const std::vector<Image> bases = test::sample_spools();
  ASSERT_GE(bases.size(), 7u);
  const uint64_t seed = test::fuzz_seed();
  const int cases = test::fuzz_cases(kCases);
  const std::filesystem::path memory = "/dev/shm";  // a file is written anew for each case
  std::string path =
      ((std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path()) / "ddl-fuzz-XXXXXX")
          .string();
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  ASSERT_GE(fd, 0);
  int readable = 0;
  size_t peak = 0;
  for (int i = 0; i < cases; ++i) {
    SCOPED_TRACE("case " + std::to_string(i) + ", seed " + std::to_string(seed));
    std::mt19937_64 random(seed * 1000003 + static_cast<uint64_t>(i));
    Image image = bases[static_cast<size_t>(i) % bases.size()];
    test::damage(image, random);
    ASSERT_EQ(ftruncate(fd, 0), 0);
    ASSERT_EQ(pwrite(fd, image.data(), image.size(), 0), static_cast<ssize_t>(image.size()));
    const test::AllocationLimit limit(kMemoryLimit);
    try {
      SpoolReader reader(path);
      ++readable;
      read_all(reader);
      if (i % 7 == 0) {  // more damage to a file that is open, as if it were written while we read
        test::damage(image, random);
        ASSERT_EQ(pwrite(fd, image.data(), image.size(), 0), static_cast<ssize_t>(image.size()));
        reader.refresh();
        read_all(reader);
      }
    } catch (const Error& error) {
      ASSERT_NE(std::string(error.what()), "");
    }
    peak = std::max(peak, limit.peak_bytes());
    if (HasFatalFailure()) break;
  }
  close(fd);
  unlink(path.c_str());
  std::printf("%d cases, %d readable, peak memory %zu KiB\n", cases, readable, peak >> 10);
  EXPECT_GT(readable, cases / 2) << "the damage must reach what is behind the header";
}

TEST(ReaderFuzz, TheMeterRefusesWhatIsTooMuch) {  // the bound above can fail
  const test::AllocationLimit limit(1 << 20);
  EXPECT_THROW(std::vector<char>(2 << 20), std::bad_alloc);
  const std::vector<char> fits(1 << 19);
  EXPECT_GE(limit.peak_bytes(), size_t{1} << 19);
}

}  // namespace
}  // namespace ddl
