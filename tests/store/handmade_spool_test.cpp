// The ingest against spools that were put together record by record: steps, open calls, call sites, sampled times.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "tests/store/store_fixture.h"
#include "tests/support/synthetic_run_spool.h"

namespace ddl {
namespace {

using test::SpoolBuilder;

class HandmadeSpoolTest : public StoreTest {
 protected:
  HandmadeSpoolTest() {
    spool_.header().begin = spool_.header().latest = {1000000, 1000000, 5000000};
    spool_.header().rank = 0;
    spool_.header().world_size = 1;
    spool_.header().flags = kMpiInitialized | kMpiFinalized;
    spool_.operation(16, OpClass::kAllToAll, false, "MPI_Allreduce");
    spool_.operation(17, OpClass::kSend, false, "MPI_Send");
    CommunicatorMeta world = {};
    world.index = 1;
    world.uid = 1;
    world.size = 1;
    world.flags = kCommWorld;
    spool_.communicator(world, {});
    log_ = spool_.add_chunk(ChunkKind::kEvents);
    ring_ = spool_.add_chunk(ChunkKind::kRing);
  }
  void load() {
    std::filesystem::create_directories(folder());
    spool_.write(folder() / "n0.1.1.spool");
    ingest_again();
  }
  /// Moments are ns after the begin.
  static Record record(RecordKind kind, uint32_t op, uint64_t at, uint64_t duration, uint32_t comm = 0,
                       uint32_t context = 0, uint32_t sequence = 0, int32_t peer = -1) {
    return {1000000 + at, record_word(kind, op, duration), 0, comm, context, sequence, peer};
  }
  static Record step(RecordKind kind, uint32_t number, uint64_t at, uint64_t duration) {
    return record(kind, 1, at, duration, 0, 1, number);
  }

