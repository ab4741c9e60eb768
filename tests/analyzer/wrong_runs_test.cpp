// Runs that went wrong: which rank hung, which one was killed, which calls did not belong together.
#include "analyzer/findings/findings.h"
#include "tests/analyzer/findings_jobs.h"

namespace ddl::test {
namespace {

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

TEST(Findings, ThePeerOfAnOpenCallIsNamedByItsRankInTheWorld) {
  for (const auto& [comm, rank] : {std::pair(1, 0), std::pair(2, 2), std::pair(3, 1)}) {
    Tables run(4);
    run.communicator("reversed", {2, 1, 0});
    run.intercommunicator("between", {0, 2}, {1, 3});
    for (int64_t r = 0; r < 4; ++r) run.ended(r, "lost", 10_ms);
    for (const int64_t r : {0, 1, 3}) run.open_call(r, "MPI_Allreduce", 1, 1, 2_ms);
    run.open_call(2, "MPI_Recv", comm, {}, 4_ms);
    run.exec("UPDATE open_call SET peer = 0 WHERE process = 3");
    run.analyze();
    const std::string evidence = run.text("SELECT evidence FROM finding WHERE position = 1");
    EXPECT_TRUE(has(evidence, "it sits in MPI_Recv with rank " + std::to_string(rank) + " on ")) << evidence;
  }
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

/// The launcher's exit code tells how one rank ended; the ones that waited for it were ended a moment later, which is not a hang.
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

// torchrun's exit code is its own, and its ranks know no MPI_Finalize.
TEST(Findings, WithoutMpiTheExitCodeIsTheCommands) {
  Tables run = hung(4);
  run.exec("UPDATE op SET name = 'gloo::' || name WHERE name LIKE 'MPI%'");
  EXPECT_EQ(sentence_after_exit_code(std::move(run), 1),
            "rank 1 stopped (the command's exit code: 1) at 1.55 s in step 9, and the others were ended");
}

// Rank 1 hangs and somebody ends the job: no rank stopped by itself, whatever the launcher's exit code.
TEST(Findings, AJobThatWasToldToEndAccusesNobody) {
  for (const int64_t code : {1, 143}) {
    Tables run = hung(4);
    run.meta("told_to_end", "15");
    EXPECT_EQ(sentence_after_exit_code(std::move(run), code), "the job was told to end (SIGTERM) before any rank had ended");
  }
  Tables run = hung(4);
  run.exec("INSERT INTO stall VALUES (1, 0, 'stall', 1700000000, 1550000000, 100000000, NULL, 'rank 1 does not come', 'abort', NULL)");
  EXPECT_EQ(sentence_after_exit_code(std::move(run), 1), "the job was told to end (--on-stall abort) before any rank had ended");
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

}  // namespace
}  // namespace ddl::test
