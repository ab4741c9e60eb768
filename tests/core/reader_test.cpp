// The reader against files that were put together byte by byte, whole and damaged.
#include "core/reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "core/error.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/synthetic_run_spool.h"

namespace ddl {
namespace {

using test::ScratchFolder;
using test::SpoolBuilder;
namespace fs = std::filesystem;

constexpr uint32_t kOp = 20;

Record call(uint64_t start, uint64_t duration = 10) { return {start, record_word(RecordKind::kCall, kOp, duration), record_payload(64, 14, 1), 1, 2, 3, -1}; }

struct Texts : MetaVisitor {
  void on_string(uint32_t id, std::string_view text) override { strings[id] = text; }
  void on_fact(std::string_view key, std::string_view value) override { facts[std::string(key)] = value; }
  void on_communicator(const CommunicatorMeta& meta, std::span<const RankRun> r) override {
    communicators[meta.index] = meta;
    runs.assign(r.begin(), r.end());
  }
  std::map<uint32_t, std::string> strings;
  std::map<std::string, std::string> facts;
  std::map<uint32_t, CommunicatorMeta> communicators;
  std::vector<RankRun> runs;
};

class ReaderTest : public ::testing::Test {
 protected:
  ReaderTest() {
    builder_.header().begin = {1000, 1000, 5000};
    builder_.header().latest = {100000, 100000, 104000};
  }

  std::string path() const { return (folder_ / "n0.1.1.spool").string(); }
  SpoolReader read() {
    builder_.write(path());
    return SpoolReader(path());
  }
  SpoolReader read(const std::vector<unsigned char>& image) {
    test::write_bytes(path(), image);
    return SpoolReader(path());
  }
  std::vector<uint64_t> starts(const SpoolReader& reader, std::vector<Skip>* skips = nullptr, ChunkKind kind = ChunkKind::kEvents) {
    std::vector<uint64_t> found;
    std::vector<Record> records;
    for (const SpoolChunk& chunk : reader.chunks(kind)) {
      reader.read_records(chunk, records, skips);
      for (const Record& record : records) found.push_back(record.start_ticks);
    }
    return found;
  }
  Error refusal() {
    try {
      SpoolReader reader(path());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kDataMissing);
      return error;
    }
    ADD_FAILURE() << "was read";
    return Error("");
  }
  Error refusal_of(const std::vector<unsigned char>& image) {
    test::write_bytes(path(), image);
    return refusal();
  }

