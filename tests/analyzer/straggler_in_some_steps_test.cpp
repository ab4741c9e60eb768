// The straggler that is late in some of the steps only: from one on, in a few by far, now and then, or by chance.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/straggler_case.h"
#include "tests/analyzer/findings_jobs.h"

namespace ddl::test {
namespace {

// Horovod's stall check warns of it; the report must say who it was, however seldom.
TEST(Findings, ARankThatStallsForSecondsInAFewStepsIsNamed) {
  for (const int64_t times : {1, 3}) {
    Tables run = training(4, 40, 1_ms, [&](int64_t s, int64_t r) {
      return 10_ms + jitter(s, r, 1_ms) + (r == 1 && s > 5 && s % 10 == 5 && s / 10 <= times ? 2500_ms : 0);
    });
    run.analyze();
    ASSERT_EQ(run.findings(), Ids{"straggler"}) << times;
    EXPECT_EQ(run.integer("SELECT rank FROM finding"), 1);
    const std::string sentence = run.text("SELECT sentence FROM finding"),
                      evidence = run.text("SELECT evidence FROM finding");
    const std::string wanted =
        times == 1 ? "rank 1 (node1) kept the others waiting for long in 1 of 35 steps: 2.50 s"
                   : "rank 1 (node1) kept the others waiting for long in 3 of 35 steps: 7.50 s in all, 2.50 s at most";
    EXPECT_EQ(sentence, wanted);
    EXPECT_TRUE(has(evidence, times == 1 ? "In step 15: " : "In steps 15, 25, 35: ")) << evidence;
    EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), static_cast<double>(times) * 2500e6 / 35, 1e6);
    run.exec("CREATE TEMP TABLE shown AS " + run.text("SELECT evidence_sql FROM finding"));
    EXPECT_EQ(run.integer("SELECT count(DISTINCT step) FROM temp.shown"), times);
  }
}

TEST(Findings, StallsOfAllOrOfLessThanASecondOrOfLittleTimeAreNotOneRanks) {
  const auto found = [](int64_t steps, const std::function<int64_t(int64_t, int64_t)>& more_ns) {
    Tables run =
        training(4, steps, 1_ms, [&](int64_t s, int64_t r) { return 10_ms + jitter(s, r, 1_ms) + more_ns(s, r); });
    run.analyze();
    return run.findings();
  };
  EXPECT_EQ(found(40, [](int64_t s, int64_t) { return s == 15 ? 2500_ms : 0; }), Ids{}) << "all stall together";
  EXPECT_EQ(found(40, [](int64_t s, int64_t r) { return s == 15 && r == 1 ? 300_ms : 0; }), Ids{}) << "a hiccup";
  EXPECT_EQ(found(2500, [](int64_t s, int64_t r) { return s == 15 && r == 1 ? 1100_ms : 0; }), Ids{})
      << "4 % of the run";
}

/// Rank 1 takes 6 ms longer in five of six steps, rank 0 in the sixth: in so few steps that may be chance.
TEST(Findings, WhatMayBeChanceIsNotSure) {
  for (const int64_t steps : {36, 120}) {
    Tables run =
        training(2, steps, 5_ms, [](int64_t s, int64_t r) { return 40_ms + (r == (s % 6 == 5 ? 0 : 1) ? 6_ms : 0); });
    run.analyze();
    ASSERT_EQ(run.findings(), Ids{"straggler"}) << steps;
    EXPECT_EQ(run.text("SELECT confidence FROM finding"), steps == 36 ? "likely" : "sure") << steps;
  }
}

/// A rank is late in the last third of the run: the steps before it, the median one among them, do not count.
TEST(Findings, TheShareOfASavingIsOfItsOwnSteps) {
  Tables run = training(
      4, 60, 5_ms, [](int64_t s, int64_t r) { return 40_ms + jitter(s, r, 2_ms) + (r == 1 && s >= 40 ? 24_ms : 0); });
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"straggler"});
  EXPECT_TRUE(has(run.text("SELECT sentence FROM finding"), "since step 40"))
      << run.text("SELECT sentence FROM finding");
  EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), 24e6, 2.5e6);
  EXPECT_NEAR(run.number("SELECT share_ratio FROM finding"), 24.0 / 70, 0.02)
      << "steps of 46 ms before it do not count";
}

