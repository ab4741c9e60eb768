// Virtual jobs that exchange messages, ingested and analyzed, against what the generator knows to be true of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/analyzer/analyzed.h"

namespace ddl::test {
namespace {

/// Every message whose two ends are over, to the nanosecond; nothing else. `left_out`: so many are not known for sure.
void expect_messages(Analyzed& run, size_t left_out = 0) {
  // comm, source, destination, tag, posted, posted
  using Key = std::tuple<std::string, int64_t, int64_t, int64_t, int64_t, int64_t>;
  using What = std::tuple<int64_t, int64_t, int64_t>;  // bytes, waits
  std::map<Key, What> expected, found;
  for (const MessageTruth& m : run.truth.messages) {
    if (!m.late_sender_wait_ns || !m.late_receiver_wait_ns) continue;
    expected[{m.comm, m.source, m.destination, m.tag, m.send_ns, m.receive_ns}] = {m.bytes, *m.late_sender_wait_ns,
                                                                                   *m.late_receiver_wait_ns};
  }
  SQLite::Statement rows(
      run.db,
      "SELECT comm, source, destination, tag, send_ns, receive_ns, bytes, late_sender_wait_ns, late_receiver_wait_ns FROM v_message"
      " WHERE why IS NULL");
  const auto at = [&](int column) { return rows.getColumn(column).getInt64(); };
  while (rows.executeStep())
    found[{rows.getColumn(0).getString(), at(1), at(2), at(3), at(4), at(5)}] = {at(6), at(7), at(8)};
  EXPECT_LE(expected.size(), found.size() + left_out);
  for (const auto& [key, what] : found) {
    const auto known = expected.find(key);
    ASSERT_NE(known, expected.end()) << std::get<1>(key) << " at " << std::get<4>(key) << " -> " << std::get<2>(key)
                                     << " at " << std::get<5>(key);
    EXPECT_EQ(what, known->second);
  }
}

/// What must hold in every run: parts add up, waits are told once, blame is all of the waiting.
void expect_sums(Analyzed& run) {
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM v_step WHERE compute_ns + exposed_ns + idle_ns <> duration_ns OR wait_ns + xfer_ns <> exposed_ns"),
      0);
  EXPECT_EQ(
      run.integer(
          "SELECT count(*) FROM rank_part WHERE compute_ns + exposed_ns + idle_ns <> duration_ns OR wait_ns + xfer_ns <> exposed_ns"),
      0);
  const int64_t waiting =
      run.integer("SELECT total(late_sender_wait_ns) + total(late_receiver_wait_ns) FROM message WHERE why IS NULL");
  EXPECT_EQ(run.integer("SELECT total(wait_ns) FROM message_blame"), waiting);
  EXPECT_EQ(run.integer("SELECT total(late_sender_wait_ns + late_receiver_wait_ns) FROM message_part"), waiting);
  EXPECT_EQ(
      run.integer("SELECT count(*) FROM message_part WHERE late_sender_wait_ns + late_receiver_wait_ns > call_ns"), 0);
}

SyntheticRun ring_job() { return run().ranks(4).steps(30).compute(29_ms).sendrecv_ring(64_KiB, 500_us); }
SyntheticRun halo_job() { return run().ranks(6).steps(30).compute(29_ms).halo(64_KiB, 500_us); }
SyntheticRun ring_by_rendezvous() {
  return run().ranks(4).steps(30).compute(29_ms).rendezvous().sendrecv_ring(64_KiB, 500_us);
}
SyntheticRun halo_by_rendezvous() { return run().ranks(6).steps(30).compute(29_ms).rendezvous().halo(64_KiB, 500_us); }
SyntheticRun pipeline_job() {
  SyntheticRun job = run().ranks(4).steps(30);
  for (int stage = 0; stage < 3; ++stage)
    job.on_rank(stage).compute(10_ms).message(stage, stage + 1, 1_MiB, 200_us, stage == 1);
  return job.on_rank(3).compute(10_ms).allreduce(8_B, 50_us);
}

/// Three stages, six micro-batches, one forward and one backward in turn (1F1B), 3 ms each; what is sent is never
/// waited for. Stage 1 has calls that nobody else has in that place of a step.
SyntheticRun unawaited_pipeline(int64_t slow_ns) {
  constexpr int kStages = 3, kBatches = 6;
  struct Action {
    enum { kCompute, kSend, kReceive } kind;
    int peer;
  };
  std::vector<std::vector<Action>> programs(kStages);
  for (int stage = 0; stage < kStages; ++stage) {
    std::vector<Action>& program = programs[static_cast<size_t>(stage)];
    const auto pass = [&](int from, int to) {
      if (from >= 0 && from < kStages) program.push_back({Action::kReceive, from});
      program.push_back({Action::kCompute, 0});
      if (to >= 0 && to < kStages) program.push_back({Action::kSend, to});
    };
    const int warm = std::min(kStages - stage - 1, kBatches);
    for (int i = 0; i < warm; ++i) pass(stage - 1, stage + 1);
    for (int i = 0; i < kBatches; ++i) {
      if (warm + i < kBatches) pass(stage - 1, stage + 1);
      pass(stage + 1, stage - 1);
    }
  }
  // In an order in which every message is sent before it is received.
  SyntheticRun job = run().ranks(kStages).steps(25).jitter(100_us);
  std::vector<size_t> at(kStages, 0);
  std::map<std::pair<int, int>, int> sent;
  for (bool any = true; any;) {
    any = false;
    for (int stage = 0; stage < kStages; ++stage) {
      const auto s = static_cast<size_t>(stage);
      for (; at[s] < programs[s].size(); ++at[s], any = true) {
        const Action& action = programs[s][at[s]];
        if (action.kind == Action::kReceive && sent[{action.peer, stage}]-- == 0) {
          sent[{action.peer, stage}] = 0;
          break;
        }
        if (action.kind == Action::kReceive) job.receive(action.peer, stage);
        if (action.kind == Action::kSend) job.isend(stage, action.peer, 64_KiB, 200_us), ++sent[{stage, action.peer}];
        if (action.kind == Action::kCompute) job.on_rank(stage).compute(stage == 1 ? 3_ms + slow_ns : 3_ms);
      }
    }
  }
  return job;
}

TEST(SyntheticMessages, Jobs) {
  for (const SyntheticRun& job :
       {ring_job(), ring_job().jitter(3_ms), ring_job().slow(1, 7_ms, 10), halo_job(), halo_job().jitter(3_ms),
        halo_job().ranks(2).jitter(1_ms), halo_job().slow(4, 7_ms), ring_by_rendezvous().jitter(3_ms),
        ring_by_rendezvous().slow(1, 7_ms, 10), halo_by_rendezvous().jitter(3_ms), halo_by_rendezvous().slow(4, 7_ms),
        unawaited_pipeline(0), pipeline_job().jitter(2_ms), pipeline_job().no_steps(),
        run().ranks(5).steps(9).jitter(1_ms).compute(3_ms).collect(2, 4_KiB, 100_us).barrier(),
        run().ranks(3).steps(9).jitter(2_ms).compute(3_ms).message(0, 2, 1_MiB, 1_ms, true).message(2, 1, 8_B, 10_us),
        run()
            .ranks(4)
            .steps(9)
            .jitter(2_ms)
            .split("row", 2)
            .compute(3_ms)
            .on_comm("row")
            .sendrecv_ring(1_KiB, 10_us)
            .compute(3_ms)
            .isendrecv_ring(8_B, 5_us)
            .compute(1_ms)
            .iallreduce(1_MiB, 800_us)
            .compute(300_us)
            .waitall()}) {
    Analyzed analyzed(job);
    expect_messages(analyzed);
    if (job.plan().annotated) expect_steps(analyzed);
    expect_sums(analyzed);
    EXPECT_EQ(analyzed.integer("SELECT count(*) FROM loss"), 0)
        << analyzed.text("SELECT group_concat(kind || ': ' || note) FROM loss");
  }
}

TEST(SyntheticMessages, NeighboursWaitForALateReceiverBesideASenderThatIsALittleLate) {
  // Rank 0 receives from rank 3, which jitters, and sends to rank 1, which comes 7 ms late: both neighbours wait for
  // that.
  Analyzed analyzed(ring_by_rendezvous().ranks(4).jitter(50_us).slow(1, 7_ms));
  const int64_t steps = 30;
  EXPECT_NEAR(
      static_cast<double>(analyzed.integer("SELECT total(wait_ns) FROM message_blame WHERE late = 1 AND waiter = 0")),
      static_cast<double>(steps * 7_ms), static_cast<double>(steps * 200_us));
  EXPECT_EQ(analyzed.text("SELECT group_concat(kind) FROM message_blame WHERE late = 1 AND waiter = 0"),
            "late_receiver");
}

TEST(SyntheticMessages, OfRanksThatDied) {
  for (const SyntheticRun& job : {ring_job().killed(2, 20), halo_job().killed(2, 20), pipeline_job().hang(1, 20)}) {
    Analyzed analyzed(job);
    // of the step in which it happened: nobody knows whether what was sent to the dead was taken
    expect_messages(analyzed, 2);
    expect_sums(analyzed);
    EXPECT_GT(analyzed.integer("SELECT count(*) FROM message WHERE why IS NULL"), 19 * 3);
  }
}

TEST(SyntheticMessages, ThinnedRanksAreLeftOut) {
  Analyzed analyzed(ring_job().ranks(5).keep_level(1, 2, 8));
  EXPECT_EQ(analyzed.integer("SELECT count(*) FROM v_message WHERE why IS NULL AND (source = 1 OR destination = 1)"),
            0);
  // A Sendrecv that has one end at rank 1 waited for nobody knows how long, whatever its other half did.
  EXPECT_EQ(analyzed.integer("SELECT count(*) FROM v_message WHERE why IS NULL AND source = 3 AND destination = 4"),
            30);
  EXPECT_EQ(
      analyzed.integer(
          "SELECT count(*) FROM v_message WHERE late_sender_wait_ns IS NOT NULL AND source = 2 AND destination = 3"),
      30);
  EXPECT_EQ(analyzed.integer("SELECT count(*) FROM v_message WHERE late_sender_wait_ns IS NOT NULL"), 30 * 2);
  EXPECT_GT(analyzed.integer("SELECT count FROM loss WHERE kind = 'unmatched_messages'"), 0);
  EXPECT_EQ(analyzed.integer("SELECT count(*) FROM v_step WHERE rank = 1 AND wait_ns IS NOT NULL"), 0);
}

// ------------------------------------------------------------------------------------------------------------ findings

TEST(SyntheticMessages, ALateRankIsNamedThroughTheRanksThatItMakesLate) {
  struct Case {
    SyntheticRun job;
    int rank;
    const char* words;
  };
  for (const Case& c :
       {Case{ring_job().slow(1, 7_ms), 1, "is late in 100% of messages: the others wait 7.00 ms/step"},
        Case{ring_job().jitter(300_us).slow(1, 7_ms), 1, "of messages: the others wait"},
        Case{ring_job().ranks(9).jitter(300_us).slow(5, 7_ms), 5, "of messages: the others wait"},
        Case{ring_job().ranks(2).slow(0, 7_ms), 0, "of messages: the other waits 7.00 ms/step"},
        Case{halo_job().jitter(300_us).slow(4, 7_ms), 4, "of messages: the others wait"},
        Case{ring_job().jitter(300_us).slow(1, 7_ms).allreduce(8_B, 50_us), 1,
             "of collectives and messages: the others wait"},
        Case{halo_job().jitter(300_us).slow(2, 7_ms).allreduce(8_B, 50_us), 2,
             "of collectives and messages: the others wait"},
        Case{ring_job().slow(1, 7_ms, 20).steps(60), 1, "since step 20: the others wait"},
        Case{ring_job().jitter(300_us).slow(2, 7_ms).no_steps(), 2, "of messages: the others wait 204 ms"}}) {
    Analyzed analyzed(c.job);
    ASSERT_EQ(analyzed.findings(), Ids{"straggler"}) << c.words;
    const std::string sentence = analyzed.text("SELECT sentence FROM finding");
    EXPECT_EQ(analyzed.integer("SELECT rank FROM finding"), c.rank) << sentence;
    EXPECT_TRUE(has(sentence, c.words)) << sentence;
    const double saving_ns = static_cast<double>(analyzed.integer("SELECT saving_ns FROM finding"));
    EXPECT_NEAR(saving_ns, c.job.plan().annotated ? 7e6 : 30 * 7e6, (c.job.plan().annotated ? 1 : 30) * 1.2e6)
        << sentence;
    analyzed.db.exec("CREATE TEMP TABLE shown AS " + analyzed.text("SELECT evidence_sql FROM finding"));
    EXPECT_EQ(analyzed.integer("SELECT late FROM temp.shown LIMIT 1"), c.rank);
  }
}

TEST(SyntheticMessages, ASlowStageCostsAsMuchIfNobodyWaitsForWhatIsSent) {
  Analyzed analyzed(unawaited_pipeline(2_ms));
  EXPECT_EQ(analyzed.integer("SELECT count(*) FROM message WHERE why IS NOT NULL"), 0);
  ASSERT_FALSE(analyzed.findings().empty());
  EXPECT_EQ(analyzed.text("SELECT id || ' ' || rank FROM finding WHERE position = 1"), "straggler 1");
  const int64_t healthy_ns = unawaited_pipeline(0).truth().end_ns;
  const double saving_ns = static_cast<double>(analyzed.truth.end_ns - healthy_ns) / 25;
  EXPECT_NEAR(static_cast<double>(analyzed.integer("SELECT saving_ns FROM finding WHERE position = 1")), saving_ns,
              0.1 * saving_ns);
}

TEST(SyntheticMessages, CleanRunsHaveNoFindings) {
  for (const SyntheticRun& job :
       {ring_job(), ring_job().jitter(2_ms), halo_job().jitter(2_ms), ring_job().jitter(2_ms).allreduce(8_B, 50_us),
        pipeline_job().jitter(1_ms), ring_job().jitter(2_ms).no_steps(),
        run().ranks(6).steps(30).jitter(2_ms).compute(20_ms).collect(0, 4_KiB, 100_us).bcast(1_KiB, 50_us)}) {
    Analyzed analyzed(job);
    EXPECT_EQ(analyzed.findings(), Ids{}) << analyzed.text("SELECT sentence FROM finding LIMIT 1");
  }
}

/// A parameter server, rank 0, takes gradients in the order of the workers and sends back to all; `slow_ns`: of rank 2.
SyntheticRun parameter_server_job(int64_t slow_ns) {
  SyntheticRun job = run().ranks(4).steps(40).jitter(500_us);
  for (int rank = 1; rank < 4; ++rank) job.on_rank(rank).compute(rank == 2 ? 60_ms + slow_ns : 60_ms);
  for (int rank = 1; rank < 4; ++rank) job.message(rank, 0, 160_KiB, 200_us);
  job.on_rank(0).compute(1_ms);
  for (int rank = 1; rank < 4; ++rank) job.message(0, rank, 160_KiB, 200_us);
  return job.no_steps();
}

// Over the run the server waits for its workers, and longest for the one that it asks first, while they wait for it.
TEST(SyntheticMessages, ASlowWorkerIsNamedThroughItsServerWithoutSteps) {
  Analyzed analyzed(parameter_server_job(30_ms));
  EXPECT_EQ(analyzed.integer("SELECT count(*) FROM step"), 0);
  ASSERT_EQ(analyzed.findings(), Ids{"straggler"});
  EXPECT_EQ(analyzed.integer("SELECT rank FROM finding"), 2);
  EXPECT_NEAR(static_cast<double>(analyzed.integer("SELECT saving_ns FROM finding")), 40 * 30e6, 0.1 * 40 * 30e6);
  EXPECT_EQ(analyzed.integer("SELECT sum(wait_ns) FROM late WHERE message"),
            analyzed.integer("SELECT sum(wait_ns) FROM message_blame"));
  EXPECT_EQ(Analyzed(parameter_server_job(0)).findings(), Ids{});
}

TEST(SyntheticMessages, ASlowStageIsNamedWithoutSteps) {
  Analyzed analyzed(unawaited_pipeline(2_ms).no_steps());
  ASSERT_FALSE(analyzed.findings().empty());
  EXPECT_EQ(analyzed.text("SELECT id || ' ' || rank FROM finding WHERE position = 1"), "straggler 1");
  EXPECT_EQ(Analyzed(unawaited_pipeline(0).no_steps()).findings(), Ids{});
}

/// GPipe without steps: three stages, four micro-batches forward, then all backward; stage 1 computes so
/// many per cent longer.
SyntheticRun gpipe(int64_t slow_percent) {
  constexpr int kStages = 3, kBatches = 4;
  SyntheticRun job = run().ranks(kStages).steps(25).jitter(100_us);
  const auto pass = [&](int stage, int from, int to, int64_t ns) {
    if (from >= 0 && from < kStages) job.receive(from, stage);
    job.on_rank(stage).compute(stage == 1 ? ns * (100 + slow_percent) / 100 : ns);
    if (to >= 0 && to < kStages) job.isend(stage, to, 64_KiB, 200_us);
  };
  for (int i = 0; i < kBatches; ++i)
    for (int stage = 0; stage < kStages; ++stage) pass(stage, stage - 1, stage + 1, 10_ms);
  for (int i = 0; i < kBatches; ++i)
    for (int stage = kStages - 1; stage >= 0; --stage) pass(stage, stage + 1, stage - 1, 20_ms);
  return job.no_steps();
}

// Most that the others wait for the middle stage its schedule asks for, and it waits as long itself: whose calls it
// makes last says too little.
TEST(SyntheticMessages, AStageThatComputesLongestIsNamedBesideTheBubbleWithoutSteps) {
  Analyzed analyzed(gpipe(15));
  EXPECT_EQ(analyzed.integer("SELECT count(*) FROM step"), 0);
  EXPECT_EQ(analyzed.text("SELECT group_concat(rank) FROM finding WHERE id = 'straggler'"), "1");
  const std::string sentence = analyzed.text("SELECT sentence FROM finding WHERE id = 'straggler'");
  EXPECT_TRUE(has(sentence, "rank 1 (node0) computes longest in 100% of the run: 3.4")) << sentence;
  const double saving_ns = static_cast<double>(analyzed.truth.end_ns - gpipe(0).truth().end_ns);
  EXPECT_NEAR(static_cast<double>(analyzed.integer("SELECT saving_ns FROM finding WHERE id = 'straggler'")), saving_ns,
              0.1 * saving_ns)
      << analyzed.text("SELECT sentence || ' ' || evidence FROM finding WHERE id = 'straggler'");
  analyzed.db.exec("CREATE TEMP TABLE shown AS " +
                   analyzed.text("SELECT evidence_sql FROM finding WHERE id = 'straggler'"));
  EXPECT_EQ(analyzed.integer("SELECT rank FROM temp.shown LIMIT 1"), 1);
  EXPECT_EQ(Analyzed(gpipe(0)).findings(), Ids{});
}

TEST(SyntheticMessages, WaitingForMessagesBoundsTheJob) {
  Analyzed analyzed(ring_job().slow(1, 20_ms));
  EXPECT_EQ(analyzed.text("SELECT value FROM meta WHERE key = 'verdict'"), "wait");
}

}  // namespace
}  // namespace ddl::test