  ScratchFolder folder_;
  SpoolBuilder builder_;
};

// ---------------------------------------------------------------------------------------------------------------- whole files

TEST_F(ReaderTest, GivesBackEveryFieldOfARecord) {
  const size_t log = builder_.add_chunk(ChunkKind::kEvents, kMinChunkBytes, 7);
  const Record put = {2000, record_word(RecordKind::kRequest, 0xabc, 12345), record_payload(1ull << 40, 250, 9), 17, 4242, 0xfffffffe, -3};
  builder_.append(log, put);
  const SpoolReader reader = read();
  const std::vector<SpoolChunk> chunks = reader.chunks(ChunkKind::kEvents);
  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_EQ(chunks[0].header.thread, 7u);
  EXPECT_EQ(chunks[0].offset, kPageBytes);
  std::vector<Record> records;
  reader.read_records(chunks[0], records);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(memcmp(&records[0], &put, sizeof put), 0);
  EXPECT_EQ(record_duration_ticks(records[0].word), 12345u);
  EXPECT_EQ(payload_bytes(records[0].payload), 1ull << 40);
  EXPECT_TRUE(reader.skipped().empty());
}

TEST_F(ReaderTest, DecodesEveryKindOfMetaEntry) {
  struct All : Texts {
    void on_context(const ContextMeta& meta) override { context = meta; }
    void on_communicator_name(const CommNameMeta& meta) override { comm_name = meta; }
    void on_operation(const OperationMeta& meta, std::string_view name) override { operation = meta, operation_name = name; }
    void on_module(const ModuleMeta& meta, std::string_view path) override { module = meta, module_path = path; }
    void on_clock(const ClockPair& pair) override { clock = pair; }
    void on_thread(const ThreadMeta& meta, std::string_view name) override { thread = meta, thread_name = name; }
    ContextMeta context = {};
    CommNameMeta comm_name = {};
    OperationMeta operation = {};
    ModuleMeta module = {};
    ClockPair clock = {};
    ThreadMeta thread = {};
    std::string operation_name, module_path, thread_name;
  } all;
  const std::string with_nul("a\0b", 3);
  builder_.string(1, with_nul);
  builder_.context({5, 4, 4, 0, 0xdeadbeef});
  CommunicatorMeta comm = {};
  comm.index = 3;
  comm.uid = 99;
  comm.size = 5;
  builder_.communicator(comm, {{0, 2, 4}, {9, 1, 1}});
  builder_.communicator_name(3, 1);
  builder_.operation(kOp, OpClass::kScan, true, "MPI_Iscan");
  builder_.module(0x1000, 0x2000, 0x40, "/lib/a.so");
  builder_.clock({1, 2, 3});
  builder_.thread(2, 4711, "");
  builder_.fact("env.X", "");
  const SpoolReader reader = read();
  std::vector<Skip> skips;
  reader.read_meta(all, &skips);
  EXPECT_TRUE(skips.empty());
  EXPECT_EQ(all.strings[1], with_nul);
  EXPECT_EQ(all.context.site, 0xdeadbeef);
  EXPECT_EQ(all.communicators[3].uid, 99u);
  ASSERT_EQ(all.runs.size(), 2u);
  EXPECT_EQ(all.runs[1].first, 9);
  EXPECT_EQ(all.comm_name.name, 1u);
  EXPECT_EQ(all.operation_name, "MPI_Iscan");
  EXPECT_EQ(all.operation.nonblocking, 1u);
  EXPECT_EQ(all.module_path, "/lib/a.so");
  EXPECT_EQ(all.clock.realtime_ns, 3u);
  EXPECT_EQ(all.thread.tid, 4711u);
  EXPECT_EQ(all.facts.at("env.X"), "");
}

TEST_F(ReaderTest, LeavesOutReplacedAndFreedProfileTables) {
  ProfileEntry entry = {};
  entry.op = kOp;
  const uint64_t calls[] = {10, 20, 40};
  for (int i = 0; i < 3; ++i) {
    const size_t table = builder_.add_chunk(ChunkKind::kProfile, kMinChunkBytes, 0);
    entry.calls = calls[i];
    builder_.put_profile(table, 3, entry);
  }
  builder_.chunk(0).kind = static_cast<uint32_t>(ChunkKind::kFree);  // replaced long ago
  builder_.chunk(2).replaces = 1 + 1;                               // replaced just now: the old one is not yet marked as free
  const SpoolReader reader = read();
  const auto tables = reader.chunks(ChunkKind::kProfile);
  ASSERT_EQ(tables.size(), 1u);
  std::vector<ProfileEntry> entries;
  reader.read_profile(tables[0], entries);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].calls, 40u);
}

TEST_F(ReaderTest, SortsARingThatWentRound) {
  const size_t ring = builder_.add_chunk(ChunkKind::kRing, kMinChunkBytes, 0);
  const uint32_t slots = SpoolBuilder::record_slots(kMinChunkBytes);
  for (uint32_t i = 0; i < slots; ++i) builder_.put(ring, (i + 700) % slots, call(2000 + i));
  Record half_written = call(9999);
  half_written.word = 0;
  builder_.put(ring, 5, half_written);
  const SpoolReader reader = read();
  const std::vector<uint64_t> found = starts(reader, nullptr, ChunkKind::kRing);
  EXPECT_EQ(found.size(), slots - 1);
  EXPECT_TRUE(std::is_sorted(found.begin(), found.end()));
}

