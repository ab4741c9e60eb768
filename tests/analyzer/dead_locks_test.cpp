// Ranks that wait for each other, and messages that nobody sends or receives.
#include "tests/analyzer/wrong_runs.h"

namespace ddl::test {
namespace {

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

/// Rank 0 posts sends of 8 MB to ranks 1 and 2 and sits in MPI_Waitall for them. Rank 1 received its own, rank 2 did
/// what `rank_2` adds, and both go on to the next collective unless `idle`.
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

/// Rank 0 posts a receive from rank 1, if `posts`, and calls `op` in vain until the job is told to end 60 s later; the
/// others are in the next collective, rank 1 in no call.
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

}  // namespace
}  // namespace ddl::test