TEST(Findings, SeveralStragglersFromAStepOn) {
  Tables run = training(8, 100, 5_ms, [](int64_t s, int64_t r) {
    return 40_ms + jitter(s, r, 1_ms) + ((r == 5 || r == 0 || r == 7) && s >= 70 ? 30_ms : 0);
  });
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"straggler"});
  const std::string sentence = run.text("SELECT sentence FROM finding");
  EXPECT_TRUE(has(
      sentence,
      "ranks 0, 5 and 7 are late: one of them enters last in 100% of collectives since step 70: the others wait 30"))
      << sentence;
}

TEST(Findings, StragglerFromAStepOn) {
  Tables run = training(
      8, 100, 5_ms, [](int64_t s, int64_t r) { return 40_ms + jitter(s, r, 1_ms) + (r == 5 && s >= 70 ? 30_ms : 0); });
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"straggler"});
  const std::string sentence = run.text("SELECT sentence FROM finding");
  EXPECT_TRUE(has(sentence, "rank 5 (node1) enters last in 100% of collectives since step 70: the others wait 30"))
      << sentence;
}

/// A median over the steps says nothing of it. Two ranks on crowded cores: either is late by chance, rank 1 more often
/// and by more in the last 12 steps, as in a job of PyTorch that was recorded.
TEST(Findings, AStepFromWhichOnARankIsLateByChanceIsNoChange) {
  const std::vector<double> late_ms = {0,    0,     0,     0,     0,     48.8, -23.8, -14.6, -31.2, -7.2,
                                       36.5, 16.1,  4.0,   -37.6, -37.8, -45,  -83.4, 0.2,   38.2,  121.6,
                                       35.1, 128.3, 118.2, -66.2, 4.9,   34.7, 51.2,  3.7,   17.8,  -73.7};
  Tables run = training(2, static_cast<int64_t>(late_ms.size()), 10_ms, [&](int64_t step, int64_t rank) {
    const double ms = late_ms[static_cast<size_t>(step)] / 4;
    return 200_ms + static_cast<int64_t>(1e6 * std::max(0.0, rank == 1 ? ms : -ms));
  });
  run.analyze();
  EXPECT_EQ(run.findings(), Ids{});
}

TEST(Findings, ARankThatIsLateInLessThanHalfOfTheStepsIsAStragglerByTheMean) {
  constexpr int64_t kSteps = 100, kRanks = 4;
  struct Case {
    int64_t late_in_ten, late_ns;
  };
  for (const Case& c : {Case{4, 10_ms}, Case{1, 100_ms}}) {
    Tables run = training(kRanks, kSteps, 2_ms, [&](int64_t s, int64_t r) {
      return 10_ms + jitter(s, r, 500_us) + (r == 0 && s * 7 % 10 < c.late_in_ten ? c.late_ns : 0);
    });
    run.analyze();
    ASSERT_EQ(run.findings(), Ids{"straggler"}) << c.late_in_ten;
    EXPECT_EQ(run.integer("SELECT rank FROM finding"), 0);
    const double mean_ns = static_cast<double>(c.late_in_ten * c.late_ns) / 10;
    EXPECT_NEAR(static_cast<double>(run.integer("SELECT saving_ns FROM finding")), mean_ns, 0.1 * mean_ns);
  }
}

