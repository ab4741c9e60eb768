// Run directories of virtual jobs, ingested and analyzed, against what the generator knows to be true of them.
#include <gtest/gtest.h>

#include <map>

#include "tests/analyzer/analyzed.h"

namespace ddl::test {
namespace {

std::optional<int64_t> maybe(const SQLite::Column& column) {
  return column.isNull() ? std::nullopt : std::optional(column.getInt64());
}

/// Every rank's part in every collective, to the nanosecond: waiting, transfer, S.
void expect_instances(Analyzed& run) {
  std::map<std::tuple<std::string, int64_t, int64_t>,
           std::tuple<std::optional<int64_t>, std::optional<int64_t>, std::optional<int64_t>>>
      found;
  SQLite::Statement rows(run.db, "SELECT comm, seq, rank, wait_ns, xfer_ns, bytes FROM v_collective");
  while (rows.executeStep()) {
    found[{rows.getColumn(0).getString(), rows.getColumn(1).getInt64(), rows.getColumn(2).getInt64()}] = {
        maybe(rows.getColumn(3)), maybe(rows.getColumn(4)), maybe(rows.getColumn(5))};
  }
  size_t expected = 0;
  for (const InstanceTruth& instance : run.truth.instances) {
    for (const MemberTruth& member : instance.members) {
      if (!member.leave_ns) continue;
      ++expected;
      const auto entry = found.find({instance.comm, instance.seq, member.rank});
      ASSERT_NE(entry, found.end()) << instance.op << " " << instance.seq << " rank " << member.rank;
      const auto& [wait_ns, xfer_ns, bytes] = entry->second;
      if (!instance.complete) {
        EXPECT_FALSE(wait_ns) << instance.op;
        continue;
      }
      if (instance.op == "MPI_Scan") continue;  // not defined
      EXPECT_EQ(wait_ns, member.wait_ns) << instance.op << " " << instance.seq << " rank " << member.rank;
      EXPECT_EQ(xfer_ns, member.transfer_ns) << instance.op << " " << instance.seq << " rank " << member.rank;
      EXPECT_EQ(bytes, instance.bytes) << instance.op << " " << instance.seq;
    }
  }
  EXPECT_EQ(found.size(), expected);
}

SyntheticRun blocking_job() {
  return run()
      .ranks(4)
      .steps(20)
      .forward("fc1", 5_ms)
      .forward("fc2", 5_ms)
      .backward("fc2", 10_ms)
      .backward("fc1", 10_ms)
      .allreduce(4_MiB, 2_ms);
}

SyntheticRun overlapped_job() {
  return run()
      .ranks(4)
      .steps(20)
      .forward("fc1", 5_ms)
      .backward("fc3", 10_ms)
      .iallreduce(4_MiB, 3_ms)
      .backward("fc2", 10_ms)
      .iallreduce(4_MiB, 3_ms)
      .backward("fc1", 10_ms)
      .iallreduce(64_KiB, 100_us)
      .waitall()
      .layer("update", 1_ms)
      .allreduce(8_B, 20_us);
}

/// All waiting in collectives is booked, to whom the generator says.
void expect_blame(Analyzed& analyzed, int ranks) {
  for (int late = 0; late < ranks; ++late) {
    for (int waiter = 0; waiter < ranks; ++waiter) {
      const int64_t blame_ns =
          analyzed.integer("SELECT coalesce(sum(wait_ns), 0) FROM blame WHERE late = " + std::to_string(late) +
                           " AND waiter = " + std::to_string(waiter));
      EXPECT_NEAR(static_cast<double>(blame_ns), static_cast<double>(analyzed.truth.blame_ns(waiter, late)),
                  100);  // ties: the truth rounds down
    }
  }
  EXPECT_EQ(analyzed.integer("SELECT sum(wait_ns) FROM collective"),
            analyzed.integer("SELECT sum(wait_ns) FROM blame"));
}

TEST(Synthetic, EveryOperation) {
  SyntheticRun job = run().ranks(5).steps(3).jitter(300_us).split("dp", 2);
  // in a step it would leave the waiting of that unknown
  job.setup().collective("MPI_Scan", 10_KiB, 80_us).each_step();
  job.compute(2_ms)
      .allreduce(1_MiB, 1_ms)
      .compute(1_ms)
      .bcast(4_KiB, 50_us, 2)
      .compute(1_ms)
      .reduce(4_KiB, 50_us, 1)
      .compute(1_ms)
      .barrier();
  for (const char* op : {"MPI_Allgather", "MPI_Allgatherv", "MPI_Alltoall", "MPI_Alltoallv", "MPI_Reduce_scatter",
                         "MPI_Reduce_scatter_block"}) {
    job.compute(1_ms).collective(op, 10_KiB, 80_us);
  }
  job.compute(1_ms)
      .collective("MPI_Scatter", 10_KiB, 80_us, 3)
      .compute(1_ms)
      .collective("MPI_Gather", 10_KiB, 80_us, 3);
  for (const int root : {0, 4}) {
    job.compute(1_ms).rendezvous().reduce(2_MiB, 400_us, root);
    job.compute(1_ms).rendezvous().collective("MPI_Gather", 1_MiB, 300_us, root);
  }
  job.compute(1_ms).on_comm("dp").allreduce(2_MiB, 1_ms);
  for (const char* op : {"MPI_Iallreduce", "MPI_Iallgather", "MPI_Ialltoall", "MPI_Ireduce_scatter", "MPI_Ibarrier"})
    job.compute(1_ms).collective(op, 1_KiB, 90_us);
  for (const char* op : {"MPI_Ibcast", "MPI_Iscatter", "MPI_Ireduce", "MPI_Igather"})
    job.compute(1_ms).collective(op, 1_KiB, 90_us, 1);
  job.waitall();
  Analyzed analyzed(job);
  expect_instances(analyzed);
  expect_steps(analyzed);
  expect_blame(analyzed, 5);
  EXPECT_EQ(analyzed.integer("SELECT count(*) FROM loss"), 0)
      << analyzed.text("SELECT group_concat(kind || ': ' || note) FROM loss");
}

TEST(Synthetic, Jobs) {
  for (const SyntheticRun& job :
       {blocking_job(), blocking_job().jitter(3_ms), overlapped_job(), overlapped_job().jitter(3_ms),
        blocking_job().slow(2, 20_ms), overlapped_job().slow(2, 20_ms),
        blocking_job().gap(1_ms).polls(10, 5_us).sendrecv_ring(1_KiB, 10_us),
        overlapped_job().tsc(2.7e9).isendrecv_ring(4_KiB, 100_us).waitall()}) {
    if (job.plan().tsc_hz > 0) continue;  // rounds: see TscRounds
    Analyzed analyzed(job);
    expect_instances(analyzed);
    expect_steps(analyzed);
    expect_blame(analyzed, 4);
    EXPECT_EQ(
        analyzed.integer(
            "SELECT count(*) FROM v_step WHERE compute_ns + exposed_ns + idle_ns <> duration_ns OR wait_ns + xfer_ns <> exposed_ns"),
        0);
    EXPECT_EQ(
        analyzed.integer(
            "SELECT count(*) FROM collective k JOIN event e ON e.id = k.event WHERE wait_ns + xfer_ns <> duration_ns"),
        0);
  }
}

TEST(Synthetic, TscRounds) {
  Analyzed analyzed(overlapped_job().jitter(3_ms).tsc(2.7e9));
  EXPECT_EQ(
      analyzed.integer(
          "SELECT count(*) FROM v_step WHERE compute_ns + exposed_ns + idle_ns <> duration_ns OR wait_ns + xfer_ns <> exposed_ns"),
      0);
  for (const StepTruth& step : analyzed.truth.steps) {
    const std::string where =
        " FROM v_step WHERE rank = " + std::to_string(step.rank) + " AND step = " + std::to_string(step.step);
    EXPECT_NEAR(static_cast<double>(analyzed.integer("SELECT wait_ns" + where)), static_cast<double>(step.wait_ns), 50);
    EXPECT_NEAR(static_cast<double>(analyzed.integer("SELECT compute_ns" + where)),
                static_cast<double>(step.compute_ns), 50);
  }
}

TEST(Synthetic, CleanRunsHaveNoFindings) {
  EXPECT_EQ(Analyzed(blocking_job()).findings(), Ids{});
  EXPECT_EQ(Analyzed(blocking_job().jitter(2_ms)).findings(), Ids{});
  EXPECT_EQ(Analyzed(overlapped_job()).findings(), Ids{});
  EXPECT_EQ(Analyzed(overlapped_job().jitter(2_ms)).findings(), Ids{});
}

TEST(Synthetic, SlowRank) {
  for (const SyntheticRun& job : {blocking_job().slow(2, 20_ms), blocking_job().jitter(2_ms).slow(2, 20_ms),
                                  overlapped_job().slow(2, 20_ms), overlapped_job().jitter(2_ms).slow(2, 20_ms),
                                  blocking_job().ranks(16).slow(2, 20_ms), blocking_job().ranks(2).slow(1, 20_ms)}) {
    Analyzed analyzed(job);
    ASSERT_FALSE(analyzed.findings().empty());
    EXPECT_EQ(analyzed.findings().front(), "straggler");
    EXPECT_EQ(analyzed.integer("SELECT rank FROM finding WHERE position = 1"), job.plan().slow.front().rank);
    EXPECT_NEAR(static_cast<double>(analyzed.integer("SELECT saving_ns FROM finding WHERE position = 1")), 20e6, 4e6)
        << analyzed.text("SELECT sentence FROM finding");
    EXPECT_EQ(analyzed.text("SELECT value FROM meta WHERE key = 'verdict'"), "wait");
  }
}

TEST(Synthetic, LateForAReductionOrForItsNeighbours) {
  const auto trained = [] { return run().ranks(4).steps(30).jitter(200_us).compute(30_ms); };
  for (const SyntheticRun& job :
       {trained().rendezvous().reduce(2_MiB, 1_ms, 2).bcast(2_MiB, 1_ms, 2),
        trained().rendezvous().collective("MPI_Gather", 1_MiB, 1_ms, 2).bcast(2_MiB, 1_ms, 2),
        trained().rendezvous().sendrecv_ring(2_MiB, 1_ms), trained().ranks(6).rendezvous().halo(2_MiB, 1_ms)}) {
    Analyzed analyzed(SyntheticRun(job).slow(2, 20_ms));
    const std::string name = job.plan().step[1].name;
    ASSERT_FALSE(analyzed.findings().empty()) << name;
    EXPECT_EQ(analyzed.findings().front(), "straggler") << name;
    EXPECT_EQ(analyzed.integer("SELECT rank FROM finding WHERE position = 1"), 2) << name;
    EXPECT_NEAR(static_cast<double>(analyzed.integer("SELECT saving_ns FROM finding WHERE position = 1")), 20e6, 1e6)
        << name;
    EXPECT_EQ(analyzed.text("SELECT value FROM meta WHERE key = 'verdict'"), "wait") << name;
  }
}

TEST(Synthetic, LateToCollectivesWithARoot) {
  const auto trained = [] { return run().ranks(4).steps(30).jitter(200_us).compute(30_ms); };
  const std::pair<const char*, SyntheticRun> jobs[] = {
      {"reduce by a chain", trained().rendezvous().reduce(2_MiB, 1_ms, 0).bcast(2_MiB, 1_ms, 0)},
      {"reduce, eagerly", trained().reduce(64_KiB, 1_ms, 0).bcast(64_KiB, 1_ms, 0)},
      {"gather by rendezvous", trained().rendezvous().collective("MPI_Gather", 1_MiB, 1_ms, 0).bcast(2_MiB, 1_ms, 0)},
      {"gather, eagerly", trained().collective("MPI_Gather", 16_KiB, 1_ms, 0).bcast(64_KiB, 1_ms, 0)},
      {"broadcast by the late one", trained().bcast(2_MiB, 1_ms, 2).compute(10_ms).allreduce(2_MiB, 1_ms)},
      {"scatter by the late one",
       trained().collective("MPI_Scatter", 1_MiB, 1_ms, 2).compute(10_ms).allreduce(2_MiB, 1_ms)},
  };
  for (const auto& [name, job] : jobs) {
    Analyzed late(SyntheticRun(job).slow(2, 20_ms));
    ASSERT_FALSE(late.findings().empty()) << name;
    EXPECT_EQ(late.findings().front(), "straggler") << name;
    EXPECT_EQ(late.text("SELECT rank || ' ' || confidence FROM finding WHERE position = 1"), "2 sure") << name;
    EXPECT_NEAR(static_cast<double>(late.integer("SELECT saving_ns FROM finding WHERE position = 1")), 20e6, 1e6)
        << name;
    EXPECT_EQ(late.text("SELECT value FROM meta WHERE key = 'verdict'"), "wait") << name;
    EXPECT_GT(late.integer("SELECT 100 * total(iif(rank = 2, wait_ns, 0)) / total(wait_ns) FROM late"), 90)
        << name << ": others passed it on";
    EXPECT_EQ(Analyzed(job).findings(), Ids{}) << name;
  }
}

TEST(Synthetic, OneDelay) {
  Analyzed analyzed(blocking_job().delay(1, 12, 200_ms));
  const std::string step = " FROM v_collective WHERE step = 12";
  EXPECT_EQ(analyzed.integer("SELECT sum(wait_ns)" + step), 3 * 200_ms);
  EXPECT_EQ(analyzed.integer("SELECT sum(xfer_ns)" + step),
            analyzed.integer("SELECT sum(xfer_ns) FROM v_collective WHERE step = 11"));
  EXPECT_EQ(analyzed.integer("SELECT sum(wait_ns) FROM blame WHERE late = 1"), 3 * 200_ms);
}

/// Every wait and transfer of the communicators that join hosts, within what the store says that the clocks may be off
/// by.
void expect_waits_within_sigma(Analyzed& run) {
  int64_t across = 0;
  SQLite::Statement rows(run.db,
                         "SELECT v.comm, v.seq, v.rank, v.wait_ns, k.sigma_ns, v.wait_method FROM v_collective v"
                         " JOIN collective k ON k.event = v.event WHERE k.sigma_ns > 0 AND v.wait_ns IS NOT NULL");
  while (rows.executeStep()) {
    const InstanceTruth& instance = run.truth.instance(rows.getColumn(0).getString(), rows.getColumn(1).getUInt());
    for (const MemberTruth& member : instance.members) {
      if (member.rank != rows.getColumn(2).getInt()) continue;
      EXPECT_NEAR(rows.getColumn(3).getDouble(), static_cast<double>(*member.wait_ns),
                  3 * rows.getColumn(4).getDouble())
          << instance.op << " " << instance.seq << " rank " << member.rank;
      ++across;
    }
  }
  EXPECT_GT(across, 100);
}

TEST(Synthetic, AShiftedAndDriftingClockIsCorrected) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SyntheticRun job =
        blocking_job().steps(60).jitter(3_ms, seed).bcast(64_KiB, 200_us, 3).compute(1_ms).reduce(8_B, 40_us, 0);
    job.compute(1_ms).allreduce(8_B, 30_us).hosts(2, 0).host_clock(1, 3_s, seed % 2 ? 50 : -50).slow(3, 20_ms);
    Analyzed analyzed(job);
    EXPECT_EQ(analyzed.text("SELECT group_concat(DISTINCT wait_method) FROM v_collective WHERE op = 'MPI_Allreduce'"),
              "max-start");
    EXPECT_EQ(
        analyzed.integer("SELECT count(*) FROM v_collective WHERE op = 'MPI_Bcast' AND wait_method IS NOT 'late-root'"),
        0);
    expect_waits_within_sigma(analyzed);
    ASSERT_FALSE(analyzed.findings().empty());
    EXPECT_EQ(analyzed.findings().front(), "straggler");
    EXPECT_EQ(analyzed.integer("SELECT rank FROM finding WHERE position = 1"), 3);
    EXPECT_NEAR(analyzed.db.execAndGet("SELECT value FROM metric WHERE id = 'wait_agreement'").getDouble(), 0, 0.05);
    EXPECT_EQ(analyzed.integer("SELECT count(*) FROM loss"), 0)
        << analyzed.text("SELECT group_concat(kind || ': ' || note) FROM loss");
  }
}

