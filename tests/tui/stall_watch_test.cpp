// When the watch of `ddl record --stall` speaks, over spools whose generator knows who hangs, and over jobs made by
// hand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analyzer/passes/message_operation.h"
#include "tests/analyzer/analyzed.h"
#include "tests/support/synthetic_run_spool.h"
#include "tui/live_stall.h"
#include "tui/spool_source.h"
#include "tui/stall_watch.h"

namespace ddl::test {
namespace {

using Kind = tui::StallNews::Kind;

constexpr int64_t kSecond = 1'000'000'000;

/// Three ranks, of which rank 1 never comes to the seventh allreduce.
struct HungJob {
  HungJob() {
    run().ranks(3).steps(10).compute(5_ms).allreduce(1_MiB, 1_ms).hang(1, 6).write(folder.path());
    tui::SpoolSource source(find_run(folder.path().string()), "run.ddl");
    source.poll(job, 1);
    job.ended = false;                      // its processes never were
    std::swap(job.ranks[1], job.ranks[2]);  // ranks come as their spools are found
    for (const tui::Rank& rank : job.ranks) last_ns = std::max(last_ns, rank.clock.time_ns(rank.finished_ticks));
  }
  ScratchFolder folder;
  tui::Job job;
  int64_t last_ns = INT64_MIN;

