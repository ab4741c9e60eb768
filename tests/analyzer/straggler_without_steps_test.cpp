// The straggler of a run without steps: late throughout, stopped now and then, or with the longest computing.
#include <algorithm>

#include "tests/analyzer/analyzed.h"
#include "tests/analyzer/findings_jobs.h"

namespace ddl::test {
namespace {

TEST(Findings, StragglerWithoutSteps) {
  Tables run(2);
  // nothing repeats
  for (int64_t i = 0; i < 50; ++i) run.allreduce(i + 1, {i * 10_ms, i * 10_ms + 3_ms}, 1_ms, 1'000 + i);
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"straggler"});
  EXPECT_EQ(run.integer("SELECT rank FROM finding"), 1);
  EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), 150e6, 1e6);
}

/// A halo exchange in each of 40 iterations, and a residual in every tenth: between these lie the four steps that are
/// found, fewer than a straggler of steps needs. It is late 40 times.
TEST(Findings, AStragglerOfFewInferredStepsIsNamedByTheInstances) {
  SyntheticRun job = run().ranks(4).steps(40).no_steps().setup().barrier().each_step();
  job.compute(40_ms).halo(64_KiB, 100_us).every(10).allreduce(8, 20_us);
  Analyzed late(SyntheticRun(job).slow(1, 60_ms));
  ASSERT_EQ(late.integer("SELECT count(DISTINCT step) FROM step"), 4);
  ASSERT_EQ(late.findings(), Ids{"straggler"});
  EXPECT_EQ(late.integer("SELECT rank FROM finding"), 1);
  EXPECT_EQ(late.text("SELECT confidence FROM finding"), "likely");
  Analyzed once(SyntheticRun(job).delay(1, 15, 600_ms));
  EXPECT_EQ(once.integer("SELECT count(*) FROM finding WHERE id = 'straggler' AND confidence = 'sure'"), 0);
  EXPECT_EQ(Analyzed(SyntheticRun(job).jitter(5_ms)).findings(), Ids{});
}

/// 600 exchanges of three ranks that mark no steps. `who(n)` is stopped for 200 ms before every 30th, or about that.
SyntheticRun stopped_now_and_then(int (*who)(int), bool regular = false) {
  SyntheticRun job = run().ranks(3).no_steps().steps(600).jitter(6_ms).compute(5_ms).halo(64_KiB, 50_us);
  for (int n = 0; n < 18; ++n)
    job.delay(who(n), static_cast<uint64_t>(20 + 30 * n + (regular ? 0 : n * n * 7 % 19)), 200_ms);
  return job;
}

// kill -STOP and -CONT. It is late in a few messages of thousands, but nearly all long waits are for it.
TEST(Findings, ARankThatIsStoppedNowAndThenIsNamedByTheLongWaits) {
  Analyzed job(stopped_now_and_then([](int) { return 1; }));
  ASSERT_EQ(job.findings(), Ids{"straggler"});
  EXPECT_EQ(job.integer("SELECT rank FROM finding"), 1);
  EXPECT_EQ(job.text("SELECT confidence FROM finding"), "likely");
  EXPECT_TRUE(job.text("SELECT sentence FROM finding")
                  .find("kept the others waiting for messages 18 times for 50.0 ms and longer: 3.") !=
              std::string::npos)
      << job.text("SELECT sentence FROM finding");
  // What is saved is what they waited: 18 times 200 ms.
  EXPECT_NEAR(static_cast<double>(job.integer("SELECT saving_ns FROM finding")), 3.6e9, 0.3e9);
}

TEST(Findings, RanksThatAreAllStoppedNowAndThenAreNoStragglers) {
  Analyzed job(stopped_now_and_then([](int n) { return n % 3; }));
  EXPECT_EQ(job.integer("SELECT count(*) FROM finding WHERE id = 'straggler'"), 0);
  Analyzed mostly(stopped_now_and_then([](int n) { return n % 5 == 0 ? 0 : n % 5 == 1 ? 2 : 1; }));
  EXPECT_EQ(mostly.integer("SELECT count(*) FROM finding WHERE id = 'straggler'"), 0) << "three of five stalls";
  // After the same calls each time it is the program's own, and the rank one that has more to do.
  Analyzed regular(stopped_now_and_then([](int) { return 1; }, true));
  const std::string sentence = regular.text("SELECT sentence FROM finding WHERE id = 'straggler'");
  EXPECT_TRUE(has(sentence, "computes longest")) << sentence;
}

constexpr int64_t kRounds = 40;

/// What each rank computes before round `i`.
using Computing = std::function<int64_t(int64_t rank, int64_t i)>;

