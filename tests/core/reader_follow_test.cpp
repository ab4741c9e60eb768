// Following a chunk that grows: every record once, calls that were open when they return, and what a ring
// wrote over is counted.
#include "tests/core/reader_fixture.h"

namespace ddl {
namespace {

class FollowTest : public ReaderTest {
 protected:
  void add(ChunkKind kind) { chunk_ = builder_.add_chunk(kind, kMinChunkBytes, 0); }
  SpoolReader begin() {
    builder_.write(path());
    return SpoolReader(path());
  }
  /// What is new after the file was written again; start ticks.
  std::vector<uint64_t> look(SpoolReader& reader) {
    builder_.write(path());
    reader.refresh();
    std::vector<Record> records;
    reader.follow_records(reader.all_chunks()[chunk_], position_, records);
    std::vector<uint64_t> starts;
    for (const Record& r : records) starts.push_back(r.start_ticks);
    return starts;
  }
  static Record open_call(uint64_t start) {
    Record r = call(start);
    r.word = record_word(RecordKind::kOpen, kOp, 0);
    return r;
  }
  void write_ring(uint64_t from, uint64_t until) {
    const uint64_t slots = SpoolBuilder::record_slots(kMinChunkBytes);
    for (uint64_t i = from; i < until; ++i) builder_.put(chunk_, static_cast<uint32_t>(i % slots), call(2000 + i));
    builder_.chunk(chunk_).ring_written = until;
  }

  size_t chunk_ = 0;
  FollowPosition position_;
};

using Starts = std::vector<uint64_t>;

TEST_F(FollowTest, ALogIsReadOnce) {
  add(ChunkKind::kEvents);
  SpoolReader reader = begin();
  EXPECT_EQ(look(reader), Starts{});
  for (const uint64_t start : {2000, 2100, 2200}) builder_.append(chunk_, call(start));
  EXPECT_EQ(look(reader), (Starts{2000, 2100, 2200}));
  EXPECT_EQ(look(reader), Starts{});
  builder_.append(chunk_, call(2300));
  EXPECT_EQ(look(reader), Starts{2300});
}

TEST_F(FollowTest, AFullLogIsReadToItsEnd) {
  add(ChunkKind::kEvents);
  SpoolReader reader = begin();
  uint64_t written = 0;
  while (builder_.append(chunk_, call(2000 + written))) ++written;
  EXPECT_EQ(look(reader).size(), written);
  EXPECT_EQ(look(reader), Starts{});
}

TEST_F(FollowTest, OpenCallsComeWhenTheyReturn) {
  add(ChunkKind::kEvents);
  SpoolReader reader = begin();
  builder_.append(chunk_, open_call(2000));
  builder_.append(chunk_, call(2100));
  EXPECT_EQ(look(reader), Starts{2100});
  ASSERT_EQ(position_.open.size(), 1u);
  EXPECT_EQ(position_.open[0].record.start_ticks, 2000u);
  EXPECT_EQ(look(reader), Starts{});
  builder_.put(chunk_, 0, call(2000, 300));
  builder_.append(chunk_, call(2400));
  EXPECT_EQ(look(reader), (Starts{2000, 2400}));
  EXPECT_TRUE(position_.open.empty());
}

TEST_F(FollowTest, ARingTellsWhatItWroteOver) {
  add(ChunkKind::kRing);
  SpoolReader reader = begin();
  const uint64_t slots = SpoolBuilder::record_slots(kMinChunkBytes);
  write_ring(0, 10);
  EXPECT_EQ(look(reader).size(), 10u);
  EXPECT_EQ(position_.missed, 0u);
  write_ring(10, 10 + slots + 5);
  const Starts late = look(reader);
  // The oldest slot may be in the making, so it is not believed.
  EXPECT_EQ(position_.missed, 5u + 1);
  EXPECT_EQ(late.size() + position_.missed, slots + 5);
  EXPECT_EQ(late.front(), 2000u + 10 + 6);
  EXPECT_EQ(late.back(), 2000u + 10 + slots + 4);
}

TEST_F(FollowTest, JoiningLeavesOutAllButTheEnd) {
  add(ChunkKind::kEvents);
  for (uint64_t i = 0; i < 100; ++i) builder_.append(chunk_, call(2000 + i));
  SpoolReader reader = begin();
  EXPECT_EQ(reader.follow_from_end(reader.all_chunks()[chunk_], position_, 30), 100u);
  const Starts end = look(reader);
  ASSERT_EQ(end.size(), 30u);
  EXPECT_EQ(end.front(), 2070u);
}

}  // namespace
}  // namespace ddl