  SpoolBuilder spool_;
  size_t log_, ring_;
};

TEST_F(HandmadeSpoolTest, BothGroupsOfAnIntercommunicatorAreMembers) {
  std::filesystem::create_directories(folder());
  for (int rank = 0; rank < 3; ++rank) {
    SpoolBuilder spool;
    spool.header().begin = spool.header().latest = {1000000, 1000000, 5000000};
    spool.header().rank = rank;
    spool.header().world_size = 3;
    spool.header().flags = kMpiInitialized | kMpiFinalized;
    CommunicatorMeta inter = {};
    inter.index = 2;
    inter.uid = 77;
    inter.flags = kCommInter;
    inter.size = rank == 1 ? 1 : 2;
    spool.communicator(inter, rank == 1 ? std::vector<RankRun>{{1, 1, 1}} : std::vector<RankRun>{{2, -2, 2}});
    spool.write(folder() / ("n0." + std::to_string(rank + 1) + ".1.spool"));
  }
  ingest_again();
  EXPECT_EQ(
      rows(
          "SELECT c.size, m.side, m.comm_rank, m.rank FROM communicator_member m JOIN communicator c ON c.id = m.communicator "
          "WHERE c.kind = 'inter' ORDER BY 2, 3"),
      (Rows{{"3", "0", "0", "2"}, {"3", "0", "1", "0"}, {"3", "1", "0", "1"}}));
}

TEST_F(HandmadeSpoolTest, CallSitesAreOffsetsInFiles) {
  spool_.module(0x7f0000, 0x7f8000, 0x2000, "/lib/model.so");
  spool_.module(0x400000, 0x401000, 0, "/bin/train");
  for (const auto& [id, address] :
       std::map<uint32_t, uint64_t>{{1, 0x7f0123}, {2, 0x400fff}, {3, 0x401000}, {4, 0x10}}) {
    spool_.context({id, 0, static_cast<uint32_t>(ContextKind::kSite), 0, address});
    spool_.append(log_, record(RecordKind::kCall, 16, id, 1, 1, id, id));
  }
  load();
  EXPECT_EQ(rows("SELECT s.module, s.offset FROM event e JOIN site s ON s.id = e.site ORDER BY e.id"),
            (Rows{{"/lib/model.so", std::to_string(0x2123)},
                  {"/bin/train", std::to_string(0xfff)},
                  {"?", std::to_string(0x401000)},
                  {"?", "16"}}));
}

TEST_F(HandmadeSpoolTest, SitesOfTwoProcessesAtDifferentAddressesAreOne) {
  const auto write = [&](uint64_t base, const char* name, int32_t rank) {
    SpoolBuilder spool;
    spool.header().begin = spool.header().latest = {1, 1, 1};
    spool.header().rank = rank;
    spool.header().world_size = 2;
    spool.operation(16, OpClass::kSend, false, "MPI_Send");
    spool.module(base, base + 0x1000, 0, "/bin/train");
    spool.context({1, 0, 4, 0, base + 0x77});
    spool.append(spool.add_chunk(ChunkKind::kEvents), {5, record_word(RecordKind::kCall, 16, 1), 0, 0, 1, 0, 0});
    spool.write(folder() / name);
  };
  std::filesystem::create_directories(folder());
  write(0x10000, "a.1.1.spool", 0);
  write(0x90000, "b.1.1.spool", 1);
  ingest_again();
  EXPECT_EQ(rows("SELECT module, offset FROM site"), (Rows{{"/bin/train", "119"}}));
}

TEST_F(HandmadeSpoolTest, AnEventBelongsToTheStepThatContainsItsStart) {
  spool_.append(log_, step(RecordKind::kStepBegin, 10, 1000, 0));
  spool_.append(log_, record(RecordKind::kCall, 16, 999, 5000, 1, 0, 1));   // began before
  spool_.append(log_, record(RecordKind::kCall, 16, 1000, 5000, 1, 0, 2));  // at its begin, ends after it
  spool_.append(log_, record(RecordKind::kCall, 16, 1999, 1, 1, 0, 3));
  spool_.append(log_, record(RecordKind::kCall, 16, 2000, 1, 1, 0, 4));  // at its end: outside
  spool_.append(log_, step(RecordKind::kStep, 10, 1000, 1000));
  spool_.append(log_, record(RecordKind::kCall, 16, 2500, 1, 1, 0, 5));
  const size_t other = spool_.add_chunk(ChunkKind::kEvents, kMinChunkBytes, 1);  // another thread opens the next step
  spool_.append(other, step(RecordKind::kStepBegin, 11, 3000, 0));
  spool_.append(log_, record(RecordKind::kCall, 16, 3100, 1, 1, 0, 6));
  spool_.append(other, step(RecordKind::kStep, 11, 3000, 200));
  load();
  EXPECT_EQ(rows("SELECT seq, step FROM event ORDER BY seq"),
            (Rows{{"1", "NULL"}, {"2", "10"}, {"3", "10"}, {"4", "NULL"}, {"5", "NULL"}, {"6", "11"}}));
}

TEST_F(HandmadeSpoolTest, StepsWithoutAnEnd) {
  spool_.append(log_, step(RecordKind::kStepBegin, 1, 1000, 0));
  spool_.append(log_, record(RecordKind::kCall, 16, 1500, 1, 1, 0, 1));
  spool_.append(log_, step(RecordKind::kStepBegin, 2, 2000, 0));  // 1 never ended
  spool_.append(log_, record(RecordKind::kCall, 16, 2500, 1, 1, 0, 2));
  // behind the end of 2; 1 does not last beyond the begin of 2
  spool_.append(log_, record(RecordKind::kCall, 16, 2750, 1, 1, 0, 4));
  spool_.put(ring_, 0, step(RecordKind::kStep, 2, 2000, 700));    // its end went to the ring
  spool_.put(ring_, 1, step(RecordKind::kStep, 3, 2800, 100));    // in the ring only: not kept
  spool_.append(log_, step(RecordKind::kStepBegin, 4, 3000, 0));  // open at the end
  spool_.append(log_, record(RecordKind::kOpen, 16, 3500, 0, 1, 0, 3));
  load();
  EXPECT_EQ(rows("SELECT step, duration_ns FROM step ORDER BY start_ns"),
            (Rows{{"1", "NULL"}, {"2", "700"}, {"4", "NULL"}}));
  EXPECT_EQ(rows("SELECT seq, step FROM event ORDER BY seq"), (Rows{{"1", "1"}, {"2", "2"}, {"4", "NULL"}}));
  EXPECT_EQ(rows("SELECT seq, step FROM open_call"), (Rows{{"3", "4"}}));
}

TEST_F(HandmadeSpoolTest, OnlyCallsThatTheirThreadHasNotLeftAreOpen) {
  spool_.append(log_, record(RecordKind::kOpen, 16, 100, 0, 1, 0, 1));  // its thread went on
  spool_.append(log_, record(RecordKind::kCall, 16, 200, 10, 1, 0, 2));
  spool_.append(log_, record(RecordKind::kOpen, 16, 300, 0, 1, 0, 3));  // open ...
  // ... and a call inside it, kept in the ring
  spool_.put(ring_, 0, record(RecordKind::kOpen, 17, 310, 0, 1, 0, 42, 5));
  const size_t other = spool_.add_chunk(ChunkKind::kEvents, kMinChunkBytes, 1);  // what other threads do says nothing
  spool_.append(other, record(RecordKind::kCall, 16, 400, 50, 1, 0, 4));
  load();
  EXPECT_EQ(
      rows(
          "SELECT thread, o.name, seq, tag, peer, start_ns FROM open_call x JOIN op o ON o.id = x.op ORDER BY start_ns"),
      (Rows{{"0", "MPI_Allreduce", "3", "NULL", "NULL", "300"}, {"0", "MPI_Send", "NULL", "42", "5", "310"}}));
  EXPECT_EQ(rows("SELECT kind, count FROM loss WHERE kind = 'abandoned_calls'"), (Rows{{"abandoned_calls", "1"}}));
  EXPECT_EQ(number("SELECT count(*) FROM event"), 2);
  EXPECT_EQ(number("SELECT count(*) FROM v_open_call"), 2);
}

TEST_F(HandmadeSpoolTest, EventsAreSortedAcrossChunksAndThreads) {
  const size_t second = spool_.add_chunk(ChunkKind::kEvents);
  const size_t third = spool_.add_chunk(ChunkKind::kEvents);
  for (const uint32_t at : {100, 200, 300, 900}) spool_.append(log_, record(RecordKind::kCall, 17, at, 1, 1, 0, at));
  for (const uint32_t at : {1000, 50, 1100, 250})
    spool_.append(second, record(RecordKind::kCall, 17, at, 1, 1, 0, at));  // 50, 250: completed here
  for (const uint32_t at : {1200, 150, 1050}) spool_.append(third, record(RecordKind::kCall, 17, at, 1, 1, 0, at));
  const size_t other = spool_.add_chunk(ChunkKind::kEvents, kMinChunkBytes, 1);
  for (const uint32_t at : {10, 100, 260, 2000}) spool_.append(other, record(RecordKind::kCall, 17, at, 1, 1, 0, at));
  load();
  Rows expected = {{"1", "10"},  {"0", "50"},  {"0", "100"}, {"1", "100"},
                   {"0", "150"}, {"0", "200"}, {"0", "250"}, {"1", "260"}};
  for (const char* at : {"300", "900", "1000", "1050", "1100", "1200"}) expected.push_back({"0", at});
  expected.push_back({"1", "2000"});
  EXPECT_EQ(rows("SELECT thread, start_ns FROM event ORDER BY id"), expected);
}

TEST_F(HandmadeSpoolTest, LabelsStayUniqueWhateverTheProgramCallsThem) {
  spool_.operation(18, OpClass::kCommunicator, false, "MPI_Comm_split");
  const char* names[] = {"dp", "dp", "MPI_COMM_WORLD", "MPI_Comm_split#1", nullptr};
  for (uint32_t i = 0; i < std::size(names); ++i) {
    CommunicatorMeta comm = {};
    comm.index = 2 + i;
    comm.parent = 1;
    comm.uid = 100 + i;
    comm.size = 1 + static_cast<int32_t>(i);
    comm.op = 18;
    spool_.communicator(comm, {});
    if (!names[i]) continue;
    spool_.string(1 + i, names[i]);
    spool_.communicator_name(2 + i, 1 + i);
  }
  load();
  EXPECT_EQ(rows("SELECT uid, label FROM communicator ORDER BY uid"), (Rows{{"1", "MPI_COMM_WORLD"},
                                                                            {"100", "dp"},
                                                                            {"101", "dp#2"},
                                                                            {"102", "MPI_COMM_WORLD#2"},
                                                                            {"103", "MPI_Comm_split#1"},
                                                                            {"104", "MPI_Comm_split#2"}}));
  EXPECT_EQ(rows("SELECT size FROM communicator ORDER BY id"), (Rows{{"5"}, {"4"}, {"3"}, {"2"}, {"1"}, {"1"}}))
      << "numbered by size, descending";
}

TEST_F(HandmadeSpoolTest, AProcessThatDescribedNoOperationsBorrowsTheirNames) {
  SpoolBuilder hung;  // in MPI_Init: nothing is described yet
  hung.header().begin = hung.header().latest = {1000000, 1000000, 5000000};
  hung.append(hung.add_chunk(ChunkKind::kEvents), record(RecordKind::kOpen, 17, 100, 0));
  std::filesystem::create_directories(folder());
  hung.write(folder() / "n1.1.1.spool");
  load();
  EXPECT_EQ(rows("SELECT rank, op FROM v_open_call"), (Rows{{"NULL", "MPI_Send"}}));
}

TEST_F(HandmadeSpoolTest, CommSelfIsNoInstanceOfACollective) {
  CommunicatorMeta self = {};
  self.index = 2;
  self.uid = 2;
  self.size = 1;
  self.flags = kCommSelf;
  spool_.communicator(self, {});
  spool_.append(log_, record(RecordKind::kCall, 16, 10, 1, 2, 0, 1));
  spool_.append(log_, record(RecordKind::kCall, 16, 20, 1, 1, 0, 1));
  load();
  EXPECT_EQ(rows("SELECT c.label, e.seq FROM event e JOIN communicator c ON c.id = e.comm ORDER BY e.id"),
            (Rows{{"MPI_COMM_SELF", "NULL"}, {"MPI_COMM_WORLD", "1"}}));
}

TEST_F(HandmadeSpoolTest, WhatIsNotDescribedIsCountedAndKept) {
  spool_.append(log_, record(RecordKind::kCall, 99, 10, 1, 55, 77, 1));
  load();
  EXPECT_EQ(rows("SELECT o.name, o.class, e.comm, e.seq, e.region, e.site FROM event e JOIN op o ON o.id = e.op"),
            (Rows{{"unknown#99", "unknown", "NULL", "NULL", "0", "NULL"}}));
  EXPECT_EQ(rows("SELECT kind, count FROM loss WHERE kind = 'undescribed'"), (Rows{{"undescribed", "2"}}));
}

TEST_F(HandmadeSpoolTest, SampledTimesAreScaledAndSaySo) {
  ProfileEntry e = {};
  e.op = 16;
  e.comm = 1;
  e.untimed_calls = 2 * (24 + 0x01020304);
  e.ticks = 5000;
  e.min_ticks = 150;
  e.max_ticks = 300;
  e.histogram[0] = 24;
  e.histogram[1] = 0x01020304;
  const size_t table = spool_.add_chunk(ChunkKind::kProfile);
  spool_.put_profile(table, 1, e);
  e.untimed_calls = 0;  // the same key on another thread
  e.ticks = 3000;
  e.max_ticks = 2000;
  spool_.put_profile(spool_.add_chunk(ChunkKind::kProfile, kMinChunkBytes, 1), 200, e);
  load();
  // Half of the calls were timed, in 8000 ticks.
  EXPECT_EQ(rows("SELECT calls, time_ns, min_ns, max_ns, time_estimated FROM v_call"),
            (Rows{{"67636336", "16000", "150", "2000", "1"}}));
  EXPECT_EQ(text("SELECT histogram FROM profile").substr(0, 16), "3000000008060402");
}

TEST_F(HandmadeSpoolTest, OverheadIsTicksAsNanoseconds) {
  spool_.header().overhead_ticks = 12345;
  load();
  EXPECT_EQ(rows("SELECT overhead_ns FROM v_rank"), (Rows{{"12345"}}));
}

TEST_F(HandmadeSpoolTest, NotANumberIsNull) {
  spool_.string(1, "loss");
  Record value = record(RecordKind::kValue, 0, 10, 0, 0, 1);
  const double nan = std::nan("");
  memcpy(&value.payload, &nan, sizeof nan);
  spool_.append(log_, value);
  load();
  EXPECT_EQ(rows("SELECT name, value FROM value"), (Rows{{"loss", "NULL"}}));
}

TEST_F(HandmadeSpoolTest, AProgramWithoutMpiHasNoRank) {
  spool_.header().rank = -1;
  spool_.header().world_size = 0;
  spool_.header().flags = kExited;
  spool_.append(log_, step(RecordKind::kStepBegin, 1, 10, 0));
  spool_.append(log_, step(RecordKind::kStep, 1, 10, 100));
  load();
  EXPECT_EQ(rows("SELECT world, rank, world_size, ended, init_ns FROM process"),
            (Rows{{"0", "NULL", "NULL", "exited", "NULL"}}));
  EXPECT_EQ(number("SELECT count(*) FROM step"), 1);
  EXPECT_EQ(number("SELECT count(*) FROM loss"), 0);
}

TEST_F(HandmadeSpoolTest, CountersOfTheProcessBecomeLosses) {
  spool_.header().loss[kLossRequests] = 5;
  spool_.header().loss[kLossSlots - 1] = 2;  // of a newer library
  spool_.header().flags |= kCannotGrow;
  load();
  EXPECT_EQ(rows("SELECT kind, count, world, rank FROM loss ORDER BY kind"),
            (Rows{{"cannot_grow", "1", "0", "0"}, {"loss_31", "2", "0", "0"}, {"requests", "5", "0", "0"}}));
}

}  // namespace
}  // namespace ddl
