// Findings where ranks left no record, or one that is torn (specification.md J7): what the others prove is told as the
// bound that it is, and not put down to the network where a rank that nobody sees may be late.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "analyzer/findings/straggler_case.h"
#include "core/format.h"
#include "tests/analyzer/findings_jobs.h"

namespace ddl::test {
namespace {

std::string first_finding(Analyzed& run, const std::string& column) {
  return run.text("SELECT coalesce(max(" + column + "), '') FROM finding WHERE position = 1");
}

struct Step {
  int64_t small_ns, large_ns;  ///< what collectives of 1 and 3 MB transfer for
  int64_t late_ns = 0;         ///< rank 3 comes so much later to the first of them
};

/// 4 ranks of which the last left no record; `late` is true from step 15 of 30 on.
template <class StepOf>
Tables two_reductions(const StepOf& step_of) {
  Tables run(4);
  run.exec("BEGIN");
  int64_t now_ns = 1_s;
  for (int64_t s = 0; s < 30; ++s) {
    const Step step = step_of(s >= 15);
    const int64_t begin_ns = now_ns;
    std::vector<int64_t> enter_ns;
    for (int64_t r = 0; r < 4; ++r)
      enter_ns.push_back(now_ns + 20_ms + jitter(s, r, 50_us) + (r == 3 ? step.late_ns : 0));
    const std::vector<int64_t> first_ns = enter_ns;
    run.allreduce(2 * s + 1, enter_ns, step.small_ns, 1_MB, s);
    now_ns = *std::max_element(enter_ns.begin(), enter_ns.end()) + step.small_ns;
    for (int64_t r = 0; r < 4; ++r) enter_ns[static_cast<size_t>(r)] = now_ns + jitter(s + 100, r, 5_us);
    run.allreduce(2 * s + 2, enter_ns, step.large_ns, 3_MB, s);
    now_ns = *std::max_element(enter_ns.begin(), enter_ns.end()) + step.large_ns;
    for (int64_t r = 0; r < 4; ++r) run.step(r, s, begin_ns, now_ns, now_ns - first_ns[static_cast<size_t>(r)]);
  }
  for (const char* table : {"event", "step", "profile"})
    run.exec(std::string("DELETE FROM ") + table + " WHERE process = 4");
  run.exec("DELETE FROM process WHERE id = 4; COMMIT");
  run.analyze();
  return run;
}

TEST(MissingRanks, ANetworkThatSlowsAllBytesAlikeIsTold) {
  Tables run = two_reductions([](bool later) { return later ? Step{2_ms, 6_ms} : Step{1_ms, 3_ms}; });
  ASSERT_EQ(run.findings(), Ids{"slow_link"});
  EXPECT_TRUE(
      has(run.text("SELECT sentence FROM finding"),
          "became slow at step 15, or rank 3, which left no record, late: its collectives transfer for at most 8.0"))
      << run.text("SELECT sentence FROM finding");
  EXPECT_EQ(run.text("SELECT confidence FROM finding"), "maybe");
  EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), 4e6, 0.1e6);
}

TEST(MissingRanks, ALateOneIsNotANetwork) {
  Tables run = two_reductions([](bool later) { return Step{1_ms, 3_ms, later ? 4_ms : 0}; });
  EXPECT_EQ(run.findings(), Ids{}) << run.text("SELECT sentence FROM finding");
  EXPECT_NEAR(run.number("SELECT xfer_ns FROM group_transfer WHERE bytes = 3000000 AND bounded"), 3e6, 0.05e6);
}

/// Reduces within nodes of four ranks, then across them.
SyntheticRun two_levels() {
  return run()
      .ranks(16)
      .steps(30)
      .split("node", 4)
      .split("column", 4, true)
      .jitter(20_us)
      .compute(10_ms)
      .on_comm("node")
      .allreduce(4_MiB, 400_us)
      .on_comm("column")
      .allreduce(1_MiB, 500_us);
}

