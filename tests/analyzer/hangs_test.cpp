// Runs that hung: who did not come, since when, and who only waited for it.
#include <fmt/format.h>
#include <sqlite3.h>

#include "analyzer/findings/finding.h"
#include "analyzer/findings/findings.h"
#include "analyzer/findings/shared.h"
#include "store/ingest/run_facts.h"
#include "tests/analyzer/wrong_runs.h"

namespace ddl::test {
namespace {

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
  EXPECT_TRUE(has(
      evidence,
      "rank 1 (node1): it is in no call; the last one, MPI_Allreduce number 10 on MPI_COMM_WORLD, ended at 1.55 s in step 9"))
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

// SIGKILL to the process group: `ddl record` noted no end, but left when it last saw the job run.
TEST(Findings, AHangWhoseEndNobodySawLastedUntilTheLastLookAtLeast) {
  for (const int64_t look_s : {60, 1, 0}) {
    Tables run = hung(4);
    run.meta("epoch_realtime_ns", "1700000000000000000");
    run.meta("started_realtime_ns", "1700000000000000000");
    if (look_s > 0)
      run.meta("last_look_realtime_ns", std::to_string(1'700'000'000'000'000'000 + look_s * 1'000'000'000));
    run.analyze();
    const std::string killed = run.text("SELECT evidence FROM finding WHERE id = 'killed_rank'");
    EXPECT_TRUE(has(
        killed, look_s == 60 ? "ddl record last saw it run 58.4 s after its last sign of life, and did not see it end"
                             : "How long it ran after its last sign of life is not known"))
        << killed;
    if (look_s == 1) {  // it was seen alive after that: any job that is killed looks like this
      EXPECT_EQ(run.findings(), Ids{"killed_rank"});
      continue;
    }
    ASSERT_EQ(run.findings().front(), "missing_rank");
    EXPECT_EQ(run.text("SELECT confidence FROM finding WHERE position = 1"), look_s == 60 ? "sure" : "likely");
    const std::string evidence = run.text("SELECT evidence FROM finding WHERE position = 1");
    EXPECT_EQ(has(evidence, "58.4 s before ddl record last saw the job"), look_s == 60) << evidence;
  }
}

// Without steps the numbers are of the run, but what ranks spend in a call that never returned is in none of them.
TEST(Findings, ARunThatEndsInCallsWithoutReturnHasNoVerdict) {
  for (const int64_t end_ns : {0, 11, 600}) {
    Tables run(2);
    for (int64_t seq = 1; seq <= 3; ++seq) run.allreduce(seq, {seq * 100_ms, seq * 100_ms}, 1_ms, 1000);
    run.exec("UPDATE process SET init_ns = 1, end_ns = 400000000, ended = 'lost'");
    run.open_call(0, "MPI_Allreduce", 1, 4, 400_ms);
    run.meta("epoch_realtime_ns", "1700000000000000000");
    if (end_ns > 0) run.meta("ended_realtime_ns", std::to_string(1'700'000'000'400'000'000 + end_ns * 1'000'000));
    run.analyze();
    EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'verdict'"), end_ns == 11 ? "compute" : "withheld")
        << end_ns;
    const std::string text = run.text("SELECT value FROM meta WHERE key = 'verdict.text'");
    if (end_ns == 0) {
      EXPECT_EQ(text, "withheld: a rank sat in a call that never returned, and nobody saw for how long");
    }
    if (end_ns == 600) {
      EXPECT_TRUE(has(text, "% of all ranks' time, which is in no number")) << text;
    }
  }
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
      evidence,
      "ranks 0 and 1 sit in MPI_Wait for number 4 on MPI_COMM_WORLD, which all its members had entered: one of them died there"))
      << evidence;
}

// A monitored_barrier of PyTorch has a bit in its number that keeps it apart from the collectives of Gloo.
TEST(Findings, ABarrierThatPyTorchTellsOfHasTheNumberThatPeopleCount) {
  Tables run = hung(3);
  run.exec(fmt::format("UPDATE open_call SET seq = {}", (int64_t{1} << 30) + 11));
  saw_it_end(run, run.integer("SELECT max(end_ns) FROM process") + 60_s);
  run.meta("told_to_end", "15");
  run.meta("exit_code", "143");
  run.analyze();
  EXPECT_EQ(first_sentence(run),
            "rank 1 never entered MPI_Allreduce number 11 on MPI_COMM_WORLD: ranks 0 and 2 sit in MPI_Allreduce");
}

// torch.distributed with a timeout: the calls returned, as errors that ended ranks 0 and 1; mpirun ended rank 2.
TEST(Findings, CallsThatATimeoutEndedAreStillWhatTheJobHungIn) {
  for (const int64_t exit_code : {1, 0}) {
    Tables run = training(3, 30, 1_ms, [](int64_t, int64_t) { return 10_ms; });
    const int64_t begin_ns = run.integer("SELECT max(end_ns) FROM process") + 1_ms;
    for (int64_t rank = 0; rank < 2; ++rank) {
      run.add({.rank = rank,
               .op = "MPI_Recv",
               .enter_ns = begin_ns,
               .leave_ns = begin_ns + 8_s + rank * 1_ms,
               .peer = 1 - rank,
               .tag = 0});
      run.ended(rank, "exited", begin_ns + 10_s);
    }
    run.open_call(2, "MPI_Allreduce", 1, 31, begin_ns);
    run.ended(2, "lost", begin_ns);
    saw_it_end(run, begin_ns + 12_s);
    run.meta("exit_code", std::to_string(exit_code));
    run.analyze();
    ASSERT_EQ(run.findings().front(), "missing_rank");
    if (exit_code == 0) {  // nothing failed: a wait that long may be the program's own
      EXPECT_TRUE(first_sentence(run).starts_with("ranks 0 and 1 never entered")) << first_sentence(run);
      continue;
    }
    EXPECT_EQ(
        first_sentence(run),
        "ranks 0 and 1 wait for each other: rank 0 in MPI_Recv with rank 1 on MPI_COMM_WORLD since 1.33 s until it gave up at 9.33 s, "
        "rank 1 in MPI_Recv with rank 0 on MPI_COMM_WORLD since 1.33 s until it gave up at 9.33 s");
    EXPECT_TRUE(has(run.text("SELECT evidence FROM finding WHERE position = 1"), "8.00 s before it was given up"));
  }
}

TEST(Findings, ACollectiveThatATimeoutEnded) {
  Tables run = training(3, 30, 1_ms, [](int64_t, int64_t) { return 10_ms; });
  const int64_t begin_ns = run.integer("SELECT max(end_ns) FROM process") + 1_ms;
  for (const int64_t rank : {0, 2}) {
    run.add({.rank = rank,
             .op = "MPI_Allreduce",
             .enter_ns = begin_ns,
             .leave_ns = begin_ns + 8_s,
             .bytes = 1_MB,
             .seq = 31});
    run.ended(rank, "exited", begin_ns + 9_s);
  }
  run.ended(1, "lost", begin_ns);
  saw_it_end(run, begin_ns + 10_s);
  run.meta("exit_code", "1");
  run.analyze();
  ASSERT_EQ(run.findings().front(), "missing_rank");
  EXPECT_EQ(first_sentence(run),
            "rank 1 never entered MPI_Allreduce number 31 on MPI_COMM_WORLD: ranks 0 and 2 sit in MPI_Allreduce");
}

/// What SQLite does, in 100 instructions of its virtual machine, for the finders of runs that went wrong: of a job of
/// which rank 1 never came, or of which the others gave up.
int64_t work_to_find_hang(int64_t ranks, bool given_up) {
  Tables run = training(ranks, 2, 5_ms, [](int64_t, int64_t) { return 50_ms; });
  const int64_t begin_ns = run.integer("SELECT max(end_ns) FROM process") + 1_ms;
  run.exec("BEGIN");
  for (int64_t rank = 0; rank < ranks; ++rank) {
    run.ended(rank, given_up && rank != 1 ? "exited" : "lost", given_up && rank != 1 ? begin_ns + 9_s : begin_ns);
    if (rank == 1) continue;
    if (given_up)
      run.add({.rank = rank, .enter_ns = begin_ns, .leave_ns = begin_ns + 8_s, .bytes = 1_MB, .seq = 3});
    else
      run.open_call(rank, "MPI_Allreduce", 1, 3, begin_ns);
  }
  run.exec("COMMIT");
  saw_it_end(run, begin_ns + 60_s);
  run.meta("exit_code", "1");
  store::create_indices(run.db());
  run.analyze();
  const Catalog catalog(run.db());
  InputRanges inputs(run.db());
  SharedAnswers shared;
  const FindingInput input{run.db(), catalog, 0, {}, 0, false, shared, inputs};
  int64_t work = 0;
  const auto count = [](void* sum) { return ++*static_cast<int64_t*>(sum), 0; };
  sqlite3_progress_handler(run.db().getHandle(), 100, count, &work);
  for (const FindingRow& row : finding_rows()) {
    if (row.kind != FindingKind::kStuck && row.kind != FindingKind::kMismatched && row.kind != FindingKind::kEnded)
      continue;
    const std::vector<Finding> found = row.find(input);
    EXPECT_EQ(found.empty(), row.kind == FindingKind::kMismatched) << row.id;
  }
  sqlite3_progress_handler(run.db().getHandle(), 0, nullptr, nullptr);
  return work;
}

// All wait for the same one: 4 times the ranks are 4 times the work, not the square.
TEST(Findings, AHangOfManyRanksIsFoundWithWorkInProportionToThem) {
  for (const bool given_up : {false, true}) {
    const int64_t few = work_to_find_hang(256, given_up);
    EXPECT_GT(few, 100);
    EXPECT_LT(work_to_find_hang(1024, given_up), 5 * few);
  }
}

// What the launcher's exit code and the end of the recording tell is of the last world.
TEST(Findings, AWorldThatAnotherOneFollowsDidNotHangToTheEndOfTheRecording) {
  Tables run = hung(4);
  const int64_t end_ns = run.integer("SELECT max(end_ns) FROM process");
  saw_it_end(run, end_ns + 60_s);
  run.meta("exit_code", "0");
  start_again(run, end_ns + 2_s);
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"killed_rank"});
  EXPECT_EQ(run.text("SELECT sentence FROM finding"),
            "all 4 ranks were killed, crashed or left by _exit; rank 1 stopped first, at 1.55 s in step 9");
}

