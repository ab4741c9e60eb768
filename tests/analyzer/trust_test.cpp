// Runs whose numbers are doubtful: said first, and neither a verdict nor a finding about speed after it.
#include "tests/analyzer/analyzed.h"
#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

SyntheticRun straggler_on_two_hosts() {
  SyntheticRun run = test::run().ranks(4).steps(400).jitter(500_us).hosts(2, 0).host_clock(1, 3_s, 50).slow(3, 2_ms);
  return run.compute(2_ms).allreduce(4_KiB, 80_us).compute(1_ms).allreduce(64_B, 30_us);
}

TEST(Trust, AClockThatJumpsWithholdsAllElse) {
  Analyzed steady(straggler_on_two_hosts());
  EXPECT_EQ(steady.findings(), Ids{"straggler"});
  EXPECT_EQ(steady.text("SELECT value FROM meta WHERE key = 'verdict'"), "wait");

  Analyzed jumped(straggler_on_two_hosts().host_clock_step(1, 900_ms, 50_ms));
  EXPECT_EQ(jumped.findings(), Ids{"clocks_uncertain"});
  EXPECT_TRUE(has(jumped.text("SELECT sentence FROM finding"), "the clocks of node0, node1 did not keep an even pace"));
  EXPECT_EQ(jumped.text("SELECT value FROM meta WHERE key = 'verdict'"), "withheld");
  EXPECT_TRUE(has(jumped.text("SELECT value FROM meta WHERE key = 'verdict.text'"), "withheld: the clocks of node0"));
  EXPECT_EQ(jumped.integer("SELECT count(*) FROM (" + jumped.text("SELECT evidence_sql FROM finding") + ")"), 2);
}

/// By more than the time since its processes began: what they did from then on has times from before, and is left out.
TEST(Trust, AClockThatIsSetBackToBeforeItsProcessesBeganWithholdsAllElse) {
  const auto on_hosts = [](int hosts, double tsc_hz) {
    SyntheticRun run = test::run().ranks(4).steps(200).jitter(500_us).hosts(hosts, 0).slow(3, 2_ms).tsc(tsc_hz);
    return run.compute(2_ms).allreduce(4_KiB, 80_us).compute(1_ms).allreduce(64_B, 30_us);
  };
  for (const int hosts : {1, 2}) {
    for (const double tsc_hz : {0.0, 2.4e9}) {
      SCOPED_TRACE(testing::Message() << hosts << " hosts, counter at " << tsc_hz << " Hz");
      Analyzed steady(on_hosts(hosts, tsc_hz));
      EXPECT_EQ(steady.findings(), Ids{"straggler"});
      Analyzed back(on_hosts(hosts, tsc_hz).host_clock_step(hosts - 1, 500_ms, -3_s));
      EXPECT_EQ(back.findings(), Ids{"clocks_uncertain"});
      EXPECT_EQ(back.text("SELECT sentence FROM finding"),
                "the clock of node" + std::to_string(hosts - 1) +
                    " was set back in mid-run: what was recorded there from then on is left out");
      EXPECT_EQ(back.text("SELECT value FROM meta WHERE key = 'verdict'"), "withheld");
      EXPECT_EQ(back.integer("SELECT count(*) FROM loss WHERE kind = 'clock_back'"), 4 / hosts);
      EXPECT_GT(back.integer("SELECT min(count) FROM loss WHERE kind = 'clock_back'"), 100) << "of 4 a step";
    }
  }
}

TEST(Trust, AClockThatNothingJoinsIsNoContradiction) {
  SyntheticRun run = test::run().ranks(4).steps(50).jitter(200_us).hosts(2, 0).host_clock(1, -2_s, 10);
  run.split("node", 2).compute(2_ms).on_comm("node").allreduce(4_KiB, 50_us);
  Analyzed apart(run);
  EXPECT_EQ(apart.integer("SELECT count(*) FROM host WHERE sigma_ns IS NULL"), 2);
  EXPECT_EQ(apart.integer("SELECT count(*) FROM finding WHERE id = 'clocks_uncertain'"), 0);
}