/// An asynchronous server, rank 0, serves whoever comes: workers wait for nobody but it, and for each other only at the
/// end. `service_ns`: it takes for one. `begin_ns`: when it sends the first work, for which workers ask at `asked_ns`.
Tables asynchronous_server(const Computing& computing, int64_t service_ns = 500_us, int64_t begin_ns = 10_ms,
                           const std::vector<int64_t>& asked_ns = {0, 9_ms, 9_ms, 9_ms}) {
  Tables run(4);
  std::vector<int64_t> ready_ns(4), done(4);
  int64_t free_ns = begin_ns;
  for (int64_t rank = 1; rank < 4; ++rank, free_ns += 60_us) {
    const int64_t asked = asked_ns[static_cast<size_t>(rank)];
    run.add({.rank = 0,
             .op = "MPI_Send",
             .enter_ns = free_ns,
             .leave_ns = free_ns + 50_us,
             .bytes = 1000,
             .peer = rank,
             .tag = 2});
    run.add({.rank = rank,
             .op = "MPI_Recv",
             .enter_ns = asked,
             .leave_ns = free_ns + 50_us,
             .bytes = 1000,
             .peer = 0,
             .tag = 2});
    ready_ns[static_cast<size_t>(rank)] = free_ns + 50_us + computing(rank, 0);
  }
  for (int64_t served = 0; served < 3 * kRounds; ++served) {
    size_t next = 0;
    for (size_t worker = 1; worker < 4; ++worker)
      if (done[worker] < kRounds && (next == 0 || ready_ns[worker] < ready_ns[next])) next = worker;
    const auto rank = static_cast<int64_t>(next);
    const int64_t came_ns = ready_ns[next], taken_ns = std::max(came_ns, free_ns) + 100_us,
                  back_ns = taken_ns + service_ns + 100_us;
    run.add({.rank = 0,
             .op = "MPI_Recv",
             .enter_ns = free_ns,
             .leave_ns = taken_ns,
             .bytes = 1000,
             .peer = rank,
             .tag = 1});
    run.add({.rank = rank,
             .op = "MPI_Send",
             .enter_ns = came_ns,
             .leave_ns = taken_ns,
             .bytes = 1000,
             .peer = 0,
             .tag = 1});
    run.add({.rank = 0,
             .op = "MPI_Send",
             .enter_ns = back_ns - 100_us,
             .leave_ns = back_ns,
             .bytes = 1000,
             .peer = rank,
             .tag = 2});
    run.add({.rank = rank,
             .op = "MPI_Recv",
             .enter_ns = taken_ns + 1_us,
             .leave_ns = back_ns,
             .bytes = 1000,
             .peer = 0,
             .tag = 2});
    free_ns = back_ns + 10_us;
    ready_ns[next] = back_ns + (++done[next] < kRounds ? computing(rank, done[next]) : 1_ms);
  }
  ready_ns[0] = free_ns + 1_ms;
  run.allreduce(1, ready_ns, 1_ms, 8);
  return run;
}

/// Each rank locks a window, and waits for the others at the end.
Tables locked_windows(const Computing& computing) {
  Tables run(3);
  std::vector<int64_t> now_ns(3, 10_ms);
  for (int64_t rank = 0; rank < 3; ++rank) {
    int64_t& now = now_ns[static_cast<size_t>(rank)];
    for (int64_t i = 0; i < kRounds; ++i) {
      now += computing(rank, i);
      for (const char* op : {"MPI_Win_lock", "MPI_Accumulate", "MPI_Win_unlock"}) {
        run.add({.rank = rank, .op = op, .enter_ns = now, .leave_ns = now + 1_ms, .bytes = 1000, .comm = 0});
        now += 1_ms + 10_us;
      }
    }
  }
  run.allreduce(1, now_ns, 1_ms, 8);
  return run;
}

// Nobody is late to anything but the end: the late rank computes longer in each round of its own.
TEST(Findings, WhoComputesLongestIsAStragglerIfOthersWaitForItAtTheEndAlone) {
  struct Case {
    Tables (*job)(const Computing&);
    int64_t slow_ns;
    double least;  ///< saved, of what it computes longer
  };
  for (const auto& [job, slow_ns, least] :
       {Case{[](const Computing& computing) { return asynchronous_server(computing); }, 25_ms, 0.5},
        Case{locked_windows, 60_ms, 0.95}}) {
    Tables run =
        job([&](int64_t rank, int64_t i) { return 70_ms + jitter(i, rank, 5_ms) + (rank == 2 ? slow_ns : 0); });
    run.analyze();
    ASSERT_EQ(run.findings(), Ids{"straggler"}) << least;
    EXPECT_EQ(run.integer("SELECT rank FROM finding"), 2);
    const std::string sentence = run.text("SELECT sentence FROM finding");
    EXPECT_TRUE(has(sentence, "rank 2 (node1) computes longest in 100% of the run: ")) << sentence;
    const double saving_ns = run.number("SELECT saving_ns FROM finding"),
                 truth_ns = static_cast<double>(kRounds * slow_ns);
    EXPECT_GT(saving_ns, least * truth_ns) << "the server serves in the order of the recording";
    EXPECT_LT(saving_ns, 1.05 * truth_ns);

    Tables even = job([](int64_t rank, int64_t i) { return 70_ms + jitter(i, rank, 20_ms); });
    even.analyze();
    EXPECT_EQ(even.findings(), Ids{});
    // What one rank does once is not how it computes: it loads before the others can begin, or saves what they
    // need not wait for.
    for (const int64_t once : {int64_t{0}, kRounds / 2}) {
      Tables stall = job([&](int64_t rank, int64_t i) {
        return 70_ms + jitter(i, rank, 20_ms) + (rank == 2 && i == once ? 1500_ms : 0);
      });
      stall.analyze();
      EXPECT_FALSE(has(stall.text("SELECT coalesce(group_concat(sentence), '') FROM finding"), "computes longest"))
          << once;
    }
    // Nor is another load for a while, beside a trifle more to do in all of the run.
    Tables loaded =
        job([](int64_t rank, int64_t i) { return 70_ms + (rank == 2 ? 1_ms + (i >= kRounds - 8 ? 100_ms : 0) : 0); });
    loaded.analyze();
    EXPECT_EQ(loaded.findings(), Ids{}) << loaded.text("SELECT sentence FROM finding");
  }
}