TEST(Synthetic, AClockThatJumpsLeavesTheClockFreeEstimate) {
  Analyzed analyzed(blocking_job().jitter(3_ms).hosts(2, 0).host_clock(1, 3_s, 0).host_clock_step(1, 300_ms, 1_s));
  EXPECT_EQ(analyzed.text("SELECT group_concat(DISTINCT wait_method) FROM v_collective WHERE comm = 'MPI_COMM_WORLD'"),
            "min-duration");
  expect_instances(analyzed);  // exact where everybody leaves at once
}

TEST(Synthetic, Hang) {
  for (const SyntheticRun& job : {blocking_job().hang(1, 10), overlapped_job().hang(1, 10)}) {
    Analyzed analyzed(job);
    ASSERT_FALSE(analyzed.findings().empty());
    EXPECT_EQ(analyzed.findings().front(), "missing_rank");
    EXPECT_EQ(analyzed.integer("SELECT rank FROM finding WHERE position = 1"), 1);
    const std::string sentence = analyzed.text("SELECT sentence FROM finding WHERE position = 1");
    EXPECT_TRUE(has(sentence, "rank 1 never entered MPI_")) << sentence;
    EXPECT_TRUE(has(sentence, "ranks 0, 2 and 3 sit in " + analyzed.truth.open_call(0).op)) << sentence;
    EXPECT_TRUE(has(sentence, "number " + std::to_string(analyzed.truth.open_call(0).seq) + " on MPI_COMM_WORLD"))
        << sentence;
    expect_instances(analyzed);
  }
}