TEST(Trust, ClocksOfImportedRunsThatNobodyFittedContradictNothing) {
  for (const bool imported : {false, true}) {
    Tables run(4, 2);
    for (int64_t s = 0; s < 30; ++s) {  // rank 3 comes 3 ms late
      for (int64_t rank = 0; rank < 4; ++rank) run.step(rank, s, s * 10_ms, s * 10_ms + 9_ms, rank == 3 ? 1_ms : 4_ms);
      const int64_t t = s * 10_ms + 5_ms;
      run.allreduce(s + 1, {t, t, t, t + 3_ms}, 1_ms, 1'000, s);
    }
    run.exec("UPDATE host SET sigma_ns = NULL");
    if (imported) run.exec("UPDATE host SET clock = 'imported'");
    run.analyze();
    EXPECT_EQ(run.findings(), imported ? Ids{"straggler"} : Ids{"clocks_uncertain"});
    EXPECT_EQ(run.integer("SELECT count(*) FROM v_collective WHERE wait_method = 'min-duration'"), 120);
  }
}

TEST(Trust, RecordingThatTakesTooMuchIsSaidInsteadOfAVerdict) {
  Tables run(2);
  int64_t seq = 0;
  for (int64_t s = 0; s < 20; ++s) {  // rank 1 comes 30 ms late
    for (int64_t rank : {0, 1}) run.step(rank, s, s * 100_ms, s * 100_ms + 90_ms, rank == 0 ? 40_ms : 10_ms);
    run.allreduce(++seq, {s * 100_ms + 50_ms, s * 100_ms + 80_ms}, 10_ms, 1'000, s);
  }
  run.exec("UPDATE process SET start_ns = 0, end_ns = 2000000000, overhead_ns = 80000000");
  run.analyze();
  EXPECT_EQ(run.findings(), Ids{"straggler"}) << "4 % are bearable";
  run.exec("UPDATE process SET overhead_ns = 120000000");
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"heavy_recording"});
  EXPECT_TRUE(has(run.text("SELECT sentence FROM finding"), "recording took 6.0% of the ranks' time"));
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'verdict'"), "withheld");
  EXPECT_EQ(run.integer("SELECT count(*) FROM (" + run.text("SELECT evidence_sql FROM finding") + ")"), 2);
}

/// Two ranks on one host, rank 1 late by 5 ms of each step.
Tables late_rank_on_one_host(int64_t early_end_ns) {
  Tables run(2);
  for (int64_t s = 0; s < 50; ++s) {
    for (int64_t rank : {0, 1}) run.step(rank, s, s * 20_ms, s * 20_ms + 18_ms, rank == 0 ? 6_ms : 1_ms);
    for (int64_t rank : {0, 1}) {
      Row row;
      row.rank = rank;
      row.comm = 1;
      row.seq = s + 1;
      row.bytes = 1'000;
      row.step = s;
      row.enter_ns = s * 20_ms + 5_ms + rank * 5_ms;
      row.leave_ns = s * 20_ms + 11_ms - (rank == 0 ? early_end_ns : 0);
      run.add(row);
    }
  }
  return run;
}

