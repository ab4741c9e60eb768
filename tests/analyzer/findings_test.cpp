// Every finding appears where it was put in, with the right numbers, and not elsewhere.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "analyzer/findings/findings.h"
#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

using Ids = std::vector<std::string>;

/// A blocking data-parallel job: every step, rank r computes compute_ns(step, r), then all reduce for `xfer_ns`.
Tables training(int64_t ranks, int64_t steps, int64_t xfer_ns, const std::function<int64_t(int64_t, int64_t)>& compute_ns) {
  Tables run(ranks);
  run.exec("BEGIN");
  int64_t now_ns = 1_s;
  for (int64_t s = 0; s < steps; ++s) {
    std::vector<int64_t> enter_ns;
    for (int64_t r = 0; r < ranks; ++r) enter_ns.push_back(now_ns + compute_ns(s, r));
    run.allreduce(s + 1, enter_ns, xfer_ns, 1_MB, s);
    const int64_t end_ns = *std::max_element(enter_ns.begin(), enter_ns.end()) + xfer_ns;
    for (int64_t r = 0; r < ranks; ++r) run.step(r, s, now_ns, end_ns, end_ns - enter_ns[static_cast<size_t>(r)]);
    now_ns = end_ns;
  }
  run.exec("COMMIT");
  return run;
}