TEST(Synthetic, Killed) {
  Analyzed analyzed(blocking_job().killed(2, 10));
  ASSERT_FALSE(analyzed.findings().empty());
  EXPECT_EQ(analyzed.findings().front(), "killed_rank");
  EXPECT_TRUE(has(analyzed.text("SELECT evidence FROM finding"), "the last step complete on all ranks is 9"))
      << analyzed.text("SELECT evidence FROM finding");
  EXPECT_TRUE(has(analyzed.text("SELECT evidence FROM finding"),
                  "ranks 0, 1, 2 and 3 sit in MPI_Allreduce number 11 on MPI_COMM_WORLD, which all"))
      << analyzed.text("SELECT evidence FROM finding");
  expect_instances(analyzed);
}

TEST(Synthetic, Aborted) {
  Analyzed analyzed(blocking_job().aborts(2, 10, 42));
  ASSERT_FALSE(analyzed.findings().empty());
  bool named = false;
  for (int64_t position = 1; position <= static_cast<int64_t>(analyzed.findings().size()); ++position) {
    named |= has(analyzed.text("SELECT sentence FROM finding WHERE position = " + std::to_string(position)),
                 "rank 2 called MPI_Abort(42)");
  }
  EXPECT_TRUE(named);
}

/// `for epoch: for i, batch: step(i)`: only the first epoch of each process is told apart by numbers.
TEST(Synthetic, NumbersThatEachEpochUsesAgainSumNothingUp) {
  Analyzed once(
      run().ranks(4).steps(12).value("samples", 32).compute(2_ms).allreduce(1_KiB, 100_us).allreduce(1_MiB, 1_ms));
  Analyzed tenfold(run()
                       .ranks(4)
                       .steps(12)
                       .epochs(10)
                       .value("samples", 32)
                       .compute(2_ms)
                       .allreduce(1_KiB, 100_us)
                       .allreduce(1_MiB, 1_ms));
  EXPECT_EQ(tenfold.integer("SELECT count(*) FROM step"), 4 * 120);
  EXPECT_EQ(tenfold.integer("SELECT sum(count) FROM loss WHERE kind = 'repeated_steps'"), 4 * 108);
  EXPECT_EQ(tenfold.integer("SELECT count(*) FROM v_step WHERE measured AND compute_ns IS NOT NULL"), 4 * 12);
  EXPECT_EQ(tenfold.integer("SELECT count(*) FROM v_step WHERE NOT measured AND compute_ns IS NULL"), 4 * 108);
  for (const char* sql : {"SELECT count(*) FROM step_part", "SELECT count(*) FROM v_collective WHERE step IS NOT NULL",
                          "SELECT count(*) FROM value WHERE step IS NOT NULL"})
    EXPECT_EQ(tenfold.integer(sql), once.integer(sql)) << sql;
  EXPECT_NEAR(tenfold.db.execAndGet("SELECT value FROM metric WHERE id = 'throughput'").getDouble(), 4 * 32 / 3.1e-3,
              1e-6);
  EXPECT_EQ(tenfold.findings(), once.findings());
}

