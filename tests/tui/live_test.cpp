// What the live view says of a window must be what the report says of the same steps: both are computed here, from the
// same spools, and compared to the nanosecond; and what a virtual job's generator knows to be true.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "analyzer/facts.h"
#include "reports/job_numbers.h"
#include "tests/analyzer/analyzed.h"
#include "tui/live_stall.h"
#include "tui/observer.h"
#include "tui/spool_source.h"

namespace ddl::test {
namespace {

using tui::Feed;
using tui::RankRow;
using tui::Snapshot;

Snapshot look_at(const std::filesystem::path& folder) {
  tui::SpoolSource source(find_run(folder.string()), "run.ddl");
  tui::Job job;
  tui::Observer observer;
  source.poll(job, 1);
  return observer.look(job, false);
}

/// Sums of the report's tables over the steps of the snapshot's window.
struct Reported {
  Reported(Analyzed& run, const Snapshot& s)
      : run_(run), steps_(" t.step BETWEEN " + std::to_string(*s.first_step) + " AND " + std::to_string(*s.step)) {}

  double of_rank(int rank, const std::string& column) {
    return run_.db
        .execAndGet("SELECT sum(t." + column +
                    ") / count(*) FROM step_part t JOIN process p ON p.id = t.process WHERE p.rank = " +
                    std::to_string(rank) + " AND" + steps_)
        .getDouble();
  }
  double share(const std::string& column) {
    return run_.db
        .execAndGet("SELECT sum(t." + column +
                    ") * 1.0 / sum(t.compute_ns + t.exposed_ns + t.idle_ns) FROM step_part t WHERE" + steps_)
        .getDouble();
  }