int64_t jitter(int64_t step, int64_t rank, int64_t most_ns) {
  std::mt19937_64 random(static_cast<uint64_t>(step * 1'000 + rank));
  random.discard(3);
  return static_cast<int64_t>(random() % static_cast<uint64_t>(most_ns));
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Why it is slow is beside the finding: the health of its host, and nobody else's.
TEST(Findings, AStragglersHostIsNamedWithWhatAilsIt) {
  Tables run(4, 2);  // ranks 2 and 3 are on the second host
  for (int64_t step = 0; step < 12; ++step) {
    const int64_t begin = step * 100_ms;
    for (int64_t rank = 0; rank < 4; ++rank) run.step(rank, step, begin, begin + 95_ms, rank == 3 ? 5_ms : 75_ms);
    for (int64_t rank = 0; rank < 4; ++rank) {
      const int64_t enter = begin + (rank == 3 ? 90_ms : 20_ms);
      run.add({.rank = rank,
               .op = "MPI_Allreduce",
               .enter_ns = enter,
               .leave_ns = begin + 95_ms,
               .bytes = 1_MB,
               .seq = step + 1,
               .step = step});
    }
  }
  for (const int process : {1, 4}) {  // ranks 0 and 3
    for (int i = 0; i < 10; ++i) {
      const std::string at = std::to_string(process) + ", " + std::to_string(i * 1000000) + ", ";
      const bool bad = process == 4;
      run.exec("INSERT INTO node_sample VALUES (" + at + "'gpu A', 'throttle_reasons', " + (bad && i < 7 ? "72" : "1") + ")");
      run.exec("INSERT INTO node_sample VALUES (" + at + "'gpu A', 'temperature_celsius', " + std::to_string(bad ? 80 + i : 50) + ")");
      run.exec("INSERT INTO node_sample VALUES (" + at + "'ib0', 'rx_dropped', " + std::to_string(bad ? 100 + i : 5) + ")");
    }
  }
  run.analyze();
  const std::string evidence = run.text("SELECT evidence FROM finding WHERE id = 'straggler'");
  EXPECT_NE(evidence.find("Its host slowed gpu A down in 70% of 10 samples (up to 89 C)."), std::string::npos) << evidence;
  EXPECT_NE(evidence.find("ib0 of its host counted 9 rx_dropped during the run."), std::string::npos) << evidence;
}

TEST(Findings, NoneOnACleanRun) {
  for (int64_t ranks : {2, 4, 16}) {
    Tables even = training(ranks, 60, 5_ms, [](int64_t, int64_t) { return 50_ms; });
    even.analyze();
    EXPECT_EQ(even.findings(), Ids{}) << ranks;
    Tables noisy =
        training(ranks, 60, 5_ms, [](int64_t s, int64_t r) { return 50_ms + jitter(s, r, 10_ms); });  // waiting, but nobody's fault
    noisy.analyze();
    EXPECT_EQ(noisy.findings(), Ids{}) << ranks;
    Tables slightly =
        training(ranks, 60, 5_ms, [](int64_t s, int64_t r) { return 50_ms + jitter(s, r, 100_us) + (r == 1 ? 500_us : 0); });  // 1 % late
    slightly.analyze();
    EXPECT_EQ(slightly.findings(), Ids{}) << ranks;
  }
}

TEST(Findings, Straggler) {
  for (int64_t ranks : {2, 4, 16}) {
    Tables run = training(ranks, 60, 5_ms, [](int64_t s, int64_t r) { return 40_ms + jitter(s, r, 2_ms) + (r == 1 ? 24_ms : 0); });
    run.analyze();
    ASSERT_EQ(run.findings(), Ids{"straggler"}) << ranks;
    EXPECT_EQ(run.integer("SELECT rank FROM finding"), 1);
    const std::string sentence = run.text("SELECT sentence FROM finding");
    EXPECT_TRUE(has(sentence, "rank 1 (node1) enters last in 100% of collectives")) << sentence;
    EXPECT_TRUE(has(sentence, ranks == 2 ? "the other waits 2" : "the others wait 2")) << sentence;
    EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), 24e6, 2.5e6);
    EXPECT_NEAR(run.number("SELECT share_ratio FROM finding"), 24.0 / 70, 0.04);
    EXPECT_EQ(run.text("SELECT confidence FROM finding"), "sure");
    EXPECT_TRUE(has(run.text("SELECT evidence FROM finding"), "It computes 6")) << run.text("SELECT evidence FROM finding");
    run.exec("CREATE TEMP TABLE shown AS " + run.text("SELECT evidence_sql FROM finding"));
    EXPECT_EQ(run.integer("SELECT late FROM temp.shown LIMIT 1"), 1);
  }
}

TEST(Findings, StragglerThatIsLateForTheFirstOfManyCollectivesOfAStep) {
  Tables run(2);
  run.exec("BEGIN");
  int64_t now_ns = 0, seq = 0;
  for (int64_t s = 0; s < 40; ++s) {
    const int64_t begin_ns = now_ns;
    int64_t mpi_ns[2] = {0, 0};
    for (int64_t i = 0; i < 8; ++i) {  // rank 1 comes 25 ms late to the first; to the others whoever the scheduler held up, by up to 100 us
      const int64_t compute_ns = i == 0 ? 5_ms : 10_us;
      const std::vector<int64_t> enter_ns = {now_ns + compute_ns + jitter(seq, 0, 100_us),
                                             now_ns + compute_ns + jitter(seq, 1, 100_us) + (i == 0 ? 25_ms : 0)};
      run.allreduce(++seq, enter_ns, 50_us, 1'000, s);
      now_ns = std::max(enter_ns[0], enter_ns[1]) + 50_us;
      for (size_t rank : {0, 1}) mpi_ns[rank] += now_ns - enter_ns[rank];
    }
    for (int64_t rank : {0, 1}) run.step(rank, s, begin_ns, now_ns, mpi_ns[rank]);
  }
  run.exec("COMMIT");
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"straggler"});
  EXPECT_EQ(run.integer("SELECT rank FROM finding"), 1);
  EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), 25e6, 1e6);
  EXPECT_TRUE(has(run.text("SELECT evidence FROM finding"), "Last in 35 of 35 collectives")) << run.text("SELECT evidence FROM finding");
}

TEST(Findings, StragglerFromAStepOn) {
  Tables run = training(8, 100, 5_ms, [](int64_t s, int64_t r) { return 40_ms + jitter(s, r, 1_ms) + (r == 5 && s >= 70 ? 30_ms : 0); });
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"straggler"});
  const std::string sentence = run.text("SELECT sentence FROM finding");
  EXPECT_TRUE(has(sentence, "rank 5 (node1) enters last in 100% of collectives since step 70: the others wait 30")) << sentence;
}