TEST(Synthetic, MissingSpool) {
  Analyzed analyzed(blocking_job().value("samples", 32).missing(3));
  EXPECT_EQ(analyzed.integer(
                "SELECT count(*) FROM v_collective WHERE wait_method IS NOT 'lower-bound' AND comm = 'MPI_COMM_WORLD'"),
            0);
  EXPECT_EQ(analyzed.integer("SELECT ranks * 10 + world_size FROM steady_world WHERE bounded"), 34);
  EXPECT_EQ(analyzed.integer("SELECT count(*) FROM metric WHERE id = 'ccr_raw' AND value IS NOT NULL"), 1);
  // What the missing rank processed is not known.
  EXPECT_EQ(analyzed.integer(
                "SELECT count(*) FROM metric WHERE id = 'throughput' AND value IS NULL AND why = 'PARTIAL_RANKS'"),
            1);
  EXPECT_EQ(analyzed.findings(), Ids{});
}

TEST(Synthetic, ASavingSaysThatRanksAreMissingWhereWaitingIsNotKnownAtAll) {
  Analyzed analyzed(
      run().ranks(4).hosts(2).steps(20).backward("a", 10_ms).iallreduce(4_MiB, 6_ms).waitall().missing(3));
  EXPECT_EQ(analyzed.integer("SELECT ranks * 100 + world_size * 10 + bounded FROM steady_world"), 340);
  EXPECT_EQ(analyzed.findings(), Ids{"exposed_tail"});
  EXPECT_TRUE(has(analyzed.text("SELECT evidence FROM finding"), " Known of 3 of 4 ranks."))
      << analyzed.text("SELECT evidence FROM finding");
}

