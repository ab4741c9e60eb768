// Values of metrics by hand, where what makes them differ is not the step but who counted, who was seen and who was
// late.
#include <cmath>

#include "analyzer/models/run_facts.h"
#include "analyzer/passes/steady_steps.h"
#include "analyzer/tables.h"
#include "store/ingest/clocks.h"
#include "tests/analyzer/analyzed.h"
#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

/// What `counter` grew by in the steps that a rank opens in this region.
void count(Tables& run, int64_t rank, int64_t region, const std::string& counter, double value) {
  const std::string process = std::to_string(rank + 1);
  run.exec("INSERT OR IGNORE INTO counter SELECT " + process +
           ", (SELECT count(*) FROM counter WHERE process = " + process + "), '" + counter +
           "', 'papi', NULL WHERE NOT EXISTS (SELECT 1 FROM counter WHERE process = " + process + " AND name = '" +
           counter + "'); INSERT INTO counter_profile SELECT " + process + ", " + std::to_string(region) +
           ", number, 5, " + std::to_string(static_cast<int64_t>(value)) + " FROM counter WHERE process = " + process +
           " AND name = '" + counter + "'");
}

/// Two ranks that open steps in two places of the tree of ranges, for one second in each; the last rank
/// counts only `of_last`.
Tables counted(const std::vector<std::string>& of_last) {
  Tables run(2);
  run.exec(
      "INSERT INTO region VALUES (7, 0, 'phase', 'train', 'train', NULL), (8, 0, 'step', '', NULL, NULL),"
      " (9, 7, 'step', '', 'train', NULL)");
  for (int64_t rank : {0, 1}) {
    run.value(rank, 0, "peak_flops_per_second", 4e9);
    for (const int64_t region : {8, 9}) {
      run.exec("INSERT INTO range_profile VALUES (" + std::to_string(rank + 1) + ", " + std::to_string(region) +
               ", 5, 1000000000, 0, NULL, NULL)");
      for (const auto& [name, value] :
           {std::pair("PAPI_TOT_INS", region == 8 ? 3e9 : 1e9), std::pair("PAPI_TOT_CYC", 1.6e9),
            std::pair("PAPI_FP_OPS", region == 8 ? 1e9 : 3e9)}) {
        const bool counts = rank == 0 || std::find(of_last.begin(), of_last.end(), name) != of_last.end();
        if (counts) count(run, rank, region, name, value);
      }
    }
  }
  run.analyze();
  return run;
}

TEST(MetricValues, CountersOfAllPlacesThatOpenSteps) {
  Tables run = counted({"PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_FP_OPS"});
  EXPECT_DOUBLE_EQ(run.metric("ipc").value_or(-1), 4.0 / 3.2);
  EXPECT_DOUBLE_EQ(run.metric("cpu_frequency").value_or(-1), 1.6e9);
  EXPECT_DOUBLE_EQ(run.metric("hfu").value_or(-1), 8e9 / (4 * 4e9));
}

TEST(MetricValues, CountersOfSomeRanksAreNotThoseOfAll) {
  Tables none = counted({}), half = counted({"PAPI_TOT_INS"});
  for (const char* id : {"ipc", "cpu_frequency", "hfu"}) {
    EXPECT_EQ(none.why(id), "PARTIAL_RANKS") << id;
    EXPECT_EQ(half.why(id), "PARTIAL_RANKS") << id;
  }
  Tables silent(2);
  silent.analyze();
  for (const char* id : {"ipc", "cpu_frequency", "hfu"}) EXPECT_EQ(silent.why(id), "NO_DATA") << id;
}

/// One collective number `seq` of ranks 0, 1, ... on MPI_COMM_WORLD with root 0; all leave at `leave_ns`.
void collective(Tables& run, const std::string& op, int64_t seq, const std::vector<int64_t>& enter_ns, int64_t leave_ns,
                bool request = false) {
  for (size_t rank = 0; rank < enter_ns.size(); ++rank) {
    Row row;
    row.rank = static_cast<int64_t>(rank);
    row.op = op;
    row.enter_ns = enter_ns[rank];
    row.leave_ns = leave_ns;
    row.bytes = op == "MPI_Barrier" ? 0 : 1'000;
    row.seq = seq;
    if (op != "MPI_Barrier" && op != "MPI_Iallreduce") row.peer = 0;
    row.request = request;
    run.add(row);
  }
}

