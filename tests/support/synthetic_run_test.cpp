// The generator against the reader: what was put in comes out, and the arithmetic is that of the time model.
#include "tests/support/synthetic_run.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "core/reader.h"
#include "tests/support/synthetic_run_contents.h"
#include "tests/support/synthetic_run_spool.h"

namespace ddl::test {
namespace {

TEST(SyntheticRun, AJobComesBackAsItWasWritten) {
  const WrittenRun job(run()
                           .ranks(4)
                           .steps(10)
                           .split("tp", 2)
                           .forward("fc1", 5_ms)
                           .forward("fc2", 4_ms)
                           .backward("fc2", 8_ms)
                           .iallreduce(4_MiB, 2_ms)
                           .backward("fc1", 10_ms)
                           .iallreduce(1_MiB, 1_ms)
                           .waitall()
                           .on_comm("tp")
                           .collective("MPI_Allgather", 64_KiB, 300_us)
                           .bcast(1_KiB, 50_us, 2)
                           .reduce(1_KiB, 50_us, 1)
                           .sendrecv_ring(2_KiB, 20_us)
                           .isendrecv_ring(2_KiB, 20_us)
                           .message(0, 3, 100_B, 5_us)
                           .polls(7, 2_us)
                           .waitall()
                           .barrier(10_us)
                           .value("samples", 32)
                           .jitter(1_ms, 42));
  expect_same(job);
  for (const auto& rank : job.ranks) {
    EXPECT_EQ(rank->of_kind(RecordKind::kStep).size(), 10u);
    EXPECT_EQ(rank->of_kind(RecordKind::kStepBegin).size(), 10u);
    EXPECT_EQ(rank->of_kind(RecordKind::kRequest).size(), 50u);
    EXPECT_EQ(rank->of_kind(RecordKind::kOpen).size(), 0u);
    // phases: the post parts the backward phase in two
    EXPECT_EQ(rank->of_kind(RecordKind::kRange).size(), 10u * (3 + 4));
    EXPECT_EQ(rank->reader.header().flags, kMpiInitialized | kMpiFinalized | kExited);
    EXPECT_EQ(rank->facts.at("mpi"), "Synthetic MPI 1.0");
    const std::vector<Record> values = rank->of_kind(RecordKind::kValue);
    ASSERT_EQ(values.size(), 10u);
    EXPECT_EQ(rank->strings.at(values[0].context), "samples");
  }
  EXPECT_EQ(job.ranks[3]->comm_names.at(3), "tp.1");
  EXPECT_EQ(job.ranks[3]->runs.at(3).at(0).first, 2);
  EXPECT_EQ(job.truth.instance("tp.1", 1).bytes, 2 * 64_KiB);
}

TEST(SyntheticRun, StepRecordsAgreeWithTheTruth) {
  const WrittenRun job(run().ranks(4).steps(10, 100).compute(30_ms).allreduce(4_MiB, 2_ms).slow(2, 38_ms).jitter(3_ms));
  for (size_t r = 0; r < 4; ++r) {
    const std::vector<Record> steps = job.ranks[r]->of_kind(RecordKind::kStep);
    ASSERT_EQ(steps.size(), 10u);
    for (const Record& s : steps) {
      const StepTruth& t = job.truth.step(static_cast<int>(r), s.sequence);
      EXPECT_EQ(job.ranks[r]->ns(s.start_ticks), t.start_ns);
      EXPECT_EQ(static_cast<int64_t>(record_duration_ticks(s.word)), t.duration_ns);
      EXPECT_EQ(static_cast<int64_t>(s.payload), t.exposed_ns);
      EXPECT_EQ(t.compute_ns + t.exposed_ns, t.duration_ns);
    }
  }
}

TEST(SyntheticRun, ASlowRankMakesTheOthersWait) {
  const Truth truth = run().ranks(16).steps(20).compute(30_ms).allreduce(4_MiB, 2_ms).slow(11, 38_ms).truth();
  EXPECT_EQ(truth.instances.size(), 20u);
  for (uint64_t step = 0; step < 20; ++step) {
    EXPECT_EQ(truth.step(0, step).wait_ns, 38_ms);
    EXPECT_EQ(truth.step(0, step).compute_ns, 30_ms);
    EXPECT_EQ(truth.step(0, step).exposed_ns, 40_ms);
    EXPECT_EQ(truth.step(11, step).wait_ns, 0);
    EXPECT_EQ(truth.step(11, step).duration_ns, 70_ms);
  }
  EXPECT_EQ(truth.instance("MPI_COMM_WORLD", 7).last_rank(), 11);
  EXPECT_EQ(truth.instance("MPI_COMM_WORLD", 7).wait_ns(), 15 * 38_ms);
  EXPECT_EQ(truth.instance("MPI_COMM_WORLD", 7).transfer_ns(), 16 * 2_ms);
  EXPECT_EQ(truth.blame_ns(3, 11), 20 * 38_ms);
  EXPECT_EQ(truth.blame_ns(11, 3), 0);
}

TEST(SyntheticRun, MessagesWaitForTheirOtherEnd) {
  const Truth truth = run()
                          .ranks(3)
                          .steps(1)
                          .on_rank(0)
                          .compute(5_ms)
                          .sendrecv_ring(8_B, 10_us)
                          .barrier(1_us)
                          .on_rank(2)
                          .compute(3_ms)
                          .message(0, 2, 1_KiB, 10_us, true)
                          .barrier(1_us)
                          .on_rank(1)
                          .compute(2_ms)
                          .halo(8_B, 20_us)
                          .collect(2, 1_B, 4_us)
                          .truth();
  ASSERT_EQ(truth.messages.size(), 3u + 1u + 6u + 2u);
  EXPECT_EQ(truth.messages[1].source, 0);  // the ring: rank 1 waits for rank 0
  EXPECT_EQ(truth.messages[1].late_sender_wait_ns, 5_ms);
  EXPECT_EQ(truth.messages[0].late_sender_wait_ns, 0);    // from rank 2 to rank 0, who is late to take it
  EXPECT_EQ(truth.messages[0].late_receiver_wait_ns, 0);  // but rank 2 did not stay for that
  EXPECT_EQ(truth.messages[3].late_receiver_wait_ns, 3_ms);
  EXPECT_EQ(truth.messages[3].late_sender_wait_ns, 0);
  int64_t halo_ns = 0;  // ranks 0 and 2 wait for rank 1 from when they have posted everything
  for (size_t i = 4; i < 10; ++i) halo_ns += *truth.messages[i].late_sender_wait_ns;
  EXPECT_EQ(halo_ns, 2 * (2_ms - 4 * kCallNs) + (2 + 3) * kCallNs);
  EXPECT_EQ(truth.messages[11].late_sender_wait_ns, 0);  // from whoever was later
}

TEST(SyntheticRun, RootedCollectivesWaitForOneSide) {
  const Truth truth = run()
                          .ranks(3)
                          .steps(1)
                          .setup()
                          .on_rank(0)
                          .compute(1_ms)
                          .bcast(1_KiB, 10_us)
                          .each_step()
                          .on_rank(1)
                          .compute(5_ms)
                          .bcast(1_KiB, 10_us, 1)
                          .barrier(1_us)
                          .reduce(1_KiB, 10_us, 0)
                          .truth();
  const InstanceTruth& first = truth.instance("MPI_COMM_WORLD", 1);
  EXPECT_FALSE(first.step);
  EXPECT_EQ(first.members[2].wait_ns, 1_ms);
  const InstanceTruth& bcast = truth.instance("MPI_COMM_WORLD", 2);
  EXPECT_EQ(bcast.step, 0u);
  EXPECT_EQ(bcast.members[1].wait_ns, 0);
  EXPECT_EQ(bcast.members[1].transfer_ns, 10_us);
  EXPECT_EQ(bcast.members[0].wait_ns, 5_ms);
  const InstanceTruth& reduce = truth.instance("MPI_COMM_WORLD", 4);
  EXPECT_EQ(reduce.members[0].wait_ns, 0);
  EXPECT_EQ(*reduce.members[1].leave_ns - reduce.members[1].enter_ns, kCallNs);
}

TEST(SyntheticRun, TransfersInTheBackgroundComeOneAfterTheOther) {
  const Truth truth = run()
                          .ranks(2)
                          .steps(1)
                          .iallreduce(4_MiB, 3_ms)
                          .compute(1_ms)
                          .iallreduce(4_MiB, 3_ms)
                          .compute(2_ms)
                          .waitall()
                          .truth();
  const InstanceTruth& first = truth.instances[0];
  const InstanceTruth& second = truth.instances[1];
  EXPECT_EQ(first.moved_from_ns, first.members[0].enter_ns);
  EXPECT_EQ(second.moved_from_ns, first.moved_until_ns);
  EXPECT_EQ(second.members[0].leave_ns, second.moved_until_ns);
  EXPECT_EQ(first.members[0].leave_ns, second.moved_until_ns);
  EXPECT_EQ(truth.step(0, 0).duration_ns, 6_ms);
  EXPECT_EQ(truth.step(0, 0).exposed_ns, 3_ms);  // two posts and the rest of the transfers
}

TEST(SyntheticRun, WaitingBehindAPostIsExposedOnlyInsideCalls) {
  const Truth truth = run().ranks(2).steps(1).slow(1, 10_ms).iallreduce(4_MiB, 1_ms).compute(4_ms).waitall().truth();
  EXPECT_EQ(truth.instances[0].members[0].wait_ns, 10_ms);
  // The wait covers the post (1 us), 4 ms of computing, and the Waitall until rank 1 posts.
  EXPECT_EQ(truth.step(0, 0).wait_ns, 6_ms);
  EXPECT_EQ(truth.step(1, 0).wait_ns, 0);
}

TEST(SyntheticRun, AKilledRankStaysInItsCallAndHoldsTheOthers) {
  const WrittenRun job(run().ranks(4).steps(10).compute(5_ms).allreduce(1_MiB, 1_ms).barrier().killed(2, 6));
  expect_same(job);
  for (size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(job.ranks[r]->reader.header().flags, kMpiInitialized);
    const std::vector<Record> open = job.ranks[r]->of_kind(RecordKind::kOpen);
    ASSERT_EQ(open.size(), 1u);
    EXPECT_EQ(open[0].sequence, 13u);
    EXPECT_EQ(job.ranks[r]->of_kind(RecordKind::kStep).size(), 6u);
    EXPECT_EQ(job.ranks[r]->of_kind(RecordKind::kStepBegin).size(), 7u);
    EXPECT_EQ(job.truth.open_call(static_cast<int>(r)).step, 6u);
  }
  EXPECT_TRUE(job.truth.instance("MPI_COMM_WORLD", 13).missing.empty());
  EXPECT_FALSE(job.truth.instance("MPI_COMM_WORLD", 13).complete);
}

TEST(SyntheticRun, AHungRankIsMissingFromTheCallOfTheOthers) {
  const WrittenRun job(run().ranks(4).steps(10).compute(5_ms).allreduce(1_MiB, 1_ms).hang(1, 3));
  expect_same(job);
  EXPECT_TRUE(job.ranks[1]->of_kind(RecordKind::kOpen).empty());
  EXPECT_FALSE(job.truth.has_open_call(1));
  EXPECT_EQ(job.ranks[0]->of_kind(RecordKind::kOpen).size(), 1u);
  EXPECT_EQ(job.truth.instance("MPI_COMM_WORLD", 4).missing, std::vector<int>{1});
}

TEST(SyntheticRun, AHungGroupHoldsOnlyWhoNeedsIt) {
  const Truth truth = run().ranks(4).steps(3).split("tp", 2).on_comm("tp").allreduce(1_KiB, 1_us).hang(3, 1).truth();
  EXPECT_TRUE(truth.has_open_call(2));
  EXPECT_EQ(truth.open_call(0).op, "MPI_Finalize");  // the first group goes on to the end
  EXPECT_NO_THROW(truth.step(0, 2));
}

TEST(SyntheticRun, AnAbortLeavesItsMark) {
  const WrittenRun job(run().ranks(2).steps(3).allreduce(1_KiB, 1_us).aborts(0, 1, 42));
  EXPECT_EQ(job.ranks[0]->reader.header().flags, kMpiInitialized | kMpiAborted);
  EXPECT_EQ(job.ranks[0]->reader.header().abort_code, 42);
  EXPECT_EQ(job.truth.open_call(0).op, "MPI_Abort");
  EXPECT_EQ(job.truth.open_call(1).op, "MPI_Allreduce");
}

TEST(SyntheticRun, AWindowSendsTheRestToTheRing) {
  const WrittenRun job(run().ranks(2).steps(1000).compute(1_ms).allreduce(1_KiB, 1_us).barrier().window(10, 12));
  for (const auto& rank : job.ranks) {
    EXPECT_EQ(rank->of_kind(RecordKind::kCall).size(), 6u);
    EXPECT_EQ(rank->of_kind(RecordKind::kStep).size(), 1000u);
    EXPECT_EQ(rank->ring_written, 2 * 997u + 2);  // with MPI_Init and MPI_Finalize
    EXPECT_EQ(rank->ring.size(), SpoolBuilder::record_slots(kMinChunkBytes));
  }
  EXPECT_EQ(job.truth.profile_sum(0, "MPI_Allreduce").calls, 1000);
}

TEST(SyntheticRun, ARankMayKeepEveryFourthStepOnly) {
  const WrittenRun job(run().ranks(2).steps(20).allreduce(1_KiB, 1_us).keep_level(1, 2, 8));
  expect_same(job);
  EXPECT_EQ(job.ranks[0]->of_kind(RecordKind::kStep).size(), 20u);
  EXPECT_EQ(job.ranks[1]->of_kind(RecordKind::kStep).size(), 8u + 3u);  // 8, 12, 16
  EXPECT_EQ(job.ranks[1]->reader.header().keep_level, 2u);
}

TEST(SyntheticRun, LongRunsFillSeveralChunksAndOutgrowTheProfile) {
  SyntheticRun plan = run().ranks(2).steps(400);
  for (int layer = 0; layer < 150; ++layer)
    plan.layer("layer" + std::to_string(layer)).every(40).allreduce(1_KiB << layer % 8, 10_us).end_layer();
  const WrittenRun job(plan);
  expect_same(job);
  EXPECT_GT(job.ranks[0]->log_chunks, 5);
  EXPECT_GT(job.ranks[0]->profile.size(), 192u);
  EXPECT_EQ(job.ranks[0]->reader.chunks(ChunkKind::kProfile).size(), 2u);
}

TEST(SyntheticRun, HostsAndClocks) {
  const WrittenRun job(
      run().ranks(6).steps(100).compute(50_ms).allreduce(1_KiB, 1_ms).hosts(3).host_clock(2, 7_s, 50).tsc(2.6e9));
  const FileHeader& a = job.ranks[0]->reader.header();
  const FileHeader& b = job.ranks[1]->reader.header();
  const FileHeader& c = job.ranks[2]->reader.header();
  const FileHeader& d = job.ranks[4]->reader.header();
  EXPECT_EQ(fixed_text(a.boot_id), fixed_text(b.boot_id));
  EXPECT_NE(fixed_text(a.boot_id), fixed_text(c.boot_id));
  EXPECT_NE(fixed_text(c.host), fixed_text(d.host));
  EXPECT_EQ(a.begin.ticks, b.begin.ticks);
  EXPECT_EQ(c.begin.realtime_ns - a.begin.realtime_ns, static_cast<uint64_t>(3_ms));
  EXPECT_EQ(d.begin.realtime_ns - a.begin.realtime_ns, static_cast<uint64_t>(7_s + 6_ms));
  const auto lived = [](const FileHeader& h) {
    return static_cast<double>(h.latest.monotonic_ns - h.begin.monotonic_ns);
  };
  EXPECT_EQ(lived(a), lived(c));
  EXPECT_NEAR(lived(d) / lived(a), 1 + 50e-6, 1e-9);
  EXPECT_EQ(a.clock, static_cast<uint32_t>(ClockKind::kTsc));
  EXPECT_GT(job.ranks[0]->clocks.size(), 4u);
  for (const auto& rank : job.ranks) {
    for (const ChunkKind kind :
         {ChunkKind::kMeta, ChunkKind::kRing, ChunkKind::kProfile, ChunkKind::kEvents}) {  // chunks are clock pairs too
      for (const SpoolChunk& chunk : rank->reader.chunks(kind))
        rank->clocks.push_back({chunk.header.begin_ticks, chunk.header.begin_monotonic_ns, 0});
    }
    for (const ClockPair& pair : rank->clocks) {
      const double ns = static_cast<double>(pair.ticks - rank->reader.header().begin.ticks) / 2.6;
      EXPECT_NEAR(ns, static_cast<double>(pair.monotonic_ns - rank->reader.header().begin.monotonic_ns), 1);
    }
  }
}

TEST(SyntheticRun, NamesMayBeAnyBytes) {
  const WrittenRun job(run().ranks(2).steps(2).names(hostile_names()).allreduce(1_KiB, 1_us));
  expect_same(job);
  std::set<std::string> found;
  for (const auto& [id, text] : job.ranks[0]->strings) found.insert(text);
  for (const std::string& name : hostile_names()) EXPECT_TRUE(found.count(name));
}

TEST(SyntheticRun, WithoutStepsNothingIsAnnotated) {
  const WrittenRun job(run().ranks(2).steps(5).compute(1_ms).allreduce(1_KiB, 1_us).no_steps());
  expect_same(job);
  EXPECT_TRUE(job.ranks[0]->of_kind(RecordKind::kStepBegin).empty());
  EXPECT_EQ(job.truth.steps.size(), 10u);
}

TEST(SyntheticRun, ARunDirectoryHoldsWhatItShould) {
  const WrittenRun job(run()
                           .ranks(3)
                           .steps(2)
                           .allreduce(1_KiB, 1_us)
                           .missing(1)
                           .job_json(3)
                           .command({"mpirun", "a\"b"})
                           .loss(0, kLossMeta, 5));
  expect_same(job);
  EXPECT_EQ(job.ranks[1], nullptr);
  EXPECT_EQ(job.ranks[0]->reader.header().loss[kLossMeta], 5u);
  std::ifstream file(job.folder / "job.json");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(text.find("\"exit_code\": 3"), std::string::npos);
  EXPECT_NE(text.find("a\\\"b"), std::string::npos);
}

TEST(SyntheticRun, RanksKnowTheSameThingsByDifferentIds) {
  const WrittenRun job(run().ranks(2).steps(1).forward("a", 1_ms).backward("a", 1_ms).allreduce(1_KiB, 1_us));
  EXPECT_NE(job.ranks[0]->strings, job.ranks[1]->strings);
}

TEST(SyntheticRun, TheSameWordsGiveTheSameBytes) {
  const SyntheticRun plan = run().ranks(2).steps(3).compute(1_ms).gap(200_us).allreduce(1_KiB, 1_us).jitter(100_us, 7);
  const WrittenRun first(plan), second(plan);
  EXPECT_EQ(first.truth.step(0, 1).start_ns,
            first.truth.step(0, 0).start_ns + first.truth.step(0, 0).duration_ns + 200_us);
  for (const std::string& spool : first.truth.spools) {
    std::ifstream a(first.folder / spool, std::ios::binary), b(second.folder / spool, std::ios::binary);
    EXPECT_EQ(std::string((std::istreambuf_iterator<char>(a)), {}),
              std::string((std::istreambuf_iterator<char>(b)), {}));
  }
}

TEST(SyntheticRun, TwoWorldsShareAFolder) {
  const ScratchFolder folder;
  const Truth first = run().ranks(2).steps(3).allreduce(1_KiB, 1_us).write(folder.path());
  const Truth second = run().ranks(3).steps(3).allreduce(1_KiB, 1_us).world(2, 5_s, 2000).write(folder.path());
  EXPECT_EQ(second.step(0, 0).start_ns, first.step(0, 0).start_ns + 5_s);
  const Contents a((folder / first.spools[0]).string()), b((folder / second.spools[0]).string());
  EXPECT_NE(a.reader.header().world_key, b.reader.header().world_key);
  EXPECT_EQ(b.reader.header().begin.monotonic_ns - a.reader.header().begin.monotonic_ns, static_cast<uint64_t>(5_s));
}

TEST(SyntheticRun, MisuseIsToldApart) {
  EXPECT_THROW(run().collective("MPI_Send", 1, 1), std::invalid_argument);
  EXPECT_THROW(run().collective("MPI_Nonsense", 1, 1), std::out_of_range);
  EXPECT_THROW(run().on_comm("none").allreduce(1, 1).truth(), std::invalid_argument);
  EXPECT_THROW(run().phase("open").end_layer().truth(), std::logic_error);
}

TEST(SpoolBuilder, PutsAnOddSpoolTogether) {
  SpoolBuilder spool;
  const size_t log = spool.add_chunk(ChunkKind::kEvents, kPageBytes, 3);
  EXPECT_TRUE(spool.append(log, {10, record_word(RecordKind::kCall, 16, 5), 0, 1, 0, 1, -1}));
  EXPECT_FALSE(spool.put(log, SpoolBuilder::record_slots(kPageBytes), {}));
  spool.string(1, "name");
  const size_t damaged = spool.add_chunk(ChunkKind::kEvents, kPageBytes);
  spool.chunk(damaged).begin_ticks = 1;  // the check no longer fits
  const ScratchFolder folder;
  spool.write(folder / "odd.spool");
  write_bytes(folder / "same.spool", spool.image());
  for (const char* name : {"odd.spool", "same.spool"}) {
    const SpoolReader reader((folder / name).string());
    EXPECT_EQ(reader.chunks(ChunkKind::kEvents).size(), 1u);
    EXPECT_EQ(reader.chunks(ChunkKind::kMeta).size(), 1u);
    ASSERT_EQ(reader.skipped().size(), 1u);
    EXPECT_EQ(reader.skipped()[0].offset, spool.offset(damaged));
    std::vector<Record> records;
    reader.read_records(reader.chunks(ChunkKind::kEvents)[0], records);
    EXPECT_EQ(records.size(), 1u);
  }
}

}  // namespace
}  // namespace ddl::test
