// The partition of steps: against a bitmap, and on small runs whose parts are known.
#include <gtest/gtest.h>

#include <random>

#include "analyzer/passes/partition.h"
#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

constexpr size_t kTimes = 200;

std::vector<bool> bits_of(const std::vector<Interval>& intervals) {
  std::vector<bool> bits(kTimes);
  for (const Interval& i : intervals) {
    for (int64_t t = i.begin_ns; t < i.end_ns; ++t) bits[static_cast<size_t>(t)] = true;
  }
  return bits;
}

std::vector<Interval> random_intervals(std::mt19937& random, int most) {
  std::vector<Interval> intervals(random() % static_cast<unsigned>(most + 1));
  for (Interval& i : intervals) {
    i.begin_ns = static_cast<int64_t>(random() % (kTimes - 1));
    i.end_ns = i.begin_ns + 1 + static_cast<int64_t>(random() % (kTimes - static_cast<size_t>(i.begin_ns) - 1));
  }
  return intervals;
}

TEST(Partition, MatchesABitmapAndAddsUp) {
  std::mt19937 random(11);
  for (int round = 0; round < 5'000; ++round) {
    WindowEvents events;
    events.calls = random_intervals(random, 5);
    events.background = random_intervals(random, 4);
    events.waiting = random_intervals(random, 4);
    const Interval window{static_cast<int64_t>(random() % 50), 50 + static_cast<int64_t>(random() % 150)};

    const std::vector<bool> calls = bits_of(events.calls), background = bits_of(events.background),
                            waiting = bits_of(events.waiting);
    int64_t exposed = 0, comm = 0, wait = 0;
    for (auto t = static_cast<size_t>(window.begin_ns); t < static_cast<size_t>(window.end_ns); ++t) {
      exposed += calls[t];
      comm += calls[t] || background[t];
      wait += calls[t] && waiting[t];
    }
    const Partition part = partition(window, events, 0);
    ASSERT_EQ(part.exposed_ns, exposed);
    ASSERT_EQ(part.comm_ns, comm);
    ASSERT_EQ(part.wait_ns, wait);
    ASSERT_EQ(part.compute_ns + part.exposed_ns, window.length_ns());
    ASSERT_LE(part.wait_ns, part.exposed_ns);
  }
}

TEST(Partition, SplittingACallChangesNothing) {
  WindowEvents whole, split;
  whole.calls = {{10, 50}};
  split.calls = {{10, 30}, {30, 50}};
  EXPECT_EQ(partition({0, 100}, whole, 0).exposed_ns, partition({0, 100}, split, 0).exposed_ns);
}

TEST(Partition, PollsThatLeftNoEventAreExposed) {
  WindowEvents events;
  events.calls = {{10, 20}};
  const Partition part = partition({0, 100}, events, 35);
  EXPECT_EQ(part.exposed_ns, 35);
  EXPECT_EQ(part.compute_ns, 65);
  EXPECT_EQ(part.comm_ns, 35);
}

// ---------------------------------------------------------------------------------------------------------- whole runs