// ---------------------------------------------------------------------------------------------------------------- growing files

TEST_F(ReaderTest, SeesWhatAGrowingFileAdds) {
  const size_t first = builder_.add_chunk(ChunkKind::kEvents);
  builder_.append(first, call(2000));
  SpoolReader reader = read();
  EXPECT_EQ(starts(reader), (std::vector<uint64_t>{2000}));

  // The same chunk gets a record, a new chunk appears behind it, and space for a third was allocated but not begun.
  builder_.append(first, call(3000));
  builder_.append(builder_.add_chunk(ChunkKind::kEvents), call(4000));
  builder_.header().rank = 1;
  builder_.header().world_size = 4;
  std::vector<unsigned char> image = builder_.image();
  image.resize(image.size() + kMinChunkBytes);
  test::write_bytes(path(), image);
  SpoolReader again(path());
  EXPECT_EQ(starts(again), (std::vector<uint64_t>{2000, 3000, 4000}));

  const int fd = open(path().c_str(), O_WRONLY);  // now in place, under the open reader
  builder_.append(builder_.add_chunk(ChunkKind::kEvents), call(5000));
  builder_.header().rank = 2;
  image = builder_.image();
  ASSERT_EQ(pwrite(fd, image.data(), image.size(), 0), static_cast<ssize_t>(image.size()));
  close(fd);
  EXPECT_EQ(starts(again).size(), 3u) << "only refresh() looks for chunks";
  again.refresh();
  EXPECT_EQ(starts(again), (std::vector<uint64_t>{2000, 3000, 4000, 5000}));
  EXPECT_EQ(again.header().rank, 2);
  EXPECT_TRUE(again.skipped().empty());
}

TEST_F(ReaderTest, TakesAChunkHeaderThatIsBeingWrittenForNothingYet) {
  builder_.append(builder_.add_chunk(ChunkKind::kEvents), call(2000));
  builder_.append(builder_.add_chunk(ChunkKind::kEvents), call(3000));
  builder_.chunk(1).magic = 0;  // the writer stores it last
  SpoolReader reader = read();
  EXPECT_EQ(starts(reader), (std::vector<uint64_t>{2000}));
  EXPECT_EQ(reader.skipped().size(), 1u) << "if nobody finishes it, its space is damage";

  builder_.chunk(1).magic = kChunkMagic;
  const std::vector<unsigned char> image = builder_.image();
  const int fd = open(path().c_str(), O_WRONLY);
  ASSERT_EQ(pwrite(fd, image.data(), image.size(), 0), static_cast<ssize_t>(image.size()));
  close(fd);
  reader.refresh();
  EXPECT_EQ(starts(reader), (std::vector<uint64_t>{2000, 3000}));
  EXPECT_TRUE(reader.skipped().empty());
}

TEST_F(ReaderTest, FollowsATableThatIsReplaced) {
  ProfileEntry entry = {};
  entry.op = kOp;
  entry.calls = 1;
  builder_.put_profile(builder_.add_chunk(ChunkKind::kProfile), 0, entry);
  SpoolReader reader = read();
  ASSERT_EQ(reader.chunks(ChunkKind::kProfile).size(), 1u);
  builder_.put_profile(builder_.add_chunk(ChunkKind::kProfile, 2 * kMinChunkBytes), 9, entry);
  builder_.chunk(1).replaces = 1;
  builder_.chunk(0).kind = static_cast<uint32_t>(ChunkKind::kFree);
  const std::vector<unsigned char> image = builder_.image();
  const int fd = open(path().c_str(), O_WRONLY);
  ASSERT_EQ(pwrite(fd, image.data(), image.size(), 0), static_cast<ssize_t>(image.size()));
  close(fd);
  reader.refresh();
  ASSERT_EQ(reader.chunks(ChunkKind::kProfile).size(), 1u);
  EXPECT_EQ(reader.chunks(ChunkKind::kProfile)[0].header.index, 1u);
}