TEST(Findings, OneLongDelayIsNoStraggler) {
  Tables run = training(4, 60, 5_ms, [](int64_t s, int64_t r) { return 50_ms + jitter(s, r, 100_us) + (r == 1 && s == 30 ? 200_ms : 0); });
  run.analyze();
  EXPECT_EQ(run.findings(), Ids{});
  EXPECT_EQ(run.integer("SELECT late FROM blame GROUP BY late ORDER BY sum(wait_ns) DESC LIMIT 1"), 1);
}

TEST(Findings, LateBecauseTheCallBeforeLetItGoLateIsNotToBlame) {
  Tables run(2);
  run.exec("BEGIN");
  for (int64_t s = 0; s < 40; ++s) {
    const int64_t t = s * 100_ms;
    for (int64_t rank : {0, 1}) {  // both come at 50; rank 0 leaves at 60, rank 1 at 70; both compute for 10; the second call is over at 90
      Row row;
      row.rank = rank;
      row.step = s;
      row.bytes = 1'000;
      row.seq = 2 * s + 1;
      row.enter_ns = t + 50_ms;
      row.leave_ns = t + (rank == 0 ? 60_ms : 70_ms);
      run.add(row);
      row.seq = 2 * s + 2;
      row.enter_ns = row.leave_ns + 10_ms;
      row.leave_ns = t + 90_ms;
      run.add(row);
      run.step(rank, s, t, t + 90_ms, 30_ms);
    }
  }
  run.exec("COMMIT");
  run.analyze();
  EXPECT_EQ(run.metric("blame_share"), 1.0);
  EXPECT_EQ(run.findings(), Ids{});
}

TEST(Findings, StragglerWithoutSteps) {
  Tables run(2);
  for (int64_t i = 0; i < 50; ++i) run.allreduce(i + 1, {i * 10_ms, i * 10_ms + 3_ms}, 1_ms, 1'000 + i);  // nothing repeats
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"straggler"});
  EXPECT_EQ(run.integer("SELECT rank FROM finding"), 1);
  EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), 150e6, 1e6);
}

// ---------------------------------------------------------------------------------------------------------------- small collectives

TEST(Findings, SmallCollectives) {
  Tables run(2);
  run.exec("BEGIN");
  int64_t now_ns = 0;
  int64_t seq = 0;
  for (int64_t s = 0; s < 20; ++s) {
    const int64_t begin_ns = now_ns;
    now_ns += 5_ms;
    const int64_t first_ns = now_ns;
    for (int i = 0; i < 50; ++i) {  // 50 of 1 kB, 40 us each
      run.allreduce(++seq, {now_ns, now_ns}, 40_us, 1'000, s);
      now_ns += 40_us;
    }
    run.allreduce(++seq, {now_ns, now_ns}, 60_us, 60'000, s);  // the job knows what more bytes cost
    now_ns += 60_us;
    for (int64_t rank : {0, 1}) run.step(rank, s, begin_ns, now_ns, now_ns - first_ns);
  }
  run.exec("COMMIT");
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"small_collectives"});
  const std::string sentence = run.text("SELECT sentence FROM finding");
  EXPECT_TRUE(has(sentence, "51 small MPI_Allreduce per step on MPI_COMM_WORLD")) << sentence;
  const double saving_ns = run.number("SELECT saving_ns FROM finding");
  EXPECT_GT(saving_ns, 1.5e6);          // of the 2.06 ms/step
  EXPECT_LT(saving_ns, 2.06e6 - 60e3);  // one call remains to be paid
}

