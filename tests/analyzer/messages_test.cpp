// Messages by hand: who goes with whom, who waits for whom how long, and what is not known.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "analyzer/verdict.h"
#include "store/ingest/run_facts.h"
#include "tests/analyzer/message_rows.h"
#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

using Numbers = std::vector<int64_t>;

/// Columns of all messages, those sent first first.
Numbers messages(Tables& run, const std::string& column) {
  return run.integers("SELECT " + column + " FROM v_message ORDER BY send_ns, receive_ns");
}
int64_t unmatched(Tables& run) {
  return run.integer("SELECT coalesce(sum(count), 0) FROM loss WHERE kind = 'unmatched_messages'");
}
std::string reasons(Tables& run) { return run.text("SELECT coalesce(group_concat(DISTINCT why), '') FROM v_message"); }
int64_t known(Tables& run) {
  return run.integer(
      "SELECT count(*) FROM v_message WHERE late_sender_wait_ns IS NOT NULL AND late_receiver_wait_ns IS NOT NULL");
}

// --------------------------------------------------------------------------------------------------------- definitions

TEST(Messages, LateSender) {
  Tables run(2);
  RankRows(run, 0).call("MPI_Send", 1, 7, 30, 35).call("MPI_Send", 1, 7, 60, 65);
  RankRows(run, 1).call("MPI_Recv", 0, 7, 10, 40).call("MPI_Recv", 0, 7, 80, 90);
  run.analyze();
  EXPECT_EQ(messages(run, "late_sender_wait_ns"), (Numbers{20, 0}));
  EXPECT_EQ(messages(run, "late_receiver_wait_ns"), (Numbers{0, 0}));
  EXPECT_EQ(messages(run, "receive_ns"), (Numbers{10, 80}));
  EXPECT_EQ(messages(run, "source"), (Numbers{0, 0}));
  EXPECT_EQ(messages(run, "destination"), (Numbers{1, 1}));
  EXPECT_EQ(messages(run, "bytes"), (Numbers{100, 100}));
  EXPECT_EQ(messages(run, "tag"), (Numbers{7, 7}));
  EXPECT_EQ(
      run.integers(
          "SELECT late FROM message_blame WHERE waiter = 1 AND kind = 'late_sender' AND calls = 1 AND wait_ns = 20"),
      Numbers{0});
  EXPECT_EQ(run.integer("SELECT count(*) FROM message_blame"), 1);
  EXPECT_EQ(unmatched(run), 0);
}

TEST(Messages, LateReceiver) {
  Tables run(2);
  RankRows(run, 0)
      .call("MPI_Ssend", 1, 7, 10, 60)     // the receive is posted at 40: waits for 30
      .call("MPI_Ssend", 1, 7, 100, 160)   // it was posted before
      .call("MPI_Send", 1, 7, 200, 210)    // eager: over before the receive is posted
      .call("MPI_Bsend", 1, 7, 300, 340);  // complete without the receiver, by definition
  RankRows(run, 1)
      .call("MPI_Recv", 0, 7, 40, 60)
      .call("MPI_Recv", 0, 7, 70, 160)
      .call("MPI_Recv", 0, 7, 220, 230)
      .call("MPI_Recv", 0, 7, 320, 340);
  run.analyze();
  EXPECT_EQ(messages(run, "late_receiver_wait_ns"), (Numbers{30, 0, 0, 0}));
  EXPECT_EQ(messages(run, "late_sender_wait_ns"), (Numbers{0, 30, 0, 0}));
  EXPECT_EQ(run.integers("SELECT wait_ns FROM message_blame WHERE late = 1 AND waiter = 0 AND kind = 'late_receiver'"),
            Numbers{30});
  EXPECT_EQ(run.integer("SELECT late_receiver_wait_ns FROM v_message_part WHERE rank = 0"), 30);
  EXPECT_EQ(run.integer("SELECT call_ns FROM v_message_part WHERE rank = 0"), 50 + 60 + 10 + 40);
}

TEST(Messages, ARequestWaitsInTheCallThatCompletesIt) {
  Tables run(2);
  RankRows(run, 0)
      .call("MPI_Send", 1, 1, 50, 55)
      .call("MPI_Send", 1, 2, 160, 165)
      .post("MPI_Isend", 1, 3, 200, 290)
      .wait(250, 290, "MPI_Wait");
  RankRows(run, 1)
      .post("MPI_Irecv", 0, 1, 10, 110)
      .wait(100, 110, "MPI_Wait")  // sent long before
      .post("MPI_Irecv", 0, 2, 120, 170)
      .wait(140, 170, "MPI_Wait")         // 20 too early
      .call("MPI_Recv", 0, 3, 270, 290);  // the sender waits for it from 250 on
  run.analyze();
  EXPECT_EQ(messages(run, "late_sender_wait_ns"), (Numbers{0, 20, 0}));
  EXPECT_EQ(messages(run, "late_receiver_wait_ns"), (Numbers{0, 0, 20}));
  EXPECT_EQ(
      run.integer(
          "SELECT o.id = e.op FROM message m JOIN event e ON e.id = m.receive_call JOIN op o ON o.name = 'MPI_Wait'"
          " WHERE late_sender_wait_ns = 20"),
      1);
}

TEST(Messages, OfManyInOneCallTheLongestWaitCounts) {
  Tables run(4);
  for (const int64_t from : {1, 2, 3}) RankRows(run, from).call("MPI_Send", 0, 7, 100 + 10 * from, 100 + 10 * from + 1);
  RankRows(run, 0)
      .post("MPI_Irecv", 1, 7, 10, 200)
      .post("MPI_Irecv", 2, 7, 20, 200)
      .post("MPI_Irecv", 3, 7, 30, 200)
      .wait(105, 200);
  run.analyze();
  EXPECT_EQ(messages(run, "late_sender_wait_ns"), (Numbers{0, 0, 25}));
  EXPECT_EQ(run.integer("SELECT sum(wait_ns) FROM message_blame"), 25);
  EXPECT_EQ(run.integer("SELECT late FROM message_blame"), 3);
}