/// Late by 30 ms in two of five steps, by 2 ms in the others, as where a GAN's critic has steps of its own: a median
/// over the steps says 2 ms. The replay knows better, but not of all jobs.
TEST(Findings, ARankThatIsLateByMuchInSomeStepsIsAStragglerByTheMean) {
  const auto late_ns = [](int64_t s) { return s % 5 < 2 ? 30_ms : 2_ms; };
  Tables run = training(2, 80, 2_ms,
                        [&](int64_t s, int64_t r) { return 12_ms + jitter(s, r, 200_us) + (r == 1 ? late_ns(s) : 0); });
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"straggler"});
  const std::string sentence = run.text("SELECT sentence FROM finding");
  EXPECT_TRUE(has(sentence, "the other waits 13.")) << sentence;
  EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), 13.2e6, 0.3e6);
  EXPECT_EQ(run.text("SELECT confidence FROM finding"), "sure");

  StragglerInput rows{.annotated = true, .step_ns = 16_ms, .ranks = 2, .all_ranks = 2};
  for (int64_t s = 0; s < 75; ++s) rows.steps.push_back(s);
  rows.each_late = [&](const auto& use) {
    for (const int64_t s : rows.steps) {
      const auto wait_ns = static_cast<double>(late_ns(s));
      use({.step = s, .rank = 1, .instances = 1, .wait_ns = wait_ns, .longest_ns = wait_ns});
    }
  };
  rows.each_step = [&](const auto& use) {
    for (const int64_t s : rows.steps) {
      const auto wait_ns = static_cast<double>(late_ns(s));
      for (const int64_t r : {0, 1})
        use({.step = s,
             .rank = r,
             .duration_ns = 14e6 + wait_ns,
             .compute_ns = 12e6 + (r == 1 ? wait_ns : 0),
             .wait_ns = r == 0 ? wait_ns : 0,
             .exposed_ns = 2e6 + (r == 0 ? wait_ns : 0)});
    }
  };
  const auto found = find_straggler_case(rows);
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->costs.saving_ns(found->blame_share), 13.2e6);
}

/// Two loaded cores, nothing injected, in steps of 90 ms: since the tenth steady step rank 1 computes longest in 14 of
/// 15, but in five of them by far.
TEST(Findings, AFewLongStepsAreNoChange) {
  constexpr int64_t kLongerMs[] = {-20, 5, -15, -25, 6,  -18, -12, 4,  -14, 81, 62, 75,
                                   8,   6, -24, 7,   61, 62,  6,   16, 4,   8,  9,  22};
  Tables run = training(2, 29, 5_ms, [&](int64_t s, int64_t r) {
    const int64_t longer_ms = s < 5 ? 0 : kLongerMs[s - 5];
    return 90_ms + (r == 1 ? std::max<int64_t>(longer_ms, 0) : std::max<int64_t>(-longer_ms, 0)) * 1_ms;
  });
  run.analyze();
  EXPECT_EQ(run.findings(), Ids{}) << run.text("SELECT group_concat(sentence, '; ') FROM finding");
}

/// The same in ten steps: in the last five all waiting is for rank 1, in each of two collectives 7 to 42 ms of it.
TEST(Findings, FiveUnlikeStepsAreNoChange) {
  constexpr double kWaits[2][10] = {{1.6, 11.3, 0, 3.8, 16.2, 0, 0, 0, 0, 0},
                                    {0.3, 0, 4.5, 0.2, 0, 20.7, 65.5, 84.5, 76.4, 13.5}};
  StragglerInput rows{.annotated = true, .step_ns = 113_ms, .ranks = 2, .all_ranks = 2};
  for (int64_t s = 0; s < 10; ++s) rows.steps.push_back(s);
  rows.each_late = [&](const auto& use) {
    for (const int64_t s : rows.steps)
      for (const int64_t r : {0, 1})
        if (kWaits[r][s] > 0)
          for (int i = 0; i < 2; ++i)
            use({.step = s,
                 .rank = r,
                 .instances = 1,
                 .wait_ns = kWaits[r][s] * 0.5e6,
                 .longest_ns = kWaits[r][s] * 0.5e6});
  };
  rows.each_step = [&](const auto& use) {
    for (const int64_t s : rows.steps)
      for (const int64_t r : {0, 1}) {
        const double wait_ns = kWaits[1 - r][s] * 0.1e6;  // most lies behind computing
        use({.step = s,
             .rank = r,
             .duration_ns = 113e6,
             .compute_ns = 100e6 - wait_ns,
             .wait_ns = wait_ns,
             .exposed_ns = 5e6 + wait_ns});
      }
  };
  EXPECT_FALSE(find_straggler_case(rows));
}