TEST(Findings, SmallNonblockingCollectives) {
  Tables run(2);
  run.exec("BEGIN");
  int64_t seq = 0;
  for (int64_t s = 0; s < 20; ++s) {  // 100 posts of 30 us each, all completed by one Waitall of 500 us
    const int64_t t = s * 20_ms;
    for (int64_t rank : {0, 1}) {
      for (int64_t i = 0; i < 100; ++i) {
        Row row;
        row.rank = rank;
        row.op = "MPI_Iallreduce";
        row.step = s;
        row.bytes = 500;
        row.enter_ns = t + 2_ms + i * 100_us;
        row.leave_ns = row.enter_ns + 30_us;
        run.add(row);
        row.request = true;
        row.seq = seq + i + 1;
        row.leave_ns = t + 12'500_us;
        run.add(row);
      }
      Row wait;
      wait.rank = rank;
      wait.op = "MPI_Waitall";
      wait.step = s;
      wait.enter_ns = t + 12_ms;
      wait.leave_ns = t + 12'500_us;
      run.add(wait);
      run.step(rank, s, t, t + 13_ms, 3'500_us);
    }
    seq += 100;
  }
  run.exec("COMMIT");
  run.analyze();
  ASSERT_FALSE(run.findings().empty());
  EXPECT_EQ(run.findings().front(), "small_collectives");
  EXPECT_EQ(run.text("SELECT confidence FROM finding WHERE position = 1"), "maybe");
  EXPECT_NEAR(run.number("SELECT saving_ns FROM finding WHERE position = 1"), 99 * 30e3, 1e3);
}

TEST(Findings, FewSmallCollectivesAreFine) {
  Tables run = training(2, 30, 5_ms, [](int64_t, int64_t) { return 50_ms; });
  run.exec("UPDATE event SET bytes = 1000");
  run.analyze();
  EXPECT_EQ(run.findings(), Ids{});
}

// ---------------------------------------------------------------------------------------------------------------- exposed tail

/// Three buckets per step posted at 20, 40 and 60 of a 60 ms backward; Waitall from 60 until `end_ns`.
Tables overlapped(int64_t end_ns) {
  Tables run(2);
  run.exec("BEGIN");
  int64_t seq = 0;
  for (int64_t s = 0; s < 20; ++s) {
    const int64_t begin_ns = s * 200_ms;
    for (int64_t rank : {0, 1}) {
      for (int64_t bucket = 0; bucket < 3; ++bucket) {
        Row row;
        row.rank = rank;
        row.op = "MPI_Iallreduce";
        row.bytes = 1_MB;
        row.step = s;
        row.enter_ns = begin_ns + (bucket + 1) * 20_ms;
        row.leave_ns = row.enter_ns + 10_us;
        run.add(row);
        row.request = true;
        row.seq = seq + bucket + 1;
        row.leave_ns = begin_ns + end_ns;
        run.add(row);
      }
      Row wait;
      wait.rank = rank;
      wait.op = "MPI_Waitall";
      wait.step = s;
      wait.enter_ns = begin_ns + 60_ms + 10_us;
      wait.leave_ns = begin_ns + end_ns;
      run.add(wait);
      run.step(rank, s, begin_ns, begin_ns + end_ns, end_ns - 60_ms + 20_us);
    }
    seq += 3;
  }
  run.exec("COMMIT");
  return run;
}

TEST(Findings, ExposedTail) {
  Tables run = overlapped(90_ms);
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"exposed_tail"});
  EXPECT_TRUE(has(run.text("SELECT sentence FROM finding"), "30.0 ms/step of transfer")) << run.text("SELECT sentence FROM finding");
  EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), 20e6, 0.1e6);  // a third is the last bucket's own
}

TEST(Findings, HiddenCommunicationHasNoTail) {
  Tables run = overlapped(62_ms);
  run.analyze();
  EXPECT_EQ(run.findings(), Ids{});
}

// ---------------------------------------------------------------------------------------------------------------- runs that went wrong

/// 10 allreduces; then all ranks but 1 enter the eleventh and stay, until everybody is killed.
Tables hung(int64_t ranks) {
  Tables run = training(ranks, 10, 5_ms, [](int64_t, int64_t) { return 50_ms; });
  const int64_t end_ns = run.integer("SELECT max(end_ns) FROM process");
  for (int64_t rank = 0; rank < ranks; ++rank) {
    if (rank != 1) run.open_call(rank, "MPI_Allreduce", 1, 11, end_ns + 50_ms, 10);
    run.ended(rank, "lost", rank == 1 ? end_ns : end_ns + 50_ms);  // a waiting rank records nothing: no later sign of life
  }
  return run;
}

/// What `ddl record` notes.
void saw_it_end(Tables& run, int64_t end_ns) {
  run.meta("epoch_realtime_ns", "1700000000000000000");
  run.meta("ended_realtime_ns", std::to_string(1'700'000'000'000'000'000 + end_ns));
}