TEST(Messages, OfSendersAndReceiversInOneCallTheLongestWaitCounts) {
  Tables run(3);
  // Rank 0 exchanges with both others. Rank 2 sends 2 late, rank 1 comes 130 later than rank 0 asks: that is what
  // the call stays for.
  RankRows(run, 0).post("MPI_Irecv", 2, 7, 10, 300).post("MPI_Isend", 1, 7, 12, 300).wait(20, 300);
  RankRows(run, 1).post("MPI_Irecv", 0, 7, 150, 300).wait(160, 300);
  RankRows(run, 2).call("MPI_Send", 0, 7, 22, 24);
  run.analyze();
  EXPECT_EQ(messages(run, "late_sender_wait_ns"), (Numbers{0, 0}));
  EXPECT_EQ(messages(run, "late_receiver_wait_ns"), (Numbers{130, 0}));
  EXPECT_EQ(run.integer("SELECT late_sender_wait_ns FROM v_message_part WHERE rank = 0"), 0);
  EXPECT_EQ(run.integer("SELECT late_receiver_wait_ns FROM v_message_part WHERE rank = 0"), 130);
  EXPECT_EQ(run.text("SELECT group_concat(late || kind || wait_ns) FROM message_blame"), "1late_receiver130");
}

TEST(Messages, ALateSenderCountsBeforeALateReceiverThatIsAsLate) {
  Tables run(3);
  // The first to be told is what the call sends.
  RankRows(run, 0).post("MPI_Isend", 1, 7, 10, 300).post("MPI_Irecv", 2, 7, 12, 300).wait(20, 300);
  RankRows(run, 1).post("MPI_Irecv", 0, 7, 112, 300).wait(160, 300);
  RankRows(run, 2).call("MPI_Send", 0, 7, 112, 300);
  run.analyze();
  EXPECT_EQ(run.text("SELECT group_concat(late || kind || wait_ns) FROM message_blame"), "2late_sender92");
}

TEST(Messages, TestingIsNotWaiting) {
  Tables run(2);
  RankRows(run, 0).call("MPI_Send", 1, 7, 100, 105);
  RankRows(run, 1).post("MPI_Irecv", 0, 7, 10, 120).wait(50, 120, "MPI_Test");
  run.analyze();
  EXPECT_EQ(messages(run, "late_sender_wait_ns"), Numbers{0});
  EXPECT_EQ(run.integer("SELECT count(*) FROM message WHERE receive_call IS NULL"), 1);
}

TEST(Messages, ExchangesSendAndReceive) {
  Tables run(3);
  for (const int64_t rank : {0, 1, 2})
    RankRows(run, rank).exchange((rank + 1) % 3, 7, (rank + 2) % 3, 7, 10 + 20 * rank, 100);
  run.analyze();
  EXPECT_EQ(known(run), 3);
  EXPECT_EQ(messages(run, "source"), (Numbers{0, 1, 2}));
  EXPECT_EQ(messages(run, "destination"), (Numbers{1, 2, 0}));
  EXPECT_EQ(messages(run, "late_sender_wait_ns"), (Numbers{0, 0, 40}));  // rank 0 waits for rank 2
  // Ranks 0 and 1 stay until 100, but what they send is taken late as well: rank 0 waits longer for its sender.
  EXPECT_EQ(messages(run, "late_receiver_wait_ns"), (Numbers{0, 20, 0}));
}

TEST(Messages, AProbeWaitsForTheMessageThatTheNextReceiveTakes) {
  Tables run(2);
  RankRows(run, 0).call("MPI_Send", 1, 7, 50, 51).call("MPI_Send", 1, 7, 130, 131).call("MPI_Send", 1, 7, 250, 251);
  RankRows(run, 1)
      .call("MPI_Probe", 0, 7, 10, 60)
      .call("MPI_Probe", 0, 7, 62, 63)  // finds the same message
      .call("MPI_Recv", 0, 7, 70, 80)
      .call("MPI_Recv", 0, 7, 100, 140)
      .call("MPI_Mprobe", 0, 7, 200, 260)
      .call("MPI_Mrecv", 0, 7, 270, 280);
  run.analyze();
  EXPECT_EQ(messages(run, "late_sender_wait_ns"), (Numbers{40, 30, 50}));
  EXPECT_EQ(run.integer("SELECT sum(late_sender_wait_ns) FROM v_message_part"), 120);
  EXPECT_EQ(
      run.text(
          "SELECT group_concat(o.name) FROM (SELECT receive_call AS call FROM message ORDER BY send) JOIN event e ON e.id = call"
          " JOIN op o ON o.id = e.op"),
      "MPI_Probe,MPI_Recv,MPI_Mprobe");
  EXPECT_EQ(unmatched(run), 0);
}

// -------------------------------------------------------------------------------------------------- who goes with whom

TEST(Messages, DoNotOvertakeWithinAChannel) {
  Tables run(2);
  RankRows(run, 0).call("MPI_Send", 1, 1, 10, 11).call("MPI_Send", 1, 2, 20, 21).call("MPI_Send", 1, 1, 30, 31);
  RankRows(run, 1).call("MPI_Recv", 0, 2, 40, 41).call("MPI_Recv", 0, 1, 50, 51).call("MPI_Recv", 0, 1, 60, 61);
  run.analyze();
  EXPECT_EQ(messages(run, "receive_ns"), (Numbers{50, 40, 60}));
}