/// Local SGD: between the averages of every fifth step each rank goes its own way.
Tables averaging(int64_t ranks, int64_t steps, const std::function<int64_t(int64_t, int64_t)>& compute_ns) {
  Tables run(ranks);
  run.exec("BEGIN");
  std::vector<int64_t> now_ns(static_cast<size_t>(ranks), 1_s);
  for (int64_t s = 0; s < steps; ++s) {
    std::vector<int64_t> end_ns;
    for (int64_t r = 0; r < ranks; ++r) end_ns.push_back(now_ns[static_cast<size_t>(r)] + compute_ns(s, r));
    const std::vector<int64_t> enter_ns = end_ns;
    if (s % 5 == 4) {
      run.allreduce(s / 5 + 1, enter_ns, 2_ms, 1_MB, s);
      end_ns.assign(static_cast<size_t>(ranks), *std::max_element(enter_ns.begin(), enter_ns.end()) + 2_ms);
    }
    for (int64_t r = 0; r < ranks; ++r) {
      const auto i = static_cast<size_t>(r);
      run.step(r, s, now_ns[i], end_ns[i], end_ns[i] - enter_ns[i]);
      now_ns[i] = end_ns[i];
    }
  }
  run.exec("COMMIT");
  return run;
}

/// Seven waits in 35 steps, all of 150 ms and for rank 1. The longest rank's times of each step add up to more than the
/// run: 35 ms in four steps, where rank 1 takes longest, and 155 + 2 in the fifth, where rank 0 does.
TEST(Findings, ARankThatIsLateToEveryAverageOfLocalSgdIsAStraggler) {
  for (const int64_t ranks : {2, 4}) {
    Tables run =
        averaging(ranks, 40, [](int64_t s, int64_t r) { return 5_ms + jitter(s, r, 500_us) + (r == 1 ? 30_ms : 0); });
    run.analyze();
    ASSERT_EQ(run.findings(), Ids{"straggler"}) << ranks;
    EXPECT_EQ(run.integer("SELECT rank FROM finding"), 1);
    EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), 30e6, 0.5e6) << ranks;
    EXPECT_NEAR(run.number("SELECT share_ratio FROM finding"), 30.0 / 35.6, 0.02) << ranks;
    EXPECT_EQ(run.text("SELECT confidence FROM finding"), "likely") << "seven are few";
    const std::string sentence = run.text("SELECT sentence FROM finding");
    EXPECT_TRUE(has(sentence, ranks == 2 ? "the other waits 30." : "the others wait 30.") || has(sentence, "29."))
        << sentence;
  }
}

/// The same waits, but one of seven is for rank 0; of sizes that differ as those of chance do; and five only.
TEST(Findings, FewWaitsForOneRankMayBeChance) {
  const std::vector<int64_t> uneven_ms = {0, 4, 60, 15, 2, 33, 9, 1};
  for (const int64_t which : {0, 1, 2}) {
    Tables run = averaging(2, which == 2 ? 30 : 40, [&](int64_t s, int64_t r) {
      const int64_t late = which == 0 && s / 5 == 3 ? 0 : 1;
      return 20_ms + (r == late ? which == 1 ? uneven_ms[static_cast<size_t>(s / 5)] * 1_ms : 30_ms : 0);
    });
    run.analyze();
    EXPECT_EQ(run.findings(), Ids{}) << which << run.text("SELECT group_concat(sentence) FROM finding");
  }
}