  tui::Rank& rank(int32_t number) {
    return *std::find_if(job.ranks.begin(), job.ranks.end(), [&](const tui::Rank& r) { return r.rank == number; });
  }
  uint32_t world() const {
    for (const tui::Rank& r : job.ranks)
      if (r.sits_in) return r.sits_in->comm;
    return tui::kNone;
  }
  /// Rank `number` has finished something at `at_ns`.
  void finish(int32_t number, int64_t at_ns) {
    tui::Rank& r = rank(number);
    while (r.clock.time_ns(r.finished_ticks) < at_ns) r.finished_ticks += 1000;
  }
};

TEST(StallWatch, TellsOnceWhoIsMissingAndOnceThatItGoesOn) {
  HungJob hung;
  tui::StallWatch watch(3 * kSecond);
  hung.job.now_ns = hung.last_ns + 2 * kSecond;
  EXPECT_FALSE(watch.look(hung.job)) << "below the limit";
  hung.job.now_ns = hung.last_ns + 4 * kSecond;
  const auto news = watch.look(hung.job);
  ASSERT_TRUE(news);
  EXPECT_EQ(news->kind, Kind::kStall);
  EXPECT_EQ(news->call, "MPI_Allreduce number 7 on MPI_COMM_WORLD");
  EXPECT_EQ(news->missing, std::vector<int64_t>{1});
  EXPECT_EQ(news->waiting, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(news->since_ns, hung.last_ns);
  EXPECT_EQ(news->sentence.find("no rank has finished a call or a step for 4.00 s"), 0u) << news->sentence;
  EXPECT_NE(news->sentence.find("rank 1 never entered MPI_Allreduce number 7 on MPI_COMM_WORLD: ranks 0, 2 sit in it"),
            std::string::npos)
      << news->sentence;
  hung.job.now_ns += 60 * kSecond;
  EXPECT_FALSE(watch.look(hung.job)) << "it was told";
  for (tui::Rank& rank : hung.job.ranks) rank.clock.offset_ns += 5;  // newer pairs of clocks move the line a little
  EXPECT_FALSE(watch.look(hung.job)) << "nothing was finished";
  hung.finish(1, hung.job.now_ns - kSecond);
  const auto resumed = watch.look(hung.job);
  ASSERT_TRUE(resumed);
  EXPECT_EQ(resumed->kind, Kind::kResumed);
  hung.job.now_ns += 10 * kSecond;
  const auto again = watch.look(hung.job);
  ASSERT_TRUE(again) << "another stall";
  EXPECT_EQ(again->kind, Kind::kStall);
}

TEST(StallWatch, ARankThatGetsOnIsNoStall) {
  HungJob hung;
  tui::StallWatch watch(3 * kSecond);
  int told = 0;
  for (int second = 1; second <= 9; ++second) {  // three times the limit
    hung.job.now_ns = hung.last_ns + second * kSecond;
    hung.finish(1, hung.job.now_ns - kSecond / 2);
    const auto news = watch.look(hung.job);
    if (!news) continue;
    ++told;
    EXPECT_EQ(news->kind, Kind::kWaiting);
    EXPECT_EQ(news->missing, std::vector<int64_t>{1});
    EXPECT_NE(news->sentence.find("; rank 1 still makes progress"), std::string::npos) << news->sentence;
  }
  EXPECT_EQ(told, 1);
}

TEST(StallWatch, OthersThatGoOnDoNotHideWhoIsSilent) {
  HungJob hung;
  tui::StallWatch watch(3 * kSecond);
  hung.job.now_ns = hung.last_ns + 4 * kSecond;
  hung.finish(2, hung.job.now_ns - kSecond / 2);  // from a thread that has other work
  const auto news = watch.look(hung.job);
  ASSERT_TRUE(news);
  EXPECT_EQ(news->kind, Kind::kWaiting);
  EXPECT_NE(news->sentence.find("; rank 1 has finished nothing for longer than 3.00 s, while others go on"),
            std::string::npos)
      << news->sentence;
}

/// `number` sits in a receive from `peer` since it finished its last call.
void sit_in_message(HungJob& hung, int32_t number, int32_t peer) {
  hung.job.operations.push_back({describe_operation("MPI_Recv", "receive", false), {}});
  tui::Rank& rank = hung.rank(number);
  const uint32_t world = hung.world();
  rank.sits_in =
      tui::OpenCall{static_cast<uint32_t>(hung.job.operations.size() - 1), world, 0, rank.finished_ticks, peer};
}

// In the words of the report (analyzer/findings/message_case.h); the allreduce that rank 2 sits in is no cause.
TEST(StallWatch, RanksThatReceiveFromEachOtherAreNamedAsInTheReport) {
  HungJob hung;
  for (const int32_t number : {0, 1}) sit_in_message(hung, number, 1 - number);
  tui::StallWatch watch(3 * kSecond);
  hung.job.now_ns = hung.last_ns + 4 * kSecond;
  const auto news = watch.look(hung.job);
  ASSERT_TRUE(news);
  EXPECT_EQ(news->kind, Kind::kStall);
  EXPECT_NE(news->sentence.find(
                ": ranks 0 and 1 wait for each other: rank 0 in MPI_Recv with rank 1 on MPI_COMM_WORLD for 4.0"),
            std::string::npos)
      << news->sentence;
  EXPECT_NE(news->sentence.find(", rank 1 in MPI_Recv with rank 0 on MPI_COMM_WORLD for 4.0"), std::string::npos)
      << news->sentence;
  EXPECT_NE(news->sentence.find("; behind them rank 2 waits in MPI_Allreduce number 7 on MPI_COMM_WORLD"),
            std::string::npos)
      << news->sentence;
  EXPECT_EQ(news->missing, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(news->waiting, (std::vector<int64_t>{0, 1, 2}));
  const auto stall = tui::find_live_stall(hung.job, {}, {.least_ns = 2e9});
  ASSERT_TRUE(stall);
  EXPECT_TRUE(stall->circular);
  EXPECT_TRUE(stall->advice.starts_with("each of them receives before it sends")) << stall->advice;
  EXPECT_FALSE(tui::find_live_stall(hung.job, {}, {.least_ns = 9e9}) &&
               !tui::find_live_stall(hung.job, {}, {.least_ns = 9e9})->message.empty())
      << "4 s in a receive is not a hang";
}

TEST(StallWatch, AMessageThatNobodySendsIsNamedAsInTheReport) {
  HungJob hung;
  sit_in_message(hung, 0, 1);
  hung.rank(2).sits_in.reset();
  tui::StallWatch watch(3 * kSecond);
  hung.job.now_ns = hung.last_ns + 4 * kSecond;
  const auto news = watch.look(hung.job);
  ASSERT_TRUE(news);
  EXPECT_NE(news->sentence.find(
                ": rank 1 never sent what rank 0 waits for: rank 0 in MPI_Recv with rank 1 on MPI_COMM_WORLD for 4.0"),
            std::string::npos)
      << news->sentence;
  EXPECT_EQ(news->missing, std::vector<int64_t>{1});
  EXPECT_EQ(news->waiting, std::vector<int64_t>{0});
}

/// Rank 1 never comes to its messages with its neighbours in the ring; rank 0 waits a step later, for rank 2.
TEST(StallWatch, WhoseMessageAWaitForSeveralRequestsLacksIsNamedAsInTheReport) {
  ScratchFolder folder;
  run().ranks(3).steps(10).compute(5_ms).isendrecv_ring(1_KiB, 1_ms).waitall().hang(1, 6).write(folder.path());
  tui::SpoolSource source(find_run(folder.path().string()), "run.ddl");
  tui::Job job;
  source.poll(job, 1);
  job.ended = false;
  const auto stall = tui::find_live_stall(job, {}, {.least_ns = 2e9});
  ASSERT_TRUE(stall);
  EXPECT_TRUE(
      stall->message.starts_with("rank 1 never sent what rank 2 waits for: rank 2 in MPI_Waitall for rank 1 for "))
      << stall->message;
  EXPECT_TRUE(stall->message.ends_with("; behind them rank 0 waits in MPI_Waitall for rank 2")) << stall->message;
  EXPECT_EQ(stall->missing, std::vector<int64_t>{1});
  EXPECT_EQ(stall->waiting, (std::vector<int64_t>{0, 2}));
  // What was left out of a rank's log may have been the message.
  for (tui::Rank& rank : job.ranks)
    if (rank.rank == 1) rank.messages.leave_out();
  const auto unknown = tui::find_live_stall(job, {}, {.least_ns = 2e9});
  EXPECT_FALSE(unknown && unknown->missing == std::vector<int64_t>{1}) << unknown->message;
}

/// Ranks 0 and 2 have done all that the others wait for; then rank 0 posts sends to ranks 1 and 2 and waits.
struct Sending {
  Sending() {
    for (tui::Rank& rank : hung.job.ranks) rank.sits_in.reset();
    hung.job.operations.push_back({describe_operation("MPI_Isend", "send", true), {}});
    hung.job.operations.push_back({describe_operation("MPI_Irecv", "receive", true), {}});
    hung.job.operations.push_back({describe_operation("MPI_Waitall", "completion", false), {}});
    for (tui::JobOperation& op : hung.job.operations) op.message = message_operation(op.operation);
    for (const int32_t to : {1, 2}) take(0, op(-3), to, 7, false);
    take(2, op(-2), 0, 7, false);
    hung.rank(0).sits_in = tui::OpenCall{op(-1), world, 0, hung.rank(0).finished_ticks, 1};
    hung.job.now_ns = hung.last_ns + 4 * kSecond;
  }
  uint32_t op(int from_end) const {
    return static_cast<uint32_t>(static_cast<int>(hung.job.operations.size()) + from_end);
  }
  void take(int32_t rank, uint32_t op, int32_t peer, int32_t tag, bool is_request) {
    hung.rank(rank).messages.take(hung.job.operations[op].message, op, {world, peer, tag}, 1000 + ticks_++, is_request);
  }
  std::string told() const {
    const auto stall = tui::find_live_stall(hung.job, {}, {.least_ns = 2e9});
    return stall ? stall->message : "";
  }

  HungJob hung;
  uint32_t world = hung.world();

 private:
  uint64_t ticks_ = 0;
};

TEST(StallWatch, AReceiverThatPostedNothingIsNamedAsInTheReport) {
  Sending job;
  const std::string told = "rank 1 never received what rank 0 sends: rank 0 in MPI_Waitall for rank 1 for 4.0";
  EXPECT_TRUE(job.told().starts_with(told)) << job.told();
  job.hung.rank(1).sits_in = tui::OpenCall{job.op(-2), job.world, 0, 0, -1};  // as of a blocking one, from anybody
  EXPECT_EQ(job.told(), "");
  job.hung.rank(1).sits_in.reset();
  job.take(1, job.op(-2), 0, 8, false);
  EXPECT_TRUE(job.told().starts_with(told)) << "for another message: " << job.told();
  job.take(1, job.op(-2), 0, 7, false);
  EXPECT_EQ(job.told(), "") << "the message is under way";
  Sending other;
  other.take(1, other.op(-2), -1, -1, false);
  EXPECT_EQ(other.told(), "") << "a receive from anybody may take it";
}

TEST(StallWatch, ALoopOfTestsWaitsLikeAWait) {
  Sending job;
  job.hung.job.operations.push_back({describe_operation("MPI_Test", "completion", false), {}});
  job.hung.job.operations.back().message = message_operation(job.hung.job.operations.back().operation);
  job.hung.rank(0).sits_in.reset();
  job.hung.rank(0).polls = tui::OpenCall{job.op(-1), tui::kNone, 0, job.hung.rank(0).finished_ticks, -1};
  EXPECT_TRUE(job.told().starts_with(
      "rank 1 never received what rank 0 sends: rank 0 in a loop of MPI_Test for rank 1 for 4.0"))
      << job.told();
}

TEST(StallWatch, SaysWhoPollsInVain) {
  HungJob hung;
  hung.job.operations.push_back({describe_operation("MPI_Iprobe", "probe", false), {}});
  hung.rank(1).polls = tui::OpenCall{static_cast<uint32_t>(hung.job.operations.size() - 1), hung.world(), 0, 0, -1};
  tui::StallWatch watch(3 * kSecond);
  hung.job.now_ns = hung.last_ns + 4 * kSecond;
  const auto news = watch.look(hung.job);
  ASSERT_TRUE(news);
  EXPECT_NE(news->sentence.find("rank 1 never entered MPI_Allreduce number 7"), std::string::npos) << news->sentence;
  EXPECT_TRUE(news->sentence.ends_with("; rank 1 polls in vain with MPI_Iprobe on MPI_COMM_WORLD")) << news->sentence;
}

TEST(StallWatch, SaysWhereRanksAreWhenNobodyWaitsInACollective) {
  HungJob hung;
  for (tui::Rank& rank : hung.job.ranks) rank.sits_in.reset();
  tui::StallWatch watch(3 * kSecond);
  hung.job.now_ns = hung.last_ns + 4 * kSecond;
  const auto news = watch.look(hung.job);
  ASSERT_TRUE(news);
  EXPECT_NE(news->sentence.find(": ranks 0-2 are in no call that is recorded"), std::string::npos) << news->sentence;
  EXPECT_EQ(news->call, "");
}

TEST(StallWatch, SaysNothingOfOneRankOrOfAJobThatHasEnded) {
  HungJob hung;
  tui::StallWatch watch(3 * kSecond);
  hung.job.now_ns = hung.last_ns + 400 * kSecond;
  hung.job.ended = true;
  EXPECT_FALSE(watch.look(hung.job));
  hung.job.ended = false;
  hung.job.world_size = 1;
  hung.job.ranks.resize(1);
  EXPECT_FALSE(watch.look(hung.job));
}

/// Background threads coordinate for ever; rank 1 has not ready what rank 0 has. A tick is a nanosecond.
tui::Job unready_job() {
  tui::Job job;
  job.background = true;
  job.world_size = 2;
  for (const int32_t number : {0, 1}) {
    tui::Rank rank;
    rank.rank = number;
    rank.life = tui::Life::kRunning;
    rank.finished_ticks = static_cast<uint64_t>(kSecond);
    rank.negotiating.since_ticks = static_cast<uint64_t>(kSecond);
    rank.negotiating.samples.push_back({static_cast<uint64_t>(kSecond), 0, 0});
    rank.negotiating.ready_bits = number == 0 ? 3 : 0;
    job.ranks.push_back(rank);
  }
  return job;
}

TEST(StallWatch, WhatALogLeftOutMayHaveMovedData) {
  tui::Job job = unready_job();
  // it was joined a second later
  for (tui::Rank& rank : job.ranks) rank.negotiating.since_ticks += static_cast<uint64_t>(kSecond);
  tui::StallWatch watch(3 * kSecond);
  job.now_ns = 4 * kSecond + kSecond / 2;
  EXPECT_FALSE(watch.look(job)) << "the training threads are silent for 3.5 s, the coordination is known of 2.5 s";
  job.now_ns += kSecond;
  const auto news = watch.look(job);
  ASSERT_TRUE(news);
  EXPECT_EQ(news->missing, std::vector<int64_t>{1});
  EXPECT_NE(news->sentence.find("no data was moved for at least 3.50 s: the training thread of rank 1"),
            std::string::npos)
      << news->sentence;
}

TEST(StallWatch, TheUsersLimitCountsHoweverLongStepsAre) {
  tui::Job job = unready_job();
  for (tui::Rank& rank : job.ranks) {
    rank.negotiating.take_data(1, static_cast<uint64_t>(kSecond) / 2);
    rank.negotiating.take_data(2, static_cast<uint64_t>(kSecond));
  }
  tui::StallWatch watch(3 * kSecond);
  job.now_ns = 5 * kSecond;
  EXPECT_FALSE(tui::find_no_data(job, {.least_ns = 3.0 * kSecond})) << "eight steps long, not twenty";
  const auto news = watch.look(job);
  ASSERT_TRUE(news);
  EXPECT_EQ(news->missing, std::vector<int64_t>{1});
}

TEST(StallWatch, WaitsForBackgroundThreadsToTellWhoIsNotReady) {
  for (const bool told : {true, false}) {
    tui::Job job = unready_job();
    for (tui::Rank& rank : job.ranks) rank.negotiating.ready_bits.reset();
    tui::StallWatch watch(3 * kSecond);
    job.now_ns = 5 * kSecond;
    EXPECT_FALSE(watch.look(job)) << "silent for 4 s, and nothing is known of who is not ready";
    if (told)
      for (tui::Rank& rank : job.ranks) rank.negotiating.ready_bits = rank.rank == 0 ? 3 : 0;
    job.now_ns = told ? 6 * kSecond : 10 * kSecond;
    const auto news = watch.look(job);
    ASSERT_TRUE(news);
    EXPECT_EQ(news->missing, told ? std::vector<int64_t>{1} : std::vector<int64_t>{});
    EXPECT_EQ(news->sentence.find("ranks 0, 1 are in no call that is recorded") != std::string::npos, !told)
        << news->sentence;
  }
}

TEST(StallWatch, SamplesOfThreadsAreNoProgress) {
  ScratchFolder folder;
  run().ranks(2).steps(4).compute(5_ms).allreduce(1_MiB, 1_ms).hang(1, 2).write(folder.path());
  tui::SpoolSource source(find_run(folder.path().string()), "run.ddl");
  tui::Job job;
  source.poll(job, 1);
  for (tui::Rank& rank : job.ranks) {
    EXPECT_GT(rank.finished_ticks, rank.begin_ticks);
    EXPECT_LE(rank.finished_ticks, rank.newest_ticks);
    EXPECT_GT(rank.pid, 0);
  }
}

/// A rank of two as the trainer's background runtime writes it: lists of requests first, then votes by bits, for ever.
void write_background_rank(const std::filesystem::path& folder, int32_t rank) {
  constexpr uint64_t kBegin = 1'000'000, kMillisecond = 1'000'000;
  enum : uint32_t { kReduce = 16, kGatherV = 17 };
  constexpr uint32_t kByte = 1, kFloat = 14;  // DDL_DATATYPES
  SpoolBuilder spool;
  FileHeader& h = spool.header();
  h.pid = 4000 + static_cast<uint32_t>(rank);
  h.begin = h.latest = {kBegin, kBegin, kBegin};
  h.rank = rank;
  h.world_size = 2;
  h.flags = kMpiEntered | kMpiInitialized;
  spool.operation(kReduce, OpClass::kAllToAll, false, "MPI_Allreduce");
  spool.operation(kGatherV, OpClass::kAllToRoot, false, "MPI_Gatherv");
  CommunicatorMeta world = {};
  world.index = 1;
  world.uid = 1;
  world.size = 2;
  world.flags = kCommWorld;
  spool.communicator(world, {{0, 1, 2}});
  spool.thread(1, h.pid + 1000, "background");
  const size_t log = spool.add_chunk(ChunkKind::kEvents, 1 << 16, 1);
  uint64_t now = kBegin;
  const auto call = [&](uint32_t op, uint32_t seq, uint64_t bytes, uint32_t datatype) {
    now += kMillisecond;
    spool.append(log,
                 {now, record_word(RecordKind::kCall, op, 1000), record_payload(bytes, datatype, 0), 1, 0, seq, -1});
  };
  const auto sample = [&] {
    now += kMillisecond;
    Record record = {};
    record.start_ticks = now;
    record.word = record_word(RecordKind::kThreadSample, 0, 0);
    put_thread_times(record, {kMillisecond, 0, 0});
    spool.append(log, record);
  };
  // The first sample of rank 0 comes after its first list, that of rank 1 before.
  if (rank == 1) sample();
  call(kGatherV, 6, rank == 0 ? 56 : 8, kByte);
  if (rank == 0) sample();
  call(kGatherV, 11, rank == 0 ? 56 : 152, kByte);
  call(kReduce, 14, 1 << 20, kFloat);
  call(kGatherV, 17, rank == 0 ? 56 : 8, kByte);
  call(kReduce, 20, 1 << 20, kFloat);
  for (int i = 0; i < 300; ++i) sample();
  Record bits = {};
  bits.start_ticks = now += kMillisecond;
  bits.word = record_word(RecordKind::kAgreement, kReduce, 0);
  bits.payload = (rank == 0 ? 6ull : 3ull) << 32 | 3;
  spool.append(log, bits);
  spool.write(folder / fmt::format("n0.{}.1.spool", h.pid));
}

TEST(StallWatch, ListsOfRequestsBeforeTheFirstSampleCount) {
  const ScratchFolder folder;
  for (const int32_t rank : {0, 1}) write_background_rank(folder.path(), rank);
  tui::SpoolSource source(find_run(folder.path().string()), "run.ddl", tui::SpoolSource::Join::kWhole);
  tui::Job job;
  source.poll(job, 0);
  ASSERT_EQ(job.ranks.size(), 2u);
  ASSERT_TRUE(job.background);
  job.ended = false;
  for (tui::Rank& rank : job.ranks) rank.life = tui::Life::kRunning;  // its processes never were
  const auto requested = tui::open_requests({&job.ranks[0].negotiating, &job.ranks[1].negotiating});
  EXPECT_EQ(requested, (std::vector<std::optional<int64_t>>{0, 0})) << "all that was asked for has been moved";
  job.now_ns = job.ranks[0].clock.time_ns(job.ranks[0].newest_ticks) + 4 * kSecond;
  tui::StallWatch watch(3 * kSecond);
  const auto news = watch.look(job);
  ASSERT_TRUE(news);
  EXPECT_EQ(news->missing, std::vector<int64_t>{1});
}

}  // namespace
}  // namespace ddl::test