TEST(Messages, WhatCountsIsTheOrderOfPosting) {
  Tables run(2);
  RankRows(run, 0)
      .post("MPI_Isend", 1, 7, 10, 90)
      .post("MPI_Isend", 1, 7, 20, 60)
      .wait(50, 60, "MPI_Wait")
      .wait(80, 90, "MPI_Wait");
  RankRows(run, 1)
      .post("MPI_Irecv", 0, 7, 30, 95)
      .post_any(0, 7, 35, 70)
      .wait(65, 70, "MPI_Waitany")
      .wait(92, 95, "MPI_Wait");
  run.analyze();
  EXPECT_EQ(messages(run, "receive_ns"), (Numbers{30, 35}));
  EXPECT_EQ(messages(run, "receive_end_ns"), (Numbers{95, 70}));
}

TEST(Messages, CommunicatorsHaveTheirOwnRanksAndOrder) {
  Tables run(4);
  const int64_t half = run.communicator("half", {3, 1});
  RankRows(run, 1).on(half).call("MPI_Send", 0, 7, 10, 11).on(1).call("MPI_Send", 3, 7, 20, 21);
  RankRows(run, 3).call("MPI_Recv", 1, 7, 30, 31).on(half).call("MPI_Recv", 1, 7, 40, 41);
  run.analyze();
  EXPECT_EQ(messages(run, "receive_ns"), (Numbers{40, 30}));
  EXPECT_EQ(messages(run, "source"), (Numbers{1, 1}));
  EXPECT_EQ(messages(run, "destination"), (Numbers{3, 3}));
}

TEST(Messages, ToOneself) {
  Tables run(2);
  run.exec("INSERT INTO communicator (id, world, uid, label, size, kind) VALUES (2, 0, 2, 'MPI_COMM_SELF', 1, 'self')");
  for (const int64_t rank : {0, 1}) {
    RankRows(run, rank)
        .on(2)
        .post("MPI_Irecv", 0, 7, 10 + rank, 50)
        .call("MPI_Send", 0, 7, 20 + rank, 21 + rank)
        .wait(40, 50);
  }
  run.analyze();
  EXPECT_EQ(messages(run, "source"), (Numbers{0, 1}));
  EXPECT_EQ(messages(run, "destination"), (Numbers{0, 1}));
  EXPECT_EQ(known(run), 2);
}

TEST(Messages, NobodyIsNoMessage) {
  Tables run(2);
  RankRows(run, 0)
      .call("MPI_Send", -1, 7, 10, 11)
      .call("MPI_Recv", -1, -1, 20, 21)
      .post("MPI_Isend", -1, 7, 30, 31)
      .post("MPI_Irecv", -1, -1, 40, 41)
      .exchange(-1, 7, -1, -1, 50, 51)
      .exchange(1, 7, -1, -1, 60, 61);
  RankRows(run, 1).call("MPI_Recv", 0, 7, 55, 65);
  run.analyze();
  EXPECT_EQ(messages(run, "late_sender_wait_ns"), Numbers{5});
  EXPECT_EQ(unmatched(run), 0);
}

TEST(Messages, PersistentRequestsSendWhatWasStarted) {
  Tables run(2);
  RankRows(run, 0)
      .call("MPI_Send_init", 1, 7, 1, 2)
      .started("MPI_Send_init", 1, 7, 50, 80)
      .wait(60, 80)
      .started("MPI_Send_init", 1, 7, 150, 180)
      .wait(160, 180);
  RankRows(run, 1)
      .call("MPI_Recv_init", 0, 7, 1, 2)
      .started("MPI_Recv_init", 0, 7, 20, 80)
      .wait(30, 80)
      .call("MPI_Recv", 0, 7, 100, 180);
  run.analyze();
  EXPECT_EQ(messages(run, "receive_ns"), (Numbers{20, 100}));
  EXPECT_EQ(messages(run, "late_sender_wait_ns"), (Numbers{20, 50}));
}

// --------------------------------------------------------------------------------------------------- what is not known

TEST(Messages, NothingIsPairedWhereEventsAreMissing) {
  Tables run(3);
  RankRows(run, 0).call("MPI_Send", 1, 7, 30, 35).call("MPI_Send", 2, 7, 40, 41);
  RankRows(run, 1).call("MPI_Recv", 0, 7, 10, 40);
  RankRows(run, 2).call("MPI_Recv", 0, 7, 10, 50);
  run.exec("UPDATE process SET keep_level = 1 WHERE rank = 1");
  run.analyze();
  EXPECT_EQ(known(run), 1);
  EXPECT_EQ(run.integer("SELECT late_sender_wait_ns FROM v_message WHERE destination = 2 AND why IS NULL"), 30);
  EXPECT_EQ(
      run.integer("SELECT count(*) FROM v_message WHERE why = 'PARTIAL_RANKS' AND destination = 1 AND source = 0"),
      2);  // each end alone
  EXPECT_EQ(unmatched(run), 2);
  EXPECT_EQ(run.integer("SELECT unsplit_ns FROM v_message_part WHERE rank = 1"), 30);
  EXPECT_EQ(run.integer("SELECT unmatched FROM v_message_part WHERE rank = 0"), 1);
}

TEST(Messages, OtherLossesThatHideMessages) {
  for (const char* kind : {"not_kept", "communicators", "threads", "torn_spool", "damaged_header", "pages",
                           "cannot_grow", "abandoned_calls", "undescribed"}) {
    Tables run(2);
    RankRows(run, 0).call("MPI_Send", 1, 7, 30, 35);
    RankRows(run, 1).call("MPI_Recv", 0, 7, 10, 40);
    run.exec(std::string("INSERT INTO loss VALUES (0, 0, '") + kind + "', 1, '')");
    run.analyze();
    EXPECT_EQ(known(run), 0) << kind;
  }
}

