// The reader against torn, truncated and damaged files: what is whole is kept, what is not is said.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/core/reader_fixture.h"

namespace ddl {
namespace {

using ReaderDamageTest = ReaderTest;

TEST_F(ReaderDamageTest, KeepsAllThatLiesBeforeATruncation) {
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

TEST_F(ReaderDamageTest, SurvivesAFileThatIsTruncatedUnderIt) {
  for (int c = 0; c < 4; ++c) builder_.append(builder_.add_chunk(ChunkKind::kEvents), call(2000 + c));
  SpoolReader reader = read();
  ASSERT_EQ(truncate(path().c_str(), kPageBytes + kMinChunkBytes), 0);
  EXPECT_EQ(starts(reader), (std::vector<uint64_t>{2000}));
}

TEST_F(ReaderDamageTest, FindsTheNextChunkBehindADamagedHeader) {
  for (int c = 0; c < 4; ++c)
    builder_.append(builder_.add_chunk(ChunkKind::kEvents, c == 1 ? 3 * kMinChunkBytes : kMinChunkBytes),
                    call(2000 + c));
  builder_.chunk(1).bytes ^= kPageBytes;  // its check no longer fits
  const SpoolReader reader = read();
  EXPECT_EQ(starts(reader), (std::vector<uint64_t>{2000, 2002, 2003}));
  ASSERT_EQ(reader.skipped().size(), 1u);
  EXPECT_EQ(reader.skipped()[0].offset, builder_.offset(1));
  EXPECT_EQ(reader.skipped()[0].bytes, 3 * kMinChunkBytes);
}

TEST_F(ReaderDamageTest, FlippingAnyBitOfARecordLosesAtMostThatRecord) {
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
      EXPECT_EQ(std::count_if(records.begin(), records.end(), [&](const Record& r) { return r.start_ticks == start; }),
                1);
    }
  }
}

TEST_F(ReaderDamageTest, DropsRecordsThatCannotBeAndSaysSo) {
  const size_t log = builder_.add_chunk(ChunkKind::kEvents);
  const auto with_word = [](uint64_t word) {
    Record r = call(2000);
    r.word = word;
    return r;
  };
  builder_.append(log, call(2000));
  builder_.append(log, call(500));  // before the process began
  // a century after its last sign of life
  builder_.append(log, call(1ull << 60));
  builder_.append(log, with_word(record_word(static_cast<RecordKind>(9), kOp, 1)));      // no such kind
  builder_.append(log, with_word(record_word(RecordKind::kCall, kFirstCallOp - 1, 1)));  // a range's number for a call
  builder_.append(log, with_word(record_word(RecordKind::kStep, 2, 1)));                 // a step that is a phase
  builder_.append(log, with_word(record_word(RecordKind::kRange, 1, 1)));                // a range that is a step
  builder_.append(log, call(3000));
  const SpoolReader reader = read();
  std::vector<Skip> skips;
  EXPECT_EQ(starts(reader, &skips), (std::vector<uint64_t>{2000, 3000}));
  ASSERT_EQ(skips.size(), 1u);
  EXPECT_EQ(skips[0].bytes, 6 * sizeof(Record));
}

/// A clock that was set back leaves many records from before the process began, one after the other; damage leaves
/// one here and there.
TEST_F(ReaderDamageTest, TellsRecordsOfAClockThatWasSetBackFromDamage) {
  const auto reason_of = [&](uint64_t early, bool in_a_row, uint64_t chunk_begin) {
    builder_ = SpoolBuilder();
    builder_.header().begin = {1000, 1000, 5000};
    builder_.header().latest = {100000, 100000, 104000};
    builder_.set_time(chunk_begin, chunk_begin);
    const size_t log = builder_.add_chunk(ChunkKind::kEvents);
    builder_.append(log, call(2000));
    for (uint64_t i = 0; i < early; ++i) {
      builder_.append(log, call(100 + i));
      if (!in_a_row) builder_.append(log, call(2100 + i));
    }
    const SpoolReader reader = read();
    std::vector<Skip> skips;
    starts(reader, &skips);
    EXPECT_EQ(skips.size(), 1u);
    EXPECT_EQ(skips.empty() ? 0 : skips[0].bytes, early * sizeof(Record));
    return skips.empty() ? "" : skips[0].reason;
  };
  EXPECT_EQ(reason_of(20, true, 1000), kEarlyRecords);
  EXPECT_EQ(reason_of(20, false, 1000), "damaged records");
  EXPECT_EQ(reason_of(3, true, 1000), "damaged records");
  EXPECT_EQ(reason_of(20, true, 50), "damaged records") << "the first chunk says that the header is wrong";
}

TEST_F(ReaderDamageTest, GoesOnBehindARecordThatWasNeverFinished) {
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

TEST_F(ReaderDamageTest, StopsAtADamagedMetaEntryAndKeepsWhatCameBefore) {
  builder_.string(1, "one");
  builder_.string(2, "two");
  builder_.string(3, "three");
  const std::vector<unsigned char> whole = builder_.image();
  const size_t second = kPageBytes + sizeof(ChunkHeader) + 24;  // word, id + length, "one" padded to 8
  for (const uint64_t word :
       {meta_word(MetaKind::kString, 0), meta_word(MetaKind::kString, 1ull << 50), meta_word(MetaKind::kString, 17)}) {
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

TEST_F(ReaderDamageTest, RejectsRunsThatClaimMoreThanTheEntryHolds) {
  CommunicatorMeta comm = {};
  comm.index = 1;
  comm.size = 2;
  builder_.communicator(comm, {{0, 1, 2}});
  std::vector<unsigned char> image = builder_.image();
  const uint32_t many = 0xffffffff;
  memcpy(&image[kPageBytes + sizeof(ChunkHeader) + sizeof(MetaHeader) + offsetof(CommunicatorMeta, runs)], &many,
         sizeof many);
  const SpoolReader reader = read(image);
  Texts texts;
  std::vector<Skip> skips;
  reader.read_meta(texts, &skips);
  EXPECT_TRUE(texts.communicators.empty());
  EXPECT_EQ(skips.size(), 1u);
}

TEST_F(ReaderDamageTest, TakesAChunkThatIsThereTwiceOnce) {
  builder_.append(builder_.add_chunk(ChunkKind::kEvents), call(2000));
  std::vector<unsigned char> image = builder_.image();
  const std::vector<unsigned char> chunk(image.begin() + kPageBytes, image.end());
  image.insert(image.end(), chunk.begin(), chunk.end());
  const SpoolReader reader = read(image);
  EXPECT_EQ(starts(reader), (std::vector<uint64_t>{2000}));
  ASSERT_EQ(reader.skipped().size(), 1u);
  EXPECT_EQ(reader.skipped()[0].bytes, kMinChunkBytes);
}

TEST_F(ReaderDamageTest, SkipsTerabytesOfHolesAtOnce) {
  builder_.append(builder_.add_chunk(ChunkKind::kEvents), call(2000));
  builder_.write(path());
  ASSERT_EQ(truncate(path().c_str(), 4ll << 40), 0);
  const SpoolReader reader(path());  // would take minutes if it read them
  EXPECT_EQ(starts(reader), (std::vector<uint64_t>{2000}));
}

TEST_F(ReaderDamageTest, DistrustsAWorldThatCannotBe) {
  for (const auto& [rank, size] : std::vector<std::pair<int32_t, int32_t>>{{4, 4}, {-2, 4}, {0, -1}, {0, 1 << 30}}) {
    builder_.header().rank = rank;
    builder_.header().world_size = size;
    const SpoolReader reader = read();
    EXPECT_EQ(reader.header().rank, -1);
    EXPECT_EQ(reader.header().world_size, 0);
    EXPECT_TRUE(reader.header_damaged());
    EXPECT_TRUE(reader.skipped().empty()) << "nothing of what the process did is lost";
  }
}

}  // namespace
}  // namespace ddl
