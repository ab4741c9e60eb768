// Ranks without a CPU: the finding, what shared_cores and the verdict say of it, and the order against what it may
// explain.
#include "analyzer/cpu_waits.h"

#include "analyzer/findings/contention.h"
#include "tests/analyzer/findings_jobs.h"

namespace ddl::test {
namespace {

struct Account {
  int64_t rank, ready_ns, over_ns;
};

void account(Tables& run, const std::vector<Account>& accounts) {
  for (const Account& a : accounts)
    for (const auto& [key, ns] : {std::pair("run_queue_wait_ns", a.ready_ns),
                                  {"on_cpu_ns", a.over_ns - a.ready_ns},
                                  {"cpu_account_ns", a.over_ns}})
      run.exec(fmt::format("INSERT INTO process_fact VALUES ({}, '{}', '{}')", a.rank + 1, key, ns));
}

Tables even(int64_t ranks) {
  return training(ranks, 60, 10_ms, [](int64_t, int64_t) { return 40_ms; });
}

std::string verdict_of(Tables& run, const std::string& key) {
  return run.text("SELECT value FROM meta WHERE key = '" + key + "'");
}

TEST(CpuContention, OneRank) {
  Tables run = even(4);
  account(run, {{0, 20_ms, 7460_ms}, {1, 5750_ms, 7460_ms}, {2, 370_ms, 7460_ms}, {3, 0, 7460_ms}});
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"cpu_contention"});
  EXPECT_EQ(run.text("SELECT sentence FROM finding"), "rank 1 (node1) waited for a CPU for 5.75 s of 7.46 s (77%)");
  EXPECT_EQ(run.integer("SELECT rank FROM finding"), 1);
  EXPECT_EQ(run.text("SELECT confidence || saving_bound FROM finding"), "sureupper");
  // A step takes 50 ms, and rank 3, which had a CPU all the time, computes for 40: 10 are left, less than the 38.5
  // that rank 1 waited.
  EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), 10e6, 1);
  EXPECT_NEAR(run.number("SELECT share_ratio FROM finding"), 0.2, 1e-6);
  run.exec("CREATE TEMP TABLE shown AS " + run.text("SELECT evidence_sql FROM finding"));
  EXPECT_EQ(run.integer("SELECT count(*) FROM temp.shown"), 12);
}

TEST(CpuContention, SavesNoMoreThanTheRanksWaited) {
  Tables run = even(2);
  account(run, {{0, 600_ms, 10_s}, {1, 700_ms, 10_s}});
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"cpu_contention"});
  EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), 0.13 * 50e6,
              1);  // one after the other; without them rank 0 computes for 37.6 ms
}

/// Ranks that had no CPU for 60 % of the time compute for 16 of 40 ms: a step of 50 is left with these.
TEST(CpuContention, WhatIsComputedOnACpuStays) {
  Tables run = even(2);
  account(run, {{0, 6_s, 10_s}, {1, 6_s, 10_s}});
  run.analyze();
  ASSERT_EQ(run.findings(), Ids{"cpu_contention"});
  EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), 34e6, 1);
}

/// The scheduler's account is read at other times than the clock.
TEST(CpuContention, NobodyWaitsForLongerThanTheRun) {
  Tables run = even(2);
  run.exec(
      "INSERT INTO process_fact VALUES (1, 'run_queue_wait_ns', '7500000000'), (1, 'on_cpu_ns', '10000000'),"
      " (1, 'cpu_account_ns', '7460000000')");
  run.analyze();
  EXPECT_EQ(run.text("SELECT sentence FROM finding"), "rank 0 (node1) waited for a CPU for 7.46 s of 7.46 s (100%)");
}

TEST(CpuContention, OneFindingForAll) {
  struct Case {
    int64_t hosts;
    std::vector<int64_t> waiting;
    std::string sentence;
  };
  const Case cases[] = {
      {1, {0, 1, 2, 3}, "all ranks waited for a CPU, rank 3 (node1) longest: 4.00 s of 10.0 s (40%)"},
      {2, {0, 1, 2, 3}, "all ranks, on 2 hosts, waited for a CPU, rank 3 (node2) longest: 4.00 s of 10.0 s (40%)"},
      {2, {2, 3}, "all ranks of node2 waited for a CPU, rank 3 (node2) longest: 4.00 s of 10.0 s (40%)"},
      {2, {0, 3}, "ranks 0 and 3 waited for a CPU, rank 3 (node2) longest: 4.00 s of 10.0 s (40%)"},
      {4, {1, 2}, "all ranks of 2 hosts waited for a CPU, rank 2 (node3) longest: 3.00 s of 10.0 s (30%)"},
  };
  for (const Case& one : cases) {
    Tables run(4, one.hosts);
    for (const int64_t rank : one.waiting) account(run, {{rank, (rank + 1) * 1_s, 10_s}});
    run.analyze();
    ASSERT_EQ(run.findings(), Ids{"cpu_contention"}) << one.sentence;
    EXPECT_EQ(run.text("SELECT sentence FROM finding"), one.sentence);
    EXPECT_TRUE(run.is_null("SELECT rank FROM finding"));
  }
}