TEST(Messages, AMissingRankIsNotGuessed) {
  Tables run(3);
  RankRows(run, 0).call("MPI_Send", 1, 7, 30, 35).call("MPI_Recv", 1, 7, 40, 90);
  run.exec("DELETE FROM process WHERE rank = 1");
  run.analyze();
  EXPECT_EQ(unmatched(run), 2);
  EXPECT_EQ(reasons(run), "PARTIAL_RANKS");
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_message WHERE source = 1 AND destination = 0"), 1);
}

TEST(Messages, AnotherWorldIsNotApplicable) {
  Tables run(2);
  // Ranks 0 and 1 have spawned a job of two: of the other group only the size is known, or that it is not of this
  // world.
  run.exec(
      "INSERT INTO communicator (id, world, uid, label, size, kind)"
      " VALUES (2, 0, 2, 'parents', 2, 'inter'), (3, 0, 3, 'children', 4, 'inter');"
      "INSERT INTO communicator_member VALUES (2, 0, 0, 0), (2, 0, 1, 1), (3, 0, 0, NULL), (3, 0, 1, NULL), (3, 1, 0, 0), (3, 1, 1, 1)");
  RankRows(run, 0).on(2).call("MPI_Send", 1, 7, 30, 35).on(3).call("MPI_Send", 1, 7, 40, 45);
  RankRows(run, 1).on(2).call("MPI_Recv", 0, 7, 10, 40).on(3).call("MPI_Recv", 0, 7, 41, 50);
  run.analyze();
  EXPECT_EQ(reasons(run), "NOT_APPLICABLE");
  EXPECT_EQ(unmatched(run), 4);
}

TEST(Messages, PeersOnAnIntercommunicatorAreRanksOfTheOtherGroup) {
  Tables run(5);
  run.intercommunicator("between", {2, 0}, {1, 4, 3});
  RankRows(run, 2).on(2).call("MPI_Send", 0, 7, 30, 35);  // to rank 1
  RankRows(run, 1).on(2).call("MPI_Recv", 0, 7, 10, 40);  // from rank 2
  RankRows(run, 3).on(2).call("MPI_Send", 1, 7, 50, 55);  // to rank 0
  RankRows(run, 0).on(2).call("MPI_Recv", 2, 7, 45, 60);  // from rank 3
  RankRows(run, 4).on(2).call("MPI_Recv", 0, 7, 45, 60);  // nobody sends
  run.analyze();
  EXPECT_EQ(unmatched(run), 1);
  EXPECT_EQ(run.integer("SELECT late_sender_wait_ns FROM v_message WHERE source = 2 AND destination = 1"), 20);
  EXPECT_EQ(run.integer("SELECT late_sender_wait_ns FROM v_message WHERE source = 3 AND destination = 0"), 5);
  EXPECT_EQ(run.integer("SELECT count(*) FROM v_message WHERE source = 2 AND destination = 4 AND send IS NULL"), 1);
}

TEST(Messages, AnUnfinishedReceiveTakesItsTurn) {
  Tables run(2);
  RankRows(run, 0).call("MPI_Send", 1, 7, 10, 11).call("MPI_Send", 1, 7, 100, 101);
  RankRows(run, 1).post("MPI_Irecv", 0, 7, 20, -1).call("MPI_Recv", 0, 7, 60, 110);  // nobody ever asked for the first
  run.analyze();
  EXPECT_EQ(run.integer("SELECT send_ns FROM v_message WHERE receive_ns = 60"), 100);
  EXPECT_EQ(run.integer("SELECT late_sender_wait_ns FROM v_message WHERE receive_ns = 60"), 40);
  EXPECT_EQ(run.integer("SELECT late_sender_wait_ns IS NULL FROM v_message WHERE receive_ns = 20"), 1);
  // when it was posted is known
  EXPECT_EQ(run.integer("SELECT late_receiver_wait_ns FROM v_message WHERE receive_ns = 20"), 0);
}

TEST(Messages, AReceiveThatMayHaveBeenCancelledMakesTheRestUnknown) {
  Tables run(2);
  RankRows(run, 0).call("MPI_Send", 1, 7, 10, 11).call("MPI_Send", 1, 7, 100, 101).call("MPI_Send", 1, 7, 200, 201);
  RankRows(run, 1)
      .call("MPI_Recv", 0, 7, 15, 20)
      .post("MPI_Irecv", 0, 7, 30, -1)
      .call("MPI_Cancel", -1, -1, 40, 41)
      .call("MPI_Recv", 0, 7, 60, 110);
  run.analyze();
  EXPECT_EQ(known(run), 1);
  EXPECT_EQ(run.integer("SELECT receive_ns FROM v_message WHERE why IS NULL"), 15);
}

TEST(Messages, AWildcardThatNobodyAnsweredMakesTheRestUnknown) {
  Tables run(3);
  RankRows(run, 0).call("MPI_Send", 1, 7, 10, 11).call("MPI_Send", 1, 7, 100, 101);
  RankRows(run, 2).call("MPI_Send", 1, 7, 110, 111).call("MPI_Recv", 0, 9, 5, 6);
  RankRows(run, 1)
      .call("MPI_Recv", 0, 7, 15, 20)
      .post_any(-1, -1, 30, -1)
      .call("MPI_Recv", 0, 7, 60, 110)
      .call("MPI_Recv", 2, 7, 115, 120);
  run.analyze();
  EXPECT_EQ(known(run), 1);
  EXPECT_EQ(run.integer("SELECT receive_ns FROM v_message WHERE why IS NULL"), 15);
}