// The generator knows when the rank without a record entered, the analyzer does not.
TEST(Synthetic, WaitsForRanksWithoutARecordAreBoundedFromBelow) {
  constexpr int64_t kStepNs = 15'000'000, kSlowNs = 4'000'000;  // 10 + 4 + 1 ms
  const auto job = [] { return run().ranks(4).steps(20).compute(10_ms).allreduce(1_MiB, 1_ms); };
  struct Case {
    int slow, missing;
    int64_t wait_ns;  ///< of a rank that is known and not slow
    bool named;
  };
  for (const Case& c : {Case{1, 3, kSlowNs, true}, Case{3, 3, 0, false}}) {
    Analyzed analyzed(job().slow(c.slow, 4_ms).missing(c.missing));
    const std::string of_rank = " FROM steady_part WHERE rank = 0 AND step = 10";
    EXPECT_EQ(analyzed.integer("SELECT wait_ns" + of_rank), c.wait_ns);
    EXPECT_EQ(analyzed.integer("SELECT wait_ns + xfer_ns" + of_rank), 5'000'000);
    EXPECT_EQ(analyzed.text("SELECT why" + of_rank), "PARTIAL_RANKS");
    EXPECT_LE(analyzed.integer("SELECT wait_ns" + of_rank), analyzed.truth.step(0, 10).wait_ns);
    EXPECT_EQ(analyzed.integer("SELECT count(*) FROM finding WHERE rank IS NOT NULL"), c.named ? 1 : 0);
    if (!c.named) {
      EXPECT_EQ(analyzed.text("SELECT value FROM meta WHERE key = 'verdict'"), "undecided");
      continue;
    }
    EXPECT_EQ(analyzed.integer("SELECT rank FROM finding"), c.slow);
    EXPECT_TRUE(has(analyzed.text("SELECT evidence FROM finding"), "Known of 3 of 4 ranks: waiting is a lower bound"));
    EXPECT_NEAR(static_cast<double>(analyzed.integer("SELECT saving_ns FROM finding")), 4e6, 0.05 * 4e6);
    // 4 of 15 ms are waiting on three ranks, and 1 of 15 the transfer of all: that cannot be most of it.
    EXPECT_EQ(analyzed.text("SELECT value FROM meta WHERE key = 'verdict'"), "wait");
    EXPECT_TRUE(has(analyzed.text("SELECT value FROM meta WHERE key = 'verdict.text'"), "wait at least 17.8%"))
        << analyzed.text("SELECT value FROM meta WHERE key = 'verdict.text'") << 2.0 * kSlowNs / (3.0 * kStepNs);
  }
}

