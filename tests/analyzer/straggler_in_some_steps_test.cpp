// The straggler that is late in some of the steps only: from one on, in a few by far, now and then, or by chance.
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