TEST(MetricValues, WaitingByKindOfCollective) {
  Tables run(3);
  collective(run, "MPI_Reduce", 1, {10, 30, 50}, 60);       // all until 50
  collective(run, "MPI_Bcast", 2, {150, 110, 120}, 160);    // the others until 150
  collective(run, "MPI_Barrier", 3, {200, 210, 230}, 240);  // all until 230
  run.analyze();
  EXPECT_EQ(run.metric("early_reduce"), 60);
  EXPECT_EQ(run.metric("late_broadcast"), 70);
  EXPECT_EQ(run.metric("barrier_wait"), 50);
  EXPECT_EQ(run.why("nxn_wait"), "NO_DATA");
}

TEST(MetricValues, WaitingThatIsNotKnownSaysWhy) {
  Tables apart(2, 2);  // nobody knows how the clocks of the two hosts lie
  collective(apart, "MPI_Ibcast", 1, {10, 30}, 60, true);
  collective(apart, "MPI_Iallreduce", 2, {110, 130}, 160, true);
  apart.analyze();
  for (const char* id : {"late_broadcast", "nxn_wait", "wait_share"}) EXPECT_EQ(apart.why(id), "CLOCK_UNTRUSTED") << id;
  Tables partial(3);
  collective(partial, "MPI_Barrier", 1, {10, 30}, 60);
  partial.analyze();
  EXPECT_EQ(partial.why("barrier_wait"), "PARTIAL_RANKS");
}