/// Hierarchical averaging: pairs in each step, all ranks in every fourth, where all of them come within half a ms of
/// each other.
Tables hierarchical(int64_t steps, bool pairs_always, const std::function<int64_t(int64_t, int64_t)>& compute_ns) {
  constexpr int64_t kRanks = 4;
  Tables run(kRanks);
  const int64_t pairs[] = {run.communicator("first", {0, 1}), run.communicator("second", {2, 3})};
  run.exec("BEGIN");
  std::vector<int64_t> now_ns(kRanks, 1_s), seq(2, 0);
  for (int64_t s = 0; s < steps; ++s) {
    const std::vector<int64_t> begin_ns = now_ns;
    std::vector<int64_t> mpi_ns(kRanks, 0);
    for (int64_t r = 0; r < kRanks; ++r) now_ns[static_cast<size_t>(r)] += compute_ns(s, r);
    const bool all = s % 4 == 1;
    for (int64_t p = 0; p < 2 && (pairs_always || !all); ++p) {
      const auto one = static_cast<size_t>(2 * p);
      const int64_t leave_ns = std::max(now_ns[one], now_ns[one + 1]) + 1_ms;
      ++seq[static_cast<size_t>(p)];
      for (const size_t r : {one, one + 1}) {
        run.add({.rank = static_cast<int64_t>(r),
                 .enter_ns = now_ns[r],
                 .leave_ns = leave_ns,
                 .bytes = 1_MB,
                 .comm = pairs[p],
                 .seq = seq[static_cast<size_t>(p)],
                 .step = s});
        mpi_ns[r] += leave_ns - now_ns[r];
        now_ns[r] = leave_ns;
      }
    }
    if (all) {
      for (int64_t r = 0; r < kRanks; ++r) now_ns[static_cast<size_t>(r)] += 10_us + jitter(s, r, 500_us);
      const int64_t end_ns = *std::max_element(now_ns.begin(), now_ns.end()) + 1_ms;
      run.allreduce(s / 4 + 1, now_ns, 1_ms, 1_MB, s);
      for (size_t r = 0; r < kRanks; ++r) mpi_ns[r] += end_ns - now_ns[r];
      now_ns.assign(kRanks, end_ns);
    }
    for (int64_t r = 0; r < kRanks; ++r) {
      const auto i = static_cast<size_t>(r);
      run.step(r, s, begin_ns[i], now_ns[i], mpi_ns[i]);
    }
  }
  run.exec("COMMIT");
  return run;
}

/// Its partner waits in each step, the other pair in every fourth for all of it: by step these share no collective with
/// it and wait for nothing. Which of the pair comes last where all meet is chance.
TEST(Findings, ARankThatIsLateInEachStepOfHierarchicalAveragingIsAStraggler) {
  for (const bool pairs_always : {false, true})
    for (const int64_t late : {1, 2}) {
      Tables run = hierarchical(28, pairs_always, [late](int64_t s, int64_t r) {
        return 5_ms + jitter(s, r, 500_us) + (r == late ? 60_ms : 0);
      });
      run.analyze();
      ASSERT_EQ(run.findings(), Ids{"straggler"}) << pairs_always << late;
      EXPECT_EQ(run.integer("SELECT rank FROM finding"), late) << pairs_always;
      EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), 60e6, 1e6) << pairs_always << late;
      EXPECT_FALSE(has(run.text("SELECT evidence FROM finding"), "nearly as late"))
          << run.text("SELECT evidence FROM finding");
      EXPECT_EQ(run.text("SELECT confidence FROM finding"), "likely");
      EXPECT_LT(run.integer(fmt::format("SELECT sum(wait_ns) FROM late WHERE rank <> {}", late)),
                run.integer("SELECT sum(wait_ns) / 50 FROM late"));
    }
}