TEST(Trust, AClockThatCannotBeTrueIsNamedOnOneHost) {
  const auto told = [](Tables& run) {
    run.analyze();
    return run.integer("SELECT count(*) FROM finding WHERE id = 'clocks_uncertain'") == 1 &&
           run.text("SELECT value FROM meta WHERE key = 'verdict'") == "withheld" &&
           run.integer("SELECT count(*) FROM finding WHERE id = 'straggler'") == 0;
  };
  Tables healthy = late_rank_on_one_host(0);
  EXPECT_FALSE(told(healthy));
  EXPECT_EQ(healthy.findings(), Ids{"straggler"});

  Tables violated = late_rank_on_one_host(3_ms);  // rank 0 leaves before rank 1 enters
  EXPECT_TRUE(told(violated));
  EXPECT_TRUE(has(violated.text("SELECT sentence FROM finding"), "cannot all be true"))
      << violated.text("SELECT sentence FROM finding");
  EXPECT_TRUE(has(violated.text("SELECT sentence FROM finding"), violated.text("SELECT name FROM host")));

  Tables fast = late_rank_on_one_host(0);  // a clock at a tenth of the pace: the counter seems ten times as fast
  fast.exec("UPDATE host SET clock = 'tsc', ticks_per_second = 2.4e10");
  EXPECT_TRUE(told(fast));
  fast.exec("UPDATE host SET clock = 'tsc', ticks_per_second = 2.4e9");
  EXPECT_FALSE(told(fast));

  Tables uneven = late_rank_on_one_host(0);  // of one of two processes
  uneven.exec("UPDATE process SET start_ns = 0, end_ns = 1000000000; UPDATE host SET fit_residual_ns = 9e6");
  EXPECT_FALSE(told(uneven));
  uneven.exec("UPDATE host SET fit_residual_ns = 5e7");
  EXPECT_TRUE(told(uneven));

  Tables damaged = late_rank_on_one_host(0);  // of two processes one ran for centuries
  damaged.exec("UPDATE process SET end_ns = 1 << 61 WHERE id = 2");
  EXPECT_TRUE(told(damaged));
  damaged.exec("INSERT INTO loss VALUES (0, 1, 'torn_spool', 30, '')");
  EXPECT_FALSE(told(damaged)) << "its record is damaged, the other one is not";
  damaged.exec("INSERT INTO loss VALUES (0, 0, 'torn_spool', 30, '')");
  EXPECT_TRUE(told(damaged)) << "both say so";

  Tables long_run = late_rank_on_one_host(0);
  long_run.exec(
      "UPDATE process SET start_ns = 0, end_ns = 60000000000; INSERT INTO meta VALUES ('started_realtime_ns', '1000'),"
      " ('ended_realtime_ns', '60000001000')");
  EXPECT_FALSE(told(long_run));
  long_run.exec("UPDATE process SET end_ns = 160000000000");
  EXPECT_TRUE(told(long_run));
  long_run.exec("DELETE FROM meta WHERE key LIKE '%realtime_ns'");
  EXPECT_FALSE(told(long_run)) << "nobody knows how long the job took";
  long_run.exec("UPDATE process SET end_ns = 1795302000000000000");  // 498,695 hours
  EXPECT_TRUE(told(long_run));
}

TEST(Trust, EachWorldHasItsOwnDoubts) {
  Tables run(4, 2);
  run.exec(
      "UPDATE host SET sigma_ns = 1000; UPDATE process SET host = 1 + id % 2;"
      "UPDATE process SET world = 1, rank = rank - 2, world_size = 2 WHERE id > 2; UPDATE process SET world_size = 2;"
      "UPDATE communicator SET size = 2; DELETE FROM communicator_member WHERE comm_rank > 1;");
  const int64_t second = run.communicator("MPI_COMM_WORLD 2", {0, 1});
  run.exec("UPDATE communicator SET world = 1 WHERE id = " + std::to_string(second));
  for (int64_t seq = 1; seq <= 50; ++seq) {
    const int64_t t = seq * 10_ms;
    run.allreduce(seq, {t, t + 4_ms}, 1_ms, 1'000);
    for (int64_t rank : {2, 3}) {  // in the other world the first one is gone before the second one comes
      Row row;
      row.rank = rank;
      row.comm = second;
      row.seq = seq;
      row.bytes = 1'000;
      row.enter_ns = t + (rank - 2) * 3_ms;
      row.leave_ns = row.enter_ns + 2_ms;
      run.add(row);
    }
  }
  run.analyze();
  EXPECT_EQ(run.integers("SELECT world FROM finding WHERE id = 'clocks_uncertain'"), std::vector<int64_t>{1});
  EXPECT_EQ(run.integers("SELECT world FROM loss WHERE kind = 'clock_violations'"), std::vector<int64_t>{1});
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'verdict'"), "wait");
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'verdict.1'"), "withheld");
}

TEST(Trust, AFlippedBitOfADamagedRecordIsNoClockThatWasSet) {
  for (const bool damaged : {false, true}) {
    Tables run(3);
    for (int64_t seq = 1; seq <= 50; ++seq) run.allreduce(seq, {seq * 10_ms, seq * 10_ms, seq * 10_ms}, 1_ms, 1'000);
    run.exec("UPDATE event SET start_ns = start_ns + (1 << 26) WHERE process = 1 AND seq = 25");
    if (damaged)
      run.exec("INSERT INTO loss (world, rank, kind, count, note) VALUES (0, 0, 'torn_spool', 64, 'damaged records')");
    run.analyze();
    EXPECT_EQ(run.integers("SELECT count FROM loss WHERE kind = 'clock_violations'"),
              damaged ? std::vector<int64_t>{} : std::vector<int64_t>{2});
    EXPECT_EQ(run.integers("SELECT count(*) FROM finding WHERE id = 'clocks_uncertain'"),
              std::vector<int64_t>{damaged ? 0 : 1});
  }
}

}  // namespace
}  // namespace ddl::test