TEST(MetricValues, WhoEntersTogetherWithAllIsNotLast) {
  Tables run(4);
  for (int64_t seq = 1; seq <= 8; ++seq) run.allreduce(seq, std::vector<int64_t>(4, seq * 1_ms), 100'000, 8);
  for (int64_t seq = 9; seq <= 10; ++seq)
    run.allreduce(seq, {seq * 1_ms, seq * 1_ms, seq * 1_ms, seq * 1_ms + 500'000}, 100'000, 8);
  run.analyze();
  const char* rates = "SELECT value FROM rank_metric WHERE id = 'late_rate' AND rank = ";
  EXPECT_DOUBLE_EQ(run.number(rates + std::string("3")), 1);
  EXPECT_DOUBLE_EQ(run.number(rates + std::string("0")), 0);
  Tables even(2);
  even.allreduce(1, {1_ms, 1_ms}, 100'000, 8);
  even.analyze();
  EXPECT_EQ(even.why("late_rate"), "ZERO_DENOM");
}

TEST(MetricValues, OutliersAreAQuarterOfAllMembersSeenOrNot) {
  const auto outliers = [](const std::vector<int64_t>& completed) {
    Tables run(8);
    for (int64_t seq = 1; seq <= 3; ++seq) {
      for (size_t rank = 0; rank < completed.size(); ++rank) {
        if (completed[rank] < seq) continue;
        Row row;
        row.rank = static_cast<int64_t>(rank);
        row.enter_ns = seq * 100;
        row.leave_ns = row.enter_ns + 50;
        row.bytes = 8;
        row.seq = seq;
        run.add(row);
      }
    }
    run.exec("DELETE FROM process WHERE rank >= " + std::to_string(completed.size()));
    run.analyze();
    return run.metric("ras_outliers").value_or(-1);
  };
  EXPECT_EQ(outliers({3, 3, 3, 3, 3, 3, 3, 3}), 0);
  EXPECT_EQ(outliers({3, 3, 3, 3, 3, 3, 2, 3}), 1);
  EXPECT_EQ(outliers({3, 3, 3, 3, 2, 2}), 2) << "two of eight, of whom two left no data";
  EXPECT_EQ(outliers({3, 3, 3, 3, 3, 2, 2, 2}), 0) << "three of eight are not outliers";
  EXPECT_EQ(outliers({3, 3, 3, 3, 3, 3, 3, 0}), 1) << "who completed none is behind too";
  Tables none(2);
  none.analyze();
  EXPECT_EQ(none.why("ras_outliers"), "NO_DATA");
}

/// `steps` steps of 100 ms on two ranks with an allreduce of 1000 bytes each, and `samples` and `flops` of each rank.
Tables training_with_flops(int64_t steps, double samples, double flops) {
  Tables run(2);
  for (int64_t s = 0; s < steps; ++s) {
    for (int64_t rank : {0, 1}) {
      run.step(rank, s, s * 100_ms, s * 100_ms + 100_ms, 10_ms);
      run.value(rank, s, "samples", samples);
      run.value(rank, s, "model_flops", flops);
    }
    run.allreduce(s + 1, {s * 100_ms + 90_ms, s * 100_ms + 90_ms}, 10_ms, 1'000, s);
  }
  return run;
}

TEST(MetricValues, ProductiveTimeIsThatOfSteps) {
  Tables run = training_with_flops(20, 32, 1e9);
  run.exec("UPDATE process SET end_ns = 2500000000");
  run.analyze();
  EXPECT_DOUBLE_EQ(*run.metric("productive_time"), 0.8);
}

TEST(MetricValues, ProductiveTimeIsOfOneRankWhereRanksDoNotMeetInEachStep) {
  Tables run(2);
  for (int64_t s = 0; s < 20; ++s) {  // the ranks take turns in being long, and meet every other step
    const int64_t pair_ns = s / 2 * 400_ms;
    for (int64_t rank : {0, 1}) {
      const int64_t long_ns = 300_ms, begin_ns = s % 2 == 0 ? 0 : rank == 0 ? long_ns : 100_ms;
      run.step(rank, s, pair_ns + begin_ns, pair_ns + begin_ns + (s % 2 == rank ? long_ns : 100_ms), 0);
    }
  }
  run.exec("UPDATE process SET start_ns = 0, end_ns = 5000000000");
  run.analyze();
  EXPECT_DOUBLE_EQ(*run.metric("productive_time"), 0.8);
}

TEST(MetricValues, ProductiveTimeCountsTheStepsOfTwoThreadsOnce) {
  Tables run(1);
  run.step(0, 1, 0, 60_ms, 0);
  run.step(0, 2, 20_ms, 40_ms, 0);
  run.step(0, 1, 50_ms, 80_ms, 0);  // a number again: the time was spent in a step
  run.exec("UPDATE process SET start_ns = 0, end_ns = 100000000");
  run.analyze();
  EXPECT_DOUBLE_EQ(*run.metric("productive_time"), 0.8);
}

TEST(MetricValues, ArithmeticPerByteIsOfTheStepsThatWereKept) {
  Tables run = training_with_flops(10, 32, 1e9);
  run.exec("DELETE FROM event WHERE step < 6");
  run.analyze();
  // On each of two ranks S = 1000 bytes times 2 (2 - 1) / 2.
  EXPECT_DOUBLE_EQ(run.metric("network_intensity").value_or(-1), 2e9 / 2'000);
  EXPECT_EQ(run.integer("SELECT steps FROM metric WHERE id = 'network_intensity'"), 4);
}

TEST(MetricValues, GoodputIsThroughputTimesEfficiency) {
  Tables run = training_with_flops(20, 32, 1e9);
  for (int64_t s = 0; s < 20; ++s) {  // |G|^2 = 1, tr(Sigma) = 640
    for (int64_t rank : {0, 1}) {
      run.value(rank, s, "local_gradient_norm", std::sqrt(1 + 640.0 / 32));
      run.value(rank, s, "gradient_norm", std::sqrt(1 + 640.0 / 64));
    }
  }
  run.exec("UPDATE step SET duration_ns = 90 * 100000000 WHERE step = 19");  // one that hung
  run.analyze();
  constexpr double kEfficiency = (640.0 + 32) / (640 + 64);
  EXPECT_NEAR(*run.metric("goodput"), 15 * 64 / (14 * 0.1 + 9) * kEfficiency, 1e-6);
  EXPECT_NEAR(run.number("SELECT p10 FROM metric WHERE id = 'goodput'"), 640 * kEfficiency, 1e-6) << "of single steps";
  EXPECT_NEAR(*run.metric("goodput"), *run.metric("throughput") * *run.metric("statistical_efficiency"), 1e-6);
  run.exec("DELETE FROM value WHERE name = 'samples' AND process = 2 AND step = 12");
  run.analyze();
  EXPECT_NEAR(run.metric("goodput").value_or(-1), 14 * 64 / (13 * 0.1 + 9) * kEfficiency, 1e-6)
      << "a step that one rank says nothing of is none";
  EXPECT_EQ(run.integer("SELECT steps FROM metric WHERE id = 'goodput'"), 14);
}

TEST(MetricValues, InstructionsOfAStep) {
  Tables run = counted({"PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_FP_OPS"});
  EXPECT_DOUBLE_EQ(run.metric("instructions").value_or(-1), 2 * 4e9 / 10) << "five steps in each of two places";
  EXPECT_EQ(counted({}).why("instructions"), "PARTIAL_RANKS");
}

TEST(MetricValues, SamplesOfSomeRanksAreNotThroughput) {
  Tables run = training_with_flops(10, 32, 1e9);
  run.exec("DELETE FROM value WHERE process = 2");
  run.analyze();
  EXPECT_EQ(run.why("throughput"), "PARTIAL_RANKS");
}

// A damaged header puts all steps of its process 73 years from those of the others.
TEST(MetricValues, AClockThatIsDecadesAwayDoesNotEndTheAnalysis) {
  Tables run = training_with_flops(20, 32, 1e9);
  run.exec("UPDATE step SET start_ns = start_ns + " + std::to_string(store::kFarthestNs) + " WHERE process = 2");
  run.analyze();
  EXPECT_EQ(run.integer("SELECT duration_ns FROM job_window"), INT64_MAX);
  EXPECT_GT(run.metric("throughput").value_or(-1), 0);
}

TEST(MetricValues, ArithmeticOfAToken) {
  Tables run(1);
  run.value(0, 0, "parameters", 7e9);
  run.value(0, 0, "layers", 32);
  run.value(0, 0, "hidden_size", 4096);
  run.analyze();
  EXPECT_EQ(run.why("flops_per_token"), "NO_DATA");
  run.value(0, 0, "sequence_length", 2048);
  run.analyze();
  EXPECT_DOUBLE_EQ(run.metric("flops_per_token").value_or(-1), 6 * 7e9 + 12.0 * 32 * 4096 * 2048);
}

TEST(MetricValues, ArithmeticOfForwardAndBackward) {
  const auto job = [](bool backward_of_last) {
    Tables run = training_with_flops(10, 32, 6e8);
    run.exec(
        "INSERT INTO region VALUES (8, 0, 'phase', 'forward', 'forward', NULL), (9, 0, 'phase', 'backward', 'backward', NULL)");
    for (int64_t s = 0; s < 10; ++s) {  // 20 ms and 50 ms, 10 of them in MPI
      for (int64_t rank : {0, 1}) {
        const auto range = [&](int64_t region, int64_t begin_ns, int64_t duration_ns, int64_t mpi_ns) {
          run.exec("INSERT INTO range_event (process, thread, region, step, start_ns, duration_ns, mpi_ns) VALUES (" +
                   std::to_string(rank + 1) + ", 0, " + std::to_string(region) + ", " + std::to_string(s) + ", " +
                   std::to_string(begin_ns) + ", " + std::to_string(duration_ns) + ", " + std::to_string(mpi_ns) + ")");
        };
        range(8, s * 100_ms, 20_ms, 0);
        if (rank == 0 || backward_of_last) range(9, s * 100_ms + 30_ms, 50_ms, 10_ms);
      }
    }
    run.analyze();
    return run;
  };
  EXPECT_DOUBLE_EQ(job(true).metric("deepspeed_flops").value_or(-1), 6e8 / 0.06);
  EXPECT_EQ(job(false).why("deepspeed_flops"), "PARTIAL_RANKS");
  Tables without = training_with_flops(10, 32, 6e8);
  without.analyze();
  EXPECT_EQ(without.why("deepspeed_flops"), "NO_DATA");
}

TEST(MetricValues, ComputingByTheNumberOfSamples) {
  // Rank r computes 5 + r ms and half a millisecond a sample; every fourth step is a small one. Transfers take 2 ms.
  const auto job = [](bool small_steps) {
    Tables run(2);
    for (int64_t s = 0; s < 24; ++s) {
      const int64_t samples = small_steps && s % 4 == 3 ? 16 : 64, begin_ns = s * 100_ms;
      std::vector<int64_t> enter_ns;
      for (int64_t rank : {0, 1}) enter_ns.push_back(begin_ns + 5_ms + rank * 1_ms + samples * 500'000);
      const int64_t end_ns = enter_ns[1] + 2_ms;
      for (int64_t rank : {0, 1}) {
        run.step(rank, s, begin_ns, end_ns, end_ns - enter_ns[static_cast<size_t>(rank)]);
        run.value(rank, s, "samples", static_cast<double>(samples));
      }
      run.allreduce(s + 1, enter_ns, 2_ms, 1'000, s);
    }
    run.analyze();
    return run;
  };
  Tables run = job(true);
  EXPECT_NEAR(run.metric("compute_per_sample").value_or(-1), 500'000, 1e-3);
  EXPECT_NEAR(run.metric("compute_fixed").value_or(-1), 5.5e6, 1);
  EXPECT_NEAR(run.metric("batch_for_transfer").value_or(-1), (20 * 2e6 - 5.5e6) / 500'000, 1e-3);
  Tables even = job(false);
  for (const char* id : {"compute_per_sample", "compute_fixed", "batch_for_transfer"})
    EXPECT_EQ(even.why(id), "NO_DATA") << id;
}

TEST(MetricValues, TimeToTheTarget) {
  Tables run(2);
  run.exec("UPDATE process SET start_ns = 1000000000, end_ns = 9000000000");
  run.exec(
      "INSERT INTO value VALUES (1, NULL, 1500000000, 'target_accuracy', 0.75), (1, NULL, 3000000000, 'accuracy', 0.5)");
  run.analyze();
  EXPECT_EQ(run.why("time_to_accuracy"), "NOT_APPLICABLE") << "not reached";
  run.exec("INSERT INTO value VALUES (2, NULL, 5000000000, 'accuracy', 0.75), (1, NULL, 6000000000, 'accuracy', 0.8)");
  run.analyze();
  EXPECT_EQ(run.metric("time_to_accuracy"), 4e9);
  Tables silent(2);
  silent.analyze();
  EXPECT_EQ(silent.why("time_to_accuracy"), "NO_DATA");
}

TEST(MetricValues, StepsThatNoRankSharesAreNotInferred) {
  Tables run(2);
  run.exec("INSERT INTO inferred_steps VALUES (1, 1, 4, 1.0)");
  make_tables(run.db());
  const std::map<int64_t, SteadySteps> steady = select_steady_steps(run.db(), Catalog(run.db()));
  EXPECT_FALSE(steady.at(0).annotated);
  EXPECT_FALSE(steady.at(0).inferred);
}

TEST(MetricValues, InferredLayersAreNoLayersOfTheModel) {
  Tables run = training_with_flops(4, 32, 1e9);
  run.analyze();
  run.exec(
      "INSERT INTO region VALUES (70, 0, 'layer', 'fc', NULL, 'fc'), (71, 0, 'inferred', 'MPI_Allreduce #1', NULL, 'MPI_Allreduce #1');"
      "INSERT INTO inferred_layer VALUES (1, 71, 4, 300000000, 40000000)");
  EXPECT_THROW(models::layers_of(run.db(), 0), std::exception) << "an MPI call is none";
  run.exec(
      "INSERT INTO range_profile VALUES (1, 70, 4, 160000000, 0, NULL, NULL), (2, 70, 4, 160000000, 0, NULL, NULL);"
      "INSERT INTO range_event (process, thread, region, step, start_ns, duration_ns, mpi_ns) VALUES (1, 0, 70, 0, 5, 40000000, 0)");
  const std::vector<models::LayerCost> layers = models::layers_of(run.db(), 0);
  ASSERT_EQ(layers.size(), 1u);
  EXPECT_EQ(layers[0].name, "fc");
  EXPECT_DOUBLE_EQ(layers[0].backward_s, 0.04);
}

}  // namespace
}  // namespace ddl::test
