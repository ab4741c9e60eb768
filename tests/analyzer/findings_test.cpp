// Findings appear where they were put in, with the right numbers, and not elsewhere: those that a file of its
// own does not test.
#include <cmath>

#include "analyzer/findings/findings.h"
#include "tests/analyzer/findings_jobs.h"

namespace ddl::test {
namespace {

TEST(Findings, NoneOnACleanRun) {
  for (int64_t ranks : {2, 4, 16}) {
    Tables even = training(ranks, 60, 5_ms, [](int64_t, int64_t) { return 50_ms; });
    even.analyze();
    EXPECT_EQ(even.findings(), Ids{}) << ranks;
    Tables noisy =
        // waiting, but nobody's fault
        training(ranks, 60, 5_ms, [](int64_t s, int64_t r) { return 50_ms + jitter(s, r, 10_ms); });
    noisy.analyze();
    EXPECT_EQ(noisy.findings(), Ids{}) << ranks;
    Tables slightly = training(ranks, 60, 5_ms, [](int64_t s, int64_t r) {
      return 50_ms + jitter(s, r, 100_us) + (r == 1 ? 500_us : 0);
    });  // 1 % late
    slightly.analyze();
    EXPECT_EQ(slightly.findings(), Ids{}) << ranks;
  }
}

// ----------------------------------------------------------------------------------------------- ranks that take turns

/// 30 ms more on another rank in each step, and work that is exponentially distributed: nobody is late again and again,
/// and all wait for most of the time.
TEST(Findings, WorkOfStepsThatIsUnevenInTurns) {
  for (const int64_t ranks : {2, 4}) {
    Tables turns = training(ranks, 100, 5_ms, [&](int64_t s, int64_t r) {
      return 20_ms + jitter(s, r, 100_us) + (s % ranks == r ? 30_ms : 0);
    });
    turns.analyze();
    ASSERT_EQ(turns.findings(), Ids{"layer_imbalance"}) << ranks;
    EXPECT_NEAR(turns.number("SELECT saving_ns FROM finding"), 30e6 * (1 - 1.0 / static_cast<double>(ranks)), 0.2e6)
        << ranks;
    const std::string sentence = turns.text("SELECT sentence FROM finding");
    EXPECT_TRUE(has(sentence, "work of steps is uneven: ranks take turns")) << sentence;
    EXPECT_TRUE(turns.text("SELECT rank FROM finding").empty());

    double truth_ns = 0;
    const auto work_ns = [](int64_t s, int64_t r) {
      return 1_ms + std::llround(-15e6 * std::log((1 + static_cast<double>(jitter(s, r, 1_s))) / 1e9));
    };
    Tables random = training(ranks, 300, 2_ms, work_ns);
    for (int64_t s = 5; s < 300; ++s) {  // the first are left out
      double longest = 0, sum = 0;
      for (int64_t r = 0; r < ranks; ++r) {
        longest = std::max(longest, static_cast<double>(work_ns(s, r)));
        sum += static_cast<double>(work_ns(s, r));
      }
      truth_ns += (longest - sum / static_cast<double>(ranks)) / 295;
    }
    random.analyze();
    ASSERT_EQ(random.findings(), Ids{"layer_imbalance"}) << ranks;
    EXPECT_NEAR(random.number("SELECT saving_ns FROM finding"), truth_ns, 0.1 * truth_ns) << ranks;
  }
}

/// One that is slow since a step, or in every other step by chance, takes no turns; ranks on one core do by necessity.
TEST(Findings, WhatIsUnevenOtherwiseIsNoTurns) {
  const auto is_told = [](Tables run) {
    run.analyze();
    return run.integer("SELECT count(*) FROM finding WHERE id = 'layer_imbalance'") == 1;
  };
  EXPECT_FALSE(is_told(training(
      4, 80, 5_ms, [](int64_t s, int64_t r) { return 20_ms + jitter(s, r, 1_ms) + (r == 1 && s > 37 ? 30_ms : 0); })));
  EXPECT_FALSE(is_told(training(4, 80, 5_ms, [](int64_t s, int64_t r) {
    return 20_ms + jitter(s, r, 1_ms) + (r == 1 && s * 7 % 5 < 2 ? 30_ms : 0);
  })));
  EXPECT_FALSE(is_told(training(2, 80, 5_ms, [](int64_t s, int64_t r) {
    return 20_ms + jitter(s, r, 1_ms) + (s % 40 == 20 + r ? 2_s : 0);
  }))) << "stalls";
  const auto turns = [](int64_t s, int64_t r) { return 20_ms + jitter(s, r, 1_ms) + (s % 2 == r ? 30_ms : 0); };
  EXPECT_TRUE(is_told(training(2, 80, 5_ms, turns)));
  Tables crowded = training(2, 80, 5_ms, turns);
  crowded.exec("INSERT INTO process_fact VALUES (1, 'cpus', '3'), (2, 'cpus', '3')");
  EXPECT_FALSE(is_told(std::move(crowded)));
}

// --------------------------------------------------------------------------------------------------- small collectives

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

/// Every group of tensor ranks reduces as the others do: one of them alone would save nothing, since all meet behind
/// it.
TEST(Findings, SmallCollectivesOfAnAxisAreFusedTogether) {
  constexpr int64_t kGroups = 4;
  Tables run(2 * kGroups);
  run.exec("BEGIN");
  std::vector<int64_t> groups;
  for (int64_t g = 0; g < kGroups; ++g)
    groups.push_back(run.communicator(fmt::format("tensor#{}", g), {2 * g, 2 * g + 1}));
  int64_t now_ns = 0;
  for (int64_t s = 0; s < 20; ++s) {
    const int64_t begin_ns = now_ns;
    now_ns += 5_ms;
    const auto reduce = [&](int64_t i, int64_t bytes, int64_t ns) {
      for (int64_t rank = 0; rank < run.ranks(); ++rank) {
        Row row;
        row.rank = rank;
        row.comm = groups[static_cast<size_t>(rank / 2)];
        row.seq = 51 * s + i + 1;
        row.bytes = bytes;
        row.enter_ns = now_ns;
        row.leave_ns = now_ns + ns;
        row.step = s;
        run.add(row);
      }
      now_ns += ns;
    };
    for (int64_t i = 0; i < 50; ++i) reduce(i, 1'000, 40_us);
    reduce(50, 60'000, 60_us);
    run.allreduce(s + 1, std::vector<int64_t>(static_cast<size_t>(run.ranks()), now_ns), 3_ms, 1_MB, s);
    now_ns += 3_ms;
    for (int64_t rank = 0; rank < run.ranks(); ++rank) run.step(rank, s, begin_ns, now_ns, now_ns - begin_ns - 5_ms);
  }
  run.exec("COMMIT");
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"small_collectives"});
  const std::string sentence = run.text("SELECT sentence FROM finding");
  EXPECT_TRUE(
      has(sentence, "51 small MPI_Allreduce per step on each of 4 groups (tensor#0 and others of the axis 'tensor')"))
      << sentence;
  const double fused_ns = 60e3 + 50'000 * 20e3 / 59'000;  // the line through both sizes, at 110 kB
  EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), 50 * 40e3 + 60e3 - fused_ns, 1e3);
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

// -------------------------------------------------------------------------------------------------------- exposed tail

TEST(Findings, ExposedTail) {
  Tables run = overlapped(90_ms);
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"exposed_tail"});
  EXPECT_TRUE(has(run.text("SELECT sentence FROM finding"), "30.0 ms/step of transfer"))
      << run.text("SELECT sentence FROM finding");
  EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), 20e6, 0.1e6);  // a third is the last bucket's own
}