// A rank that is known to be late is not known to be so by itself if it may have waited for one that left no record.
TEST(Synthetic, WhoMayHaveBeenKeptWaitingIsNotNamedForSure) {
  const auto confidence = [](int64_t transfer_ns, bool missing) {
    SyntheticRun job = run().ranks(4).steps(40).compute(10_ms).allreduce(1_MiB, transfer_ns).slow(1, 4_ms);
    Analyzed analyzed(missing ? job.missing(3) : job);
    return analyzed.text("SELECT confidence FROM finding WHERE id = 'straggler' AND rank = 1");
  };
  EXPECT_EQ(confidence(1_ms, false), "sure");
  EXPECT_EQ(confidence(1_ms, true), "sure");  // it is inside MPI for 1 ms, and late by 4
  EXPECT_EQ(confidence(3_ms, false), "sure");
  EXPECT_EQ(confidence(3_ms, true), "likely");  // of its lateness 3 ms may be another rank's
}

TEST(Synthetic, TornAndRemovedRanksDoNotVoidTheOthers) {
  const ScratchFolder folder;
  const Truth truth =
      run().ranks(6).steps(1000).compute(1_ms).allreduce(1_KiB, 100_us).slow(2, 300_us).missing(5).write(folder.path());
  const std::filesystem::path torn = folder.path() / truth.spools[4];
  std::filesystem::resize_file(torn, std::filesystem::file_size(torn) / 2);
  ingest(find_run(folder.path().string()));
  SQLite::Database db = open_store(find_run(folder.path().string()).store, Access::kReadWrite);
  ddl::analyze(db);
  const auto integer = [&](const std::string& sql) { return db.execAndGet(sql).getInt64(); };
  EXPECT_EQ(integer("SELECT count(*) FROM torn_rank"), 1);
  EXPECT_EQ(integer("SELECT rank FROM torn_rank"), 4);
  EXPECT_EQ(integer("SELECT ranks FROM steady_world"), 4);
  EXPECT_EQ(integer("SELECT used FROM steady_world"), 995);
  EXPECT_EQ(integer("SELECT rank FROM finding WHERE position = 1"), 2);
}