TEST(MissingRanks, ALateRankThatMayWaitForOneWithoutARecordSavesAtMost) {
  const auto job = [] {
    return run().ranks(4).steps(20).compute(20_ms).allreduce(1_MiB, 1_ms).slow(1, 8_ms).missing(2);
  };
  Analyzed last(job());
  ASSERT_EQ(last.findings(), Ids{"straggler"});
  EXPECT_EQ(last.text("SELECT rank || saving_bound FROM finding"), "1upper");
  EXPECT_FALSE(has(last.text("SELECT evidence FROM finding"), "less is saved"));
  // Rank 2 comes 22 ms behind rank 1: mending rank 1 saves nothing.
  Analyzed second(job().slow(2, 30_ms));
  ASSERT_EQ(second.findings(), Ids{"straggler"});
  EXPECT_EQ(second.text("SELECT rank || saving_bound || confidence FROM finding"), "1upperlikely");
  EXPECT_TRUE(has(
      second.text("SELECT evidence FROM finding"),
      " It is inside calls for 23.0 ms/step itself after the others had come: where rank 2, which left no record, is later still,"
      " less is saved."))
      << second.text("SELECT evidence FROM finding");
}

TEST(MissingRanks, TheOthersWaitForALateRootThatIsKnown) {
  Analyzed late(run().ranks(4).steps(20).compute(20_ms).rendezvous().reduce(2_MiB, 1_ms, 1).slow(1, 8_ms).missing(2));
  EXPECT_EQ(
      late.integer(
          "SELECT count(*) FROM v_collective WHERE op = 'MPI_Reduce' AND wait_method = 'lower-bound' AND rank IN (0, 3)"
          " AND wait_ns = 8000000"),
      2 * 20);
  EXPECT_EQ(late.integer("SELECT total(wait_ns) FROM v_collective WHERE rank = 1"), 0);
  // The root waits for the last that is known, at least.
  Analyzed other(run().ranks(4).steps(20).compute(20_ms).rendezvous().reduce(2_MiB, 1_ms, 1).slow(3, 8_ms).missing(2));
  EXPECT_EQ(other.integer(
                "SELECT count(*) FROM v_collective WHERE op = 'MPI_Reduce' AND wait_method = 'lower-bound' AND rank = 1"
                " AND wait_ns = 8000000"),
            20);
}

TEST(MissingRanks, WhatKeepsItsNeighboursKeepsItAsWell) {
  const auto job = [] { return two_levels().on_comm("column").allreduce(2_MiB, 1_ms); };
  // Rank 6 is late, and its node with it. Column 1 seems to transfer for as long, because nobody sees rank 5 come.
  Analyzed late(job().slow(6, 4_ms).missing(5));
  EXPECT_EQ(late.findings(), Ids{"straggler"}) << late.text("SELECT group_concat(sentence, '; ') FROM finding");
  EXPECT_EQ(late.text("SELECT rank FROM finding"), "6");
  EXPECT_GT(
      late.integer(
          "SELECT max(xfer_ns) FROM group_transfer t JOIN communicator c ON c.id = t.comm WHERE t.bounded AND c.label LIKE 'column%'"),
      4_ms);
  Analyzed healthy(job().missing(5));
  EXPECT_EQ(healthy.findings(), Ids{});
}