TEST(Findings, HiddenCommunicationHasNoTail) {
  Tables run = overlapped(62_ms);
  run.analyze();
  EXPECT_EQ(run.findings(), Ids{});
}

// -------------------------------------------------------------------------------------------------------- shared cores

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
      // the smaller set is the cause
      {{"0", "0", "0-1", "0-1"}, 1, "ranks 0 and 1 are bound to the same core (CPU 0 of node1)"},
      {{"0", "0", "3", "3", "3"},
       1,
       "ranks 2, 3 and 4 are bound to the same core (CPU 3 of node1), and 1 more group like it"},
  };
  for (const Crowd& crowd : crowds) {
    Tables run = bound(crowd.cpus, crowd.hosts);
    run.analyze();
    ASSERT_EQ(run.findings(), crowd.sentence.empty() ? Ids{} : Ids{"shared_cores"})
        << crowd.cpus[0] << " " << crowd.sentence;
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

// --------------------------------------------------------------------------------------------------------------- words

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

/// Ranks 0 and 1 have one GPU, rank 2 another, rank 3 of the next host one at the same place; the instances of a
/// partitioned GPU are not shared, and who runs no kernel has no part in it.
TEST(Findings, RanksThatShareAGpuAreNamed) {
  const auto sentence = [](const std::string& name, const std::string& kernels_of) {
    Tables run(4, 2);
    run.exec("UPDATE process SET host = iif(rank = 3, 2, 1); INSERT INTO gpu_name VALUES (1, 'gemm', 'compute')");
    for (int64_t s = 0; s < 20; ++s)
      for (int64_t r = 0; r < 4; ++r) run.step(r, s, s * 10_ms, (s + 1) * 10_ms, 0);
    run.exec("INSERT INTO gpu SELECT id, 0, '" + name +
             "', iif(rank = 2, '0000:17:00.0', '0000:3b:00.0'), NULL, NULL FROM process");
    run.exec(
        "INSERT INTO gpu_event (process, kind, name, device, context, stream, region, step, thread, start_ns, duration_ns, correlation)"
        " SELECT id, 1, 1, 0, 1, 7, 0, 1, 0, 12000000, 1000000, 0 FROM process WHERE rank IN (" +
        kernels_of + ")");
    run.analyze();
    return run.text(std::string("SELECT coalesce(max(sentence), '') FROM finding WHERE id = '") + "shared_gpu" + "'");
  };
  EXPECT_EQ(sentence("NVIDIA H100", "0, 1, 2, 3"),
            "ranks 0 and 1 compute on the same GPU (NVIDIA H100 at 0000:3b:00.0 of node1)");
  EXPECT_EQ(sentence("NVIDIA H100 MIG 1g.10gb", "0, 1, 2, 3"), "");
  EXPECT_EQ(sentence("NVIDIA H100", "0, 2, 3"), "");
}

}  // namespace
}  // namespace ddl::test
