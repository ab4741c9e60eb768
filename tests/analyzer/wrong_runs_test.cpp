// Runs that went wrong: which rank was killed, which calls did not belong together.
#include "tests/analyzer/wrong_runs.h"

namespace ddl::test {
namespace {

TEST(Findings, MismatchedCalls) {
  Tables run(3);
  for (int64_t rank = 0; rank < 3; ++rank) {
    run.ended(rank, "lost", 10_ms);
    run.open_call(rank, rank == 1 ? "MPI_Bcast" : "MPI_Allreduce", 1, 1, 2_ms);
  }
  run.analyze();
  EXPECT_EQ(run.findings().front(), "mismatched_calls");
  EXPECT_EQ(
      run.text("SELECT sentence FROM finding WHERE position = 1"),
      "the ranks disagree on collective number 1 on MPI_COMM_WORLD: ranks 0 and 2 are in MPI_Allreduce, rank 1 is in MPI_Bcast");
  EXPECT_EQ(run.integer("SELECT rank FROM finding WHERE position = 1"), 1);
}

TEST(Findings, AnAllreduceOfAnotherSizeIsTheCallOfAnotherPlace) {
  for (const bool other : {false, true}) {
    Tables run(3);
    for (int64_t rank = 0; rank < 3; ++rank) {
      run.ended(rank, "lost", 10_ms);
      run.open_call(rank, "MPI_Allreduce", 1, 1, 2_ms);
    }
    run.exec("UPDATE open_call SET bytes = 71200");
    if (other) run.exec("UPDATE open_call SET bytes = 12 WHERE process = (SELECT id FROM process WHERE rank = 1)");
    run.analyze();
    ASSERT_EQ(run.integer("SELECT count(*) FROM finding WHERE id = 'mismatched_calls'"), other ? 1 : 0);
    if (!other) continue;
    EXPECT_EQ(
        first_sentence(run),
        "the ranks disagree on collective number 1 on MPI_COMM_WORLD: rank 1 is in MPI_Allreduce of 12 B, ranks 0 "
        "and 2 are in MPI_Allreduce of 69.5 KiB");
    EXPECT_EQ(run.integer("SELECT rank FROM finding WHERE position = 1"), 1);
  }
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

/// The launcher's exit code tells how one rank ended; the ones that waited for it were ended a moment later,
/// which is not a hang.
std::string sentence_after_exit_code(Tables run, int64_t code) {
  saw_it_end(run, run.integer("SELECT max(end_ns) FROM process") + 2'000_ms);
  run.meta("exit_code", std::to_string(code));
  run.analyze();
  EXPECT_EQ(run.findings(), Ids{"killed_rank"}) << code;
  return run.text("SELECT sentence FROM finding");
}

TEST(Findings, TheExitCodeTellsHowTheFirstEnded) {
  EXPECT_EQ(sentence_after_exit_code(hung(4), 139),
            "rank 1 crashed (SIGSEGV) at 1.55 s in step 9, and the others were ended");
  EXPECT_EQ(sentence_after_exit_code(hung(4), 137),
            "rank 1 was killed (SIGKILL) at 1.55 s in step 9, and the others were ended");
  EXPECT_EQ(sentence_after_exit_code(hung(4), 3),
            "rank 1 stopped without MPI_Finalize (exit code 3) at 1.55 s in step 9, and the others were ended");
}

void exit_code(Tables& run, int64_t rank, int64_t code) {
  run.exec("INSERT INTO process_fact SELECT id, 'exit_code', '" + std::to_string(code) +
           "' FROM process WHERE rank = " + std::to_string(rank));
}

/// mpiexec of MPICH started it.
Tables of_mpich(Tables run) {
  run.meta("launcher", "mpiexec");
  run.exec("INSERT INTO process_fact SELECT id, 'mpi', 'MPICH Version: 4.0.2' FROM process");
  return run;
}

// It gives the numbers of signals as they are, OR-ed with the SIGKILL of the ranks that it ended.
TEST(Findings, AnExitCodeOfMpichIsASignalsNumber) {
  const std::string end = " at 1.55 s in step 9, and the others were ended";
  EXPECT_EQ(sentence_after_exit_code(of_mpich(hung(4)), 11), "rank 1 crashed (SIGSEGV)" + end);
  EXPECT_EQ(sentence_after_exit_code(of_mpich(hung(4)), 9), "rank 1 was killed (SIGKILL) or left by _exit" + end);
  EXPECT_EQ(sentence_after_exit_code(of_mpich(hung(4)), 6), "rank 1 crashed (SIGABRT)" + end);
  EXPECT_EQ(sentence_after_exit_code(of_mpich(hung(4)), 15),
            "rank 1 crashed or was killed (SIGABRT, SIGBUS or SIGTERM)" + end);
  EXPECT_EQ(sentence_after_exit_code(of_mpich(hung(4)), 3), "rank 1 stopped without MPI_Finalize (exit code 3)" + end);
  // of Open MPI
  EXPECT_EQ(sentence_after_exit_code(hung(4), 9), "rank 1 stopped without MPI_Finalize (exit code 9)" + end);
  Tables srun = of_mpich(hung(4));
  srun.exec("UPDATE meta SET value = 'srun' WHERE key = 'launcher'");
  EXPECT_EQ(sentence_after_exit_code(std::move(srun), 9), "rank 1 stopped without MPI_Finalize (exit code 9)" + end);
}

TEST(Findings, AnExitCodeOfMpichThatARankGaveIsNoSignal) {
  Tables run = of_mpich(hung(3));
  run.ended(1, "aborted", 1'600_ms);
  run.exec("UPDATE process SET abort_code = 11 WHERE rank = 1");
  EXPECT_EQ(sentence_after_exit_code(std::move(run), 11), "rank 1 called MPI_Abort(11) at 1.60 s in step 9");
  Tables left = of_mpich(hung(3));
  left.ended(1, "exited", 1'600_ms);
  exit_code(left, 1, 3);
  EXPECT_EQ(sentence_after_exit_code(std::move(left), 9),
            "rank 1 exited with code 3, without MPI_Finalize, at 1.60 s in step 9");
}

// UCX writes a backtrace for seconds, the kernel a core: until then nobody knows of the crash.
TEST(Findings, WaitingForARankThatCrashesIsNoHang) {
  for (const int64_t code : {139, 137}) {
    Tables run = hung(4);
    saw_it_end(run, run.integer("SELECT max(end_ns) FROM process") + 20'000_ms);
    run.meta("exit_code", std::to_string(code));
    run.analyze();
    EXPECT_EQ(run.findings().front(), code == 139 ? "killed_rank" : "missing_rank");
  }
}

// Of those that had not come yet one failed, and the others were on their way.
TEST(Findings, OfSeveralThatDidNotComeOneFailed) {
  Tables run = hung(4);
  run.exec("DELETE FROM open_call WHERE process = 1");
  EXPECT_EQ(sentence_after_exit_code(std::move(run), 139),
            "one of ranks 0 and 1 crashed (SIGSEGV) at 1.60 s in step 9, and the others were ended");
}

// However long mpiexec takes to end the others.
TEST(Findings, MpiAbortComesBeforeThoseThatItLeftWaiting) {
  Tables run = hung(4);
  run.ended(1, "aborted", 1'600_ms);
  run.exec("UPDATE process SET abort_code = 7 WHERE rank = 1");
  saw_it_end(run, 60_s);
  run.meta("exit_code", "7");
  run.analyze();
  EXPECT_EQ(run.findings(), Ids{"killed_rank"});
  EXPECT_EQ(run.text("SELECT sentence FROM finding"), "rank 1 called MPI_Abort(7) at 1.60 s in step 9");
  EXPECT_TRUE(has(run.text("SELECT evidence FROM finding"), "ranks 0, 2 and 3 sit in MPI_Allreduce"));
}

// That of timeout(1), or of mpirun --timeout, is no rank's.
TEST(Findings, AnExitCodeOfATimeLimitIsNoRanks) {
  Tables run = hung(4);
  saw_it_end(run, run.integer("SELECT max(end_ns) FROM process") + 60'000_ms);
  run.meta("exit_code", "124");
  run.analyze();
  EXPECT_EQ(run.findings(), (Ids{"missing_rank", "killed_rank"}));
  EXPECT_EQ(run.text("SELECT sentence FROM finding WHERE id = 'killed_rank'"),
            "the job was told to end (a time limit, exit code 124) before any rank had ended");
  EXPECT_EQ(run.text("SELECT confidence FROM finding WHERE id = 'killed_rank'"), "likely");
  EXPECT_TRUE(run.is_null("SELECT rank FROM finding WHERE id = 'killed_rank'"));
}

// torchrun's exit code is its own, and its ranks know no MPI_Finalize.
TEST(Findings, WithoutMpiTheExitCodeIsTheCommands) {
  Tables run = hung(4);
  run.exec("UPDATE op SET name = 'gloo::' || name WHERE name LIKE 'MPI%'");
  EXPECT_EQ(sentence_after_exit_code(std::move(run), 1),
            "rank 1 stopped (the command's exit code: 1) at 1.55 s in step 9, and the others were ended");
}

void over_gloo(Tables& run) {
  run.exec(
      "UPDATE op SET name = 'gloo::' || name WHERE name LIKE 'MPI%'; UPDATE process SET init_ns = NULL, finalize_ns = NULL");
}

/// A job of Gloo in which all ranks have left the same step.
Tables after_a_step(int64_t ranks, const std::string& ended) {
  Tables run = training(ranks, 10, 5_ms, [](int64_t, int64_t) { return 50_ms; });
  over_gloo(run);
  for (int64_t rank = 0; rank < ranks; ++rank) run.ended(rank, ended, 1'560_ms);
  return run;
}

// An exception ends rank 1, and seconds later torchrun ends the others, which sleep outside of collectives.
TEST(Findings, WhoExitsWhileTheOthersAreEndedWentFirst) {
  for (const bool known : {false, true}) {
    Tables run = after_a_step(3, "lost");
    run.ended(1, "exited", 4'900_ms);
    if (known) exit_code(run, 1, 3);
    EXPECT_EQ(sentence_after_exit_code(std::move(run), 1),
              known ? "rank 1 exited first with code 3, at 4.90 s in step 9; ranks 0 and 2 were ended"
                    : "rank 1 exited first, at 4.90 s in step 9; ranks 0 and 2 were ended");
  }
  Tables waited_for = hung(3);
  over_gloo(waited_for);
  waited_for.ended(1, "exited", 2'500_ms);
  EXPECT_EQ(sentence_after_exit_code(std::move(waited_for), 1),
            "rank 1 exited first, at 2.50 s in step 9; ranks 0 and 2 were ended");
  Tables message = after_a_step(2, "lost");
  message.ended(1, "exited", 4'900_ms);
  message.open_call(0, "MPI_Recv", 1, {}, 1'558_ms);
  message.exec("UPDATE open_call SET peer = 1");
  over_gloo(message);
  EXPECT_EQ(sentence_after_exit_code(std::move(message), 1),
            "rank 1 exited first, at 4.90 s in step 9; rank 0 was ended");
}

// A rank that waits for one that was killed ends by an exception, too; one that is through with its work, or handles
// SIGTERM, exits as it should.
TEST(Findings, WhoExitsIsNotBlamedForOneThatWasKilled) {
  Tables waits = hung(2);
  over_gloo(waits);
  waits.ended(0, "exited", 2'500_ms);
  exit_code(waits, 0, 1);
  EXPECT_EQ(sentence_after_exit_code(std::move(waits), 1),
            "rank 1 stopped (the command's exit code: 1), last seen at 1.55 s in step 9");
  for (const int64_t code : {0, 143}) {
    Tables run = after_a_step(3, "lost");
    run.ended(2, "exited", 1'700_ms);
    exit_code(run, 2, code);
    EXPECT_EQ(sentence_after_exit_code(std::move(run), 1),
              "one of ranks 0 and 1 stopped (the command's exit code: 1), and the others were ended");
  }
  Tables received = after_a_step(3, "lost");  // and then? It may have computed, or waited for rank 0 in vain
  Row row{.rank = 1, .op = "MPI_Recv", .enter_ns = 1'556_ms, .leave_ns = 1'558_ms};
  row.peer = 0;
  received.add(row);
  over_gloo(received);
  received.ended(1, "exited", 4'900_ms);
  EXPECT_EQ(sentence_after_exit_code(std::move(received), 1),
            "ranks 0 and 2 stopped (the command's exit code: 1), last seen at 1.56 s");
}

// Its data ran out: the others' connections close, which ends them by an exception, or the launcher ends them.
TEST(Findings, ARankThatLeftEarlyWithCode0IsNamedAndNotThoseThatFailedForIt) {
  for (const char* others : {"exited", "lost"}) {
    Tables run = hung(3);
    over_gloo(run);
    run.ended(1, "exited", 1'555_ms);
    exit_code(run, 1, 0);
    for (const int64_t rank : {0, 2}) {
      run.ended(rank, others, 1'700_ms);
      if (std::string_view(others) == "exited") exit_code(run, rank, 1);
    }
    EXPECT_EQ(sentence_after_exit_code(std::move(run), 1),
              "rank 1 left with code 0 at 1.55 s in step 9, before gloo::MPI_Allreduce number 11 on MPI_COMM_WORLD, in "
              "which ranks 0 and 2 sat until they failed");
  }
}

// torchrun sends SIGTERM, which a rank inside a collective does not see, and SIGKILL 30 s later; only then it
// starts the ranks again.
TEST(Findings, ARankThatDiedComesBeforeThoseThatTorchrunLeftWaiting) {
  for (const bool mpi : {false, true}) {
    Tables run = hung(3);
    if (!mpi) over_gloo(run);
    saw_it_end(run, run.integer("SELECT max(end_ns) FROM process") + 31'000_ms);
    run.meta("exit_code", "1");
    run.analyze();
    EXPECT_EQ(run.findings().front(), mpi ? "missing_rank" : "killed_rank");
  }
  Tables told = hung(3);  // the attempt before the last, with a watch that told of the stall meanwhile
  over_gloo(told);
  const int64_t end_ns = told.integer("SELECT max(end_ns) FROM process");
  told.ended(1, "exited", end_ns);
  exit_code(told, 1, 1);
  start_again(told, end_ns + 31_s);
  told.exec("INSERT INTO stall VALUES (1, 0, 'stall', " + std::to_string(end_ns + 5_s) + ", " + std::to_string(end_ns) +
            ", 5000000000, NULL, 'no rank has finished a call', NULL, NULL);"
            "INSERT INTO stall_rank VALUES (1, 0, 1, 'waiting', 'gloo::allreduce', 'sleeps', NULL, NULL, NULL)");
  told.analyze();
  EXPECT_EQ(told.findings(), Ids{"killed_rank"});
  EXPECT_EQ(told.text("SELECT sentence FROM finding"),
            "rank 1 exited first with code 1, at 1.60 s in step 9; ranks 0 and 2 were ended");
}

// Every rank leaves by exit(), and the job fails.
TEST(Findings, WhereEveryRankExitsTheFirstThatFailedIsNamed) {
  const auto codes = [](Tables run, const std::vector<int64_t>& given) {
    for (int64_t rank = 0; rank < run.ranks(); ++rank) exit_code(run, rank, given[static_cast<size_t>(rank)]);
    return sentence_after_exit_code(std::move(run), 1);
  };
  const auto alike = [] {
    Tables run = after_a_step(3, "exited");
    run.ended(2, "exited", 1'558_ms);
    return run;
  };
  EXPECT_EQ(codes(alike(), {1, 1, 1}), "ranks 0, 1 and 2 exited with code 1, rank 2 first, at 1.56 s in step 9");
  EXPECT_EQ(codes(alike(), {1, 0, 5}), "ranks 0 and 2 exited with codes 1, 5, rank 2 first, at 1.56 s in step 9");
  EXPECT_EQ(codes(alike(), {0, 3, 0}), "rank 1 exited with code 3, at 1.56 s in step 9");
  // told to by the launcher
  EXPECT_EQ(codes(alike(), {143, 3, 143}), "rank 1 exited with code 3, at 1.56 s in step 9");
  Tables waited = hung(3);  // the others' calls end as errors when its connections close
  over_gloo(waited);
  for (int64_t rank = 0; rank < 3; ++rank) waited.ended(rank, "exited", 1'700_ms + rank * 10_ms);
  EXPECT_EQ(
      codes(std::move(waited), {1, 4, 1}),
      "rank 1 exited first with code 4, at 1.71 s in step 9; ranks 0 and 2, which waited for others, followed with code 1");
  Tables finalized = training(2, 10, 5_ms, [](int64_t, int64_t) { return 50_ms; });
  EXPECT_EQ(codes(std::move(finalized), {0, 4}).substr(0, 45), "rank 1 exited with code 4 after MPI_Finalize,");
}

TEST(Findings, ExitsThatNobodyCallsAFailureAreNone) {
  for (const bool told : {false, true}) {
    Tables run = after_a_step(2, "exited");
    for (const int64_t rank : {0, 1}) exit_code(run, rank, 1);
    saw_it_end(run, 2'000_ms);
    run.meta("exit_code", told ? "1" : "0");
    if (told) run.meta("told_to_end", "15");
    run.analyze();
    EXPECT_EQ(run.integer("SELECT count(*) FROM finding"), 0);
  }
}

// os._exit(0) at the end of the script.
TEST(Findings, AJobThatEndsWellWithoutExitHandlersIsNoKill) {
  const auto ended_with = [](Tables run, int64_t code) {
    saw_it_end(run, 2'000_ms);
    run.meta("exit_code", std::to_string(code));
    run.analyze();
    return run.integer("SELECT count(*) FROM finding WHERE id = 'killed_rank'") == 0
               ? ""
               : run.text("SELECT sentence FROM finding WHERE position = 1");
  };
  EXPECT_EQ(ended_with(after_a_step(2, "lost"), 0), "");
  EXPECT_EQ(ended_with(after_a_step(2, "lost"), 3),
            "all 2 ranks stopped (the command's exit code: 3), last seen at 1.56 s");
  Tables one = after_a_step(2, "lost");  // whatever the script that started it returned
  one.exec("DELETE FROM step WHERE process = 2 AND step = 9");
  EXPECT_EQ(ended_with(std::move(one), 0), "all 2 ranks stopped (the command's exit code: 0), last seen at 1.56 s");
  Tables told = after_a_step(2, "lost");
  told.meta("told_to_end", "15");
  EXPECT_EQ(ended_with(std::move(told), 0), "the job was told to end (SIGTERM) before any rank had ended");
}

// Rank 1 hangs and somebody ends the job: no rank stopped by itself, whatever the launcher's exit code.
TEST(Findings, AJobThatWasToldToEndAccusesNobody) {
  for (const int64_t code : {1, 143}) {
    Tables run = hung(4);
    run.meta("told_to_end", "15");
    EXPECT_EQ(sentence_after_exit_code(std::move(run), code),
              "the job was told to end (SIGTERM) before any rank had ended");
  }
  Tables run = hung(4);
  run.exec(
      "INSERT INTO stall VALUES (1, 0, 'stall', 1700000000, 1550000000, 100000000, NULL, 'rank 1 does not come', 'abort', NULL)");
  EXPECT_EQ(sentence_after_exit_code(std::move(run), 1),
            "the job was told to end (--on-stall abort) before any rank had ended");
}

TEST(Findings, WithoutAnythingToGoByNobodyIsNamed) {
  Tables run = training(2, 10, 5_ms, [](int64_t, int64_t) { return 50_ms; });
  for (int64_t rank = 0; rank < 2; ++rank) run.ended(rank, "lost", 1'500_ms);
  EXPECT_EQ(sentence_after_exit_code(std::move(run), 134),
            "one of ranks 0 and 1 crashed (SIGABRT), and the others were ended");
}

/// Allreduces up to where each rank sits, which it left at 10 ms per number; the job was killed with one of them.
Tables sitting_in(const std::vector<int64_t>& numbers, const char* op = "MPI_Allreduce") {
  Tables run(static_cast<int64_t>(numbers.size()));
  for (int64_t rank = 0; rank < run.ranks(); ++rank) {
    const int64_t number = numbers[static_cast<size_t>(rank)];
    for (int64_t seq = 1; seq < number; ++seq) {
      Row row;
      row.rank = rank;
      row.op = op;
      row.enter_ns = seq * 10_ms - 1_ms;
      row.leave_ns = seq * 10_ms;
      run.add(row);
    }
    run.open_call(rank, op, 1, number, number * 10_ms - 1_ms);
    run.ended(rank, "lost", number * 10_ms - 1_ms);
  }
  return run;
}

// Rank 1 died in number 5, but had sent its part of it.
TEST(Findings, WhoSitsInACollectiveThatOthersHaveLeftWentFirst) {
  Tables run = sitting_in({6, 5});
  saw_it_end(run, 2'000_ms);
  run.meta("exit_code", "137");
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"killed_rank"});
  EXPECT_EQ(run.text("SELECT sentence FROM finding"),
            "rank 1 was killed (SIGKILL) at 49.0 ms, and the others were ended");
  EXPECT_EQ(run.text("SELECT confidence FROM finding"), "likely");
  EXPECT_EQ(run.integer("SELECT rank FROM finding"), 1);
  const std::string evidence = run.text("SELECT evidence FROM finding");
  EXPECT_TRUE(has(
      evidence,
      "rank 1 sits in MPI_Allreduce number 5 on MPI_COMM_WORLD, which all its members had entered and others have left."))
      << evidence;
}

// Rank 0 waits in it for the dead one's part; it did something when the others had left, so it is not the dead one.
TEST(Findings, OfSeveralThatSitThereTheOneWithoutASignOfLifeWentFirst) {
  Tables told = sitting_in({5, 6, 5, 6});
  told.ended(0, "lost", 70_ms);
  EXPECT_EQ(sentence_after_exit_code(std::move(told), 137),
            "rank 2 was killed (SIGKILL) at 49.0 ms, and the others were ended");
  EXPECT_EQ(sentence_after_exit_code(sitting_in({5, 6, 5, 6}), 137),
            "one of ranks 0 and 2 was killed (SIGKILL), and the others were ended");
}

TEST(Findings, WhereAllAreInOneCollectiveOrOnlyPostedItNobodyIsNamed) {
  for (const std::vector<int64_t>& numbers : {std::vector<int64_t>{5, 5}, {6, 5}}) {
    const bool posted = numbers[0] != numbers[1];
    Tables run = sitting_in(numbers, posted ? "MPI_Iallreduce" : "MPI_Allreduce");
    EXPECT_EQ(sentence_after_exit_code(std::move(run), 137),
              "one of ranks 0 and 1 was killed (SIGKILL), and the others were ended");
  }
}

TEST(Findings, AKilledLauncherSaysNothingAboutTheRanks) {
  Tables run = hung(2);
  saw_it_end(run, run.integer("SELECT max(end_ns) FROM process") + 60_ms);
  run.meta("signal", "9");
  run.meta("launcher", "mpirun");
  run.analyze();
  EXPECT_TRUE(has(run.text("SELECT sentence FROM finding"),
                  "all 2 ranks were killed, crashed, left by _exit or still run; rank 1 stopped first"));
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
  EXPECT_TRUE(has(run.text("SELECT sentence FROM finding WHERE position = 1"),
                  "rank 3 called MPI_Abort(7) at 1.60 s in step 9"));
}

TEST(Findings, WentWrongComesBeforeSlow) {
  Tables run =
      training(4, 60, 5_ms, [](int64_t s, int64_t r) { return 40_ms + jitter(s, r, 2_ms) + (r == 1 ? 24_ms : 0); });
  run.ended(2, "lost", 5_s);
  run.analyze();
  EXPECT_EQ(run.findings(), (Ids{"killed_rank", "straggler"}));
}

}  // namespace
}  // namespace ddl::test
