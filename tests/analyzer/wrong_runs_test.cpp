// Runs that went wrong: which rank hung, which one was killed, which calls did not belong together.
#include <sqlite3.h>

#include <algorithm>

#include "analyzer/findings/finding.h"
#include "analyzer/findings/findings.h"
#include "analyzer/findings/shared.h"
#include "store/ingest/run_facts.h"
#include "tests/analyzer/findings_jobs.h"

namespace ddl::test {
namespace {

/// 10 allreduces; then all ranks but 1 enter the eleventh and stay, until everybody is killed.
Tables hung(int64_t ranks) {
  Tables run = training(ranks, 10, 5_ms, [](int64_t, int64_t) { return 50_ms; });
  const int64_t end_ns = run.integer("SELECT max(end_ns) FROM process");
  for (int64_t rank = 0; rank < ranks; ++rank) {
    if (rank != 1) run.open_call(rank, "MPI_Allreduce", 1, 11, end_ns + 50_ms, 10);
    // a waiting rank records nothing: no later sign of life
    run.ended(rank, "lost", rank == 1 ? end_ns : end_ns + 50_ms);
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

/// 30 steps of three ranks, then each sits in `op` for its peer (none: in the next allreduce) until the job is told
/// to end 60 s later.
struct LastCall {
  const char* op;
  int64_t peer;
};

Tables dead_locked(const std::vector<std::optional<LastCall>>& calls) {
  const auto ranks = static_cast<int64_t>(calls.size());
  Tables run = training(ranks, 30, 1_ms, [](int64_t, int64_t) { return 10_ms; });
  const int64_t end_ns = run.integer("SELECT max(end_ns) FROM process");
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const auto& call = calls[static_cast<size_t>(rank)];
    run.ended(rank, "lost", end_ns + (call && call->peer < 0 ? 0 : rank + 1) * 1_ms);
    if (call && call->peer < 0) continue;  // in no call
    run.open_call(rank, call ? call->op : "MPI_Allreduce", 1, call ? std::nullopt : std::optional<int64_t>(31),
                  end_ns + (rank + 1) * 1_ms);
    if (call)
      run.exec("UPDATE open_call SET peer = " + std::to_string(call->peer) +
               " WHERE process = " + std::to_string(rank + 1));
  }
  saw_it_end(run, end_ns + 60_s);
  run.meta("told_to_end", "15");
  run.meta("exit_code", "143");
  run.analyze();
  EXPECT_EQ(run.findings().front(), "missing_rank");
  return run;
}

std::string first_sentence(Tables& run) { return run.text("SELECT sentence FROM finding WHERE position = 1"); }

TEST(Findings, RanksThatReceiveFromEachOtherAreNamedAndNotWhoWaitsForThem) {
  for (const char* op : {"MPI_Recv", "MPI_Ssend", "MPI_Wait"}) {
    Tables run = dead_locked({LastCall{op, 1}, LastCall{op, 0}, std::nullopt});
    EXPECT_EQ(first_sentence(run), "ranks 0 and 1 wait for each other: rank 0 in " + std::string(op) +
                                       " with rank 1 on MPI_COMM_WORLD since 1.33 s, rank 1 in " + op +
                                       " with rank 0 on MPI_COMM_WORLD since 1.33 s");
    EXPECT_EQ(run.text("SELECT confidence FROM finding WHERE position = 1"), "sure");
    EXPECT_TRUE(run.is_null("SELECT rank FROM finding WHERE position = 1"));
    const std::string evidence = run.text("SELECT evidence FROM finding WHERE position = 1");
    EXPECT_TRUE(has(evidence, "60.0 s before the end of the run")) << evidence;
    EXPECT_TRUE(has(evidence, "Behind them rank 2 waits in MPI_Allreduce number 31 on MPI_COMM_WORLD.")) << evidence;
    run.exec("CREATE TEMP TABLE shown AS " + run.text("SELECT evidence_sql FROM finding WHERE position = 1"));
    EXPECT_EQ(run.integers("SELECT rank FROM temp.shown"), (std::vector<int64_t>{0, 1, 2}));
  }
}

TEST(Findings, TwoRanksInMessagesAloneAreADeadLockToo) {
  Tables run = dead_locked({LastCall{"MPI_Recv", 1}, LastCall{"MPI_Recv", 0}});
  EXPECT_TRUE(first_sentence(run).starts_with("ranks 0 and 1 wait for each other: rank 0 in MPI_Recv with rank 1"))
      << first_sentence(run);
}

TEST(Findings, AMessageThatNobodyReceivesOrSends) {
  Tables sent = dead_locked({LastCall{"MPI_Send", 1}, LastCall{"", -1}, std::nullopt});
  EXPECT_EQ(first_sentence(sent),
            "rank 1 never received what rank 0 sends: rank 0 in MPI_Send with rank 1 on MPI_COMM_WORLD since 1.33 s");
  EXPECT_EQ(sent.integer("SELECT rank FROM finding WHERE position = 1"), 1);
  EXPECT_TRUE(has(sent.text("SELECT evidence FROM finding WHERE position = 1"), "rank 1 (node1): it is in no call"))
      << "what it did last";
  Tables awaited = dead_locked({LastCall{"MPI_Recv", 1}, LastCall{"", -1}, std::nullopt});
  EXPECT_TRUE(first_sentence(awaited).starts_with("rank 1 never sent what rank 0 waits for: rank 0 in MPI_Recv"))
      << first_sentence(awaited);
  // Rank 1 went on to the next collective, for which it waits in vain as well.
  Tables passed = dead_locked({LastCall{"MPI_Send", 1}, std::nullopt, std::nullopt});
  EXPECT_EQ(
      first_sentence(passed),
      "ranks 0 and 1 wait for each other: rank 0 in MPI_Send with rank 1 on MPI_COMM_WORLD since 1.33 s, rank 1 in "
      "MPI_Allreduce number 31 on MPI_COMM_WORLD since 1.33 s");
}

/// Only the first request's peer is recorded, and it may have come.
TEST(Findings, AWaitForSeveralMessagesAccusesNobody) {
  Tables run = dead_locked({LastCall{"MPI_Waitall", 1}, LastCall{"MPI_Waitall", 0}, std::nullopt});
  EXPECT_TRUE(first_sentence(run).starts_with("ranks 0 and 1 never entered MPI_Allreduce number 31"))
      << first_sentence(run);
}

/// 30 steps of four ranks. Then each rank posts receives from its peers and sits in `op` until the job is told to end
/// 60 s later; those without peers are in no call. `sends`: from one rank to another, never received.
Tables waiting_for_several(const char* op, const std::vector<std::vector<int64_t>>& peers,
                           const std::vector<std::pair<int64_t, int64_t>>& sends = {}) {
  const auto ranks = static_cast<int64_t>(peers.size());
  Tables run = training(ranks, 30, 1_ms, [](int64_t, int64_t) { return 10_ms; });
  const int64_t end_ns = run.integer("SELECT max(end_ns) FROM process");
  for (const auto& [from, to] : sends)
    run.add({.rank = from,
             .op = "MPI_Isend",
             .enter_ns = end_ns + 1_us,
             .leave_ns = end_ns + 2_us,
             .bytes = 1_MB,
             .peer = to,
             .tag = 5});
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const auto& own = peers[static_cast<size_t>(rank)];
    run.ended(rank, "lost", end_ns + 1_ms);
    for (size_t i = 0; i < own.size(); ++i) {
      const int64_t at_ns = end_ns + static_cast<int64_t>(10 + i) * 1_us;
      run.add({.rank = rank,
               .op = "MPI_Irecv",
               .enter_ns = at_ns,
               .leave_ns = at_ns + 500,
               .bytes = 1_MB,
               .peer = own[i],
               .tag = 5});
    }
    if (own.empty()) continue;
    run.open_call(rank, op, 1, {}, end_ns + 1_ms);
    run.exec("UPDATE open_call SET peer = " + std::to_string(own.front()) +
             " WHERE process = " + std::to_string(rank + 1));
  }
  saw_it_end(run, end_ns + 60_s);
  run.meta("told_to_end", "15");
  run.meta("exit_code", "143");
  run.analyze();
  return run;
}

TEST(Findings, AWaitForSeveralMessagesAccusesThoseThatNeverSent) {
  for (const char* op : {"MPI_Waitall", "MPI_Waitany"}) {
    // Rank 1 sent what rank 0 waits for, rank 2 did not.
    Tables one = waiting_for_several(op, {{1, 2}, {}, {}}, {{1, 0}});
    EXPECT_EQ(first_sentence(one),
              "rank 2 never sent what rank 0 waits for: rank 0 in " + std::string(op) + " for rank 2 since 1.33 s");
    EXPECT_EQ(one.integer("SELECT rank FROM finding WHERE position = 1"), 2);
    // Neither did: which of them keeps it, nobody knows.
    Tables two = waiting_for_several(op, {{1, 2}, {}, {}, {}});
    EXPECT_EQ(first_sentence(two), "ranks 1 and 2 never sent what rank 0 waits for: rank 0 in " + std::string(op) +
                                       " for ranks 1 and 2 since 1.33 s");
    EXPECT_TRUE(two.is_null("SELECT rank FROM finding WHERE position = 1"));
    // Rank 1 waits itself, for rank 3.
    Tables chain = waiting_for_several(op, {{1}, {3}, {}, {}});
    EXPECT_TRUE(first_sentence(chain).starts_with("rank 3 never sent what rank 1 waits for")) << first_sentence(chain);
  }
  Tables circle = waiting_for_several("MPI_Waitall", {{1, 2}, {0, 2}, {}}, {{2, 0}, {2, 1}});
  EXPECT_EQ(
      first_sentence(circle),
      "ranks 0 and 1 wait for each other: rank 0 in MPI_Waitall for rank 1 since 1.33 s, rank 1 in MPI_Waitall for rank 0 since 1.33 s");
}

TEST(Findings, AWaitForSeveralMessagesThatWereSentAccusesNobody) {
  Tables run = waiting_for_several("MPI_Waitall", {{1, 2}, {}, {}}, {{1, 0}, {2, 0}});
  EXPECT_EQ(run.integer("SELECT count(*) FROM finding WHERE id = 'missing_rank'"), 0) << first_sentence(run);
  Tables persistent = waiting_for_several("MPI_Waitall", {{1}, {}, {}});
  EXPECT_EQ(persistent.integer("SELECT count(*) FROM finding WHERE id = 'missing_rank'"), 1);
  persistent.add({.rank = 1, .op = "MPI_Send_init", .enter_ns = 2_ms, .leave_ns = 3_ms, .peer = 0, .tag = 5});
  persistent.analyze();
  EXPECT_EQ(persistent.integer("SELECT count(*) FROM finding WHERE id = 'missing_rank'"), 0)
      << "started or not: no record tells";
}

/// Rank 0 posts sends of 8 MB to ranks 1 and 2 and sits in MPI_Waitall for them. Rank 1 received its own, rank 2 did what
/// `rank_2` adds, and both go on to the next collective unless `idle`.
Tables sending_to_several(const std::function<void(Tables&, int64_t)>& rank_2, bool idle) {
  Tables run = training(4, 30, 1_ms, [](int64_t, int64_t) { return 10_ms; });
  const int64_t end_ns = run.integer("SELECT max(end_ns) FROM process");
  for (int64_t to = 1; to <= 2; ++to)
    run.add({.rank = 0,
             .op = "MPI_Isend",
             .enter_ns = end_ns + to * 10_us,
             .leave_ns = end_ns + to * 10_us + 500,
             .bytes = 8_MB,
             .peer = to,
             .tag = 5});
  run.add(
      {.rank = 1, .op = "MPI_Recv", .enter_ns = end_ns, .leave_ns = end_ns + 1_ms, .bytes = 8_MB, .peer = 0, .tag = 5});
  rank_2(run, end_ns + 1_us);
  for (int64_t rank = 0; rank < 4; ++rank) run.ended(rank, "lost", end_ns + 2_ms);
  run.open_call(0, "MPI_Waitall", 1, {}, end_ns + 1_ms);
  run.exec("UPDATE open_call SET peer = 1");
  if (!idle) {
    for (int64_t rank = 1; rank < 4; ++rank) run.open_call(rank, "MPI_Allreduce", 1, 31, end_ns + 2_ms);
  }
  saw_it_end(run, end_ns + 60_s);
  run.meta("told_to_end", "15");
  run.meta("exit_code", "143");
  run.analyze();
  return run;
}

TEST(Findings, AWaitForSeveralMessagesNamesTheReceiverThatPostedNone) {
  Tables idle = sending_to_several([](Tables&, int64_t) {}, true);
  EXPECT_EQ(first_sentence(idle),
            "rank 2 never received what rank 0 sends: rank 0 in MPI_Waitall for rank 2 since 1.33 s");
  EXPECT_EQ(idle.integer("SELECT rank FROM finding WHERE position = 1"), 2);
  // It went on to the next collective.
  Tables passed = sending_to_several([](Tables&, int64_t) {}, false);
  EXPECT_EQ(first_sentence(passed),
            "ranks 0 and 2 wait for each other: rank 0 in MPI_Waitall for rank 2 since 1.33 s, rank 2 in MPI_Allreduce "
            "number 31 on MPI_COMM_WORLD since 1.33 s");
  // It posted one after all, or one from anybody; or MPI_Start may have.
  const auto post = [](const char* op, std::optional<int64_t> peer) {
    return [=](Tables& run, int64_t at_ns) {
      run.add({.rank = 2, .op = op, .enter_ns = at_ns, .leave_ns = at_ns + 500, .bytes = 0, .peer = peer, .tag = 5});
    };
  };
  for (const auto& doubt : {post("MPI_Irecv", std::nullopt), post("MPI_Irecv", 0), post("MPI_Recv_init", 0)}) {
    Tables run = sending_to_several(doubt, true);
    EXPECT_EQ(run.integer("SELECT count(*) FROM finding WHERE id = 'missing_rank'"), 0) << first_sentence(run);
  }
}

/// Rank 0 posts a receive from rank 1, if `posts`, and calls `op` in vain until the job is told to end 60 s later; the others
/// are in the next collective, rank 1 in no call.
Tables polling_for_ever(const char* op, bool posts) {
  Tables run = training(3, 30, 1_ms, [](int64_t, int64_t) { return 10_ms; });
  const int64_t end_ns = run.integer("SELECT max(end_ns) FROM process");
  if (posts)
    run.add({.rank = 0, .op = "MPI_Irecv", .enter_ns = end_ns + 1_us, .leave_ns = end_ns + 2_us, .peer = 1, .tag = 5});
  run.add({.rank = 0, .op = op, .enter_ns = 2_ms, .leave_ns = 2_ms + 1_us, .peer = 1, .tag = 4});
  run.exec("UPDATE profile SET calls = 9000 WHERE op = (SELECT id FROM op WHERE name = '" + std::string(op) + "')");
  for (int64_t rank = 0; rank < 3; ++rank) run.ended(rank, "lost", end_ns + (rank == 0 ? 59_s : 1_ms));
  run.open_call(2, "MPI_Allreduce", 1, 31, end_ns + 1_ms);
  saw_it_end(run, end_ns + 60_s);
  run.meta("told_to_end", "15");
  run.meta("exit_code", "143");
  run.analyze();
  return run;
}

TEST(Findings, ALoopOfTestsWaitsForTheRankThatNeverSent) {
  Tables run = polling_for_ever("MPI_Test", true);
  EXPECT_EQ(first_sentence(run),
            "rank 1 never sent what rank 0 waits for: rank 0 in a loop of MPI_Test for rank 1 since 1.33 s");
  EXPECT_TRUE(has(run.text("SELECT evidence FROM finding WHERE position = 1"),
                  "Behind them rank 2 waits in MPI_Allreduce number 31"));
}

TEST(Findings, ALoopOfProbesIsToldButNotForWhom) {
  Tables run = polling_for_ever("MPI_Iprobe", false);
  EXPECT_EQ(first_sentence(run),
            "ranks 0 and 1 never entered MPI_Allreduce number 31 on MPI_COMM_WORLD: rank 2 sits in MPI_Allreduce");
  const std::string evidence = run.text("SELECT evidence FROM finding WHERE position = 1");
  EXPECT_TRUE(
      has(evidence,
          "; since then it has polled in vain with MPI_Iprobe on MPI_COMM_WORLD (8999 calls); for whose message "
          "is not recorded"))
      << evidence;
  EXPECT_EQ(evidence.find("polled"), evidence.rfind("polled")) << "rank 1 has not: " << evidence;
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

// A pipeline that is killed has a message under way.
TEST(Findings, AMessageUnderWayWhenAJobIsKilledIsNoDeadLock) {
  Tables run = training(2, 30, 1_ms, [](int64_t, int64_t) { return 10_ms; });
  const int64_t end_ns = run.integer("SELECT max(end_ns) FROM process");
  for (const int64_t rank : {0, 1}) run.ended(rank, "lost", end_ns + 1_ms);
  run.open_call(0, "MPI_Recv", 1, {}, end_ns + 1_ms);
  run.exec("UPDATE open_call SET peer = 1");
  run.analyze();
  EXPECT_EQ(run.integer("SELECT count(*) FROM finding WHERE id = 'missing_rank'"), 0) << "nobody saw it end";
  saw_it_end(run, end_ns + 100_ms);
  run.analyze();
  EXPECT_EQ(run.integer("SELECT count(*) FROM finding WHERE id = 'missing_rank'"), 0) << "killed at once";
}

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

/// A script starts mpirun again when it has ended.
void start_again(Tables& run, int64_t begin_ns) {
  for (int64_t rank = 0; rank < run.ranks(); ++rank) {
    run.exec("INSERT INTO process SELECT id + " + std::to_string(run.ranks()) +
             ", 1, rank, world_size, host, pid + 1000, " + std::to_string(begin_ns) + ", " +
             std::to_string(begin_ns + 3'000'000'000) + ", " + std::to_string(begin_ns) +
             ", NULL, 'finalized', NULL, thread_level, clock, 0, 0, exe, command, 't', 0 FROM process WHERE rank = " +
             std::to_string(rank));
  }
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