 private:
  Analyzed& run_;
  std::string steps_;
};

SyntheticRun blocking() {
  return run()
      .ranks(4)
      .steps(20)
      .compute(10_ms)
      .jitter(2_ms)
      .allreduce(4_MiB, 1_ms)
      .compute(2_ms)
      .allreduce(1_MiB, 500_us)
      .bcast(64_KiB, 100_us, 1)
      .slow(2, 5_ms);
}

void expect_same_as_report(const SyntheticRun& job, size_t window = 20) {
  Analyzed reported(job);
  const Snapshot s = look_at(reported.folder.path());
  ASSERT_EQ(s.window, window);
  Reported truth(reported, s);
  double middle = 0;
  std::vector<double> waits;
  for (const RankRow& row : s.ranks) {
    ASSERT_TRUE(row.wait_ns) << row.rank;
    EXPECT_EQ(*row.wait_ns, truth.of_rank(row.rank, "wait_ns")) << row.rank;
    EXPECT_NEAR(*row.compute_ns, truth.of_rank(row.rank, "compute_ns"), 1) << row.rank;
    EXPECT_NEAR(*row.exposed_ns, truth.of_rank(row.rank, "exposed_ns"), 1) << row.rank;
    waits.push_back(*row.wait_ns);
  }
  std::sort(waits.begin(), waits.end());
  middle = waits[waits.size() / 2];
  for (const RankRow& row : s.ranks) EXPECT_EQ(*row.late_ns, middle - *row.wait_ns);
  EXPECT_NEAR((*s.shares)[tui::kWaiting], truth.share("wait_ns"), 1e-12);
  EXPECT_NEAR((*s.shares)[tui::kTransfer], truth.share("xfer_ns"), 1e-12);
  EXPECT_NEAR(*s.exposed_ratio, truth.share("exposed_ns"), 1e-12);
}

TEST(Live, SameNumbersAsTheReport) { expect_same_as_report(blocking()); }
TEST(Live, SameNumbersWithRequestsInFlight) {
  expect_same_as_report(run()
                            .ranks(4)
                            .steps(20)
                            .compute(5_ms)
                            .iallreduce(8_MiB, 6_ms)
                            .compute(2_ms)
                            .iallreduce(1_MiB, 1_ms)
                            .compute(1_ms)
                            .jitter(500_us)
                            .waitall()
                            .slow(1, 4_ms));
}
TEST(Live, SameNumbersOnSubCommunicators) {
  expect_same_as_report(run()
                            .ranks(6)
                            .steps(20)
                            .split("dp", 2)
                            .split("tp", 3, true)
                            .compute(3_ms)
                            .jitter(1_ms)
                            .on_comm("dp")
                            .allreduce(1_MiB, 1_ms)
                            .compute(1_ms)
                            .on_comm("tp")
                            .allreduce(2_MiB, 300_us)
                            .barrier());
}

/// Most of the log is left out, and the first steps of the rest, of which some events are.
TEST(Live, SameNumbersWhenJoinedAtTheEndOfALongLog) {
  expect_same_as_report(run()
                            .ranks(2)
                            .steps(1500)
                            .compute(1_ms)
                            .jitter(200_us)
                            .allreduce(1_MiB, 300_us)
                            .compute(100_us)
                            .iallreduce(4_KiB, 150_us)
                            .waitall(),
                        tui::kWindow);
}

/// What a monitoring system is told of a running job, and of the same steps afterwards.
TEST(Live, NumbersForPrometheusStayTheSame) {
  Analyzed reported(run()
                        .ranks(4)
                        .steps(10)
                        .compute(10_ms)
                        .jitter(2_ms)
                        .allreduce(4_MiB, 1_ms)
                        .bcast(64_KiB, 100_us, 1)
                        .slow(2, 5_ms)
                        .value("samples", 8));
  const reports::JobNumbers live = tui::job_numbers(look_at(reported.folder.path()));
  const reports::RunView view(reported.db, std::nullopt);
  const reports::JobNumbers stored = reports::job_numbers(view, "run.ddl");
  EXPECT_EQ(live.run, stored.run);
  EXPECT_EQ(live.ranks, stored.ranks);
  EXPECT_EQ(live.expected_ranks, stored.expected_ranks);
  EXPECT_EQ(live.nodes, stored.nodes);
  EXPECT_EQ(live.step, stored.step);
  EXPECT_NEAR(*live.step_p99_ns, *stored.step_p99_ns, 1);
  for (const auto& [id, value] : live.metrics) {
    ASSERT_TRUE(stored.metrics.contains(id)) << id;
    EXPECT_NEAR(value, stored.metrics.at(id), 1e-3 * value) << id;
  }
  EXPECT_TRUE(live.metrics.contains("step_time"));
  EXPECT_NEAR(*live.samples_per_s, *stored.samples_per_s, 0.2 * *stored.samples_per_s) << "a mean against a median";
  ASSERT_EQ(live.shares.size(), stored.shares.size());
  for (size_t i = 0; i < live.shares.size(); ++i) {
    EXPECT_EQ(live.shares[i].first, stored.shares[i].first);
    EXPECT_NEAR(live.shares[i].second, stored.shares[i].second, 1e-6) << live.shares[i].first;
  }
  ASSERT_EQ(live.by_rank.size(), stored.by_rank.size());
  for (size_t r = 0; r < live.by_rank.size(); ++r) {
    EXPECT_EQ(live.by_rank[r].rank, stored.by_rank[r].rank);
    EXPECT_EQ(live.by_rank[r].node, stored.by_rank[r].node);
    EXPECT_NEAR(*live.by_rank[r].late_ns, *stored.by_rank[r].late_ns, 1);
    EXPECT_NEAR(*live.by_rank[r].wait_ns, *stored.by_rank[r].wait_ns, 1);
    EXPECT_NEAR(*live.by_rank[r].step_ns, *stored.by_rank[r].step_ns, 1);
  }
  ASSERT_EQ(live.collectives.size(), stored.collectives.size());
  for (size_t i = 0; i < live.collectives.size(); ++i) {
    const auto &one = live.collectives[i], &other = stored.collectives[i];
    EXPECT_EQ(std::tie(one.op, one.comm, one.bytes), std::tie(other.op, other.comm, other.bytes));
    EXPECT_NEAR(one.time_ns, other.time_ns, 1);
    EXPECT_NEAR(*one.wait_ns, *other.wait_ns, 1);
    EXPECT_NEAR(*one.xfer_ns, *other.xfer_ns, 1);
    EXPECT_EQ(one.busbw.has_value(), other.busbw.has_value());
    EXPECT_NEAR(one.busbw.value_or(0), other.busbw.value_or(0), 1e-6 * one.busbw.value_or(0));
  }
  EXPECT_EQ(live.lost_events, stored.lost_events);
}

TEST(Live, BandwidthAndBlameAreTheReports) {
  Analyzed reported(blocking());
  const Snapshot s = look_at(reported.folder.path());
  ASSERT_EQ(s.collectives.size(), 3u);
  for (const tui::CollectiveRow& row : s.collectives) {
    SQLite::Statement group(
        reported.db,
        "SELECT g.busbw_xfer, g.time_ns, g.wait_ns FROM collective_group g JOIN op o ON o.id = g.op WHERE o.name = ? AND g.bytes = ?");
    group.bind(1, row.op);
    group.bind(2, *row.bytes);
    ASSERT_TRUE(group.executeStep()) << row.op;
    ASSERT_TRUE(row.busbw) << row.op;
    EXPECT_NEAR(*row.busbw, group.getColumn(0).getDouble(), 1e-6 * *row.busbw);
    EXPECT_NEAR(row.time_ns * 20 * 4, group.getColumn(1).getDouble(), 1);  // 20 steps, 4 ranks
    EXPECT_NEAR(*row.wait_ns * 20 * 4, group.getColumn(2).getDouble(), 1);
  }
  EXPECT_EQ(static_cast<int64_t>(s.blame.size()), reported.integer("SELECT count(*) FROM blame WHERE wait_ns > 0"));
  EXPECT_GE(s.blame.size(), 3u);
  for (const auto& [pair, ns] : s.blame) {
    const double blame = reported.db
                             .execAndGet("SELECT wait_ns FROM blame WHERE late = " + std::to_string(pair.first) +
                                         " AND waiter = " + std::to_string(pair.second))
                             .getDouble();
    EXPECT_NEAR(ns * 20, blame, 1) << pair.first << " " << pair.second;
  }
}

/// Two jobs in one mpirun, which share MPI_COMM_WORLD at start-up only: the first waits for nobody, and is
/// not late for that.
SyntheticRun two_jobs() {
  return run().ranks(8).steps(25).split("job", 2).setup().barrier().each_step().compute(20_ms).on_comm("job").allreduce(
      4_MiB, 1_ms);
}

TEST(Live, AGroupIsNotBlamedForTheWaitsOfAnother) {
  Analyzed reported(two_jobs().slow(6, 30_ms));
  const Snapshot s = look_at(reported.folder.path());
  ASSERT_EQ(s.window, 25u);
  EXPECT_EQ(s.headline.rank, 6) << s.headline.text;
  EXPECT_EQ(s.headline.text, "rank 6 (node0) enters last in 100% of collectives: the others wait 30.0 ms/step");
  EXPECT_EQ(s.headline.text, reported.text("SELECT sentence FROM finding WHERE id = 'straggler'"));
  EXPECT_EQ(s.parts, 2);
  const Facts facts = read_facts(reported.db, 0);
  for (const RankRow& row : s.ranks) {
    EXPECT_EQ(row.part, row.rank < 4 ? 0 : 4);
    EXPECT_EQ(*row.late_ns, row.rank == 6 ? 30e6 : 0) << row.rank;
    EXPECT_EQ(*row.trend.back(), row.rank == 6 ? 30e6 : 0) << row.rank;
    EXPECT_EQ(static_cast<double>(*facts.ranks[static_cast<size_t>(row.rank)].late_ns), *row.late_ns) << row.rank;
    EXPECT_EQ(row.alarm, row.rank == 6) << row.rank;
  }
  for (const auto& [pair, ns] : s.blame) EXPECT_EQ(pair.first / 4, pair.second / 4) << pair.first << " " << pair.second;
}

/// Both have a late rank: that of the other job does not make it one of two that are late, and is not "the next one".
TEST(Live, LateRanksOfTwoJobsAreNotLateTogether) {
  Analyzed reported(two_jobs().slow(1, 28_ms).slow(6, 30_ms));
  const Snapshot s = look_at(reported.folder.path());
  EXPECT_EQ(s.headline.rank, 6) << s.headline.text;
  EXPECT_EQ(s.headline.text, reported.text("SELECT sentence FROM finding WHERE id = 'straggler'"));
  EXPECT_EQ(*s.ranks[1].late_ns, 28e6);
  EXPECT_EQ(*s.ranks[6].late_ns, 30e6);
  EXPECT_EQ(*s.ranks[0].late_ns, 0);
}

/// What the rank of one job costs does not bound what another job's rank is judged by, and a group of two
/// has one that waits.
TEST(Live, TheOtherOfTwoWaits) {
  ScratchFolder folder;
  run()
      .ranks(4)
      .steps(25)
      .split("pair", 2)
      .compute(20_ms)
      .on_comm("pair")
      .allreduce(4_MiB, 1_ms)
      .slow(3, 30_ms)
      .write(folder.path());
  const Snapshot s = look_at(folder.path());
  EXPECT_EQ(s.headline.text, "rank 3 (node0) enters last in 100% of collectives: the other waits 30.0 ms/step");
  EXPECT_EQ(s.headline.brief, "rank 3 last, other waits 30.0 ms");
  EXPECT_EQ(*s.ranks[3].late_ns, 30e6);
  EXPECT_EQ(*s.ranks[2].late_ns, 0);
  EXPECT_EQ(*s.ranks[0].late_ns, 0);
}

/// Messages between the groups: a rank of one may wait for a rank of the other, and nobody here knows for how long.
TEST(Live, GroupsThatSendMessagesAreOne) {
  ScratchFolder folder;
  two_jobs().slow(6, 30_ms).every(10).message(0, 4, 1_KiB, 10_us).write(folder.path());
  const Snapshot s = look_at(folder.path());
  EXPECT_EQ(s.parts, 1);
  EXPECT_FALSE(s.ranks[0].part);
}

/// A collective of all within the window, such as for the log, lets them wait for each other.
TEST(Live, GroupsThatMeetAreOne) {
  ScratchFolder folder;
  two_jobs().slow(6, 30_ms).every(10).barrier().write(folder.path());
  const Snapshot s = look_at(folder.path());
  EXPECT_EQ(s.parts, 1);
  EXPECT_GT(*s.ranks[6].late_ns, 0);
}

// Twenty steps at one look: ranks are read one after the other, so that groups come to an end one after the other and
// not step by step.
TEST(Live, BlameOfGroupsIsTheReports) {
  Analyzed reported(run()
                        .ranks(8)
                        .steps(20)
                        .split("pair", 4)
                        .compute(10_ms)
                        .jitter(2_ms)
                        .on_comm("pair")
                        .allreduce(4_MiB, 1_ms)
                        .compute(2_ms)
                        .allreduce(1_MiB, 500_us)
                        .slow(5, 5_ms));
  const Snapshot s = look_at(reported.folder.path());
  ASSERT_EQ(s.window, 20u);
  double all_ns = 0;
  for (const auto& [pair, ns] : s.blame) all_ns += ns * 20;
  EXPECT_EQ(static_cast<int64_t>(s.blame.size()), reported.integer("SELECT count(*) FROM blame WHERE wait_ns > 0"));
  EXPECT_NEAR(all_ns, static_cast<double>(reported.integer("SELECT sum(wait_ns) FROM blame")), 20);
}

// Where a second of all ranks' logs is much, a running job is joined a few steps back: as many as the window needs, and
// all of them whole.
TEST(Live, ManyRanksAreJoinedAFewStepsBack) {
  Analyzed reported(run()
                        .ranks(300)
                        .steps(60)
                        .compute(10_ms)
                        .jitter(1_ms)
                        .allreduce(4_MiB, 1_ms)
                        .compute(2_ms)
                        .allreduce(1_MiB, 500_us)
                        .slow(7, 5_ms));
  tui::SpoolSource source(find_run(reported.folder.path().string()), "run.ddl");
  tui::Job job;
  tui::Observer observer;
  source.poll(job, 1);
  size_t events = 0;
  for (const tui::Rank& rank : job.ranks) events += rank.events.size();
  EXPECT_LT(events, 300u * 2 * 20) << "of 60 steps with two collectives";
  const Snapshot s = observer.look(job, false);
  EXPECT_GE(s.window, 10u);
  EXPECT_EQ(s.step, 59);
  EXPECT_EQ(s.headline.rank, 7);
  Reported truth(reported, s);
  for (const RankRow& row : s.ranks) {
    ASSERT_TRUE(row.wait_ns) << row.rank;
    EXPECT_EQ(*row.wait_ns, truth.of_rank(row.rank, "wait_ns")) << row.rank;
  }
}

TEST(Live, SentenceNamesTheSlowRankAsTheReportDoes) {
  Analyzed reported(run().ranks(4).steps(25).compute(20_ms).allreduce(4_MiB, 1_ms).slow(2, 30_ms));
  const Snapshot s = look_at(reported.folder.path());
  EXPECT_EQ(s.headline.rank, 2);
  EXPECT_TRUE(s.headline.alarm);
  // The report leaves out the first five steps, which are as all others here.
  EXPECT_EQ(s.headline.text, reported.text("SELECT sentence FROM finding WHERE id = 'straggler'"));
  EXPECT_EQ(*s.ranks[2].late_ns, 30e6);
  EXPECT_EQ(*s.ranks[2].wait_ns, 0);
  EXPECT_EQ(*s.ranks[0].wait_ns, 30e6);
}

TEST(Live, SentenceNamesSeveralLateRanksAsTheReportDoes) {
  Analyzed reported(run().ranks(8).steps(25).compute(20_ms).allreduce(4_MiB, 1_ms).slow(2, 30_ms).slow(5, 30_ms));
  const Snapshot s = look_at(reported.folder.path());
  EXPECT_EQ(s.headline.text, reported.text("SELECT sentence FROM finding WHERE id = 'straggler'"));
  EXPECT_TRUE(s.headline.text.starts_with("ranks 2 and 5 are late")) << s.headline.text;
  EXPECT_FALSE(s.headline.rank) << "there are two rows to enter";
  for (const RankRow& row : s.ranks) EXPECT_EQ(row.alarm, row.rank == 2 || row.rank == 5) << row.rank;
}

/// Its group waits for it, and then the nodes for the group: most blame is on ranks that are not late by themselves.
TEST(Live, ARankThatIsLateByFarIsNamedWhereBlameIsSpread) {
  const auto job = [] {
    return run()
        .ranks(64)
        .steps(25)
        .split("node", 8)
        .split("dp", 8, true)
        .jitter(40_us)
        .compute(11_ms)
        .on_comm("dp")
        .allreduce(1_MiB, 200_us)
        .on_comm("node")
        .allreduce(1_MiB, 200_us);
  };
  ScratchFolder folder;
  job().slow(35, 3_ms).write(folder.path());
  const Snapshot s = look_at(folder.path());
  EXPECT_EQ(s.headline.rank, 35) << s.headline.text;
  EXPECT_TRUE(s.headline.alarm);
  EXPECT_EQ(s.headline.text.find("no rank stands out"), std::string::npos) << s.headline.text;
  ScratchFolder healthy;
  job().write(healthy.path());
  EXPECT_FALSE(look_at(healthy.path()).headline.rank);
}

/// With fewer descriptors than spools all of them are read all the same.
TEST(Live, SpoolsBeyondTheDescriptorsAreReadInTurns) {
  ScratchFolder folder;
  run().ranks(12).steps(25).compute(20_ms).allreduce(4_MiB, 1_ms).slow(2, 30_ms).write(folder.path());
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = open_files();
  tui::SpoolSource source(find_run(folder.path().string()), "run.ddl", tui::SpoolSource::Join::kRecent, 3);
  tui::Job job;
  tui::Observer observer;
  source.poll(job, 1);
  EXPECT_EQ(open_files() - before, 3);
  source.poll(job, 1);
  EXPECT_EQ(open_files() - before, 3);
  const Snapshot s = observer.look(job, false), all = look_at(folder.path());
  EXPECT_EQ(s.spools_in_turns, 9);
  EXPECT_EQ(all.spools_in_turns, 0);
  EXPECT_EQ(s.unreadable_spools, 0);
  EXPECT_EQ(s.headline.text, all.headline.text);
  EXPECT_EQ(s.window, all.window);
  for (size_t r = 0; r < 12; ++r) EXPECT_EQ(s.ranks[r].wait_ns, all.ranks[r].wait_ns);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  tui::SpoolSource::descriptors_for_spools();
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, limit.rlim_max);
}

/// Ranks that jitter, each last in its turn.
TEST(Live, NobodyIsAccusedOnAHealthyRun) {
  Analyzed reported(run().ranks(4).steps(25).compute(20_ms).jitter(2_ms).allreduce(4_MiB, 1_ms));
  const Snapshot s = look_at(reported.folder.path());
  EXPECT_EQ(s.window, 25u);
  EXPECT_FALSE(s.headline.alarm) << s.headline.text;
  EXPECT_FALSE(s.headline.rank);
  EXPECT_NE(s.headline.text.find("of the step is"), std::string::npos) << s.headline.text;
  EXPECT_GT((*s.shares)[tui::kWaiting], 0.02);
  for (const RankRow& row : s.ranks) EXPECT_FALSE(row.alarm) << row.rank;
}

TEST(Live, MessagesHaveNoWaitingHere) {
  Analyzed reported(run().ranks(3).steps(12).compute(5_ms).sendrecv_ring(1_MiB, 2_ms));
  const Snapshot s = look_at(reported.folder.path());
  ASSERT_EQ(s.window, 12u);
  EXPECT_FALSE(s.ranks[0].wait_ns);
  EXPECT_FALSE(s.ranks[0].late_ns);
  EXPECT_FALSE(s.waiting_known);
  Reported truth(reported, s);
  EXPECT_NEAR(*s.ranks[0].exposed_ns, truth.of_rank(0, "exposed_ns"), 1);
}

TEST(Live, JobsWithoutStepsAreCutIntoSeconds) {
  Analyzed reported(run().ranks(3).steps(120).no_steps().compute(80_ms).allreduce(1_MiB, 2_ms).slow(1, 20_ms));
  const Snapshot s = look_at(reported.folder.path());
  EXPECT_FALSE(s.annotated);
  ASSERT_GE(s.window, 5u);
  ASSERT_TRUE(s.ranks[0].wait_ns);
  EXPECT_NEAR(*s.ranks[0].wait_ns, 1e9 * 20 / 102, 2e7);  // of a second
  EXPECT_EQ(s.headline.rank, 1) << s.headline.text;
}

/// Spools as they were at some moment: cut off, the file on.
void copy_until(const std::filesystem::path& from, const std::filesystem::path& to, double share) {
  std::ifstream in(from, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  std::string bytes = all.str();
  const size_t keep = std::max<size_t>(kPageBytes, static_cast<size_t>(share * static_cast<double>(bytes.size())));
  std::ofstream(to, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(std::min(keep, bytes.size())));
}

TEST(Live, TornSpoolsAreGapsNotCrashes) {
  Analyzed reported(blocking());
  std::set<size_t> steps;
  for (const double share : {0.0, 0.2, 0.5, 0.9, 0.99, 1.0}) {
    ScratchFolder torn;
    for (const auto& spool : find_run(reported.folder.path().string()).spools())
      copy_until(spool, torn / spool.filename().string(), share);
    const Snapshot s = look_at(torn.path());
    steps.insert(s.window);
    EXPECT_EQ(s.ranks.size(), 4u) << share;  // headers are whole
    EXPECT_EQ(s.window, share == 1 ? 20u : s.window);
    for (const RankRow& row : s.ranks) {
      if (!row.wait_ns) continue;
      Reported truth(reported, s);
      EXPECT_EQ(*row.wait_ns, truth.of_rank(row.rank, "wait_ns")) << share << " rank " << row.rank;
    }
  }
  EXPECT_GE(steps.size(), 2u) << "some were cut among their events";
}

/// Rank 1 asks for everything in its first list, rank 2 begins with an empty one: an empty list is the least of all
/// ranks, not the first of one.
TEST(LiveStall, FirstListsMayHoldRequests) {
  tui::Negotiating first, second;
  for (const uint64_t bytes : {120, 20, 20}) first.take_request(static_cast<uint32_t>(1 + first.sent.size()), bytes);
  second.take_request(1, 20);
  second.take_request(2, 120);
  EXPECT_EQ(tui::open_requests({&first, &second}), (std::vector<std::optional<int64_t>>{100, 100}));
}

/// For jobs with background threads: what the samples say of the last second, and nothing when they are old.
TEST(Live, ATrainingThreadComputesWhatItIsBusyAndDoesNotPoll) {
  tui::Rank rank;
  rank.clock = {};                    // a tick is a nanosecond
  for (uint64_t i = 0; i <= 40; ++i)  // busy for 80 % of the time, of that polling for a quarter
    rank.negotiating.samples.push_back({1'000'000'000 + i * 25'000'000, i * 20'000'000, i * 5'000'000});
  const auto last = tui::last_second(rank, 2'100'000'000);
  ASSERT_TRUE(last);
  EXPECT_NEAR(last->busy, 0.8, 1e-9);
  EXPECT_NEAR(last->spun, 0.2, 1e-9);
  EXPECT_FALSE(tui::last_second(rank, 5'000'000'000)) << "3 s old";
  rank.negotiating.samples.resize(1);
  EXPECT_FALSE(tui::last_second(rank, 1'100'000'000));
}

/// Who computes least polls for the one that is late, or is that one and sleeps: neither is named.
TEST(Live, TheSentenceOfTrainingThreadsNamesNobody) {
  tui::Job job;
  job.background = true;
  job.now_ns = 2'100'000'000;
  for (const uint64_t polls : {15, 5}) {  // of 20 ms busy in 25 ms
    tui::Rank& rank = job.ranks.emplace_back();
    rank.rank = static_cast<int32_t>(job.ranks.size()) - 1;
    rank.life = tui::Life::kRunning;
    rank.negotiating.moved = 1;
    rank.negotiating.moved_ticks = 2'000'000'000;
    for (uint64_t i = 0; i <= 40; ++i)
      rank.negotiating.samples.push_back({1'000'000'000 + i * 25'000'000, i * 20'000'000, i * polls * 1'000'000});
  }
  const tui::Snapshot s = tui::Observer().look(job, false);
  EXPECT_EQ(
      s.headline.text,
      "training threads computed 40.0% of the last second (20.0% to 60.0%): see ddl report for what blocked them");
  EXPECT_FALSE(s.headline.rank);
}

/// As PyTorch's over Gloo or NCCL.
TEST(Live, OfMpiIsSpokenWhereThereIsMpiAlone) {
  for (const char* name : {"MPI_Allreduce", "gloo::allreduce", "ncclAllReduce"}) {
    const bool mpi = std::string_view(name).starts_with("MPI_");
    tui::Job job;
    job.operations.push_back({describe_operation(name, "all_to_all", false), {}});
    job.background = true;
    job.gpus = true;
    for (const int32_t number : {0, 1}) {
      tui::Rank& rank = job.ranks.emplace_back();
      rank.rank = number;
      rank.life = number == 0 ? tui::Life::kExited : tui::Life::kGone;
      rank.uses_mpi = mpi;
    }
    tui::Snapshot s = tui::Observer().look(job, false);
    EXPECT_EQ(s.mpi, mpi);
    EXPECT_TRUE(s.headline.text.starts_with(mpi ? "background threads make its MPI calls"
                                                : "background threads make its collectives"))
        << s.headline.text;
    job.ended = true;
    s = tui::Observer().look(job, false);
    EXPECT_EQ(s.how_ended, mpi ? "rank 1 ended abnormally, rank 0 exited without MPI_Finalize"
                               : "rank 1 ended abnormally, rank 0 exited");
  }
}

TEST(Live, AHungJobSaysWhoIsMissing) {
  ScratchFolder folder;
  run().ranks(3).steps(10).compute(5_ms).allreduce(1_MiB, 1_ms).hang(1, 6).write(folder.path());
  tui::SpoolSource source(find_run(folder.path().string()), "run.ddl");
  tui::Job job;
  source.poll(job, 1);
  job.now_ns = job.ranks[0].clock.time_ns(job.ranks[0].sits_in->start_ticks) + 8'000'000'000;
  const auto stall = tui::find_live_stall(job, {}, {.least_ns = 2e9});
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->missing, std::vector<int64_t>{1});
  EXPECT_EQ(stall->waiting, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(stall->call, "MPI_Allreduce number 7 on MPI_COMM_WORLD");
  job.now_ns -= 7'000'000'000;
  EXPECT_FALSE(tui::find_live_stall(job, {}, {.least_ns = 2e9})) << "a second in a call is not a hang";
}

TEST(LiveStall, AJobWithoutRanksIsNotSilent) {  // found by tools/fuzz live: INT64_MIN was subtracted
  tui::Job job;
  job.now_ns = 1'800'000'000'000'000'000;
  EXPECT_FALSE(tui::find_no_data(job, {.least_ns = 1e9}));
}

}  // namespace
}  // namespace ddl::test