TEST(Findings, Hang) {
  Tables run = hung(4);
  saw_it_end(run, 60_s);
  run.analyze();
  ASSERT_EQ(run.findings().front(), "missing_rank");
  EXPECT_EQ(run.text("SELECT sentence FROM finding WHERE position = 1"),
            "rank 1 never entered MPI_Allreduce number 11 on MPI_COMM_WORLD: ranks 0, 2 and 3 sit in MPI_Allreduce");
  EXPECT_EQ(run.integer("SELECT rank FROM finding WHERE position = 1"), 1);
  EXPECT_EQ(run.text("SELECT confidence FROM finding WHERE position = 1"), "sure");
  const std::string evidence = run.text("SELECT evidence FROM finding WHERE position = 1");
  EXPECT_TRUE(
      has(evidence, "rank 1 (node1): it is in no call; the last one, MPI_Allreduce number 10 on MPI_COMM_WORLD, ended at 1.55 s in step 9"))
      << evidence;
  run.exec("CREATE TEMP TABLE shown AS " + run.text("SELECT evidence_sql FROM finding WHERE position = 1"));
  EXPECT_EQ(run.integers("SELECT rank FROM temp.shown"), (std::vector<int64_t>{0, 2, 3}));
}

TEST(Findings, HangWithoutAWitnessIsLikely) {
  Tables run = hung(2);
  run.analyze();
  ASSERT_EQ(run.findings().front(), "missing_rank");
  EXPECT_EQ(run.text("SELECT sentence FROM finding WHERE position = 1"),
            "rank 1 never entered MPI_Allreduce number 11 on MPI_COMM_WORLD: rank 0 sits in MPI_Allreduce");
  EXPECT_EQ(run.text("SELECT confidence FROM finding WHERE position = 1"), "likely");
}

TEST(Findings, HangInWaitall) {
  Tables run(3);
  for (int64_t rank = 0; rank < 3; ++rank) {
    for (int64_t seq = 1; seq <= (rank == 2 ? 3 : 4); ++seq) {  // rank 2 posted one less
      Row row;
      row.rank = rank;
      row.op = "MPI_Iallreduce";
      row.enter_ns = seq * 1_ms;
      row.leave_ns = seq * 1_ms + 1_us;
      run.add(row);
    }
    run.ended(rank, "lost", 10_ms);
    if (rank != 2) run.open_call(rank, "MPI_Waitall", 1, 4, 6_ms);
  }
  run.analyze();
  EXPECT_EQ(run.text("SELECT sentence FROM finding WHERE position = 1"),
            "rank 2 never entered MPI_Iallreduce number 4 on MPI_COMM_WORLD: ranks 0 and 1 sit in MPI_Waitall");
}

TEST(Findings, TheCauseIsTheOneThatDoesNotWaitItself) {
  Tables run(3);
  const int64_t pair = run.communicator("pair", {1, 2});
  for (int64_t rank = 0; rank < 3; ++rank) run.ended(rank, "lost", 10_ms);
  run.open_call(0, "MPI_Allreduce", 1, 1, 2_ms);     // waits for 1 and 2
  run.open_call(1, "MPI_Allreduce", pair, 1, 3_ms);  // waits for 2
  run.open_call(2, "MPI_Recv", 1, {}, 4_ms);         // sits in a receive
  run.analyze();
  ASSERT_EQ(run.findings().front(), "missing_rank");
  EXPECT_EQ(run.integer("SELECT rank FROM finding WHERE position = 1"), 2);
  EXPECT_TRUE(has(run.text("SELECT evidence FROM finding WHERE position = 1"), "it sits in MPI_Recv"));
}

TEST(Findings, AKillInMidTransferAccusesNobody) {
  Tables run(3);
  for (int64_t rank = 0; rank < 3; ++rank) {
    for (int64_t seq = 1; seq <= (rank == 2 ? 5 : 4); ++seq) {  // rank 2 got out of number 4 and is in 5
      Row row;
      row.rank = rank;
      row.op = "MPI_Iallreduce";
      row.enter_ns = seq * 1_ms;
      row.leave_ns = seq * 1_ms + 1_us;
      run.add(row);
    }
    run.ended(rank, "lost", 10_ms);
    run.open_call(rank, "MPI_Wait", 1, rank == 2 ? 5 : 4, 6_ms);
  }
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"killed_rank"});
  EXPECT_TRUE(run.is_null("SELECT rank FROM finding"));
  const std::string evidence = run.text("SELECT evidence FROM finding");
  EXPECT_TRUE(has(
      evidence, "ranks 0 and 1 sit in MPI_Wait for number 4 on MPI_COMM_WORLD, which all its members had entered: one of them died there"))
      << evidence;
}