/// As jobs have it that no replay knows. All meet in three of 40 steps, which are twelve times as long: that may be
/// chance by their sizes, but rank 1 is late to all steps.
TEST(Findings, WhereAllMeetRanksWaitForTheStepsBeforeToo) {
  const auto judge = [](int64_t late_in_ten) {
    StragglerInput rows{.annotated = true, .step_ns = 66_ms, .ranks = 4, .all_ranks = 4};
    for (int64_t s = 0; s < 40; ++s) rows.steps.push_back(s);
    rows.joint_steps = {11, 23, 35};
    const auto late = [late_in_ten](int64_t s) { return s * 7 % 10 < late_in_ten ? 1 : 0; };
    rows.each_late = [&](const auto& use) {
      for (const int64_t s : rows.steps) {
        use({.step = s, .rank = late(s), .instances = 1, .wait_ns = 60e6, .longest_ns = 60e6});
        if (s % 12 == 11) use({.step = s, .rank = 1, .instances = 1, .wait_ns = 2 * 720e6, .longest_ns = 720e6});
      }
    };
    rows.each_step = [&](const auto& use) {
      for (const int64_t s : rows.steps)
        for (const int64_t r : {0, 1, 2, 3}) {
          const double wait_ns = r < 2 ? (r == late(s) ? 0 : 60e6) : s % 12 == 11 ? 720e6 : 0;
          use({.step = s,
               .rank = r,
               .duration_ns = 6e6 + wait_ns + (r == late(s) ? 60e6 : 0),
               .compute_ns = 5e6 + (r == late(s) ? 60e6 : 0),
               .wait_ns = wait_ns,
               .exposed_ns = 1e6 + wait_ns});
        }
    };
    return find_straggler_case(rows);
  };
  const auto found = judge(10);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->ranks, (std::vector<int64_t>{1}));
  EXPECT_NEAR(found->costs.mean_saving_ns(found->blame_share), 60e6, 1e3);
  EXPECT_NEAR(found->costs.others_wait_ns, 60e6, 1e3);
  EXPECT_TRUE(found->by_chance);
  EXPECT_FALSE(is_sure(*found));
  EXPECT_FALSE(judge(6)) << "late to 24 of 40 steps";
}

/// One in each pair: the second waits for the first where all meet only, in one step of four. A median says
/// that it never does.
TEST(Findings, TheNextOneInHierarchicalAveragingWaitsWhereAllMeet) {
  Tables run = hierarchical(44, false, [](int64_t s, int64_t r) {
    return 5_ms + jitter(s, r, 500_us) + (r == 1 ? 60_ms : r == 2 ? 45_ms : 0);
  });
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"straggler"});
  EXPECT_EQ(run.integer("SELECT rank FROM finding"), 1);
  EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), 15e6, 1e6);
  const std::string evidence = run.text("SELECT evidence FROM finding");
  EXPECT_TRUE(has(evidence, "Rank 2 is nearly as late, and waits 1")) << evidence;
  EXPECT_TRUE(has(evidence, " ms/step itself: mended alone, rank 1 saves no more than 1")) << evidence;
}

/// Another rank in each step, or the ranks of one pair in turns.
TEST(Findings, WhoIsLateInHierarchicalAveragingByChanceIsNoStraggler) {
  for (const int64_t ranks : {2, 4}) {
    Tables run = hierarchical(28, true, [ranks](int64_t s, int64_t r) {
      return 5_ms + jitter(s, r, 500_us) + (r == jitter(s, 9, ranks) ? 60_ms : 0);
    });
    run.analyze();
    EXPECT_EQ(run.text("SELECT group_concat(sentence) FROM finding WHERE id = 'straggler'"), "") << ranks;
  }
}