TEST(Messages, AnExchangeWithoutItsSecondHalfMakesTheRestUnknown) {
  Tables run(2);
  RankRows(run, 0).call("MPI_Send", 1, 7, 10, 11).call("MPI_Send", 1, 7, 100, 101).call("MPI_Recv", 1, 7, 200, 210);
  RankRows(run, 1).call("MPI_Recv", 0, 7, 15, 20).call("MPI_Sendrecv", 0, 7, 30, 40).call("MPI_Recv", 0, 7, 60, 110);
  run.analyze();
  EXPECT_EQ(known(run), 1);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_message WHERE send_op = 'MPI_Sendrecv' AND receive_ns = 200 AND late_sender_wait_ns = 0"),
      1);  // but what it sent is known
}

TEST(Messages, APostedExchangeWaitsForBothOfItsHalves) {
  Tables run(2);
  RankRows(run, 0).call("MPI_Recv", 1, 7, 10, 60).call("MPI_Send", 1, 8, 85, 86);
  RankRows(run, 1)
      .call("MPI_Isendrecv", 0, 7, 50, 51)
      .started("MPI_Isendrecv", 0, 8, 50, 90)
      .wait(80, 90);  // the request is the half that receives
  run.analyze();
  EXPECT_EQ(messages(run, "late_sender_wait_ns"), (Numbers{40, 5}));
  EXPECT_EQ(messages(run, "late_receiver_wait_ns"), (Numbers{0, 0}));
  EXPECT_EQ(messages(run, "tag"), (Numbers{7, 8}));
  EXPECT_EQ(unmatched(run), 0);
}

TEST(Messages, PersistentRequestsThatWereLostMakeTheirRankUnknown) {
  for (const char* op : {"MPI_Send_init", "MPI_Recv_init"}) {
    const bool sends = std::string(op) == "MPI_Send_init";
    Tables run(2);
    RankRows(run, 0).call(op, 1, 7, 1, 2).call("MPI_Send", 1, 7, 10, 11).call("MPI_Recv", 1, 7, 20, 30);
    RankRows(run, 1).call("MPI_Send", 0, 7, 10, 11).call("MPI_Recv", 0, 7, 20, 30);
    run.exec("INSERT INTO loss VALUES (0, 0, 'requests', 1, '')");
    run.analyze();
    EXPECT_EQ(run.integer("SELECT count(*) FROM v_message WHERE source = 0 AND why IS NULL"), sends ? 0 : 1) << op;
    EXPECT_EQ(run.integer("SELECT count(*) FROM v_message WHERE source = 1 AND why IS NULL"), sends ? 1 : 0) << op;
  }
}

TEST(Messages, ALostRequestAloneChangesNothing) {
  Tables run(2);
  RankRows(run, 0).post("MPI_Isend", 1, 7, 10, -1).call("MPI_Send", 1, 7, 20, 21);  // MPI_Request_free
  RankRows(run, 1).call("MPI_Recv", 0, 7, 30, 31).call("MPI_Recv", 0, 7, 40, 41);
  run.exec("INSERT INTO loss VALUES (0, 0, 'requests', 1, '')");
  run.analyze();
  EXPECT_EQ(known(run), 2);
  EXPECT_EQ(messages(run, "receive_ns"), (Numbers{30, 40}));
  EXPECT_EQ(messages(run, "late_receiver_wait_ns"), (Numbers{0, 0}));
  run.ended(0, "lost", 100);  // it may sit in the MPI_Wait for it
  run.analyze();
  EXPECT_EQ(run.integer("SELECT late_receiver_wait_ns IS NULL FROM v_message WHERE receive_ns = 30"), 1);
  EXPECT_EQ(run.integer("SELECT late_sender_wait_ns FROM v_message WHERE receive_ns = 30"), 0);
}

// Without MPI a process has nothing to finalize; with it, one that exits may have left a call early.
TEST(Messages, WhoHasNoMpiAndExitsHasNoCallOpen) {
  for (const bool mpi : {false, true}) {
    Tables run(2);
    RankRows(run, 0).post("MPI_Isend", 1, 7, 10, -1);
    RankRows(run, 1).call("MPI_Recv", 0, 7, 5, 31);
    for (int64_t rank = 0; rank < 2; ++rank) run.ended(rank, "exited", 100);
    if (!mpi) run.exec("UPDATE process SET init_ns = NULL");
    run.analyze();
    EXPECT_EQ(known(run), mpi ? 0 : 1);
    EXPECT_EQ(run.integer("SELECT late_sender_wait_ns FROM v_message"), 5);
    if (!mpi) {
      EXPECT_EQ(messages(run, "late_receiver_wait_ns"), Numbers{0});
    }
  }
}

TEST(Messages, ThreadsThatPostInOneChannelAtATimeHaveNoOrder) {
  for (const bool overlap : {true, false}) {
    Tables run(2);
    run.exec("INSERT INTO thread VALUES (2, 1, 77, NULL); UPDATE process SET thread_level = 'MPI_THREAD_MULTIPLE'");
    RankRows(run, 0).call("MPI_Send", 1, 7, 110, 111).call("MPI_Send", 1, 7, 120, 121).call("MPI_Send", 1, 8, 130, 131);
    RankRows(run, 1).call("MPI_Recv", 0, 7, 20, 115);
    RankRows(run, 1).by_thread(1).call("MPI_Recv", 0, 7, overlap ? 30 : 116, 125).call("MPI_Recv", 0, 8, 126, 135);
    run.analyze();
    EXPECT_EQ(known(run), overlap ? 1 : 3);
    EXPECT_EQ(reasons(run), overlap ? "NOT_APPLICABLE" : "");
  }
}