TEST(Findings, RanksThatWaitForEachOther) {
  Tables run(2);
  const int64_t other = run.communicator("other", {0, 1});
  for (int64_t rank = 0; rank < 2; ++rank) run.ended(rank, "lost", 10_ms);
  run.open_call(0, "MPI_Allreduce", 1, 1, 2_ms);
  run.open_call(1, "MPI_Allreduce", other, 1, 3_ms);
  run.analyze();
  const std::string sentence = run.text("SELECT sentence FROM finding WHERE position = 1");
  EXPECT_TRUE(has(sentence, "wait for each other")) << sentence;
}

TEST(Findings, MismatchedCalls) {
  Tables run(3);
  for (int64_t rank = 0; rank < 3; ++rank) {
    run.ended(rank, "lost", 10_ms);
    run.open_call(rank, rank == 1 ? "MPI_Bcast" : "MPI_Allreduce", 1, 1, 2_ms);
  }
  run.analyze();
  EXPECT_EQ(run.findings().front(), "mismatched_calls");
  EXPECT_EQ(run.text("SELECT sentence FROM finding WHERE position = 1"),
            "the ranks disagree on collective number 1 on MPI_COMM_WORLD: ranks 0 and 2 are in MPI_Allreduce, rank 1 is in MPI_Bcast");
  EXPECT_EQ(run.integer("SELECT rank FROM finding WHERE position = 1"), 1);
}

TEST(Findings, KilledRank) {
  Tables run = hung(2);
  saw_it_end(run, run.integer("SELECT max(end_ns) FROM process") + 60_ms);  // torn down at once: no hang
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"killed_rank"});
  const std::string sentence = run.text("SELECT sentence FROM finding");
  EXPECT_TRUE(has(sentence, "rank 1 stopped first, at 1.55 s in step 9")) << sentence;
  const std::string evidence = run.text("SELECT evidence FROM finding");
  EXPECT_TRUE(has(evidence, "0 of 2 ranks ended in MPI_Finalize")) << evidence;
  EXPECT_TRUE(has(evidence, "the last step complete on all ranks is 9")) << evidence;
}