TEST(CpuContention, NothingWhereNoneWaitedOrNobodyKnows) {
  Tables little = even(2);
  account(little, {{0, 500_ms, 10_s}, {1, 100_ms, 10_s}});  // 5 % are not more than 5 %
  Tables unknown = even(2);
  Tables damaged = even(2);
  account(damaged, {{0, -5_s, 10_s}, {1, 5_s, 0}});
  Tables part = even(2);
  part.exec("INSERT INTO process_fact VALUES (1, 'run_queue_wait_ns', '9000000000')");
  std::string verdict;
  for (Tables* run : {&little, &unknown, &damaged, &part}) {
    run->analyze();
    EXPECT_EQ(run->findings(), Ids{});
    if (verdict.empty()) verdict = verdict_of(*run, "verdict.text");
    EXPECT_EQ(verdict_of(*run, "verdict.text"), verdict);
    EXPECT_FALSE(has(verdict, "CPU")) << verdict;
  }
}

TEST(CpuContention, TheVerdictSaysSo) {
  Tables without = training(2, 60, 20_ms, [](int64_t, int64_t) { return 40_ms; });
  Tables with = training(2, 60, 20_ms, [](int64_t, int64_t) { return 40_ms; });
  account(with, {{0, 1_s, 10_s}, {1, 4_s, 10_s}});
  without.analyze();
  with.analyze();
  EXPECT_EQ(verdict_of(with, "verdict"), "transfer");
  EXPECT_EQ(verdict_of(with, "verdict.text"),
            verdict_of(without, "verdict.text") +
                "; CPU contention is part of it: ranks waited for a CPU for 25.0% of the time");
}

/// Where the ranks' own number is the cause, that is said once.
TEST(CpuContention, SharedCoresTellTheirOwn) {
  Tables run = even(3);
  const char* const cpus[] = {"0", "0", "1"};
  for (int64_t r = 0; r < 3; ++r)
    run.exec(fmt::format("INSERT INTO process_fact VALUES ({}, 'cpus', '{}')", r + 1, cpus[r]));
  account(run, {{0, 5_s, 10_s}, {1, 6_s, 10_s}, {2, 2_s, 10_s}});
  run.analyze();
  ASSERT_EQ(run.findings(), (Ids{"shared_cores", "cpu_contention"}));
  EXPECT_EQ(run.text("SELECT sentence FROM finding WHERE position = 1"),
            "ranks 0 and 1 are bound to the same core (CPU 0 of node1)");
  const std::string evidence = run.text("SELECT evidence FROM finding WHERE position = 1");
  EXPECT_TRUE(has(evidence, "Ready to run and without a CPU for 6.00 s of 10.0 s (60%): rank 1, the longest of them."))
      << evidence;
  EXPECT_EQ(run.text("SELECT sentence FROM finding WHERE position = 2"),
            "rank 2 (node1) waited for a CPU for 2.00 s of 10.0 s (20%)");
}

/// What is sure to be saved comes before what may be.
TEST(CpuContention, AfterASureStraggler) {
  const auto late = [](int64_t, int64_t rank) { return rank == 2 ? 60_ms : 50_ms; };
  Tables alone = training(4, 60, 5_ms, late);
  alone.analyze();
  ASSERT_EQ(alone.findings(), Ids{"straggler"});
  Tables run = training(4, 60, 5_ms, late);
  account(run, {{0, 9_s, 10_s}, {1, 9_s, 10_s}, {2, 9_s, 10_s}, {3, 9_s, 10_s}});
  run.analyze();
  EXPECT_EQ(run.findings(), (Ids{"straggler", "cpu_contention"}));
  EXPECT_EQ(run.text("SELECT sentence || saving_ns FROM finding WHERE position = 1"),
            alone.text("SELECT sentence || saving_ns FROM finding WHERE position = 1"));
}