// A slow rank of a data-parallel group makes the others of its group late to their nodes: all of that is the slow
// rank's, and the saving what the same job without it takes less.
TEST(Synthetic, LatenessIsPassedOnFromCollectiveToCollective) {
  const auto job = [] {
    return run()
        .ranks(16)
        .steps(30)
        .split("node", 4)
        .split("dp", 4, true)
        .jitter(20_us)
        .compute(5_ms)
        .on_comm("dp")
        .allreduce(1_MiB, 500_us)
        .on_comm("node")
        .allreduce(1_MiB, 200_us)
        .compute(1_ms)
        .on_comm("dp")
        .allreduce(1_MiB, 500_us);
  };
  Analyzed analyzed(job().slow(6, 2_ms));
  const int64_t healthy_ns = job().truth().end_ns, slow_ns = analyzed.truth.end_ns;
  ASSERT_FALSE(analyzed.findings().empty());
  EXPECT_EQ(analyzed.text("SELECT id || ' ' || rank FROM finding WHERE position = 1"), "straggler 6");
  EXPECT_FALSE(has(analyzed.text("SELECT sentence FROM finding WHERE position = 1"), "since step"));
  const double saving_ns = static_cast<double>(slow_ns - healthy_ns) / 30;
  EXPECT_NEAR(static_cast<double>(analyzed.integer("SELECT saving_ns FROM finding WHERE position = 1")), saving_ns,
              0.05 * saving_ns);
  // Directly most wait for ranks that are not to blame.
  EXPECT_LT(analyzed.integer("SELECT sum(wait_ns) FROM blame WHERE late = 6"),
            analyzed.integer("SELECT sum(wait_ns) / 2 FROM blame"));
  EXPECT_GT(analyzed.integer("SELECT sum(wait_ns) FROM late WHERE rank = 6"),
            analyzed.integer("SELECT 9 * sum(wait_ns) / 10 FROM late"));
}