/// 3 hosts of 2 ranks. Each column, a rank of each host, reduces on its own; that of the odd ranks moves a third of the
/// bytes in a second.
TEST(MissingRanks, CommunicatorsAreAlikeAlsoWhereAHostIsNotKnown) {
  for (const int64_t missing : {4, 5}) {
    Tables run(6, 3);
    run.exec("BEGIN");
    const int64_t columns[] = {run.communicator("column.0", {0, 2, 4}), run.communicator("column.1", {1, 3, 5})};
    int64_t now_ns = 1_s;
    for (int64_t s = 0; s < 20; ++s) {
      for (int64_t r = 0; r < 6; ++r) {
        const int64_t enter_ns = now_ns + 10_ms + jitter(s, r, 20_us),
                      leave_ns = now_ns + 10_ms + 20_us + (r % 2 == 0 ? 1_ms : 3_ms);
        run.add({.rank = r,
                 .enter_ns = enter_ns,
                 .leave_ns = leave_ns,
                 .bytes = 1_MB,
                 .comm = columns[r % 2],
                 .seq = s + 1,
                 .step = s});
        run.step(r, s, now_ns, now_ns + 14_ms, leave_ns - enter_ns);
      }
      now_ns += 14_ms;
    }
    const std::string process = std::to_string(missing + 1);
    for (const char* table : {"event", "step", "profile"})
      run.exec(std::string("DELETE FROM ") + table + " WHERE process = " + process);
    run.exec("DELETE FROM process WHERE id = " + process + "; UPDATE host SET sigma_ns = 1000; COMMIT");
    run.analyze();
    ASSERT_EQ(run.findings(), Ids{"slow_link"}) << missing;
    EXPECT_TRUE(has(run.text("SELECT sentence FROM finding"), "the network of column.1 is slow"))
        << run.text("SELECT sentence FROM finding");
    EXPECT_EQ(has(run.text("SELECT sentence FROM finding"), ", or rank 5, which left no record, is late"),
              missing == 5);
    EXPECT_NEAR(run.number("SELECT saving_ns FROM finding"), 2e6, 0.1e6);
    EXPECT_EQ(run.text("SELECT saving_bound FROM finding"), missing == 5 ? "upper" : "lower");
  }
}

// A mean over a maximum says nothing of ranks that nobody knows: of one rank alone it would always be 1.
TEST(MissingRanks, OneRankAloneHasNoLoadBalance) {
  for (const int64_t known : {1, 2}) {
    Tables run(4);
    for (int64_t s = 0; s < 20; ++s)
      for (int64_t r = 0; r < known; ++r) run.step(r, s, s * 10_ms, (s + 1) * 10_ms, 1_ms + r * 4_ms);
    run.exec("DELETE FROM process WHERE rank >= " + std::to_string(known));
    run.analyze();
    for (const std::string metric :
         {"load_balance", "talp_load_balance_in", "talp_load_balance_out", "talp_mpi_load_balance"}) {
      const std::string of = " FROM metric WHERE id = '" + metric + "'";
      EXPECT_EQ(run.integer("SELECT count(value)" + of), known - 1) << metric;
      EXPECT_EQ(run.text("SELECT coalesce(max(why), '')" + of), known == 1 ? "PARTIAL_RANKS" : "") << metric;
    }
    EXPECT_NEAR(run.number("SELECT coalesce(max(value), 0) FROM metric WHERE id = 'load_balance'"),
                known == 1 ? 0 : 7.0 / 9, 1e-9);
  }
}

// With an unlucky rank in every step, another one each time, and some of them unseen, one may be the last again and
// again by accident.
TEST(MissingRanks, NobodyIsNamedForSureByAFewSteps) {
  const auto sure = [](size_t late_steps, size_t steps, bool bounded, double standard_error = 0.1) {
    StragglerCase found;
    found.standard_error = standard_error;
    found.blame_share = found.late_rate = 0.9;
    found.late = found.instances = 60;
    found.steps = steps;
    found.late_steps = late_steps;
    found.bounded = bounded;
    found.ranks = {0};
    found.costs.own_ranks = 1;
    found.costs.other_ranks = 3;
    return is_sure(found);
  };
  EXPECT_TRUE(sure(20, 20, true));
  EXPECT_TRUE(sure(8, 9, true));
  EXPECT_FALSE(sure(5, 5, true));
  EXPECT_FALSE(sure(9, 20, true));
  EXPECT_TRUE(sure(9, 20, false));
  EXPECT_FALSE(sure(20, 20, false, 0.2)) << "five standard errors";
}