/// Rank 0 computes 0.35 ms longer before some calls and 0.2 ms shorter before others.
TEST(Findings, ARankWithOtherWorkSavesNoMoreThanItComputesLonger) {
  constexpr int64_t kCalls = 800;
  Tables run(2);
  run.exec("BEGIN");
  int64_t now_ns = 10_ms, longer_ns = 0;
  for (int64_t i = 0; i < kCalls; ++i) {
    const bool more = jitter(i, 0, 2) == 0;
    const int64_t by_ns = more ? 350_us : -200_us;
    longer_ns += by_ns;
    run.allreduce(i + 1, {now_ns + 1_ms + by_ns, now_ns + 1_ms}, 50_us, more ? 8 : 16);
    now_ns += 1_ms + std::max<int64_t>(by_ns, 0) + 50_us;
  }
  run.exec("COMMIT");
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"straggler"});
  EXPECT_TRUE(has(run.text("SELECT sentence FROM finding"), "rank 0 (node1) computes longest in "))
      << run.text("SELECT sentence FROM finding");
  EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), static_cast<double>(longer_ns),
              0.02 * static_cast<double>(longer_ns));
}

/// While it waits for rank 1, rank 0 may compute as long on another thread: nobody knows, and less is saved then.
TEST(Findings, WhereAThreadOfItsOwnMakesTheCallsAStragglerSavesAtMost) {
  for (const int64_t thread : {0, 1}) {
    Tables run(2);
    int64_t now_ns = 1_s;
    for (int64_t i = 0; i < 100; ++i) {
      run.allreduce(i + 1, {now_ns + 10_ms, now_ns + 60_ms}, 1_ms, 8);
      now_ns += 61_ms;
    }
    run.exec(fmt::format("UPDATE event SET thread = {}", thread));
    run.analyze();
    ASSERT_EQ(run.findings(), Ids{"straggler"});
    EXPECT_EQ(run.text("SELECT coalesce(saving_bound, 'known') FROM finding"), thread == 0 ? "known" : "upper");
  }
}

// Of workers that are all alike the master waits for the one that it fed first, since that is the first to come back.
TEST(Findings, WorkersThatAMasterFeedsAsTheyComeAreNoStragglers) {
  Tables run = asynchronous_server([](int64_t, int64_t) { return 100_ms; }, 10_ms, 1050_ms, {0, 950_ms, 50_ms, 50_ms});
  run.analyze();
  EXPECT_EQ(run.findings(), Ids{}) << run.text("SELECT sentence || ' ' || evidence FROM finding LIMIT 1");
}

/// Rank 1 has half of the work: rank 0 is last most often, and rank 2 would be if it were not.
TEST(Findings, AnotherRankThatIsNearlyAsLateIsInTheEvidence) {
  const auto job = [](int64_t second_ns) {
    return training(3, 60, 1_ms, [=](int64_t s, int64_t r) {
      return r == 0 ? 70_ms + jitter(s, r, 4_ms) : r == 1 ? 35_ms + jitter(s, r, 4_ms) : second_ns + jitter(s, r, 4_ms);
    });
  };
  Tables run = job(68_ms);
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"straggler"});
  EXPECT_EQ(run.integer("SELECT rank FROM finding"), 0);
  EXPECT_LT(run.number("SELECT saving_ns FROM finding"), 5e6);
  const std::string evidence = run.text("SELECT evidence FROM finding");
  EXPECT_TRUE(has(evidence, "Rank 2 is nearly as late, and waits ")) << evidence;
  EXPECT_TRUE(has(evidence, "/step itself: mended alone, rank 0 saves no more than ")) << evidence;
  Tables alone = job(40_ms);
  alone.analyze();
  EXPECT_FALSE(has(alone.text("SELECT evidence FROM finding"), "nearly")) << alone.text("SELECT evidence FROM finding");
}

}  // namespace
}  // namespace ddl::test
