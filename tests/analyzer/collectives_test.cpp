// From event rows to waits, blame and bandwidths. Identities of specification.md "Invariants" 1 to 3 and 5 on random
// runs.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "analyzer/analyze.h"
#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

/// What a random run is made of, so that it can be told twice with something changed.
struct Story {
  int64_t ranks = 4;
  std::vector<std::vector<int64_t>> enter_ns;  // collective, rank
  std::vector<int64_t> xfer_ns;
};

Story random_story(uint64_t seed) {
  std::mt19937_64 random(seed);
  Story story;
  story.ranks = static_cast<int64_t>(random() % 7 + 2);
  int64_t now_ns = 0;
  for (int i = 0; i < 40; ++i) {
    std::vector<int64_t> enter_ns(static_cast<size_t>(story.ranks));
    // Small steps make ties common.
    for (int64_t& enter : enter_ns) enter = now_ns + 1'000'000 + static_cast<int64_t>(random() % 5) * 1'000;
    story.enter_ns.push_back(enter_ns);
    story.xfer_ns.push_back(static_cast<int64_t>(random() % 50'000) + 1);
    now_ns += 2'000'000;
  }
  return story;
}

void tell(Tables& run, const Story& story) {
  for (size_t i = 0; i < story.enter_ns.size(); ++i)
    run.allreduce(static_cast<int64_t>(i) + 1, story.enter_ns[i], story.xfer_ns[i], 1'000);
}

TEST(Collectives, SumsHoldExactly) {
  for (uint64_t seed = 0; seed < 25; ++seed) {
    const Story story = random_story(seed);
    Tables run(story.ranks);
    tell(run, story);
    run.analyze();
    EXPECT_EQ(
        run.integer(
            "SELECT count(*) FROM collective k JOIN event e ON e.id = k.event WHERE k.wait_ns + k.xfer_ns <> e.duration_ns"),
        0);
    EXPECT_EQ(run.integer("SELECT count(*) FROM collective WHERE wait_ns IS NULL OR wait_ns < 0 OR xfer_ns < 0"), 0);
    EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM blame"), run.integer("SELECT sum(wait_ns) FROM collective"));
    // The truth: the story itself.
    int64_t put_in_ns = 0;
    for (const auto& enters : story.enter_ns) {
      const int64_t last = *std::max_element(enters.begin(), enters.end());
      for (int64_t enter : enters) put_in_ns += last - enter;
    }
    EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM collective"), put_in_ns);
    EXPECT_EQ(run.integer("SELECT sum(xfer_ns) FROM collective"),
              story.ranks * std::accumulate(story.xfer_ns.begin(), story.xfer_ns.end(), int64_t{0}));
    EXPECT_EQ(run.metric("wait_agreement"), 0.0);
  }
}

TEST(Collectives, PermutingRanksPermutesTheResults) {
  const Story story = random_story(100);
  Story reversed = story;
  for (auto& enters : reversed.enter_ns) std::reverse(enters.begin(), enters.end());
  Tables a(story.ranks), b(story.ranks);
  tell(a, story);
  tell(b, reversed);
  a.analyze();
  b.analyze();
  const std::string waits = "SELECT sum(wait_ns) FROM v_collective GROUP BY rank ORDER BY rank";
  std::vector<int64_t> mirrored = b.integers(waits + " DESC");
  EXPECT_EQ(a.integers(waits), mirrored);
  EXPECT_EQ(a.metric("wait_share"), b.metric("wait_share"));
  EXPECT_EQ(a.metric("blame_share"), b.metric("blame_share"));
}

TEST(Collectives, ScalingTimesLeavesRatiosAlone) {
  const Story story = random_story(101);
  Story slower = story;
  for (auto& enters : slower.enter_ns) {
    for (int64_t& enter : enters) enter *= 3;
  }
  for (int64_t& xfer : slower.xfer_ns) xfer *= 3;
  Tables a(story.ranks), b(story.ranks);
  tell(a, story);
  tell(b, slower);
  a.analyze();
  b.analyze();
  for (const char* id : {"wait_share", "blame_share", "ccr_raw", "ccr_xfer", "ccr_exposed", "comm_overhead",
                         "load_balance", "parallel_efficiency"}) {
    ASSERT_TRUE(a.metric(id)) << id;
    EXPECT_NEAR(*a.metric(id), *b.metric(id), 1e-6 * std::abs(*a.metric(id))) << id;
  }
}

TEST(Collectives, ClockOffsetOfOneRankChangesOnlyWhatNeedsClocks) {
  const Story story = random_story(102);
  Tables a(story.ranks), b(story.ranks);
  tell(a, story);
  tell(b, story);
  b.exec("UPDATE event SET start_ns = start_ns + 700 WHERE process = 1");
  b.exec("UPDATE process SET init_ns = init_ns + 700, end_ns = end_ns + 700 WHERE id = 1");
  a.analyze();
  b.analyze();
  EXPECT_NE(a.integer("SELECT sum(wait_ns) FROM collective"), b.integer("SELECT sum(wait_ns) FROM collective"));
  EXPECT_EQ(a.integer("SELECT sum(min_duration_wait_ns) FROM collective"),
            b.integer("SELECT sum(min_duration_wait_ns) FROM collective"));
  EXPECT_EQ(a.metric("ccr_raw"), b.metric("ccr_raw"));
  EXPECT_EQ(a.metric("overlap"), b.metric("overlap"));
  EXPECT_GT(*b.metric("wait_agreement"), 0);
}

TEST(Collectives, InjectedDelayIsWaitingAndNotTransfer) {
  for (int64_t ranks : {2, 4, 16}) {
    Tables run(ranks);
    constexpr int64_t kDelay = 200_ms;
    for (int64_t seq = 1; seq <= 21; ++seq) {
      std::vector<int64_t> enter_ns(static_cast<size_t>(ranks), seq * 1_s);
      if (seq == 11) enter_ns[1] += kDelay;
      run.allreduce(seq, enter_ns, 3_ms, 1_MB);
    }
    run.analyze();
    EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM collective"), (ranks - 1) * kDelay);
    EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM v_collective WHERE seq = 11"), (ranks - 1) * kDelay);
    EXPECT_EQ(run.integer("SELECT count(*) FROM collective WHERE xfer_ns <> 3000000"), 0);
    EXPECT_EQ(run.integer("SELECT min(wait_ns) FROM v_collective WHERE seq = 11 AND rank <> 1"), kDelay);
    EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM blame WHERE late = 1"), (ranks - 1) * kDelay);
    EXPECT_EQ(run.metric("blame_share"), 1.0);
    EXPECT_EQ(run.metric("wait_agreement"), 0.0);
  }
}

TEST(Collectives, TiesShareTheBlame) {
  Tables run(4);
  run.allreduce(1, {0, 101, 101, 101}, 50, 8);  // rank 0 waits 101 ns for three
  run.analyze();
  EXPECT_EQ(run.integers("SELECT wait_ns FROM blame WHERE waiter = 0 ORDER BY late"),
            (std::vector<int64_t>{34, 34, 33}));
}

TEST(Collectives, MissingMemberIsPartial) {
  Tables run(3);
  run.allreduce(1, {0, 10, 20}, 50, 8);
  for (int64_t rank : {0, 1}) {
    Row row;
    row.rank = rank;
    row.enter_ns = 1'000;
    row.leave_ns = 2'000;
    row.bytes = 8;
    row.seq = 2;
    run.add(row);
  }
  run.analyze();
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_collective WHERE seq = 2 AND wait_ns IS NULL AND xfer_ns IS NULL AND why = 'PARTIAL_RANKS'"),
      2);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE seq = 1 AND wait_ns IS NOT NULL"), 3);
  EXPECT_EQ(run.integer("SELECT count FROM loss WHERE kind = 'partial_collectives'"), 1);
  // every member of an allreduce knows S
  EXPECT_EQ(run.integer("SELECT min(bytes) FROM v_collective WHERE seq = 2"), 8);
}

TEST(Collectives, SubcommunicatorsAreTheirOwn) {
  Tables run(4);
  const int64_t pair = run.communicator("pair", {1, 3});
  for (int64_t rank : {1, 3}) {
    Row row;
    row.rank = rank;
    row.comm = pair;
    row.seq = 1;
    row.enter_ns = rank * 100;
    row.leave_ns = 400;
    row.bytes = 100;
    run.add(row);
  }
  run.analyze();
  EXPECT_EQ(run.integers("SELECT wait_ns FROM v_collective ORDER BY rank"), (std::vector<int64_t>{200, 0}));
  EXPECT_EQ(run.integer("SELECT comm_size FROM v_collective"), 2);
  EXPECT_EQ(run.integer("SELECT count(*) FROM loss"), 0);
}

TEST(Collectives, OneMemberCommunicatorsDoNotMixProcesses) {
  Tables run(2);
  const int64_t self = run.communicator("MPI_COMM_SELF", {0});  // one row stands for the SELF of all ranks
  for (int64_t rank : {0, 1}) {
    Row row;
    row.rank = rank;
    row.comm = self;
    row.seq = 1;
    row.leave_ns = 100 + rank;
    row.bytes = 8;
    run.add(row);
  }
  run.analyze();
  EXPECT_EQ(run.integers("SELECT wait_ns FROM v_collective ORDER BY rank"), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(run.integer("SELECT count(*) FROM loss"), 0);
  EXPECT_EQ(run.text("SELECT DISTINCT why FROM collective_group"), "NOT_APPLICABLE");
}

TEST(Collectives, DifferentCallsUnderOneNumberAreNotSplit) {
  Tables run(2);
  Row row;
  row.seq = 1;
  row.leave_ns = 100;
  run.add(row);
  row.rank = 1;
  row.op = "MPI_Barrier";
  run.add(row);
  run.analyze();
  EXPECT_EQ(run.integer("SELECT count(*) FROM collective WHERE wait_ns IS NULL"), 2);
  EXPECT_EQ(run.integer("SELECT count FROM loss WHERE kind = 'mismatched_collectives'"), 1);
}

// -------------------------------------------------------------------------------------------------------------- clocks

Tables two_hosts(std::optional<double> sigma_ns, int64_t skew_ns) {
  Tables run(2, 2);
  if (sigma_ns) run.exec("UPDATE host SET sigma_ns = iif(id = 1, 0, " + std::to_string(*sigma_ns) + ")");
  for (int64_t seq = 1; seq <= 20; ++seq) run.allreduce(seq, {seq * 1_ms, seq * 1_ms + skew_ns}, 10_us, 1'000);
  return run;
}

TEST(Collectives, UnknownOffsetBetweenHostsIsNotTrusted) {
  Tables run = two_hosts(std::nullopt, 100_us);
  Row row;
  row.op = "MPI_Bcast";
  row.seq = 21;
  row.peer = 0;
  row.enter_ns = 1_s;
  row.leave_ns = 1_s + 10;
  row.bytes = 8;
  run.add(row);
  row.rank = 1;
  run.add(row);
  run.analyze();
  EXPECT_EQ(
      run.integer("SELECT count(*) FROM v_collective WHERE op = 'MPI_Allreduce' AND wait_method = 'min-duration'"), 40);
  EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM v_collective"), 20 * 100_us);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_collective WHERE op = 'MPI_Bcast' AND wait_ns IS NULL AND why = 'CLOCK_UNTRUSTED'"),
      2);
  EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM blame WHERE late = 1"), 20 * 100_us);
  EXPECT_EQ(run.why("wait_agreement"), "CLOCK_UNTRUSTED");
}

TEST(Collectives, OffsetIsTrustedIfSmallAgainstTheWaits) {
  Tables good = two_hosts(9'000.0, 100_us);  // 9 us against a tenth of 100 us
  good.analyze();
  EXPECT_EQ(good.integer("SELECT count(*) FROM collective WHERE wait_method = 'max-start' AND sigma_ns = 9000"), 40);
  Tables bad = two_hosts(11'000.0, 100_us);
  bad.analyze();
  EXPECT_EQ(bad.integer("SELECT count(*) FROM collective WHERE wait_method = 'min-duration'"), 40);
}

TEST(Collectives, VariancesOfTwoHostsAddUp) {
  Tables run(4, 4);
  run.exec("UPDATE host SET sigma_ns = CASE id WHEN 1 THEN 0 WHEN 2 THEN 3000 WHEN 3 THEN 1000 ELSE 4000 END");
  const int64_t pair = run.communicator("pair", {0, 2});
  for (int64_t seq = 1; seq <= 20; ++seq)
    run.allreduce(seq, {seq * 1_ms, seq * 1_ms, seq * 1_ms, seq * 1_ms + 100_us}, 10_us, 1'000);
  for (int64_t rank : {0, 2}) {
    Row row;
    row.rank = rank;
    row.comm = pair;
    row.seq = 1;
    row.enter_ns = 1_s + rank * 100_us;
    row.leave_ns = 1_s + 300_us;
    row.bytes = 8;
    run.add(row);
  }
  run.analyze();
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective v JOIN collective k ON k.event = v.event"
                        " WHERE v.comm = 'MPI_COMM_WORLD' AND k.sigma_ns = 5000 AND k.wait_method = 'max-start'"),
            80);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_collective v JOIN collective k ON k.event = v.event WHERE v.comm = 'pair' AND k.sigma_ns = 1000"),
      2);
}

TEST(Collectives, HostsOfOneBootShareTheirClock) {
  Tables run(3, 3);
  run.exec("UPDATE host SET sigma_ns = iif(id = 1, 0, 1e9), boot_id = iif(id = 1, 'one', 'two')");
  const int64_t pair = run.communicator("pair", {1, 2});
  for (int64_t rank : {1, 2}) {
    Row row;
    row.rank = rank;
    row.comm = pair;
    row.seq = 1;
    row.enter_ns = rank * 10;
    row.leave_ns = 50;
    row.bytes = 8;
    run.add(row);
  }
  run.analyze();
  EXPECT_EQ(run.integer("SELECT count(*) FROM collective WHERE wait_method = 'max-start' AND sigma_ns = 0"), 2);
}

TEST(Collectives, WithinOneHostNoSigmaIsNeeded) {
  Tables run(4, 2);  // ranks 0, 1 and 2, 3 share hosts
  const int64_t pair = run.communicator("local", {0, 1});
  for (int64_t rank : {0, 1}) {
    Row row;
    row.rank = rank;
    row.comm = pair;
    row.seq = 1;
    row.enter_ns = rank * 10;
    row.leave_ns = 50;
    row.bytes = 8;
    run.add(row);
  }
  run.analyze();
  EXPECT_EQ(run.integers("SELECT wait_ns FROM v_collective WHERE wait_method = 'max-start' ORDER BY rank"),
            (std::vector<int64_t>{10, 0}));
}

// ---------------------------------------------------------------------------------------------------------- bandwidths

TEST(Collectives, GoldenBusBandwidth) {
  Tables run(8);
  run.allreduce(1, std::vector<int64_t>(8, 0), 1_ms, 1_MB);  // specification.md G-D: 1 MB in 1 ms, n = 8
  run.analyze();
  EXPECT_NEAR(run.number("SELECT algbw_bytes_per_second FROM collective_group"), 1.0e9, 1);
  EXPECT_NEAR(run.number("SELECT busbw_xfer FROM collective_group"), 1.75e9, 1);
}

TEST(Collectives, GoldenAllgather) {
  Tables run(8);  // specification.md G-D, TraceLens: 1632.03125 MiB in 6041.878 us, n = 8: 283.24 GB/s, bus x 0.875
  for (int64_t rank = 0; rank < 8; ++rank) {
    Row row;
    row.rank = rank;
    row.op = "MPI_Allgather";
    row.seq = 1;
    row.leave_ns = 6'041'878;
    row.bytes = static_cast<int64_t>(1632.03125 * 1024 * 1024 / 8);
    run.add(row);
  }
  run.analyze();
  EXPECT_NEAR(run.number("SELECT algbw_bytes_per_second FROM collective_group") / 1e9, 283.24, 0.01);
  EXPECT_NEAR(run.number("SELECT busbw_xfer FROM collective_group") / 1e9, 283.24 * 0.875, 0.01);
}

TEST(Collectives, ThreeBandwidths) {
  Tables run(2);
  run.allreduce(1, {0, 3_ms}, 1_ms, 1_MB);  // durations 4 ms and 1 ms, transfer 1 ms; factor 2(n-1)/n = 1
  run.analyze();
  EXPECT_NEAR(run.number("SELECT busbw_xfer FROM collective_group"), 1e9, 1);
  EXPECT_NEAR(run.number("SELECT busbw_raw FROM collective_group"), 1e9 / 2.5, 1);
  EXPECT_NEAR(run.number("SELECT busbw_max FROM collective_group"), 1e9 / 4, 1);
  EXPECT_EQ(run.integer("SELECT wait_ns FROM collective_group"), 3_ms);
  EXPECT_EQ(run.integer("SELECT time_ns FROM collective_group"), 5_ms);
}

/// One rank of four was recorded: its own duration tells what it moved, but nobody knows how long it waited in it.
TEST(Collectives, ARankAloneTellsTheRawBandwidth) {
  struct Case {
    const char* op;
    int64_t payload;
    double bytes, factor;  // S and f of specification.md "Bandwidths" by hand, n = 4
  };
  const Case cases[] = {{"MPI_Allreduce", 1'000'000, 1e6, 1.5},
                        {"MPI_Allgather", 250'000, 1e6, 0.75},  // everybody contributes as much
                        {"MPI_Reduce_scatter", 1'000'000, 1e6, 0.75},
                        {"MPI_Alltoall", 1'000'000, 1e6, 0.75}};
  for (const Case& c : cases) {
    Tables run(4);
    for (int64_t seq : {1, 2, 3}) {
      Row row;
      row.rank = 2;
      row.op = c.op;
      row.seq = seq;
      row.enter_ns = seq * 10_ms;
      row.leave_ns = row.enter_ns + seq * 1_ms;  // median 2 ms
      row.bytes = c.payload;
      run.add(row);
    }
    run.analyze();
    EXPECT_EQ(run.integer("SELECT count(*) FROM collective_group"), 1) << c.op;
    EXPECT_EQ(run.number("SELECT bytes FROM collective_group"), c.bytes) << c.op;
    EXPECT_NEAR(run.number("SELECT busbw_raw FROM collective_group"), c.bytes / 2e-3 * c.factor, 1) << c.op;
    for (const char* column : {"busbw_xfer", "busbw_max", "algbw_bytes_per_second", "wait_ns"})
      EXPECT_TRUE(run.is_null(std::string("SELECT ") + column + " FROM collective_group")) << c.op << ' ' << column;
    EXPECT_EQ(run.text("SELECT why FROM collective_group"), "PARTIAL_RANKS") << c.op;
  }
}

TEST(Collectives, RawBandwidthsThatNeedAllStayUnknown) {
  // Sizes that differ by rank, and times of whoever takes longest.
  for (const char* op : {"MPI_Allgatherv", "MPI_Alltoallv", "MPI_Bcast", "MPI_Reduce", "MPI_Gather"}) {
    Tables run(4);
    Row row;
    row.op = op;
    row.seq = 1;
    row.peer = 0;
    row.leave_ns = 1_ms;
    row.bytes = 1_MB;
    run.add(row);
    run.analyze();
    EXPECT_TRUE(run.is_null("SELECT busbw_raw FROM collective_group")) << op;
    EXPECT_EQ(run.text("SELECT why FROM collective_group"), "PARTIAL_RANKS") << op;
  }
}

TEST(Collectives, WhereSomeInstancesAreCompleteTheyTell) {
  Tables run(2);
  run.allreduce(1, {0, 3_ms}, 1_ms, 1_MB);  // durations 4 ms and 1 ms
  Row row;
  row.seq = 2;
  row.enter_ns = 10_ms;
  row.leave_ns = 19_ms;
  row.bytes = 1_MB;
  run.add(row);
  run.analyze();
  EXPECT_NEAR(run.number("SELECT busbw_raw FROM collective_group"), 1e9 / 2.5, 1);
  EXPECT_NEAR(run.number("SELECT busbw_xfer FROM collective_group"), 1e9, 1);
}

TEST(Collectives, BandwidthTakesTheCommunicatorsSize) {
  Tables run(8);
  const int64_t pair = run.communicator("pair", {0, 1});
  for (int64_t rank : {0, 1}) {
    Row row;
    row.rank = rank;
    row.comm = pair;
    row.seq = 1;
    row.leave_ns = 1_ms;
    row.bytes = 1_MB;
    run.add(row);
  }
  run.analyze();
  EXPECT_NEAR(run.number("SELECT busbw_xfer FROM collective_group"), 1.0e9, 1);  // 2(2-1)/2 = 1, not 1.75
}

TEST(Collectives, NonblockingOnesTellNoBandwidth) {
  Tables run(2);
  for (int64_t rank : {0, 1}) {
    Row row;
    row.rank = rank;
    row.op = "MPI_Iallreduce";
    row.request = true;
    row.seq = 1;
    row.enter_ns = rank * 1_ms;
    row.leave_ns = 5_ms;
    row.bytes = 1_MB;
    run.add(row);
  }
  run.analyze();
  EXPECT_EQ(run.integer("SELECT upper_bound FROM collective_group"), 1);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM collective_group WHERE busbw_xfer IS NULL AND busbw_raw IS NULL AND why = 'NOT_APPLICABLE'"),
      1);
  EXPECT_EQ(run.text("SELECT DISTINCT wait_method FROM collective"), "max-post");
  EXPECT_EQ(run.integers("SELECT wait_ns FROM v_collective ORDER BY rank"), (std::vector<int64_t>{1_ms, 0}));
}

TEST(Collectives, BarriersHaveNoBandwidth) {
  Tables run(2);
  for (int64_t rank : {0, 1}) {
    Row row;
    row.rank = rank;
    row.op = "MPI_Barrier";
    row.seq = 1;
    row.leave_ns = 10;
    run.add(row);
  }
  run.analyze();
  EXPECT_TRUE(run.is_null("SELECT busbw_xfer FROM collective_group"));
  EXPECT_EQ(run.text("SELECT why FROM collective_group"), "NOT_APPLICABLE");
}

TEST(Collectives, ProgressNeverGoesBack) {
  Tables run(2);
  run.allreduce(1, {0, 10}, 5, 8);
  double last = 0;
  ddl::analyze(run.db(), [&](std::string_view, double done) {
    EXPECT_GE(done, last);
    last = done;
  });
  EXPECT_EQ(last, 1.0);
  EXPECT_TRUE(is_analyzed(run.db()));
}

TEST(Collectives, AnalyzingTwiceGivesTheSame) {
  const Story story = random_story(103);
  Tables run(story.ranks);
  tell(run, story);
  run.analyze();
  const auto fingerprint = [&] {
    return run.text(
               "SELECT group_concat(event || ':' || wait_ns || ':' || wait_method) FROM (SELECT * FROM collective ORDER BY event)") +
           run.text("SELECT group_concat(id || '=' || coalesce(value, why)) FROM metric") +
           run.text("SELECT group_concat(key || value) FROM meta");
  };
  const std::string first = fingerprint();
  run.analyze();
  EXPECT_EQ(fingerprint(), first);
}

}  // namespace
}  // namespace ddl::test