TEST(Steps, BlockingStep) {
  Tables run(2);
  // Both compute; rank 1 takes 30 ms longer; the allreduce takes 10 ms after that.
  run.step(0, 1, 0, 100_ms, 40_ms);
  run.step(1, 1, 0, 100_ms, 10_ms);
  run.allreduce(1, {60_ms, 90_ms}, 10_ms, 1'000, 1);
  run.analyze();
  EXPECT_EQ(run.integers("SELECT compute_ns FROM v_step ORDER BY rank"), (std::vector<int64_t>{60_ms, 90_ms}));
  EXPECT_EQ(run.integers("SELECT exposed_ns FROM v_step ORDER BY rank"), (std::vector<int64_t>{40_ms, 10_ms}));
  EXPECT_EQ(run.integers("SELECT wait_ns FROM v_step ORDER BY rank"), (std::vector<int64_t>{30_ms, 0}));
  EXPECT_EQ(run.integers("SELECT xfer_ns FROM v_step ORDER BY rank"), (std::vector<int64_t>{10_ms, 10_ms}));
  EXPECT_EQ(run.integers("SELECT comm_ns FROM v_step ORDER BY rank"), (std::vector<int64_t>{40_ms, 10_ms}));
}

/// Rank r posts at post_ns[r], waits for completion from wait_ns[r] on, and all complete at end_ns.
void iallreduce(Tables& run, int64_t seq, const std::vector<int64_t>& post_ns, const std::vector<int64_t>& wait_ns,
                int64_t end_ns, int64_t step, int64_t bytes = 1'000) {
  for (size_t rank = 0; rank < post_ns.size(); ++rank) {
    Row row;
    row.rank = static_cast<int64_t>(rank);
    row.op = "MPI_Iallreduce";
    row.step = step;
    row.bytes = bytes;
    row.enter_ns = post_ns[rank];
    row.leave_ns = post_ns[rank] + 10;
    run.add(row);
    row.request = true;
    row.seq = seq;
    row.leave_ns = end_ns;
    run.add(row);
    row.request = false;
    row.seq = {};
    row.op = "MPI_Wait";
    row.enter_ns = wait_ns[rank];
    run.add(row);
  }
}

TEST(Steps, OverlappedStep) {
  Tables run(2);
  // Posted at 20 and 50, completed from 60 on, done at 90 of 100: in flight 70 and 40, exposed 30 and 30 (+10 ns to
  // post); nobody waits after 50.
  iallreduce(run, 1, {20_ms, 50_ms}, {60_ms, 60_ms}, 90_ms, 1);
  for (int64_t rank : {0, 1}) run.step(rank, 1, 0, 100_ms, 30_ms + 10);
  run.analyze();
  EXPECT_EQ(run.integers("SELECT comm_ns FROM v_step ORDER BY rank"), (std::vector<int64_t>{70_ms, 40_ms}));
  EXPECT_EQ(run.integers("SELECT exposed_ns FROM v_step ORDER BY rank"),
            (std::vector<int64_t>{30_ms + 10, 30_ms + 10}));
  EXPECT_EQ(run.integers("SELECT wait_ns FROM v_step ORDER BY rank"),
            (std::vector<int64_t>{10, 0}));  // only while it posted: the rest was hidden
}

TEST(Steps, ExposedWaitOfARequest) {
  Tables run(2);
  // Rank 0 waits for completion from 30 on; rank 1 posts at 70 only: 40 of the 60 exposed are waiting.
  iallreduce(run, 1, {20_ms, 70_ms}, {30_ms, 80_ms}, 90_ms, 1);
  run.step(0, 1, 0, 100_ms, 60_ms + 10);
  run.step(1, 1, 0, 100_ms, 10_ms + 10);
  run.analyze();
  EXPECT_EQ(run.integers("SELECT wait_ns FROM v_step ORDER BY rank"), (std::vector<int64_t>{40_ms + 10, 0}));
}

TEST(Steps, CommunicationIsCutAtTheEdgesOfTheStep) {
  Tables run(2);
  iallreduce(run, 1, {90_ms, 90_ms}, {110_ms, 110_ms}, 120_ms, 1);  // posted in step 1, completed in step 2
  for (int64_t rank : {0, 1}) {
    run.step(rank, 1, 0, 100_ms, 10);
    run.step(rank, 2, 100_ms, 200_ms, 10_ms);
  }
  run.analyze();
  EXPECT_EQ(run.integers("SELECT comm_ns FROM v_step WHERE rank = 0 ORDER BY step"),
            (std::vector<int64_t>{10_ms, 20_ms}));
  EXPECT_EQ(run.integers("SELECT exposed_ns FROM v_step WHERE rank = 0 ORDER BY step"),
            (std::vector<int64_t>{10, 10_ms}));
}

/// What is outside MPI on the thread that opens the steps may be waiting for the other one: only samples of it would
/// tell.
TEST(Steps, OtherThreadsCommunicateInTheBackground) {
  Tables run(1);
  run.exec("INSERT INTO thread VALUES (1, 1, 77, NULL)");
  run.step(0, 1, 0, 100_ms, 0);
  Row row;
  row.op = "MPI_Send";
  row.thread = 1;
  row.enter_ns = 10_ms;
  row.leave_ns = 40_ms;
  run.add(row);
  run.analyze();
  EXPECT_TRUE(run.is_null("SELECT compute_ns FROM v_step"));
  EXPECT_EQ(run.findings(), std::vector<std::string>{"unseen_training"});

  Tables sampled(1);  // busy for the first 60 ms
  sampled.exec("INSERT INTO thread VALUES (1, 1, 77, NULL)");
  sampled.exec(
      "INSERT INTO thread_sample VALUES (1, 0, 0, 0, 0, NULL), (1, 20000000, 20000000, 0, 0, NULL), (1, 60000000, 60000000, 0, 0, NULL),"
      " (1, 100000000, 60000000, 0, 0, NULL)");
  sampled.step(0, 1, 0, 100_ms, 0);
  row.enter_ns = 20_ms;
  row.leave_ns = 80_ms;
  sampled.add(row);
  sampled.analyze();
  EXPECT_EQ(sampled.integer("SELECT compute_ns FROM v_step"), 60_ms);
  EXPECT_EQ(sampled.integer("SELECT comm_ns FROM v_step"), 60_ms);
  EXPECT_EQ(sampled.integer("SELECT exposed_ns FROM v_step"), 20_ms);
}

TEST(Steps, WithoutEventsTheProfileStillTellsComputeFromMpi) {
  Tables run(2);
  for (int64_t rank : {0, 1}) run.step(rank, 1, 0, 100_ms, 30_ms);
  run.analyze();
  EXPECT_EQ(run.integer("SELECT compute_ns FROM v_step WHERE rank = 0"), 70_ms);
  EXPECT_EQ(run.integer("SELECT exposed_ns FROM v_step WHERE rank = 0"), 30_ms);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM step_part WHERE comm_ns IS NULL AND wait_ns IS NULL AND xfer_ns IS NULL AND why = 'NO_DATA'"),
      2);
  EXPECT_EQ(run.why("ccr_xfer"), "NO_DATA");
  EXPECT_EQ(run.why("ccr_raw"), "NO_DATA");
  EXPECT_NEAR(*run.metric("ccr_exposed"), 70.0 / 30, 1e-9);
}