TEST(Messages, RequestsThatStartTogetherInOneChannelHaveNoOrder) {
  Tables run(2);
  RankRows(run, 0).call("MPI_Send", 1, 7, 110, 111).call("MPI_Send", 1, 7, 120, 121);
  RankRows(run, 1)
      .call("MPI_Recv_init", 0, 7, 1, 2)
      .started("MPI_Recv_init", 0, 7, 20, 130)
      .started("MPI_Recv_init", 0, 7, 20, 130)
      .wait(50, 130);
  run.analyze();
  EXPECT_EQ(reasons(run), "NOT_APPLICABLE");
  EXPECT_EQ(known(run), 0);
}

TEST(Messages, NothingIsReceivedBeforeItIsSent) {
  Tables run(2);
  // A receive before the first send: something is missing, though no loss says so. What follows may be shifted.
  RankRows(run, 0).call("MPI_Send", 1, 7, 1_ms, 1'000'010).call("MPI_Send", 1, 7, 2_ms, 2'000'010);
  RankRows(run, 1)
      .call("MPI_Recv", 0, 7, 10, 20)
      .call("MPI_Recv", 0, 7, 900'000, 1'000'100)
      .call("MPI_Recv", 0, 7, 1'900'000, 2'000'100);
  run.analyze();
  EXPECT_EQ(known(run), 0);
  EXPECT_EQ(reasons(run), "PARTIAL_RANKS");
}

TEST(Messages, TwoProcessesOfOneRankAreNotToldApart) {
  Tables run(2);
  RankRows(run, 0).call("MPI_Send", 1, 7, 30, 35);
  RankRows(run, 1).call("MPI_Recv", 0, 7, 10, 40);
  run.exec(
      "INSERT INTO process SELECT 9, world, rank, world_size, host, 99, start_ns, end_ns, init_ns, finalize_ns, ended, abort_code,"
      " thread_level, clock, keep_level, overhead_ns, exe, command, 't', 0 FROM process WHERE rank = 0");
  run.exec(
      "INSERT INTO event (id, process, thread, kind, op, comm, region, start_ns, duration_ns, bytes, peer, tag)"
      " SELECT 99, 9, 0, 1, op, 1, 0, 5, 2, 1, 1, 7 FROM event WHERE process = 1");
  run.exec(
      "INSERT INTO profile SELECT 9, op, comm, region, site, size_class, calls, bytes, time_ns, min_ns, max_ns, time_estimated, histogram "
      "FROM profile WHERE process = 1");
  run.analyze();
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM message WHERE send = 99 OR send IN (SELECT id FROM event WHERE process = 9) AND why IS NULL"),
      0);
}

// -------------------------------------------------------------------------------------------------------------- clocks

Tables two_hosts(std::optional<double> sigma_ns) {
  Tables run(4, 2);
  if (sigma_ns) run.exec("UPDATE host SET sigma_ns = iif(id = 1, 0, " + std::to_string(*sigma_ns) + ")");
  RankRows(run, 0).call("MPI_Send", 1, 7, 200'000, 200'010).call("MPI_Send", 2, 7, 300'000, 300'010);
  RankRows(run, 1).call("MPI_Recv", 0, 7, 100'000, 200'100);
  RankRows(run, 2).call("MPI_Recv", 0, 7, 100'000, 300'100);
  run.analyze();
  return run;
}