/// Rank 0 learns from what three actors gather, who have no optimizer and so no steps: rank 3 is 30 ms later than the
/// other two, for which rank 0 waits 30 ms as well.
TEST(Findings, ARankWithoutStepsSavesWhatItIsLaterThanTheNext) {
  for (const bool torn : {false, true}) {
    Tables run(4);
    run.exec("BEGIN");
    for (int64_t s = 0; s < 30; ++s) {
      const int64_t begin_ns = 1_s + s * 70_ms;
      const int64_t ready_ns[] = {begin_ns, begin_ns + 30_ms, begin_ns + 29_ms, begin_ns + 60_ms};
      run.step(0, s, begin_ns, begin_ns + 65_ms, 62_ms);
      for (int64_t rank = 0; rank < 4; ++rank) {
        const auto step = rank == 0 ? std::optional(s) : std::nullopt;
        const int64_t gathered_ns = rank == 0 ? begin_ns + 61_ms : ready_ns[rank] + 100_us;
        run.add({.rank = rank,
                 .op = "MPI_Gather",
                 .enter_ns = ready_ns[rank],
                 .leave_ns = gathered_ns,
                 .bytes = 64,
                 .seq = 2 * s + 1,
                 .peer = 0,
                 .step = step});
        run.add({.rank = rank,
                 .op = "MPI_Bcast",
                 .enter_ns = gathered_ns + (rank == 0 ? 3_ms : 100_us),
                 .leave_ns = begin_ns + 65_ms,
                 .bytes = 64,
                 .seq = 2 * s + 2,
                 .peer = 0,
                 .step = step});
      }
    }
    run.exec("COMMIT");
    if (torn) run.exec("INSERT INTO loss VALUES (0, 3, 'torn_spool', 64, '')");
    run.analyze();
    EXPECT_EQ(run.text("SELECT rank FROM finding WHERE id = 'straggler'"), "3") << torn;
    const std::string evidence = run.text("SELECT evidence FROM finding WHERE id = 'straggler'");
    EXPECT_TRUE(has(evidence, torn ? "Its record is damaged: what it did instead is not known."
                                   : "It marks no steps: what it did instead is not known."))
        << evidence;
    EXPECT_NEAR(run.number("SELECT saving_ns FROM finding WHERE id = 'straggler'"), torn ? 60e6 : 30e6, 1.1e6);
  }
}

/// Every tenth step rank 0 evaluates: five waits that are all of the waiting, among 50 of less than a ms for
/// whoever comes last.
TEST(Findings, ARankThatEvaluatesEveryTenthStepIsAStraggler) {
  for (const int64_t ranks : {2, 3, 8}) {
    Tables run = training(ranks, 58, 2_ms, [](int64_t s, int64_t r) {
      return 40_ms + jitter(s, r, 900_us) + (r == 0 && s % 10 == 9 ? 400_ms : 0);
    });
    run.analyze();
    ASSERT_EQ(run.findings(), Ids{"straggler"}) << ranks;
    EXPECT_EQ(run.integer("SELECT rank FROM finding"), 0);
    EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), 400e6 * 5 / 53, 1.5e6) << ranks;
    EXPECT_EQ(run.text("SELECT confidence FROM finding"), "likely");
  }
}

/// As many of two ranks at odd times, and one of five that is the other's.
TEST(Findings, FewLongWaitsAmongManyShortOnesMayBeChance) {
  for (const bool odd : {false, true}) {
    Tables run = training(2, 58, 2_ms, [&](int64_t s, int64_t r) {
      const bool late = odd ? s == 9 || s == 14 || s == 29 || s == 40 || s == 49 : s % 10 == 9;
      return 40_ms + jitter(s, r, 900_us) + (late && r == (!odd && s == 29 ? 1 : 0) ? 400_ms : 0);
    });
    run.analyze();
    EXPECT_EQ(run.findings(), Ids{}) << odd << run.text("SELECT group_concat(sentence) FROM finding");
  }
}

/// Evaluation by rank 0 in every 25th step: it is last in all collectives that make somebody wait for long,
/// which are few of all.
TEST(Findings, AStragglerOfFewStepsSaysInHowMany) {
  Tables run = training(2, 300, 5_ms, [](int64_t s, int64_t r) {
    return 5_ms + jitter(s, r, 100_us) + (r == 0 && s % 25 == 24 ? 500_ms : 0);
  });
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"straggler"});
  const std::string sentence = run.text("SELECT sentence FROM finding");
  EXPECT_TRUE(has(sentence, "nearly all of it in 12 of 295 steps")) << sentence;
}

TEST(Findings, OneLongDelayIsNoStraggler) {
  Tables run = training(4, 60, 5_ms, [](int64_t s, int64_t r) {
    return 50_ms + jitter(s, r, 100_us) + (r == 1 && s == 30 ? 200_ms : 0);
  });
  run.analyze();
  EXPECT_EQ(run.findings(), Ids{});
  EXPECT_EQ(run.integer("SELECT late FROM blame GROUP BY late ORDER BY sum(wait_ns) DESC LIMIT 1"), 1);
}

}  // namespace
}  // namespace ddl::test
