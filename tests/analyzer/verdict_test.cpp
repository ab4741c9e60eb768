#include "analyzer/verdict.h"

#include <gtest/gtest.h>

#include "tests/analyzer/analyzed.h"
#include "tests/analyzer/message_rows.h"

namespace ddl {
namespace {

TEST(Verdict, LargestAboveTheThreshold) {
  EXPECT_EQ(decide({{"wait", 0.31, {}, {}}, {"transfer", 0.12, {}, {}}}).name, "wait");
  EXPECT_EQ(decide({{"wait", 0.02, {}, {}}, {"transfer", 0.12, {}, {}}}).name, "transfer");
}

TEST(Verdict, NothingAboveMeansCompute) {
  EXPECT_EQ(decide({{"wait", 0.05, {}, {}}, {"transfer", 0.049, {}, {}}}).name, "compute");
  EXPECT_EQ(decide({{"wait", 0.0, {}, {}}}).name, "compute");
}

TEST(Verdict, OverlappingIntervalsAreUndecided) {
  EXPECT_EQ(decide({{"wait", 0.20, 0.15, 0.25}, {"transfer", 0.18, 0.14, 0.22}}).name, "undecided");
  EXPECT_EQ(decide({{"wait", 0.30, 0.28, 0.32}, {"transfer", 0.18, 0.14, 0.22}}).name, "wait");
  // the other is below the threshold
  EXPECT_EQ(decide({{"wait", 0.08, 0.01, 0.25}, {"transfer", 0.04, 0.01, 0.22}}).name, "wait");
}

TEST(Verdict, SaysItsNumbers) {
  const std::string text = decide({{"wait", 0.31, {}, {}}, {"transfer", 0.12, {}, {}}}).text;
  EXPECT_NE(text.find("wait 31.0%"), std::string::npos) << text;
  EXPECT_NE(text.find("transfer 12.0%"), std::string::npos) << text;
  EXPECT_NE(text.find("threshold 5%"), std::string::npos) << text;
}

TEST(Verdict, PollingMayBeWaiting) {
  // 30 % transfer of which 12 % are in MPI_Test and the like: 18 % are left for certain, more than the 10 % of waiting.
  EXPECT_EQ(decide({{"wait", 0.10, {}, {}}, {"transfer", 0.30, {}, {}, 0.12}}).name, "transfer");
  const Verdict open = decide({{"wait", 0.10, {}, {}}, {"transfer", 0.30, {}, {}, 0.25}});
  EXPECT_EQ(open.name, "undecided");
  EXPECT_NE(open.text.find("25.0% are calls that only test"), std::string::npos) << open.text;
  // more waiting changes nothing
  EXPECT_EQ(decide({{"wait", 0.35, {}, {}}, {"transfer", 0.30, {}, {}, 0.25}}).name, "wait");
}

TEST(Verdict, WaitingMayBeInLoopsThatTest) {
  const auto with_loops = [](double wait, double transfer, double polled) {
    std::vector<Share> shares{{"wait", wait}, {"transfer", transfer}};
    shares[0].polled = polled;
    return decide(shares);
  };
  EXPECT_EQ(with_loops(0.01, 0, 0.03).name, "compute");
  EXPECT_EQ(with_loops(0.01, 0, 0.3).name, "undecided");
  EXPECT_NE(with_loops(0.01, 0, 0.3).text.find("undecided between computing and wait"), std::string::npos);
  EXPECT_NE(with_loops(0.01, 0, 0.3).text.find("up to 30.0% more may be waiting"), std::string::npos);
  EXPECT_EQ(with_loops(0.01, 0.4, 0.3).name, "transfer");
  EXPECT_EQ(with_loops(0.2, 0.4, 0.3).name, "undecided");
  EXPECT_EQ(with_loops(0.4, 0.2, 0.3).name, "wait");
}

TEST(Verdict, WaitingMayBeForThreadsOfTheProcess) {
  const auto with_threads = [](double wait, double transfer, double blocked) {
    std::vector<Share> shares{{"wait", wait}, {"transfer", transfer}};
    shares[0].blocked = blocked;
    return decide(shares);
  };
  EXPECT_EQ(with_threads(0.01, 0, 0.03).name, "compute");
  EXPECT_EQ(with_threads(0.01, 0.02, 0.3).name, "undecided");
  EXPECT_NE(with_threads(0.01, 0, 0.3).text.find("up to 30.0% more may be waiting, off the CPU"), std::string::npos);
  EXPECT_EQ(with_threads(0.01, 0.4, 0.3).name, "transfer");
  EXPECT_EQ(with_threads(0.4, 0.2, 0.3).name, "wait");
  EXPECT_NE(with_threads(0.4, 0.2, 0.3).text.find("up to 30.0% more may be waiting"), std::string::npos)
      << "what it is bound by is larger still";
}

TEST(Verdict, WhatIsNotSplitMayTurnIt) {
  EXPECT_EQ(decide({{"wait", 0.40}, {"transfer", 0.06}, {kNotSplit, 0.10}}).name, "wait");  // 6 + 10 % are less
  EXPECT_EQ(decide({{"wait", 0.15}, {"transfer", 0.06}, {kNotSplit, 0.10}}).name, "undecided");
  EXPECT_EQ(decide({{"wait", 0.01}, {"transfer", 0.01}, {kNotSplit, 0.30}}).name, "undecided");
  // below the threshold whatever it is
  EXPECT_EQ(decide({{"wait", 0.01}, {"transfer", 0.01}, {kNotSplit, 0.04}}).name, "compute");
  EXPECT_EQ(decide({{kNotSplit, 0.30}}).name, "undecided");
  const std::string text = decide({{"wait", 0.15}, {"transfer", 0.06}, {kNotSplit, 0.10}}).text;
  EXPECT_NE(text.find("wait 15.0%, transfer 6.0%, not split 10.0% of the step"), std::string::npos) << text;
}

TEST(Verdict, NothingKnownNothingSaid) { EXPECT_EQ(decide({}).name, ""); }

}  // namespace
}  // namespace ddl

