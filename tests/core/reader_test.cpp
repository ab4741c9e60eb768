// The reader against whole and growing files that were put together byte by byte, and against what it must refuse.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/core/reader_fixture.h"

namespace ddl {
namespace {

// --------------------------------------------------------------------------------------------------------- whole files

TEST_F(ReaderTest, GivesBackEveryFieldOfARecord) {
  const size_t log = builder_.add_chunk(ChunkKind::kEvents, kMinChunkBytes, 7);
  const Record put = {
      2000, record_word(RecordKind::kRequest, 0xabc, 12345), record_payload(1ull << 40, 250, 9), 17, 4242, 0xfffffffe,
      -3};
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
    void on_operation(const OperationMeta& meta, std::string_view name) override {
      operation = meta, operation_name = name;
    }
    void on_module(const ModuleMeta& meta, std::string_view path) override { module = meta, module_path = path; }
    void on_clock(const ClockPair& pair) override { clock = pair; }
    void on_clock_sync(const ClockSyncMeta& meta) override { sync = meta; }
    void on_thread(const ThreadMeta& meta, std::string_view name) override { thread = meta, thread_name = name; }
    ContextMeta context = {};
    CommNameMeta comm_name = {};
    OperationMeta operation = {};
    ModuleMeta module = {};
    ClockPair clock = {};
    ClockSyncMeta sync = {};
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
  builder_.clock_sync({10, 5, 30, 7, 0});
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
  EXPECT_EQ(all.sync.remote_ticks, 5u);
  EXPECT_EQ(all.sync.remote_rank, 7);
  EXPECT_EQ(all.operation_name, "MPI_Iscan");
  EXPECT_EQ(all.operation.nonblocking, 1u);
  EXPECT_EQ(all.module_path, "/lib/a.so");
  EXPECT_EQ(all.clock.realtime_ns, 3u);
  EXPECT_EQ(all.thread.tid, 4711u);
  EXPECT_EQ(all.facts.at("env.X"), "");
}

TEST_F(ReaderTest, ReadsEveryProfileTableUpToItsLastEntry) {
  ProfileEntry entry = {};
  entry.op = kOp;
  const uint32_t last = profile_capacity(kMinChunkBytes) - 1;
  for (const uint64_t calls : {10, 20}) {
    const size_t table = builder_.add_chunk(ChunkKind::kProfile, kMinChunkBytes, 0);
    entry.untimed_calls = calls;
    ASSERT_TRUE(builder_.put_profile(table, calls == 10 ? 0 : last, entry));
    ASSERT_FALSE(builder_.put_profile(table, last + 1, entry));
  }
  const SpoolReader reader = read();
  std::vector<uint64_t> calls;
  for (const SpoolChunk& table : reader.chunks(ChunkKind::kProfile)) {
    std::vector<ProfileEntry> entries;
    reader.read_profile(table, entries);
    for (const ProfileEntry& e : entries) calls.push_back(all_calls(e));
  }
  EXPECT_EQ(calls, (std::vector<uint64_t>{10, 20}));
}

TEST_F(ReaderTest, MakesTwoOfACallThatWasCompleteAtOnce) {
  Record both = call(2000);
  both.word = record_word(RecordKind::kCompleteCall, kOp, 77);
  both.payload = record_payload(4096, 14, 0);
  both.sequence = 5;
  both.peer = 3;
  builder_.append(builder_.add_chunk(ChunkKind::kEvents), both);
  const SpoolReader reader = read();
  const SpoolChunk chunk = reader.chunks(ChunkKind::kEvents).at(0);
  std::vector<Record> whole, followed;
  reader.read_records(chunk, whole);
  FollowPosition position;
  reader.follow_records(chunk, position, followed);
  for (const std::vector<Record>& read : {whole, followed}) {
    ASSERT_EQ(read.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      Record expected = both;
      expected.word = record_word(i == 0 ? RecordKind::kCall : RecordKind::kRequest, kOp, 77);
      EXPECT_EQ(memcmp(&read[i], &expected, sizeof expected), 0) << i;
    }
  }
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

// ------------------------------------------------------------------------------------------------------- growing files

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

TEST_F(ReaderTest, FollowsARunningProcessToItsNextTable) {
  ProfileEntry entry = {};
  entry.op = kOp;
  entry.histogram[3] = 1;
  builder_.put_profile(builder_.add_chunk(ChunkKind::kProfile), 0, entry);
  SpoolReader reader = read();
  ASSERT_EQ(reader.chunks(ChunkKind::kProfile).size(), 1u);
  builder_.put_profile(builder_.add_chunk(ChunkKind::kProfile, 2 * kMinChunkBytes), 9, entry);
  const std::vector<unsigned char> image = builder_.image();
  const int fd = open(path().c_str(), O_WRONLY);
  ASSERT_EQ(pwrite(fd, image.data(), image.size(), 0), static_cast<ssize_t>(image.size()));
  close(fd);
  reader.refresh();
  ASSERT_EQ(reader.chunks(ChunkKind::kProfile).size(), 2u);
  EXPECT_EQ(reader.chunks(ChunkKind::kProfile)[1].header.index, 1u);
}

// ------------------------------------------------------------------------------------------------------------ refusals

TEST_F(ReaderTest, RefusesWhatIsNoSpool) {
  EXPECT_NE(std::string(refusal().what()).find("No such file"), std::string::npos);
  const std::vector<unsigned char> good = builder_.image();
  EXPECT_NE(std::string(refusal_of({}).what()).find("shorter"), std::string::npos);
  EXPECT_NE(std::string(refusal_of({good.begin(), good.begin() + 100}).what()).find("shorter"), std::string::npos);
  EXPECT_NE(std::string(refusal_of(std::vector<unsigned char>(kPageBytes)).what()).find("never finished"),
            std::string::npos);
  EXPECT_NE(std::string(refusal_of(std::vector<unsigned char>(kPageBytes, 'x')).what()).find("not a ddl spool"),
            std::string::npos);
  ASSERT_EQ(unlink(path().c_str()), 0);
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_NE(std::string(refusal().what()).find("not a file"), std::string::npos) << "and must not hang";
}

TEST_F(ReaderTest, RefusesAForeignByteOrderAndOtherFormats) {
  builder_.header().byte_order = __builtin_bswap32(kByteOrderMark);
  EXPECT_NE(std::string(refusal_of(builder_.image()).what()).find("byte order"), std::string::npos);
  builder_.header().byte_order = kByteOrderMark;
  builder_.header().format_version = kFormatVersion + 1;
  const Error newer = refusal_of(builder_.image());
  EXPECT_NE(std::string(newer.what()).find("newer"), std::string::npos);
  EXPECT_FALSE(newer.hint().empty());
  builder_.header().format_version = kFormatVersion - 1;
  const Error older = refusal_of(builder_.image());
  EXPECT_NE(std::string(older.what()).find("older"), std::string::npos);
  EXPECT_FALSE(older.hint().empty());
}

}  // namespace
}  // namespace ddl