TEST(Steps, AStepWithAPartialCollectiveHasNoWait) {
  Tables run(2);
  for (int64_t rank : {0, 1}) run.step(rank, 1, 0, 100_ms, 10_ms);
  Row row;
  row.seq = 1;
  row.step = 1;
  row.enter_ns = 50_ms;
  row.leave_ns = 60_ms;
  run.add(row);
  run.analyze();
  EXPECT_TRUE(run.is_null("SELECT wait_ns FROM v_step WHERE rank = 0"));
  EXPECT_EQ(run.integer("SELECT comm_ns FROM v_step WHERE rank = 0"), 10_ms);
  EXPECT_EQ(run.why("ccr_xfer"), "PARTIAL_RANKS");
}

TEST(Steps, ACallThatNothingDescribesIsNotCalledTransfer) {
  struct Case {
    const char* op;
    bool alone;  ///< on a communicator of one member, else on none
    bool known;
  };
  for (const Case& c :
       {Case{"unknown#99", false, false}, Case{"MPI_Allreduce", false, false}, Case{"MPI_Allreduce", true, true}}) {
    Tables run(2);
    for (int64_t rank : {0, 1}) run.step(rank, 1, 0, 100_ms, 60_ms);
    for (int64_t rank : {0, 1}) {
      Row row;
      row.rank = rank;
      row.op = c.op;
      row.step = 1;
      row.comm = c.alone ? run.communicator("alone" + std::to_string(rank), {rank}) : 0;
      row.enter_ns = 20_ms;
      row.leave_ns = 80_ms;
      run.add(row);
    }
    run.analyze();
    EXPECT_EQ(run.integer("SELECT exposed_ns FROM v_step WHERE rank = 0"), 60_ms) << c.op;
    EXPECT_EQ(run.integer("SELECT count(*) FROM v_step WHERE wait_ns IS NULL"), c.known ? 0 : 2) << c.op;
    EXPECT_EQ(run.integer("SELECT count(*) FROM step_part WHERE why = 'PARTIAL_RANKS'"), c.known ? 0 : 2) << c.op;
    EXPECT_EQ(run.integer("SELECT count(*) FROM rank_part WHERE wait_ns IS NULL"), c.known ? 0 : 2) << c.op;
  }
}