namespace ddl::test {
namespace {

std::string name_of_bound(Analyzed& run) { return run.text("SELECT value FROM meta WHERE key = 'verdict'"); }
std::string text_of(Analyzed& run) { return run.text("SELECT value FROM meta WHERE key = 'verdict.text'"); }

// All post at once, and rank 1 computes 80 ms longer before it comes to complete: the others wait for the network, or
// for rank 1, which drives no library meanwhile.
TEST(Verdict, WhoCompletesLateMayBeWaitedFor) {
  const auto job = [](int64_t longer_ns) {
    return run()
        .ranks(3)
        .steps(20)
        .compute(5_ms)
        .iallreduce(4_MiB, 100_ms)
        .compute(20_ms)
        .on_rank(1)
        .compute(longer_ns)
        .waitall();
  };
  Analyzed late(job(80_ms)), together(job(0));
  EXPECT_EQ(name_of_bound(late), "undecided") << text_of(late);
  EXPECT_TRUE(has(text_of(late), "undecided between transfer and wait: transfer 50.8%")) << text_of(late);
  EXPECT_TRUE(has(text_of(late), "; 50.8% are in calls that complete what other ranks had posted")) << text_of(late);
  EXPECT_EQ(late.findings(), Ids{"straggler"});
  EXPECT_EQ(name_of_bound(together), "transfer") << text_of(together);
  EXPECT_FALSE(has(text_of(together), "in calls that complete")) << text_of(together);
  EXPECT_EQ(together.findings(), Ids{"exposed_tail"});
}

// The part after the last one has come is a tail as before.
TEST(Verdict, TailsBeginWhenAllHaveCome) {
  Analyzed late(run()
                    .ranks(3)
                    .steps(20)
                    .compute(5_ms)
                    .iallreduce(4_MiB, 100_ms)
                    .compute(20_ms)
                    .on_rank(1)
                    .compute(30_ms)
                    .waitall());
  EXPECT_EQ(late.integer("SELECT max(xfer_ns) / 1000000 FROM tail"), 49);  // of 79 on ranks 0 and 2
  EXPECT_EQ(name_of_bound(late), "transfer") << text_of(late);
}

TEST(Verdict, WhoCompletesMessagesLateMayBeWaitedFor) {
  const auto job = [](int64_t longer_ns) {
    return run()
        .ranks(3)
        .steps(20)
        .compute(5_ms)
        .rendezvous()
        .isendrecv_ring(4_MiB, 100_ms)
        .compute(20_ms)
        .on_rank(1)
        .compute(longer_ns)
        .waitall();
  };
  Analyzed late(job(80_ms)), together(job(0));
  EXPECT_EQ(name_of_bound(late), "undecided") << text_of(late);
  EXPECT_TRUE(has(text_of(late), "; 50.8% are in calls that complete what other ranks had posted")) << text_of(late);
  EXPECT_EQ(name_of_bound(together), "transfer") << text_of(together);
}

/// Two ranks and 20 steps of 100 ms. `step` adds the events of one that begins at `begin_ns`. `looping`: rank 0 makes
/// 20 times as many calls of it, in vain.
template <class Step>
std::string verdict_of_loop(const Step& step, const std::string& looping) {
  Tables run(2);
  for (int64_t s = 0; s < 20; ++s) {
    step(run, s, s * 100_ms);
    for (const int64_t rank : {0, 1}) run.step(rank, s, s * 100_ms, (s + 1) * 100_ms, 30_us);
  }
  if (!looping.empty())
    run.exec("UPDATE profile SET calls = 20 * calls WHERE op = (SELECT id FROM op WHERE name = '" + looping +
             "') AND process = (SELECT id FROM process WHERE rank = 0)");
  run.analyze();
  return run.text("SELECT value FROM meta WHERE key = 'verdict.text'");
}

// Rank 0 probes and sleeps until rank 1 sends, 80 ms later.
TEST(Verdict, LoopsThatProbeMayWait) {
  const auto step = [](Tables& run, int64_t s, int64_t begin_ns) {
    RankRows(run, 0)
        .in_step(s)
        .call("MPI_Send", 1, 8, begin_ns, begin_ns + 10_us)
        .call("MPI_Iprobe", 1, 7, begin_ns + 81_ms, begin_ns + 81_ms + 1_us)
        .call("MPI_Recv", 1, 7, begin_ns + 81_ms + 2_us, begin_ns + 81_ms + 4_us);
    RankRows(run, 1)
        .in_step(s)
        .call("MPI_Recv", 0, 8, begin_ns + 5_us, begin_ns + 10_us)
        .call("MPI_Send", 0, 7, begin_ns + 80_ms, begin_ns + 80_ms + 10_us);
  };
  const std::string loops = verdict_of_loop(step, "MPI_Iprobe"), once = verdict_of_loop(step, "");
  EXPECT_TRUE(has(loops, "undecided between computing and wait")) << loops;
  EXPECT_TRUE(has(loops, "up to 40.0% more may be waiting")) << loops;
  EXPECT_TRUE(has(once, "bound by computing")) << once;
}

// Rank 0 tests whether its message is sent, and sleeps, until rank 1 posts the receive.
TEST(Verdict, LoopsThatTestASendMayWait) {
  for (const bool eager : {false, true}) {
    const auto step = [&](Tables& run, int64_t s, int64_t begin_ns) {
      const int64_t over_ns = begin_ns + (eager ? 70_ms : 81_ms);
      RankRows(run, 0)
          .in_step(s)
          .post("MPI_Isend", 1, 7, begin_ns + 10_ms, over_ns)
          .wait(over_ns - 1_us, over_ns, "MPI_Test");
      RankRows(run, 1).in_step(s).call("MPI_Recv", 0, 7, begin_ns + 80_ms, begin_ns + 80_ms + 10_us);
    };
    const std::string loops = verdict_of_loop(step, "MPI_Test");
    EXPECT_EQ(has(loops, "up to 35.0% more may be waiting"), !eager) << loops;
    EXPECT_TRUE(has(verdict_of_loop(step, ""), "bound by computing"));
  }
}

// Both post at once. Rank 0 tests and sleeps, rank 1 computes 80 ms and completes.
TEST(Verdict, LoopsThatTestMayWaitForWhoCompletesLate) {
  for (const char* completes : {"MPI_Wait", "MPI_Test"}) {
    const auto step = [&](Tables& run, int64_t s, int64_t begin_ns) {
      for (const int64_t rank : {0, 1}) {
        Row row{.rank = rank,
                .op = "MPI_Iallreduce",
                .enter_ns = begin_ns + 10_ms,
                .leave_ns = begin_ns + 10_ms + 10_us,
                .bytes = 1'000,
                .step = s};
        run.add(row);
        row.leave_ns = begin_ns + 90_ms + 10_us;
        row.request = true;
        row.seq = s + 1;
        run.add(row);
        RankRows(run, rank).in_step(s).wait(begin_ns + 90_ms, begin_ns + 90_ms + 10_us,
                                            rank == 0 ? "MPI_Test" : completes);
      }
    };
    const std::string loops = verdict_of_loop(step, "MPI_Test");
    EXPECT_TRUE(has(loops, "up to 40.0% more may be waiting")) << completes << ": " << loops;
    EXPECT_TRUE(has(verdict_of_loop(step, ""), "bound by computing"));
  }
}

}  // namespace
}  // namespace ddl::test