/// The launcher's exit code tells how one rank ended; the ones that waited for it were ended a moment later, which is no hang.
std::string sentence_after_exit_code(Tables run, int64_t code) {
  saw_it_end(run, run.integer("SELECT max(end_ns) FROM process") + 2'000_ms);
  run.meta("exit_code", std::to_string(code));
  run.analyze();
  EXPECT_EQ(run.findings(), Ids{"killed_rank"}) << code;
  return run.text("SELECT sentence FROM finding");
}

TEST(Findings, TheExitCodeTellsHowTheFirstEnded) {
  EXPECT_EQ(sentence_after_exit_code(hung(4), 139), "rank 1 crashed (SIGSEGV) at 1.55 s in step 9, and the others were ended");
  EXPECT_EQ(sentence_after_exit_code(hung(4), 137), "rank 1 was killed (SIGKILL) at 1.55 s in step 9, and the others were ended");
  EXPECT_EQ(sentence_after_exit_code(hung(4), 3),
            "rank 1 stopped without MPI_Finalize (exit code 3) at 1.55 s in step 9, and the others were ended");
}

TEST(Findings, WithoutAnythingToGoByNobodyIsNamed) {
  Tables run = training(2, 10, 5_ms, [](int64_t, int64_t) { return 50_ms; });
  for (int64_t rank = 0; rank < 2; ++rank) run.ended(rank, "lost", 1'500_ms);
  EXPECT_EQ(sentence_after_exit_code(std::move(run), 134), "one of ranks 0 and 1 crashed (SIGABRT), and the others were ended");
}

TEST(Findings, AKilledLauncherSaysNothingAboutTheRanks) {
  Tables run = hung(2);
  saw_it_end(run, run.integer("SELECT max(end_ns) FROM process") + 60_ms);
  run.meta("signal", "9");
  run.meta("launcher", "mpirun");
  run.analyze();
  EXPECT_TRUE(
      has(run.text("SELECT sentence FROM finding"), "all 2 ranks were killed, crashed, left by _exit or still run; rank 1 stopped first"));
}

TEST(Findings, NobodyLeftMpiInit) {
  Tables run(3);
  run.exec("DELETE FROM process WHERE rank = 1; UPDATE process SET init_ns = NULL, finalize_ns = NULL");
  for (int64_t rank : {0, 2}) {
    run.ended(rank, "lost", 10_ms);
    run.open_call(rank, "MPI_Init", 0, {}, 2_ms);
  }
  run.analyze();
  EXPECT_EQ(run.findings().front(), "missing_rank");
  EXPECT_EQ(run.text("SELECT sentence FROM finding WHERE position = 1"),
            "nobody left MPI_Init: ranks 0 and 2 sit in it, rank 1 never called it");
  EXPECT_EQ(run.integer("SELECT rank FROM finding WHERE position = 1"), 1);
}

TEST(Findings, RanksOfNcclAloneNeverCalledMpiInit) {
  Tables run(2);
  run.exec("UPDATE process SET init_ns = NULL, finalize_ns = NULL");
  for (int64_t rank : {0, 1}) run.ended(rank, "exited", 10_ms);
  run.analyze();
  EXPECT_EQ(run.integer("SELECT count(*) FROM finding"), 0);
}

TEST(Findings, ExecIsNoKill) {
  Tables run = training(2, 10, 5_ms, [](int64_t, int64_t) { return 50_ms; });
  run.ended(1, "exec", 1'200_ms);
  run.analyze();
  EXPECT_TRUE(has(run.text("SELECT sentence FROM finding WHERE position = 1"),
                  "rank 1 became another program (exec) without MPI_Finalize at 1.20 s"));
}

TEST(Findings, OneOfManyKilled) {
  Tables run = training(4, 10, 5_ms, [](int64_t, int64_t) { return 50_ms; });
  run.ended(2, "lost", 1'200_ms);
  run.analyze();
  ASSERT_EQ(run.findings().front(), "killed_rank");
  EXPECT_EQ(run.integer("SELECT rank FROM finding WHERE position = 1"), 2);
  EXPECT_TRUE(has(run.text("SELECT sentence FROM finding WHERE position = 1"),
                  "rank 2 was killed, crashed, left by _exit or still runs, last seen at 1.20 s"));
}

TEST(Findings, Abort) {
  Tables run = training(4, 10, 5_ms, [](int64_t, int64_t) { return 50_ms; });
  for (int64_t rank : {0, 1, 2, 3}) run.ended(rank, rank == 3 ? "aborted" : "lost", 1'600_ms);
  run.exec("UPDATE process SET abort_code = 7 WHERE rank = 3");
  run.analyze();
  ASSERT_EQ(run.findings().front(), "killed_rank");
  EXPECT_TRUE(has(run.text("SELECT sentence FROM finding WHERE position = 1"), "rank 3 called MPI_Abort(7) at 1.60 s in step 9"));
}

TEST(Findings, WentWrongComesBeforeSlow) {
  Tables run = training(4, 60, 5_ms, [](int64_t s, int64_t r) { return 40_ms + jitter(s, r, 2_ms) + (r == 1 ? 24_ms : 0); });
  run.ended(2, "lost", 5_s);
  run.analyze();
  EXPECT_EQ(run.findings(), (Ids{"killed_rank", "straggler"}));
}

// ---------------------------------------------------------------------------------------------------------------- shared cores

/// A healthy job on `hosts` hosts whose rank r may run on cpus[r].
Tables bound(const std::vector<std::string>& cpus, int64_t hosts = 1) {
  Tables run(static_cast<int64_t>(cpus.size()), hosts);
  for (size_t r = 0; r < cpus.size(); ++r)
    run.exec("INSERT INTO process_fact VALUES (" + std::to_string(r + 1) + ", 'cpus', '" + cpus[r] + "')");
  return run;
}

struct Crowd {
  std::vector<std::string> cpus;
  int64_t hosts;
  std::string sentence;  ///< empty: nothing to find
};

TEST(Findings, SharedCores) {
  const Crowd crowds[] = {
      {{"0", "1", "2", "3"}, 1, ""},
      {{"0-3", "0-3", "0-3", "0-3"}, 1, ""},
      {{"0", "0"}, 2, ""},                       // one on each host
      {{"0,1", "1,2", "0,2"}, 1, ""},            // overlapping, and yet a CPU for each
      {{"0", "x", "0-", "1-0", "0,,1"}, 1, ""},  // not lists
      {{"0", "0", "1", "2"}, 1, "ranks 0 and 1 are bound to the same core (CPU 0 of node1)"},
      {{"0", "1", "5", "5"}, 2, "ranks 2 and 3 are bound to the same core (CPU 5 of node2)"},
      {{"8-9", "8-9", "8-9"}, 1, "ranks 0, 1 and 2 share 2 CPUs (CPUs 8-9 of node1)"},
      {{"0", "0-1", "1"}, 1, "ranks 0, 1 and 2 share 2 CPUs (CPUs 0-1 of node1)"},
      {{"0", "0", "0-1", "0-1"}, 1, "ranks 0 and 1 are bound to the same core (CPU 0 of node1)"},  // the smaller set is the cause
      {{"0", "0", "3", "3", "3"}, 1, "ranks 2, 3 and 4 are bound to the same core (CPU 3 of node1), and 1 more group like it"},
  };
  for (const Crowd& crowd : crowds) {
    Tables run = bound(crowd.cpus, crowd.hosts);
    run.analyze();
    ASSERT_EQ(run.findings(), crowd.sentence.empty() ? Ids{} : Ids{"shared_cores"}) << crowd.cpus[0] << " " << crowd.sentence;
    if (crowd.sentence.empty()) continue;
    EXPECT_EQ(run.text("SELECT sentence FROM finding"), crowd.sentence);
    EXPECT_EQ(run.text("SELECT confidence FROM finding"), "sure");
    EXPECT_TRUE(run.is_null("SELECT saving_ns FROM finding"));
    run.exec("CREATE TEMP TABLE shown AS " + run.text("SELECT evidence_sql FROM finding"));
    EXPECT_EQ(run.integer("SELECT count(*) FROM temp.shown"), static_cast<int64_t>(crowd.cpus.size()));
  }
}

TEST(Findings, SharedCoresOfARankThatBoundItself) {
  Tables moved = bound({"0", "0"});
  moved.exec("INSERT INTO process_fact VALUES (2, 'cpus_at_end', '1')");
  moved.analyze();
  EXPECT_EQ(moved.findings(), Ids{});
  Tables lost = bound({"0", "0"});  // whether it would have been elsewhere at its end is not known
  lost.ended(1, "lost", 1_s);
  lost.analyze();
  EXPECT_EQ(lost.text("SELECT confidence FROM finding WHERE id = 'shared_cores'"), "likely");
}

// ---------------------------------------------------------------------------------------------------------------- words

TEST(Words, Durations) {
  EXPECT_EQ(duration_text(int64_t{24'123'456}), "24.1 ms");
  EXPECT_EQ(duration_text(int64_t{999}), "999 ns");
  EXPECT_EQ(duration_text(int64_t{999'600}), "1.00 ms");
  EXPECT_EQ(duration_text(int64_t{62'000'000'000}), "62.0 s");
}

TEST(Words, Ranks) {
  EXPECT_EQ(ranks_text({3}), "rank 3");
  EXPECT_EQ(ranks_text({0, 2}), "ranks 0 and 2");
  EXPECT_EQ(ranks_text({0, 2, 3}), "ranks 0, 2 and 3");
  EXPECT_EQ(ranks_text({0, 1, 2, 3, 4, 5}), "ranks 0, 1, 2 and 3 more");
}

TEST(Words, Percent) {
  EXPECT_EQ(percent_text(0.97), "97%");
  EXPECT_EQ(percent_text(0.034), "3.4%");
}

}  // namespace
}  // namespace ddl::test