// Nothing but the watch of `ddl record --stall` sees a process live that records nothing.
TEST(Findings, AWorldThatAnotherOneFollowsHungIfTheWatchSawItAlive) {
  for (const char* state : {"sleeps", "gone", ""}) {
    Tables run = hung(4);
    const int64_t end_ns = run.integer("SELECT max(end_ns) FROM process");
    saw_it_end(run, end_ns + 900_s);
    start_again(run, end_ns + 600_s);
    run.exec("INSERT INTO stall VALUES (1, 0, 'stall', " + std::to_string(end_ns + 300_s) + ", " +
             std::to_string(end_ns) + ", 300000000000, NULL, 'no rank has finished a call', NULL, NULL)");
    run.exec("INSERT INTO stall_rank VALUES (1, 0, 1, 'waiting', 'MPI_Allreduce', " +
             (*state == '\0' ? "NULL" : "'" + std::string(state) + "'") + ", NULL, NULL, NULL)");
    run.analyze();
    if (state != std::string("sleeps")) {  // gone, or on another host
      EXPECT_EQ(run.findings(), Ids{"killed_rank"}) << state;
      continue;
    }
    ASSERT_EQ(run.findings(), (Ids{"missing_rank", "killed_rank"}));
    EXPECT_EQ(run.text("SELECT sentence FROM finding WHERE position = 1"),
              "rank 1 never entered MPI_Allreduce number 11 on MPI_COMM_WORLD: ranks 0, 2 and 3 sit in MPI_Allreduce");
    EXPECT_EQ(run.text("SELECT confidence FROM finding WHERE position = 1"), "sure");
    const std::string evidence = run.text("SELECT evidence FROM finding WHERE position = 1");
    EXPECT_TRUE(has(evidence, ", 300 s before ddl record told of the stall")) << evidence;
    EXPECT_EQ(
        run.text("SELECT sentence FROM finding WHERE position = 2"),
        "all 4 ranks were killed, crashed or left by _exit, after a stall: rank 1 stood still first, at 1.55 s in step 9");
  }
}

TEST(Findings, WhetherAWorldHungUntilTheNextStartIsSaidNotToBeKnown) {
  Tables soon = hung(4), late = hung(4);
  const int64_t end_ns = soon.integer("SELECT max(end_ns) FROM process");
  start_again(soon, end_ns + 2_s);
  start_again(late, end_ns + 600_s);
  for (Tables* run : {&soon, &late}) {
    run->analyze();
    EXPECT_EQ(run->findings(), Ids{"killed_rank"});
    const std::string evidence = run->text("SELECT evidence FROM finding");
    EXPECT_EQ(has(evidence,
                  "The next start came 600 s after its last sign of life: whether it hung until then is not recorded"),
              run == &late)
        << evidence;
  }
}

TEST(Findings, AWorldBesideAnotherOneMayHangToTheEnd) {
  Tables run = hung(4);
  const int64_t end_ns = run.integer("SELECT max(end_ns) FROM process");
  saw_it_end(run, end_ns + 60_s);
  start_again(run, end_ns - 100_ms);
  run.analyze();
  EXPECT_EQ(run.findings().front(), "missing_rank");
  EXPECT_EQ(run.text("SELECT confidence FROM finding WHERE position = 1"), "sure");
}

}  // namespace
}  // namespace ddl::test