TEST(Messages, ClocksOfOneHostNeedNoTrust) {
  Tables run = two_hosts({});
  EXPECT_EQ(run.integers("SELECT late_sender_wait_ns FROM v_message WHERE destination = 1"), Numbers{100'000});
  EXPECT_EQ(run.integer("SELECT sigma_ns FROM v_message WHERE destination = 1"), 0);
  EXPECT_EQ(run.text("SELECT why FROM v_message WHERE destination = 2"), "CLOCK_UNTRUSTED");
  EXPECT_TRUE(run.is_null("SELECT sigma_ns FROM v_message WHERE destination = 2"));
  EXPECT_EQ(unmatched(run), 0);  // it is known whose message it is
  EXPECT_EQ(run.integer("SELECT unsplit_ns FROM v_message_part WHERE rank = 2"), 200'100);
}

TEST(Messages, AcrossHostsTheWaitMustBeLongAgainstTheError) {
  Tables precise = two_hosts(10'000);
  EXPECT_EQ(precise.integers("SELECT late_sender_wait_ns FROM v_message ORDER BY destination"),
            (Numbers{100'000, 200'000}));
  EXPECT_EQ(precise.integer("SELECT sigma_ns FROM v_message WHERE destination = 2"), 10'000);
  Tables vague = two_hosts(30'000);
  EXPECT_EQ(vague.text("SELECT why FROM v_message WHERE destination = 2"), "CLOCK_UNTRUSTED");
}

TEST(Messages, AcrossHostsWhatCannotBeIsClippedAndCounted) {
  Tables run(2, 2);
  run.exec("UPDATE host SET sigma_ns = 10");
  RankRows(run, 0).call("MPI_Send", 1, 7, 2'000, 2'010).call("MPI_Send", 1, 7, 100'000, 100'010);
  RankRows(run, 1).call("MPI_Recv", 0, 7, 1'000, 1'900).call("MPI_Recv", 0, 7, 50'000, 100'100);
  run.analyze();
  EXPECT_EQ(messages(run, "late_sender_wait_ns"), (Numbers{900, 50'000}));
  EXPECT_EQ(run.integer("SELECT count FROM loss WHERE kind = 'clock_violations'"), 1);
}

// ------------------------------------------------------------------------------------------------------------- metrics

TEST(Messages, Metrics) {
  Tables run(2);
  RankRows(run, 0).call("MPI_Send", 1, 7, 30, 35).call("MPI_Ssend", 1, 7, 50, 90);
  RankRows(run, 1).call("MPI_Recv", 0, 7, 10, 40).call("MPI_Recv", 0, 7, 75, 90);
  run.analyze();
  EXPECT_EQ(run.metric("late_sender"), 20);
  EXPECT_EQ(run.metric("late_receiver"), 25);
  EXPECT_NEAR(*run.metric("message_wait_share"), 45.0 / (5 + 40 + 30 + 15), 1e-12);
}

TEST(Messages, MetricsOfWhatIsNotKnown) {
  Tables none(2);
  none.allreduce(1, {0, 10}, 5, 100);
  none.analyze();
  Tables unknown = two_hosts({});
  unknown.exec("DELETE FROM event WHERE process = 2; DELETE FROM process WHERE rank = 1");
  unknown.analyze();
  for (const char* id : {"late_sender", "message_wait_share"}) {
    EXPECT_EQ(none.why(id), "NO_DATA") << id;
    EXPECT_FALSE(none.metric(id)) << id;
  }
  EXPECT_EQ(unknown.metric("late_sender"), std::nullopt);
  EXPECT_NE(unknown.why("late_sender"), "NO_DATA");
}

TEST(Messages, LoopsThatTestLeaveTheVerdictOpen) {
  Tables run(2);
  RankRows(run, 0).call("MPI_Send", 1, 7, 90_ms, 90'000'100);
  RankRows(run, 1).call("MPI_Iprobe", 0, 7, 20_ms, 90'000'200).call("MPI_Recv", 0, 7, 90'000'300, 90'000'400);
  for (const int64_t rank : {0, 1}) run.step(rank, 1, 0, 100_ms, rank == 0 ? 100 : 70'000'300);
  run.analyze();
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'verdict'"), "undecided");
  EXPECT_NE(run.text("SELECT value FROM meta WHERE key = 'verdict.text'").find("calls that only test"),
            std::string::npos);
}

// Rank 1 posts 40 ms after rank 0, which sleeps between its tests: nothing tells that from computing.
TEST(Messages, LoopsThatTestAndSleepLeaveTheVerdictOpen) {
  for (const bool loops : {true, false}) {
    Tables run(2);
    for (int64_t s = 0; s < 20; ++s) {
      const int64_t begin_ns = s * 100_ms;
      for (const int64_t rank : {0, 1}) {
        Row row;
        row.op = "MPI_Iallreduce";
        row.rank = rank;
        row.step = s;
        row.bytes = 1'000;
        row.enter_ns = begin_ns + (rank == 0 ? 40_ms : 80_ms);
        row.leave_ns = row.enter_ns + 10_us;
        run.add(row);
        row.leave_ns = begin_ns + 90_ms;
        row.request = true;
        row.seq = s + 1;
        run.add(row);
        row = {};
        row.op = "MPI_Test";
        row.rank = rank;
        row.comm = 0;
        row.step = s;
        row.enter_ns = begin_ns + 90_ms - 10_us;
        row.leave_ns = begin_ns + 90_ms;
        run.add(row);
        run.step(rank, s, begin_ns, begin_ns + 100_ms, 20_us);
      }
    }
    if (loops)
      run.exec("UPDATE profile SET calls = 20 * calls WHERE op IN (SELECT id FROM op WHERE name = 'MPI_Test')");
    run.analyze();
    EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'verdict'"), loops ? "undecided" : "compute");
    const std::string text = run.text("SELECT value FROM meta WHERE key = 'verdict.text'");
    EXPECT_EQ(text.find("up to 20.0% more may be waiting, in loops around calls that only test") != std::string::npos,
              loops)
        << text;
  }
}

/// Every other rank posts a receive, and tests for it in a loop until its neighbour has sent, 40 of 100 ms later.
Tables tested_messages(int64_t ranks) {
  Tables run(ranks);
  run.exec("BEGIN");
  for (int64_t s = 0; s < 10; ++s) {
    const int64_t begin_ns = s * 100_ms;
    for (int64_t rank = 0; rank < ranks; rank += 2) {
      RankRows(run, rank).in_step(s).call("MPI_Send", rank + 1, 7, begin_ns + 80_ms, begin_ns + 80_ms + 10_us);
      RankRows(run, rank + 1)
          .in_step(s)
          .post("MPI_Irecv", rank, 7, begin_ns + 40_ms, begin_ns + 90_ms)
          .wait(begin_ns + 90_ms - 10_us, begin_ns + 90_ms, "MPI_Test");
      for (const int64_t one : {rank, rank + 1}) run.step(one, s, begin_ns, begin_ns + 100_ms, 10_us);
    }
  }
  run.exec("COMMIT");
  run.exec("UPDATE profile SET calls = 20 * calls WHERE op IN (SELECT id FROM op WHERE name = 'MPI_Test')");
  store::create_indices(run.db());
  run.analyze();
  return run;
}

TEST(Messages, LoopsThatTestForMessagesLeaveTheVerdictOpen) {
  Tables run = tested_messages(4);
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'verdict'"), "undecided");
  const std::string text = run.text("SELECT value FROM meta WHERE key = 'verdict.text'");
  EXPECT_NE(text.find("up to 20.0% more may be waiting, in loops around calls that only test"), std::string::npos)
      << text;
}

// 4 times the ranks are 4 times the work, not the square.
TEST(Messages, LoopsThatTestAreLookedThroughWithWorkInProportionToTheRanks) {
  const auto work_of_verdict = [](int64_t ranks) {
    Tables run = tested_messages(ranks);
    int64_t work = 0;
    sqlite3_progress_handler(
        run.db().getHandle(), 100, [](void* sum) { return ++*static_cast<int64_t*>(sum), 0; }, &work);
    store_verdict(run.db(), 0, "");
    sqlite3_progress_handler(run.db().getHandle(), 0, nullptr, nullptr);
    return work;
  };
  const int64_t few = work_of_verdict(128);
  EXPECT_GT(few, 100);
  EXPECT_LT(work_of_verdict(512), 5 * few);
}

// --------------------------------------------------------------------------------------------------------------- steps

TEST(Messages, WaitingInMessagesIsWaitingOfTheStep) {
  Tables run(2);
  RankRows(run, 0).in_step(1).call("MPI_Send", 1, 7, 50_ms, 51_ms).call("MPI_Ssend", 1, 8, 60_ms, 90_ms);
  RankRows(run, 1)
      .in_step(1)
      .post("MPI_Irecv", 0, 7, 5_ms, 52_ms)
      .wait(20_ms, 52_ms)
      .call("MPI_Recv", 0, 8, 80_ms, 90_ms);
  run.step(0, 1, 0, 100_ms, 31_ms);
  run.step(1, 1, 0, 100_ms, 42_ms + 1);
  run.analyze();
  EXPECT_EQ(run.integers("SELECT wait_ns FROM v_step ORDER BY rank"), (Numbers{20_ms, 30_ms}));
  EXPECT_EQ(run.integers("SELECT exposed_ns FROM v_step ORDER BY rank"), (Numbers{31_ms, 42_ms + 1}));
  EXPECT_EQ(run.integers("SELECT xfer_ns FROM v_step ORDER BY rank"), (Numbers{11_ms, 12_ms + 1}));
  EXPECT_EQ(run.integers("SELECT wait_ns FROM rank_part ORDER BY process"), (Numbers{20_ms, 30_ms}));
}

/// Rank 1 receives from rank 0 for `known_ns` of which half is waiting, and from a rank without such a record, or
/// without any, for `unknown_ns`.
Tables partly_known(int64_t known_ns, int64_t unknown_ns, bool recorded) {
  Tables run(3);
  RankRows(run, 0).in_step(1).call("MPI_Send", 1, 7, 10_ms + known_ns / 2, 10_ms + known_ns / 2 + 1);
  RankRows(run, 1)
      .in_step(1)
      .call("MPI_Recv", 0, 7, 10_ms, 10_ms + known_ns)
      .call("MPI_Recv", 2, 7, 200_ms, 200_ms + unknown_ns);
  run.step(0, 1, 0, 300_ms, 1);
  run.step(1, 1, 0, 300_ms, known_ns + unknown_ns);
  if (!recorded) run.exec("DELETE FROM process WHERE rank = 2");
  run.analyze();
  return run;
}

TEST(Messages, AStepMostOfWhichIsKnownHasAWait) {
  Tables little = partly_known(99_ms, 1_ms, true);
  EXPECT_EQ(little.integer("SELECT wait_ns FROM v_step WHERE rank = 1"), 49'500'000);
  // what is not known counts as transfer
  EXPECT_EQ(little.integer("SELECT xfer_ns FROM v_step WHERE rank = 1"), 50'500'000);
  Tables more = partly_known(99_ms, 1'000'001, true);
  EXPECT_TRUE(more.is_null("SELECT wait_ns FROM v_step WHERE rank = 1"));
  EXPECT_TRUE(more.is_null("SELECT xfer_ns FROM v_step WHERE rank = 1"));
  EXPECT_EQ(more.text("SELECT why FROM step_part WHERE process = 2"), "PARTIAL_RANKS");
  EXPECT_EQ(more.integer("SELECT exposed_ns FROM v_step WHERE rank = 1"), 99_ms + 1'000'001);
  EXPECT_TRUE(more.is_null("SELECT wait_ns FROM rank_part WHERE process = 2"));
  EXPECT_EQ(more.integer("SELECT wait_ns FROM v_step WHERE rank = 0"), 0);
  // A rank that left no record at all: what others wait for it is not known, but at least 0.
  Tables bounded = partly_known(99_ms, 50_ms, false);
  EXPECT_EQ(bounded.integer("SELECT wait_ns FROM v_step WHERE rank = 1"), 49'500'000);
  EXPECT_EQ(bounded.text("SELECT why FROM step_part WHERE process = 2"), "PARTIAL_RANKS");
}

TEST(Messages, ACallThatNeverReturnedIsNotSplit) {
  Tables run(2);
  RankRows(run, 0).call("MPI_Send", 1, 7, 10_ms, 11_ms);
  RankRows(run, 1).call("MPI_Recv", 0, 7, 5_ms, 12_ms);
  run.open_call(1, "MPI_Recv", 1, {}, 20_ms);
  run.ended(1, "lost", 500_ms);
  run.analyze();
  EXPECT_TRUE(run.is_null("SELECT wait_ns FROM rank_part WHERE process = 2"));
  EXPECT_EQ(run.integer("SELECT exposed_ns FROM rank_part WHERE process = 2"), 487_ms);
}

TEST(Messages, WaitsOfThinnedRanksForRequestsAreNotKnown) {
  Tables run(2);
  RankRows(run, 0).in_step(1).call("MPI_Send", 1, 7, 10_ms, 11_ms);
  RankRows(run, 1).in_step(1).post("MPI_Irecv", 0, 7, 5_ms, -1).wait(20_ms, 60_ms);  // what it waited for was not kept
  for (const int64_t rank : {0, 1}) run.step(rank, 1, 0, 100_ms, rank == 0 ? 1_ms : 40_ms + 1);
  run.exec("UPDATE process SET keep_level = 1 WHERE rank = 1");
  run.analyze();
  EXPECT_TRUE(run.is_null("SELECT wait_ns FROM v_step WHERE rank = 1"));
}

}  // namespace
}  // namespace ddl::test