TEST(MissingRanks, TransfersThatNothingHidesAreAtMostWhatIsSeen) {
  const auto tail = [] {
    return run().ranks(4).steps(20).compute(20_ms).iallreduce(8_MiB, 2_ms).iallreduce(8_MiB, 2_ms).waitall();
  };
  for (const int hosts : {1, 2}) {  // on two, nobody knows who posted last
    Analyzed all(tail().hosts(hosts)), most(tail().hosts(hosts).missing(3));
    ASSERT_EQ(all.findings(), Ids{"exposed_tail"});
    ASSERT_EQ(most.findings(), Ids{"exposed_tail"});
    EXPECT_EQ(most.integer("SELECT saving_ns FROM finding"), all.integer("SELECT saving_ns FROM finding"));
    EXPECT_TRUE(has(first_finding(most, "sentence"),
                    "not hidden, or rank 3, which left no record, posts late: at most 4.00 ms/step"))
        << first_finding(most, "sentence");
    EXPECT_EQ(most.integer("SELECT min(split) FROM tail"), hosts == 1 ? 1 : 0);
  }

  const auto batch = [] { return run().ranks(4).steps(20).value("samples", 32).compute(10_ms).allreduce(8_MiB, 4_ms); };
  Analyzed few(batch().missing(3));
  ASSERT_EQ(few.findings(), Ids{"batch_too_small"});
  EXPECT_TRUE(has(first_finding(few, "sentence"), "32 samples per rank are few for the network: at most 29%"))
      << first_finding(few, "sentence");
  EXPECT_EQ(few.integer("SELECT saving_ns FROM finding"), 2_ms);
}

// Ranks 0, 8 and 12 wait for rank 4, which its node's slow ranks keep waiting: nobody sees that they do.
TEST(MissingRanks, SeveralLateOnesAreToldByTheirComputing) {
  Analyzed late(two_levels().slow(5, 4_ms).slow(6, 4_ms).missing(4).missing(9));
  ASSERT_EQ(late.findings().front(), "straggler") << late.text("SELECT group_concat(sentence, '; ') FROM finding");
  EXPECT_TRUE(has(first_finding(late, "sentence"), "ranks 5 and 6 ")) << first_finding(late, "sentence");
  EXPECT_NEAR(static_cast<double>(late.integer("SELECT saving_ns FROM finding WHERE position = 1")), 4e6, 0.2e6);
}

// Half of those with a record are fewer than half of all. Had the fifth been late as well they would not be:
// likely, not sure.
TEST(MissingRanks, HalfOfTheKnownRanksMayBeLate) {
  const auto four = [] {
    return run().ranks(5).steps(30).compute(20_ms).slow(0, 4_ms).slow(2, 4_ms).allreduce(1_MiB, 1_ms);
  };
  Analyzed late(four().missing(4));
  ASSERT_EQ(late.findings(), Ids{"straggler"}) << late.text("SELECT group_concat(sentence, '; ') FROM finding");
  EXPECT_TRUE(has(first_finding(late, "sentence"), "ranks 0 and 2 ")) << first_finding(late, "sentence");
  EXPECT_EQ(first_finding(late, "confidence"), "likely");
  EXPECT_NEAR(static_cast<double>(late.integer("SELECT saving_ns FROM finding")), 4e6, 0.2e6);
  Analyzed all(four());
  EXPECT_EQ(first_finding(all, "confidence"), "sure") << "two of five";
}

// Two are late: where a record is damaged, nobody knows what its rank did instead, but of the other one everything.
TEST(MissingRanks, OfWhomMoreIsKnownIsNamedBeforeADamagedRecord) {
  const auto job = [](int64_t other) {
    Tables run = training(6, 60, 5_ms, [&](int64_t s, int64_t r) {
      return 40_ms + jitter(s, r, 1_ms) + (r == 1 ? 24_ms : r == other ? 23_ms : 0);
    });
    run.exec("INSERT INTO loss VALUES (0, 1, 'torn_spool', 1, '')");
    run.analyze();
    return run;
  };
  Tables both = job(4);
  ASSERT_EQ(both.findings(), Ids{"straggler"});
  EXPECT_EQ(both.integer("SELECT rank FROM finding"), 4) << both.text("SELECT sentence FROM finding");
  EXPECT_NE(both.text("SELECT confidence FROM finding"), "sure");
  Tables alone = job(-1);
  ASSERT_EQ(alone.findings(), Ids{"straggler"});
  EXPECT_EQ(alone.integer("SELECT rank FROM finding"), 1);
  EXPECT_EQ(alone.text("SELECT confidence FROM finding"), "likely");
  EXPECT_TRUE(has(alone.text("SELECT evidence FROM finding"), "Its record is damaged"))
      << alone.text("SELECT evidence FROM finding");
}