// ---------------------------------------------------------------------------------------------------------------- damage

TEST_F(ReaderTest, KeepsAllThatLiesBeforeATruncation) {
  constexpr uint32_t kChunks = 3;
  for (uint32_t c = 0; c < kChunks; ++c) {
    const size_t log = builder_.add_chunk(ChunkKind::kEvents);
    for (uint32_t i = 0; builder_.append(log, call(2000 + 10000 * c + i)); ++i) {
    }
  }
  const std::vector<unsigned char> whole = builder_.image();
  for (size_t bytes = kPageBytes; bytes <= whole.size(); bytes += kPageBytes / 2) {
    SCOPED_TRACE(bytes);
    const SpoolReader reader = read({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes)});
    size_t expected = 0;  // by the layout alone
    for (size_t begin = kPageBytes; begin < bytes; begin += kMinChunkBytes) {
      const size_t in_chunk = std::min<size_t>(bytes - begin, kMinChunkBytes);
      expected += in_chunk >= sizeof(ChunkHeader) ? (in_chunk - sizeof(ChunkHeader)) / sizeof(Record) : 0;
    }
    std::vector<Skip> skips;
    EXPECT_EQ(starts(reader, &skips).size(), expected);
    EXPECT_TRUE(skips.empty());
    const bool cut = (bytes - kPageBytes) % kMinChunkBytes != 0;
    ASSERT_EQ(reader.skipped().size(), cut ? 1u : 0u);
    if (cut) {
      EXPECT_EQ(reader.skipped()[0].bytes, kMinChunkBytes - (bytes - kPageBytes) % kMinChunkBytes);
    }
  }
}

TEST_F(ReaderTest, SurvivesAFileThatIsTruncatedUnderIt) {
  for (int c = 0; c < 4; ++c) builder_.append(builder_.add_chunk(ChunkKind::kEvents), call(2000 + c));
  SpoolReader reader = read();
  ASSERT_EQ(truncate(path().c_str(), kPageBytes + kMinChunkBytes), 0);
  EXPECT_EQ(starts(reader), (std::vector<uint64_t>{2000}));
}

TEST_F(ReaderTest, FindsTheNextChunkBehindADamagedHeader) {
  for (int c = 0; c < 4; ++c) builder_.append(builder_.add_chunk(ChunkKind::kEvents, c == 1 ? 3 * kMinChunkBytes : kMinChunkBytes), call(2000 + c));
  builder_.chunk(1).bytes ^= kPageBytes;  // its check no longer fits
  const SpoolReader reader = read();
  EXPECT_EQ(starts(reader), (std::vector<uint64_t>{2000, 2002, 2003}));
  ASSERT_EQ(reader.skipped().size(), 1u);
  EXPECT_EQ(reader.skipped()[0].offset, builder_.offset(1));
  EXPECT_EQ(reader.skipped()[0].bytes, 3 * kMinChunkBytes);
}