/// Its own wait, less the others', may explain a late rank; the others wait while they poll for it.
TEST(CpuContention, BeforeALateRankThatItMayExplain) {
  struct Case {
    const char* what;
    std::vector<Account> accounts;
    Ids found;
    std::string told;
  };
  const std::string straggler = "straggler", contention = "cpu_contention";
  const Case cases[] = {
      {"its own wait",
       {{0, 200_ms, 10_s}, {1, 200_ms, 10_s}, {2, 4_s, 10_s}, {3, 200_ms, 10_s}},
       {contention, straggler},
       " It waited for a CPU for 40% of the run, the others for 2.0%; that is in these times: mend that first."},
      {"late by far more",
       {{0, 0, 10_s}, {1, 0, 10_s}, {2, 700_ms, 10_s}, {3, 0, 10_s}},
       {straggler, contention},
       " It waited for a CPU for 7.0% of the run, the others for 0.0%; that is in these times."},
      {"the others poll",
       {{0, 9_s, 10_s}, {1, 9_s, 10_s}, {2, 100_ms, 10_s}, {3, 9_s, 10_s}},
       {straggler, contention},
       ""},
  };
  const auto late = [](int64_t, int64_t rank) { return rank == 2 ? 60_ms : 50_ms; };  // 15 % of the step
  Tables alone = training(4, 60, 5_ms, late);
  alone.analyze();
  for (const Case& one : cases) {
    Tables run = training(4, 60, 5_ms, late);
    account(run, one.accounts);
    run.analyze();
    EXPECT_EQ(run.findings(), one.found) << one.what;
    EXPECT_EQ(run.text("SELECT evidence FROM finding WHERE id = 'straggler'"),
              alone.text("SELECT evidence FROM finding") + one.told);
  }
}

/// A network that looks slow because ranks have no CPU must not be tuned first.
TEST(CpuContention, BeforeTransfersThatItMayExplain) {
  Tables alone = overlapped(90_ms);  // 22 % of the step
  alone.analyze();
  ASSERT_EQ(alone.findings(), Ids{"exposed_tail"});
  struct Case {
    std::vector<Account> accounts;
    Ids found;
    std::string told;
  };
  const std::string tail = "exposed_tail", contention = "cpu_contention";
  const Case cases[] = {
      {{{0, 9_s, 10_s}, {1, 8_s, 10_s}},
       {contention, tail},
       " Ranks waited for a CPU for up to 90% of the run, which is in these times: mend that first."},
      {{{0, 3_s, 10_s}, {1, 0, 10_s}},
       {contention, tail},
       " Rank 0 waited for a CPU for 30% of the run, which is in these times: mend that first."},
      {{{0, 1_s, 10_s}, {1, 1_s, 10_s}},
       {tail, contention},
       " Ranks waited for a CPU for up to 10% of the run, which is in these times."},
      {{{0, 400_ms, 10_s}, {1, 400_ms, 10_s}}, {tail}, ""},
  };
  for (const Case& one : cases) {
    Tables run = overlapped(90_ms);
    account(run, one.accounts);
    run.analyze();
    EXPECT_EQ(run.findings(), one.found) << one.told;
    EXPECT_EQ(run.text("SELECT evidence FROM finding WHERE id = 'exposed_tail'"),
              alone.text("SELECT evidence FROM finding") + one.told);
    EXPECT_EQ(run.text("SELECT sentence || saving_ns || confidence FROM finding WHERE id = 'exposed_tail'"),
              alone.text("SELECT sentence || saving_ns || confidence FROM finding"));
  }
}

/// The finding that knows why they had no CPU comes first as well, if they were seen to wait.
TEST(CpuContention, SharedCoresBeforeWhatTheyMayExplain) {
  for (const bool waited : {false, true}) {
    Tables run = overlapped(90_ms);
    for (const int64_t rank : {0, 1})
      run.exec(fmt::format("INSERT INTO process_fact VALUES ({}, 'cpus', '0')", rank + 1));
    if (waited) account(run, {{0, 5_s, 10_s}, {1, 5_s, 10_s}});
    run.analyze();
    EXPECT_EQ(run.findings(), waited ? (Ids{"shared_cores", "exposed_tail"}) : (Ids{"exposed_tail", "shared_cores"}));
  }
}

/// What GPUs carry out is not in the account of the host's threads; when these launch it is.
TEST(CpuContention, WhatGpusDoIsNotExplained) {
  Tables run = even(2);
  account(run, {{0, 9_s, 10_s}, {1, 9_s, 10_s}});
  run.analyze();
  Finding finding;
  finding.saving_ns = 1_ms;
  EXPECT_TRUE(Contention(run.db(), 0).may_explain({0, 1}, "slow_link", finding, 0.1));
  run.exec("UPDATE steady_world SET waits_by = 'device'");
  const Contention gpus(run.db(), 0);
  EXPECT_FALSE(gpus.may_explain({0, 1}, "slow_link", finding, 0.1));
  EXPECT_EQ(gpus.evidence("slow_link", finding, 0.1), "");
  EXPECT_TRUE(gpus.may_explain({0, 1}, "host_bound", finding, 0.1));
}

}  // namespace
}  // namespace ddl::test