// Twice the batch saves 5 % of the step where transfers are a tenth of it. A bound of them that is hardly larger does
// not say that they are.
TEST(MissingRanks, ABoundNearTheThresholdShowsNothing) {
  const auto batch = [] {
    return run().ranks(4).steps(20).value("samples", 32).compute(10_ms).allreduce(8_MiB, 1300_us);
  };
  Analyzed all(batch()), most(batch().missing(3));
  EXPECT_EQ(all.findings(), Ids{"batch_too_small"});
  EXPECT_EQ(most.findings(), Ids{});
}

/// GPUs that compute 400 us and meet, rank 3 later by `late_us`; then another collective among as many ranks as
/// `groups` have each. No trace of `missing`.
struct GpuSteps {
  int64_t ranks = 4, missing = 1, late_us = 0;
  std::vector<std::vector<int64_t>> groups;
  std::vector<int64_t> transfer_us;  ///< by group

  Tables analyzed() const {
    constexpr int64_t kPeriodNs = 2'000'000;
    Tables run(static_cast<int>(ranks));
    run.exec(
        "INSERT INTO gpu_name VALUES (1, 'gemm', 'compute'), (2, 'ncclDevKernel_AllReduce', 'communication');"
        "INSERT INTO op (id, name, class, nonblocking) VALUES (1, 'ncclAllReduce', 'all_to_all', 1);"
        "BEGIN");
    int64_t events = 0;
    const auto kernel = [&](int64_t rank, int64_t step, int64_t begin_us, int64_t end_us, int64_t comm) {
      const int64_t start_ns = step * kPeriodNs + begin_us * 1000, duration_ns = (end_us - begin_us) * 1000;
      const std::string number = comm == 0 ? "NULL, NULL" : std::to_string(comm) + ", " + std::to_string(step + 1);
      const std::string values =
          std::to_string(step) + ", 0, " + std::to_string(start_ns) + ", " + std::to_string(duration_ns);
      const std::string process = std::to_string(rank + 1), name = comm == 0 ? "1" : "2";
      run.exec(
          "INSERT INTO gpu_event (process, kind, name, device, context, stream, region, step, thread, start_ns, duration_ns, correlation,"
          " comm, seq, launch_ns, launch_duration_ns) VALUES (" +
          process + ", 1, " + name + ", 0, 1, " + name + ", 0, " + values + ", 0, " + number + ", " +
          std::to_string(step * kPeriodNs) + ", 0)");
      if (comm == 0) return;
      run.exec(
          "INSERT INTO event (id, process, kind, op, comm, seq, region, step, thread, start_ns, duration_ns, bytes) VALUES (" +
          std::to_string(++events) + ", " + process + ", 4, 1, " + number + ", 0, " + values + ", 8000000)");
    };
    std::vector<int64_t> comms;
    for (size_t g = 0; g < groups.size(); ++g)
      comms.push_back(run.communicator("mesh_tp#" + std::to_string(g), groups[g]));
    for (int64_t s = 0; s < 20; ++s) {
      for (size_t g = 0; g < groups.size(); ++g) {
        const bool waits = late_us > 0 && std::find(groups[g].begin(), groups[g].end(), 3) != groups[g].end();
        const int64_t met_us = 400 + (waits ? late_us : 0);
        for (const int64_t rank : groups[g]) {
          if (rank == missing) continue;
          const int64_t ready_us = rank == 3 ? met_us : 400;
          run.step(rank, s, s * kPeriodNs, s * kPeriodNs + (met_us + transfer_us[g]) * 1000, 0);
          kernel(rank, s, 0, ready_us, 0);
          kernel(rank, s, ready_us, met_us + transfer_us[g], comms[g]);
        }
      }
    }
    run.exec("DELETE FROM process WHERE rank = " + std::to_string(missing) +
             "; COMMIT; UPDATE process SET end_ns = 40000000");
    run.analyze();
    return run;
  }
};