TEST_F(ReaderTest, FlippingAnyBitOfARecordLosesAtMostThatRecord) {
  const size_t log = builder_.add_chunk(ChunkKind::kEvents);
  for (uint64_t i = 0; i < 5; ++i) builder_.append(log, call(2000 + 100 * i));
  const std::vector<unsigned char> whole = builder_.image();
  const size_t third = kPageBytes + sizeof(ChunkHeader) + 2 * sizeof(Record);
  for (size_t bit = 0; bit < 8 * sizeof(Record); ++bit) {
    SCOPED_TRACE(bit);
    std::vector<unsigned char> image = whole;
    image[third + bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
    const SpoolReader reader = read(image);
    std::vector<Record> records;
    reader.read_records(reader.chunks(ChunkKind::kEvents)[0], records);
    ASSERT_GE(records.size(), 4u);
    for (const uint64_t start : {2000u, 2100u, 2300u, 2400u}) {
      EXPECT_EQ(std::count_if(records.begin(), records.end(), [&](const Record& r) { return r.start_ticks == start; }), 1);
    }
  }
}

TEST_F(ReaderTest, DropsRecordsThatCannotBeAndSaysSo) {
  const size_t log = builder_.add_chunk(ChunkKind::kEvents);
  const auto with_word = [](uint64_t word) {
    Record r = call(2000);
    r.word = word;
    return r;
  };
  builder_.append(log, call(2000));
  builder_.append(log, call(500));                                                           // before the process began
  builder_.append(log, call(1ull << 60));                                                    // a century after its last sign of life
  builder_.append(log, with_word(record_word(static_cast<RecordKind>(9), kOp, 1)));          // no such kind
  builder_.append(log, with_word(record_word(RecordKind::kCall, kFirstCallOp - 1, 1)));      // a range's number for a call
  builder_.append(log, with_word(record_word(RecordKind::kStep, 2, 1)));                     // a step that is a phase
  builder_.append(log, with_word(record_word(RecordKind::kRange, 1, 1)));                    // a range that is a step
  builder_.append(log, call(3000));
  const SpoolReader reader = read();
  std::vector<Skip> skips;
  EXPECT_EQ(starts(reader, &skips), (std::vector<uint64_t>{2000, 3000}));
  ASSERT_EQ(skips.size(), 1u);
  EXPECT_EQ(skips[0].bytes, 6 * sizeof(Record));
}

TEST_F(ReaderTest, GoesOnBehindARecordThatWasNeverFinished) {
  const size_t log = builder_.add_chunk(ChunkKind::kEvents);
  builder_.append(log, call(2000));
  Record torn = call(2100);
  torn.word = 0;  // killed between the first field and the last
  builder_.append(log, torn);
  builder_.append(log, call(2200));
  const SpoolReader reader = read();
  std::vector<Skip> skips;
  EXPECT_EQ(starts(reader, &skips), (std::vector<uint64_t>{2000, 2200}));
  EXPECT_TRUE(skips.empty());
}

TEST_F(ReaderTest, StopsAtADamagedMetaEntryAndKeepsWhatCameBefore) {
  builder_.string(1, "one");
  builder_.string(2, "two");
  builder_.string(3, "three");
  const std::vector<unsigned char> whole = builder_.image();
  const size_t second = kPageBytes + sizeof(ChunkHeader) + 24;  // word, id + length, "one" padded to 8
  for (const uint64_t word : {meta_word(MetaKind::kString, 0), meta_word(MetaKind::kString, 1ull << 50), meta_word(MetaKind::kString, 17)}) {
    std::vector<unsigned char> image = whole;
    memcpy(&image[second], &word, sizeof word);
    const SpoolReader reader = read(image);
    Texts texts;
    std::vector<Skip> skips;
    reader.read_meta(texts, &skips);
    EXPECT_EQ(texts.strings, (std::map<uint32_t, std::string>{{1, "one"}}));
    ASSERT_EQ(skips.size(), 1u);
    EXPECT_EQ(skips[0].offset, second);
  }
  // A wrong length inside an entry costs that entry only.
  std::vector<unsigned char> image = whole;
  const uint32_t too_long = 4000;
  memcpy(&image[second + 12], &too_long, sizeof too_long);
  const SpoolReader reader = read(image);
  Texts texts;
  std::vector<Skip> skips;
  reader.read_meta(texts, &skips);
  EXPECT_EQ(texts.strings, (std::map<uint32_t, std::string>{{1, "one"}, {3, "three"}}));
  EXPECT_EQ(skips.size(), 1u);
}

TEST_F(ReaderTest, RejectsRunsThatClaimMoreThanTheEntryHolds) {
  CommunicatorMeta comm = {};
  comm.index = 1;
  comm.size = 2;
  builder_.communicator(comm, {{0, 1, 2}});
  std::vector<unsigned char> image = builder_.image();
  const uint32_t many = 0xffffffff;
  memcpy(&image[kPageBytes + sizeof(ChunkHeader) + sizeof(MetaHeader) + offsetof(CommunicatorMeta, runs)], &many, sizeof many);
  const SpoolReader reader = read(image);
  Texts texts;
  std::vector<Skip> skips;
  reader.read_meta(texts, &skips);
  EXPECT_TRUE(texts.communicators.empty());
  EXPECT_EQ(skips.size(), 1u);
}

TEST_F(ReaderTest, TakesAChunkThatIsThereTwiceOnce) {
  builder_.append(builder_.add_chunk(ChunkKind::kEvents), call(2000));
  std::vector<unsigned char> image = builder_.image();
  const std::vector<unsigned char> chunk(image.begin() + kPageBytes, image.end());
  image.insert(image.end(), chunk.begin(), chunk.end());
  const SpoolReader reader = read(image);
  EXPECT_EQ(starts(reader), (std::vector<uint64_t>{2000}));
  ASSERT_EQ(reader.skipped().size(), 1u);
  EXPECT_EQ(reader.skipped()[0].bytes, kMinChunkBytes);
}

TEST_F(ReaderTest, SkipsTerabytesOfHolesAtOnce) {
  builder_.append(builder_.add_chunk(ChunkKind::kEvents), call(2000));
  builder_.write(path());
  ASSERT_EQ(truncate(path().c_str(), 4ll << 40), 0);
  const SpoolReader reader(path());  // would take minutes if it read them
  EXPECT_EQ(starts(reader), (std::vector<uint64_t>{2000}));
}

TEST_F(ReaderTest, DistrustsAWorldThatCannotBe) {
  for (const auto& [rank, size] : std::vector<std::pair<int32_t, int32_t>>{{4, 4}, {-2, 4}, {0, -1}, {0, 1 << 30}}) {
    builder_.header().rank = rank;
    builder_.header().world_size = size;
    const SpoolReader reader = read();
    EXPECT_EQ(reader.header().rank, -1);
    EXPECT_EQ(reader.header().world_size, 0);
    EXPECT_EQ(reader.skipped().size(), 1u);
  }
}

// ---------------------------------------------------------------------------------------------------------------- refusals

TEST_F(ReaderTest, RefusesWhatIsNoSpool) {
  EXPECT_NE(std::string(refusal().what()).find("No such file"), std::string::npos);
  const std::vector<unsigned char> good = builder_.image();
  EXPECT_NE(std::string(refusal_of({}).what()).find("shorter"), std::string::npos);
  EXPECT_NE(std::string(refusal_of({good.begin(), good.begin() + 100}).what()).find("shorter"), std::string::npos);
  EXPECT_NE(std::string(refusal_of(std::vector<unsigned char>(kPageBytes)).what()).find("never finished"), std::string::npos);
  EXPECT_NE(std::string(refusal_of(std::vector<unsigned char>(kPageBytes, 'x')).what()).find("not a ddl spool"), std::string::npos);
  ASSERT_EQ(unlink(path().c_str()), 0);
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_NE(std::string(refusal().what()).find("regular"), std::string::npos) << "and must not hang";
}

TEST_F(ReaderTest, RefusesAForeignByteOrderAndANewerFormat) {
  builder_.header().byte_order = __builtin_bswap32(kByteOrderMark);
  EXPECT_NE(std::string(refusal_of(builder_.image()).what()).find("byte order"), std::string::npos);
  builder_.header().byte_order = kByteOrderMark;
  builder_.header().format_version = kFormatVersion + 1;
  const Error newer = refusal_of(builder_.image());
  EXPECT_NE(std::string(newer.what()).find("newer"), std::string::npos);
  EXPECT_FALSE(newer.hint().empty());
}

}  // namespace
}  // namespace ddl