TEST(Synthetic, ThinnedStepsAreLeftOutAndTheRestIsExact) {
  Analyzed analyzed(blocking_job().steps(64).jitter(2_ms).keep_level(1, 2));  // one rank kept every fourth step only
  int64_t split = 0;
  for (const StepTruth& step : analyzed.truth.steps) {
    const std::string where =
        " FROM v_step WHERE rank = " + std::to_string(step.rank) + " AND step = " + std::to_string(step.step);
    if (analyzed.integer("SELECT count(*)" + where) == 0) continue;
    EXPECT_EQ(analyzed.integer("SELECT compute_ns" + where), step.compute_ns);
    EXPECT_EQ(analyzed.integer("SELECT exposed_ns" + where), step.exposed_ns);
    if (analyzed.db.execAndGet("SELECT wait_ns" + where).isNull()) continue;
    EXPECT_EQ(analyzed.integer("SELECT wait_ns" + where), step.wait_ns);
    ++split;
  }
  EXPECT_EQ(split, 4 * 64 / 4);
  // 16, without five to warm up
  EXPECT_EQ(analyzed.text("SELECT value FROM meta WHERE key = 'analysis.steps_used'"), "11");
  EXPECT_EQ(analyzed.text("SELECT value FROM meta WHERE key = 'analysis.steps_incomplete'"), "48");
  EXPECT_EQ(analyzed.integer("SELECT count(*) FROM metric WHERE id = 'f_wait' AND value IS NOT NULL"), 1);
}

TEST(Synthetic, TwoWorlds) {
  const ScratchFolder folder;
  blocking_job().write(folder.path());
  blocking_job().slow(2, 20_ms).world(77, 5_s, 2000).write(folder.path());
  const RunDirectory directory = find_run(folder.path().string());
  ingest(directory);
  SQLite::Database db = open_store(directory.store, Access::kReadWrite);
  ddl::analyze(db);
  EXPECT_EQ(db.execAndGet("SELECT value FROM meta WHERE key = 'verdict'").getString(), "transfer");
  EXPECT_EQ(db.execAndGet("SELECT value FROM meta WHERE key = 'verdict.1'").getString(), "wait");
  EXPECT_EQ(db.execAndGet("SELECT count(DISTINCT world) FROM metric").getInt(), 2);
  EXPECT_EQ(db.execAndGet("SELECT world FROM finding WHERE id = 'straggler'").getInt(), 1);
  EXPECT_EQ(db.execAndGet("SELECT count(*) FROM finding").getInt(), 1);
}

TEST(Synthetic, WithoutSteps) {
  Analyzed analyzed(blocking_job().no_steps().slow(2, 20_ms));
  EXPECT_EQ(analyzed.text("SELECT value FROM meta WHERE key = 'analysis.basis'"), "inferred steps");
  int64_t wait_ns = 0;
  for (int rank = 0; rank < 4; ++rank) wait_ns += analyzed.truth.wait_ns(rank);
  EXPECT_EQ(analyzed.integer("SELECT sum(wait_ns) FROM rank_part"), wait_ns);
  ASSERT_FALSE(analyzed.findings().empty());
  EXPECT_EQ(analyzed.findings().front(), "straggler");
}

}  // namespace
}  // namespace ddl::test