TEST(Steps, ASpoolWithHolesSaysNothingOfWaiting) {
  for (const char* kind : {"torn_spool", "damaged_header", "pages"}) {
    Tables run(2);
    for (int64_t rank : {0, 1}) run.step(rank, 1, 0, 100_ms, 60_ms);
    run.allreduce(1, {20_ms, 50_ms}, 10_ms, 1'000, 1);
    run.exec(std::string("INSERT INTO loss VALUES (0, 1, '") + kind + "', 1, '')");
    run.analyze();
    EXPECT_EQ(run.integer("SELECT wait_ns FROM v_step WHERE rank = 0"), 30_ms) << kind;
    EXPECT_TRUE(run.is_null("SELECT wait_ns FROM v_step WHERE rank = 1")) << kind;
    EXPECT_EQ(run.text("SELECT why FROM step_part WHERE process = 2"), "NO_DATA") << kind;
    EXPECT_EQ(run.integers("SELECT process FROM rank_part"), (std::vector<int64_t>{1})) << kind;
  }
}

TEST(Steps, RepeatedNumbersAreCountedAndLeftOut) {
  Tables run(1);
  run.step(0, 1, 0, 100, 0);
  run.step(0, 1, 100, 300, 0);
  run.analyze();
  EXPECT_EQ(run.integer("SELECT compute_ns FROM step_part"), 100);
  EXPECT_EQ(run.integer("SELECT count FROM loss WHERE kind = 'repeated_steps'"), 1);
}

TEST(Steps, RandomRunsAddUpExactly) {
  std::mt19937_64 random(12);
  for (int round = 0; round < 20; ++round) {
    Tables run(3);
    std::vector<int64_t> mpi_ns(3);
    int64_t seq = 0;
    for (int64_t step = 0; step < 12; ++step) {
      const int64_t begin_ns = step * 100_ms;
      std::fill(mpi_ns.begin(), mpi_ns.end(), 0);
      for (int64_t slot = 0; slot < 3; ++slot) {
        std::vector<int64_t> enter_ns(3);
        for (int64_t& enter : enter_ns) enter = begin_ns + slot * 30_ms + static_cast<int64_t>(random() % 20'000'000);
        const auto xfer_ns = static_cast<int64_t>(random() % 5'000'000 + 1);
        run.allreduce(++seq, enter_ns, xfer_ns, 1'000, step);
        const int64_t leave_ns = *std::max_element(enter_ns.begin(), enter_ns.end()) + xfer_ns;
        for (size_t r = 0; r < 3; ++r) mpi_ns[r] += leave_ns - enter_ns[r];
      }
      for (int64_t rank = 0; rank < 3; ++rank)
        run.step(rank, step, begin_ns, begin_ns + 100_ms, mpi_ns[static_cast<size_t>(rank)]);
    }
    run.analyze();
    EXPECT_EQ(
        run.integer(
            "SELECT count(*) FROM v_step WHERE compute_ns + exposed_ns + idle_ns <> duration_ns OR wait_ns + xfer_ns <> exposed_ns"),
        0);
    EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM v_step"), run.integer("SELECT sum(wait_ns) FROM collective"));
    EXPECT_EQ(run.integer("SELECT sum(exposed_ns) FROM v_step"), run.integer("SELECT sum(duration_ns) FROM event"));
    EXPECT_EQ(run.integer("SELECT count(*) FROM rank_part WHERE compute_ns + exposed_ns + idle_ns <> duration_ns"), 0);
    EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM rank_part"), run.integer("SELECT sum(wait_ns) FROM collective"));
  }
}

TEST(Steps, LongRunsAreCutInSlicesWithoutASeam) {
  Tables run(1);
  run.exec("PRAGMA synchronous = OFF");
  const int64_t send = run.op("MPI_Send");
  const int64_t isend = run.op("MPI_Isend");
  // 250 000 calls of 3 ns every 10 ns, and one request in flight over all of them.
  run.exec(
      "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 249999)"
      " INSERT INTO event (id, process, thread, kind, op, region, start_ns, duration_ns, bytes) SELECT i + 10, 1, 0, 1, " +
      std::to_string(send) + ", 0, 100 + i * 10, 3, 0 FROM n");
  run.exec(
      "INSERT INTO event (id, process, thread, kind, op, region, start_ns, duration_ns, bytes) VALUES (1, 1, 0, 2, " +
      std::to_string(isend) + ", 0, 50, 2600000, 0)");
  run.exec("UPDATE process SET end_ns = 3000000");
  run.analyze();
  EXPECT_EQ(run.integer("SELECT exposed_ns FROM rank_part"), 750'000);
  EXPECT_EQ(run.integer("SELECT comm_ns FROM rank_part"), 2'600'000);
  EXPECT_EQ(run.integer("SELECT duration_ns FROM rank_part"), 3'000'000);
}

}  // namespace
}  // namespace ddl::test