TEST(MissingGpus, WhomTheOthersWaitForIsToldByTimeInCollectives) {
  Tables run = GpuSteps{.late_us = 200, .groups = {{0, 1, 2, 3}}, .transfer_us = {50}}.analyzed();
  ASSERT_EQ(run.findings(), Ids{"straggler"}) << run.text("SELECT group_concat(sentence, '; ') FROM finding");
  EXPECT_EQ(run.integer("SELECT rank FROM finding"), 3);
  EXPECT_EQ(run.integer("SELECT saving_ns FROM finding"), 200'000);
  EXPECT_EQ(run.text("SELECT confidence FROM finding"), "likely");
}

TEST(MissingGpus, ASlowNetworkIsToldByItsBoundAndByThatOfOthers) {
  for (const int64_t missing : {1, 6}) {
    Tables run =
        GpuSteps{.ranks = 8, .missing = missing, .groups = {{0, 1, 2, 3}, {4, 5, 6, 7}}, .transfer_us = {400, 100}}
            .analyzed();
    ASSERT_EQ(run.findings(), Ids{"slow_link"}) << missing;
    EXPECT_TRUE(has(run.text("SELECT sentence FROM finding"), "the network of mesh_tp#0 is slow"))
        << run.text("SELECT sentence FROM finding");
    EXPECT_EQ(has(run.text("SELECT sentence FROM finding"), ", or rank 1, which left no record, is late"),
              missing == 1);
    EXPECT_EQ(run.text("SELECT confidence FROM finding"), "maybe");
  }
}

TEST(MissingRanks, AnAlgorithmIsSlowOrSomebodyLateToIt) {
  Analyzed slow(run().ranks(4).steps(20).compute(20_ms).allreduce(2_MiB, 1_ms).allreduce(4_MiB, 8_ms).missing(3));
  ASSERT_EQ(slow.findings(), Ids{"slow_algorithm"});
  EXPECT_TRUE(has(first_finding(slow, "sentence"), "or rank 3, which left no record, is late to it"))
      << first_finding(slow, "sentence");
  EXPECT_NEAR(static_cast<double>(slow.integer("SELECT saving_ns FROM finding")), 6e6, 0.01e6);
}

// A size that occurs only after the other one: the network may have changed meanwhile. Where both occur in the same
// steps it is the size.
TEST(MissingRanks, AnAlgorithmIsSlowInTheStepsInWhichAnotherSizeIsFast) {
  for (const bool same_steps : {false, true}) {
    Tables run(4);
    run.exec("BEGIN");
    int64_t now_ns = 1_s, number = 0;
    for (int64_t s = 0; s < 40; ++s) {
      const int64_t begin_ns = now_ns;
      for (const bool slow : {false, true}) {
        const bool is_in = same_steps || slow == (s >= 20);
        if (!is_in) continue;
        std::vector<int64_t> enter_ns;
        for (int64_t r = 0; r < 4; ++r) enter_ns.push_back(now_ns + 10_ms + jitter(s, r, 50_us));
        run.allreduce(++number, enter_ns, slow ? 6_ms : 3_ms, slow ? 10'200'000 : 10'000'000, s);
        now_ns = *std::max_element(enter_ns.begin(), enter_ns.end()) + (slow ? 6_ms : 3_ms);
      }
      for (int64_t r = 0; r < 4; ++r) run.step(r, s, begin_ns, now_ns, same_steps ? 9_ms : s >= 20 ? 6_ms : 3_ms);
    }
    run.exec("COMMIT");
    run.analyze();
    const std::string found = run.text("SELECT coalesce(group_concat(id), '') FROM finding WHERE id LIKE 'slow%'");
    EXPECT_EQ(found, same_steps ? "slow_algorithm" : "slow_link");
  }
}

TEST(MissingRanks, WhatIsSavedAtMostComesAfterWhatIsKnown) {
  Analyzed both(
      run().ranks(4).steps(20).compute(20_ms).slow(1, 2_ms).allreduce(2_MiB, 1_ms).allreduce(4_MiB, 8_ms).missing(3));
  EXPECT_EQ(both.findings(), (Ids{"straggler", "slow_algorithm"}));
  EXPECT_LT(both.integer("SELECT saving_ns FROM finding WHERE position = 1"),
            both.integer("SELECT saving_ns FROM finding WHERE position = 2"));
}

TEST(MissingRanks, AHostWithoutARecordOfCollectivesHasNoClockToDoubt) {
  const ScratchFolder folder;
  const Truth truth = run().ranks(3).hosts(3).steps(40).compute(5_ms).allreduce(1_MiB, 1_ms).write(folder.path());
  const std::filesystem::path torn = folder.path() / truth.spools[0];
  std::filesystem::resize_file(torn, std::filesystem::file_size(torn) / 3);
  ingest(find_run(folder.path().string()));
  SQLite::Database db = open_store(find_run(folder.path().string()).store, Access::kReadWrite);
  ddl::analyze(db);
  EXPECT_EQ(db.execAndGet("SELECT count(*) FROM event WHERE process = 1").getInt64(), 0)
      << "else this test shows nothing";
  EXPECT_EQ(db.execAndGet("SELECT count(*) FROM host WHERE sigma_ns IS NULL").getInt64(), 1);
  EXPECT_EQ(db.execAndGet("SELECT count(*) FROM finding").getInt64(), 0);
}

// Bits of a header that are flipped must not be told as facts: that a rank was aborted, that recording took years,
// that a clock is mad.
TEST(MissingRanks, ADamagedHeaderAccusesNobody) {
  const std::pair<bool, std::function<void(FileHeader&)>> changes[] = {
      {true, [](FileHeader& h) { h.overhead_ticks = 1ull << 57; }},
      // not too much for a job of days, but for this one
      {false, [](FileHeader& h) { h.overhead_ticks = 1ull << 45; }},
      {true, [](FileHeader& h) { h.loss[2] = 1ull << 60; }},
      {true, [](FileHeader& h) { h.latest.ticks += 1ull << 60; }},
      {false, [](FileHeader& h) { h.flags |= kMpiAborted; }},  // it left MPI_Finalize
      {false, [](FileHeader& h) { h.flags = 0; }},
      {false, [](FileHeader& h) { h.host[1] = '\x07'; }},  // of a name any byte may be right
      {true,
       [](FileHeader& h) {
         h.flags = kMpiAborted;
         h.loss[30] = UINT64_MAX;
       }},
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    const auto& [seen, change] = changes[i];
    const ScratchFolder folder;
    const Truth truth = run().ranks(6).hosts(2).steps(40).compute(5_ms).allreduce(1_MiB, 1_ms).write(folder.path());
    const std::filesystem::path spool = folder.path() / truth.spools[1];
    std::fstream file(spool, std::ios::in | std::ios::out | std::ios::binary);
    FileHeader header;
    file.read(reinterpret_cast<char*>(&header), sizeof header);
    change(header);
    file.seekp(0);
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
    file.close();
    ingest(find_run(folder.path().string()));
    SQLite::Database db = open_store(find_run(folder.path().string()).store, Access::kReadWrite);
    ddl::analyze(db);
    EXPECT_EQ(db.execAndGet("SELECT count(*) FROM loss WHERE kind = 'damaged_header' AND rank = 1").getInt64(),
              seen ? 1 : 0)
        << i;
    EXPECT_EQ(db.execAndGet("SELECT coalesce(group_concat(sentence, '; '), '') FROM finding").getString(), "") << i;
    if (seen) continue;
    EXPECT_EQ(db.execAndGet("SELECT count(*) FROM process WHERE ended = 'finalized' AND abort_code IS NULL").getInt64(),
              6)
        << i;
    EXPECT_EQ(db.execAndGet("SELECT count(*) FROM loss").getInt64(), 0) << i;
  }
}

}  // namespace
}  // namespace ddl::test
