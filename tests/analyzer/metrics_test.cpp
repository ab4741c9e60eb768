#include "analyzer/metrics/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "core/error.h"
#include "tests/analyzer/tables.h"

namespace ddl::test {
namespace {

/// `steps` steps of 100 ms on two ranks: rank 0 computes 60 and waits 30, rank 1 computes 90, both transfer 10.
Tables two_ranks(int64_t steps) {
  Tables run(2);
  for (int64_t s = 0; s < steps; ++s) {
    const int64_t begin_ns = s * 100_ms;
    run.step(0, s, begin_ns, begin_ns + 100_ms, 40_ms);
    run.step(1, s, begin_ns, begin_ns + 100_ms, 10_ms);
    run.allreduce(s + 1, {begin_ns + 60_ms, begin_ns + 90_ms}, 10_ms, 1'000, s);
  }
  return run;
}

TEST(Metrics, EveryFileIsComplete) {
  std::set<std::string> ids;
  for (const Metric& metric : all_metrics()) {
    EXPECT_TRUE(ids.insert(metric.id).second) << metric.id;
    EXPECT_TRUE(metric.better == "higher" || metric.better == "lower" || metric.better == "none") << metric.id;
    EXPECT_EQ(metric.sentence.back(), '.') << metric.id;
    EXPECT_TRUE(metric.source.starts_with("specification.md") || metric.source.starts_with("docs/")) << metric.id;
  }
  for (const char* id :
       {"step_time", "throughput", "ccr_raw", "ccr_xfer", "ccr_exposed", "exposed_comm", "exposed_wait", "exposed_xfer",
        "overlap", "comm_overhead", "load_balance", "communication_efficiency", "parallel_efficiency", "wait_share",
        "wait_agreement", "f_wait", "f_xfer", "blame_share"}) {
    EXPECT_TRUE(ids.contains(id)) << id;
  }
}

TEST(Metrics, HeadersAreChecked) {
  EXPECT_THROW(parse_metric("a.sql", "-- id: a\nSELECT 1"), Error);
  EXPECT_THROW(parse_metric("a.sql", "-- nonsense\nSELECT 1"), Error);
  const std::string good =
      "-- id: a\n-- name: A\n-- unit: ns\n-- better: none\n-- scope: job\n-- source: x\n-- sentence: A.\nSELECT 1, NULL\n";
  EXPECT_EQ(parse_metric("a.sql", good).sql, "SELECT 1, NULL\n");
  EXPECT_THROW(parse_metric("b.sql", good), Error);
  EXPECT_THROW(
      parse_metric(
          "a.sql",
          "-- id: a\n-- name: A\n-- unit: ns\n-- better: less\n-- scope: job\n-- source: x\n-- sentence: A.\nSELECT 1, NULL\n"),
      Error);
}

Metric tried(const std::string& scope, const std::string& sql) {
  return {.id = "tried",
          .name = "Tried",
          .unit = "ns",
          .better = "lower",
          .scope = scope,
          .source = "specification.md W5",
          .sentence = "Tried.",
          .bound = {},
          .needs = {},
          .sql = sql};
}

TEST(Metrics, OfOthersAreEvaluatedAlike) {
  Tables run = two_ranks(4);
  run.analyze();
  EXPECT_EQ(
      evaluate(run.db(), tried("job", "SELECT sum(wait_ns), 'NO_DATA' FROM steady_step WHERE world = :world"), 0).value,
      4 * 30e6);
  const MetricResult ranks = evaluate(
      run.db(),
      tried("rank", "SELECT rank, nullif(avg(wait_ns), 0), 'ZERO_DENOM' FROM steady_part GROUP BY rank ORDER BY rank"),
      0);
  ASSERT_EQ(ranks.ranks.size(), 2u);
  EXPECT_EQ(ranks.ranks[0].value, 30e6);
  EXPECT_FALSE(ranks.ranks[1].value);
  EXPECT_EQ(ranks.ranks[1].why, "ZERO_DENOM");
  EXPECT_EQ(ranks.value, 30e6) << "the worst of those that are known";
  EXPECT_EQ(evaluate(run.db(), tried("step", "SELECT step, longest_ns, NULL FROM steady_step"), 0).steps, 4);
}

TEST(Metrics, SaysWhatIsWrongWithOthers) {
  Tables run = two_ranks(4);
  run.analyze();
  EXPECT_THROW(evaluate(run.db(), tried("job", "SELECT 1"), 0), Error) << "no why";
  EXPECT_THROW(evaluate(run.db(), tried("step", "SELECT 1, NULL"), 0), Error) << "no step";
  EXPECT_THROW(evaluate(run.db(), tried("job", "SELECT NULL, NULL"), 0), Error) << "neither value nor reason";
  EXPECT_THROW(evaluate(run.db(), tried("job", "SELECT 1, NULL WHERE 0"), 0), Error) << "no row";
}

TEST(Metrics, ByHand) {
  Tables run = two_ranks(20);
  for (int64_t s = 0; s < 20; ++s) {
    for (int64_t rank : {0, 1}) run.value(rank, s, "samples", 32);
  }
  run.analyze();
  const std::pair<const char*, double> expected[] = {{"step_time", 100e6},
                                                     {"throughput", 640},
                                                     {"compute_time", 75e6},
                                                     {"ccr_raw", 150.0 / 50},
                                                     {"ccr_xfer", 150.0 / 20},
                                                     {"ccr_exposed", 150.0 / 50},
                                                     {"exposed_comm", 40e6},
                                                     {"exposed_comm_mean", 25e6},
                                                     {"exposed_wait", 15e6},
                                                     {"exposed_xfer", 10e6},
                                                     {"overlap", 0},
                                                     {"comm_overhead", 0.25},
                                                     {"f_wait", 0.15},
                                                     {"f_xfer", 0.10},
                                                     {"load_balance", 75.0 / 90},
                                                     {"communication_efficiency", 0.9},
                                                     {"parallel_efficiency", 0.75},
                                                     {"wait_share", 30.0 / 50},
                                                     {"wait_agreement", 0},
                                                     {"blame_share", 1}};
  for (const auto& [id, value] : expected) {
    ASSERT_TRUE(run.metric(id)) << id << " " << run.why(id);
    EXPECT_NEAR(*run.metric(id), value, 1e-9 * (1 + value)) << id;
  }
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'verdict'"), "wait");
}

/// Rank 1 calls NCCL, and nothing was recorded of its GPUs: its thread computes nothing that anybody knows of.
TEST(Metrics, ThreadsDoNotTellWhatUnseenGpusDo) {
  const auto with_nccl = [](Tables run) {
    const int64_t op = run.op("ncclAllReduce");
    run.exec("INSERT INTO profile(process, op, region, size_class, calls, time_ns, time_estimated) VALUES (2, " +
             std::to_string(op) + ", 0, 13, 20, 1000, 0)");
    run.analyze();
    return run;
  };
  Tables mpi = with_nccl(two_ranks(20));
  for (const char* id :
       {"parallel_efficiency", "load_balance", "communication_efficiency", "compute_time", "ccr_raw", "overlap"}) {
    EXPECT_FALSE(mpi.metric(id)) << id;
    EXPECT_EQ(mpi.why(id), "NO_DATA") << id;
  }
  EXPECT_NEAR(*mpi.metric("f_wait"), 0.15, 1e-9) << "its MPI calls are known";
  Tables silent(2);
  for (int64_t rank : {0, 1}) {
    for (int64_t s = 0; s < 20; ++s) silent.step(rank, s, s * 100_ms, s * 100_ms + 100_ms, 0);
  }
  Tables nccl = with_nccl(std::move(silent));
  for (const char* id : {"parallel_efficiency", "compute_time", "comm_overhead", "exposed_comm", "f_wait", "f_xfer"}) {
    EXPECT_FALSE(nccl.metric(id)) << id;
    EXPECT_EQ(nccl.why(id), "NO_DATA") << id;
  }
  EXPECT_EQ(*nccl.metric("step_time"), 100e6);
}

TEST(Metrics, EfficienciesMultiply) {
  Tables run(3);
  int64_t now_ns = 0;
  for (int64_t s = 0; s < 15; ++s) {
    const std::vector<int64_t> enter_ns = {now_ns + 10_ms + s * 111, now_ns + 20_ms - s * 1'234'567, now_ns + 17_ms};
    run.allreduce(s + 1, enter_ns, 1_ms, 8, s);
    const int64_t end_ns = *std::max_element(enter_ns.begin(), enter_ns.end()) + 1_ms;
    for (size_t r = 0; r < 3; ++r) run.step(static_cast<int64_t>(r), s, now_ns, end_ns, end_ns - enter_ns[r]);
    now_ns = end_ns;
  }
  run.analyze();
  EXPECT_NEAR(*run.metric("parallel_efficiency"), *run.metric("load_balance") * *run.metric("communication_efficiency"),
              1e-9);
  EXPECT_LE(*run.metric("load_balance"), 1);
  EXPECT_LE(*run.metric("communication_efficiency"), 1);
}

TEST(Metrics, RecordingOverheadIsOverTheTimeOfThoseThatSayIt) {
  Tables run = two_ranks(20);
  run.analyze();
  EXPECT_FALSE(run.metric("recording_overhead"));
  EXPECT_EQ(run.why("recording_overhead"), "NO_DATA");
  Tables said = two_ranks(20);
  said.exec("UPDATE process SET start_ns = 500000000, end_ns = 2500000000");
  said.exec("UPDATE process SET overhead_ns = 30000000 WHERE rank = 1");
  said.analyze();
  EXPECT_NEAR(*said.metric("recording_overhead"), 0.015, 1e-12);
  // more than it lived, as a damaged header says
  said.exec("UPDATE process SET overhead_ns = 3000000000 WHERE rank = 0");
  said.analyze();
  EXPECT_NEAR(*said.metric("recording_overhead"), 0.015, 1e-12);
}

TEST(Metrics, WarmupIsLeftOutOfLongRunsOnly) {
  Tables longer = two_ranks(11);
  longer.exec("UPDATE step SET duration_ns = duration_ns + 900000000 WHERE step < 5");  // the first five are slow
  longer.analyze();
  EXPECT_EQ(*longer.metric("step_time"), 100e6);
  EXPECT_EQ(longer.number("SELECT p90 FROM metric WHERE id = 'step_time'"), 100e6);
  EXPECT_EQ(longer.text("SELECT value FROM meta WHERE key = 'analysis.steps_warmup'"), "5");
  EXPECT_EQ(longer.text("SELECT value FROM meta WHERE key = 'analysis.steps_used'"), "6");
  Tables shorter = two_ranks(10);
  shorter.analyze();
  EXPECT_EQ(shorter.text("SELECT value FROM meta WHERE key = 'analysis.steps_used'"), "10");
}

TEST(Metrics, StepsThatARankLacksAreLeftOut) {
  Tables run = two_ranks(10);
  run.exec("DELETE FROM step WHERE process = 2 AND step >= 8");
  run.analyze();
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'analysis.steps_used'"), "8");
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'analysis.steps_incomplete'"), "2");
  EXPECT_EQ(run.integer("SELECT steps FROM metric WHERE id = 'step_time'"), 8);
}

TEST(Metrics, MedianWithItsInterval) {
  Tables run(1);
  int64_t now_ns = 0;
  for (int64_t s = 0; s < 9; ++s) {  // 1 ms .. 9 ms
    run.step(0, s, now_ns, now_ns + (s + 1) * 1_ms, 0);
    now_ns += (s + 1) * 1_ms;
  }
  run.analyze();
  EXPECT_EQ(*run.metric("step_time"), 5e6);
  EXPECT_EQ(run.number("SELECT p10 FROM metric WHERE id = 'step_time'"), 1e6);
  EXPECT_EQ(run.number("SELECT p90 FROM metric WHERE id = 'step_time'"), 9e6);
  // Exact binomial 95 % interval of the median of nine: the second to the eighth value.
  EXPECT_NEAR(run.number("SELECT lo FROM metric WHERE id = 'step_time'"), 2.5e6, 0.6e6);
  EXPECT_NEAR(run.number("SELECT hi FROM metric WHERE id = 'step_time'"), 7.5e6, 0.6e6);
}

TEST(Metrics, FourStepsHaveNoInterval) {
  Tables run = two_ranks(4);
  run.analyze();
  EXPECT_TRUE(run.is_null("SELECT lo FROM metric WHERE id = 'step_time'"));
  EXPECT_FALSE(run.is_null("SELECT value FROM metric WHERE id = 'step_time'"));
}

TEST(Metrics, UndefinedIsNeverZero) {
  Tables run(2);
  for (int64_t rank : {0, 1}) run.step(rank, 1, 0, 100_ms, 0);
  run.analyze();
  EXPECT_FALSE(run.metric("ccr_raw"));
  EXPECT_EQ(run.why("ccr_raw"), "ZERO_DENOM");
  EXPECT_EQ(run.why("ccr_xfer"), "ZERO_DENOM");
  EXPECT_EQ(run.why("overlap"), "ZERO_DENOM");
  EXPECT_EQ(run.why("throughput"), "NO_DATA");
  EXPECT_EQ(run.why("wait_share"), "NO_DATA");
  EXPECT_EQ(run.integer("SELECT count(*) FROM metric WHERE value IS NULL AND why IS NULL"), 0);
  EXPECT_EQ(run.integer("SELECT count(*) FROM metric WHERE value IS NOT NULL AND why IS NOT NULL"), 0);
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'verdict'"), "compute");
}

/// Gradient accumulation: of 16 steps of 100 ms, in `reducing` ones two ranks reduce for 20 ms.
Tables accumulating(const std::vector<int64_t>& reducing) {
  Tables run(2);
  int64_t seq = 0;
  for (int64_t s = 0; s < 16; ++s) {
    const bool reduces = std::find(reducing.begin(), reducing.end(), s) != reducing.end();
    for (int64_t rank : {0, 1}) {
      run.step(rank, s, s * 100_ms, s * 100_ms + 100_ms, reduces ? 20_ms : 0);
      run.value(rank, s, "model_flops", 1e9);
    }
    if (reduces) run.allreduce(++seq, {s * 100_ms + 80_ms, s * 100_ms + 80_ms}, 20_ms, 1'000, s);
  }
  run.analyze();
  return run;
}

TEST(Metrics, AStepWithoutCommunicationIsAboveEveryRatio) {
  for (const char* id : {"ccr_raw", "ccr_xfer", "ccr_exposed", "network_intensity"}) {
    // Three, and six, of the eleven steady steps reduce.
    Tables every_fourth = accumulating({7, 11, 15});
    const bool intensity = std::string(id) == "network_intensity";
    EXPECT_NEAR(every_fourth.metric(id).value_or(-1), intensity ? 11 * 2e9 / 6'000 : (11 * 100.0 - 3 * 20) / (3 * 20),
                1e-6)
        << id << ": all steps together, the median would hide what they do";
    EXPECT_TRUE(every_fourth.is_null("SELECT p90 FROM metric WHERE id = '" + std::string(id) + "'")) << id;
    EXPECT_LT(every_fourth.number("SELECT lo FROM metric WHERE id = '" + std::string(id) + "'"),
              *every_fourth.metric(id))
        << id;
    EXPECT_EQ(every_fourth.integer("SELECT steps FROM metric WHERE id = '" + std::string(id) + "'"), 11) << id;
    Tables most = accumulating({5, 7, 9, 11, 13, 15});
    EXPECT_NEAR(most.metric(id).value_or(-1), intensity ? 2e9 / 2'000 : 4, 1e-9) << id;
    EXPECT_TRUE(most.is_null("SELECT p90 FROM metric WHERE id = '" + std::string(id) + "'")) << id;
    EXPECT_TRUE(most.is_null("SELECT hi FROM metric WHERE id = '" + std::string(id) + "'")) << id;
    EXPECT_EQ(most.integer("SELECT steps FROM metric WHERE id = '" + std::string(id) + "'"), 11) << id;
  }
  EXPECT_NEAR(accumulating({7, 11, 15}).metric("overlap").value_or(-1), 0, 1e-9) << "nothing over nothing is left out";
}

/// A loader with two workers has two batches ready at once: every other step waits for both.
TEST(Metrics, ThroughputIsThatOfAllSteps) {
  Tables run(2);
  int64_t now_ns = 0;
  for (int64_t s = 0; s < 20; ++s) {
    const int64_t ns = s % 2 == 0 ? 10_ms : 190_ms;
    for (int64_t rank : {0, 1}) {
      run.step(rank, s, now_ns, now_ns + ns, 5_ms);
      if (s != 12) run.value(rank, s, "samples", 32);
    }
    run.allreduce(s + 1, {now_ns + ns - 5_ms, now_ns + ns - 5_ms}, 5_ms, 1'000, s);
    now_ns += ns;
  }
  run.analyze();
  // Seven steady steps take 10 ms, one of which reports no samples, and eight take 190 ms.
  EXPECT_NEAR(run.metric("throughput").value_or(-1), 14 * 64 / (7 * 0.010 + 8 * 0.190), 1e-6);
  EXPECT_NEAR(run.number("SELECT p90 FROM metric WHERE id = 'throughput'"), 6'400, 1e-6) << "of single steps";
  EXPECT_LT(run.number("SELECT lo FROM metric WHERE id = 'throughput'"), *run.metric("throughput"));
}

TEST(Metrics, WithoutStepsTheWholeRunCounts) {
  Tables run(2);
  run.allreduce(1, {60_ms, 90_ms}, 10_ms, 1'000);
  run.analyze();
  EXPECT_NEAR(*run.metric("ccr_xfer"), 150.0 / 20, 1e-9);
  EXPECT_NEAR(*run.metric("load_balance"), 75.0 / 90, 1e-9);
  EXPECT_NEAR(*run.metric("f_wait"), 0.15, 1e-9);
  EXPECT_EQ(run.why("step_time"), "NO_DATA");
  EXPECT_EQ(run.text("SELECT value FROM meta WHERE key = 'analysis.basis'"), "run");
}

TEST(Metrics, AnEmptyRunIsAllReasons) {
  Tables run(1);
  run.analyze();
  EXPECT_EQ(run.integer("SELECT count(*) FROM metric WHERE value IS NULL"),
            run.integer("SELECT count(*) FROM metric WHERE why IS NOT NULL"));
  EXPECT_TRUE(run.findings().empty());
}

TEST(Metrics, ArithmeticAgainstWhatTheJobSaysOfItsPeak) {
  Tables run = two_ranks(10), partial = two_ranks(10), silent = two_ranks(10);
  for (Tables* tables : {&run, &partial}) {
    for (int64_t rank : {0, 1}) {
      if (tables == &partial && rank == 1) continue;
      tables->value(rank, 0, "peak_flops_per_second", 5e9);
      for (int64_t s = 0; s < 10; ++s) tables->value(rank, s, "model_flops", 2e8);
      const std::string process = std::to_string(rank + 1);
      tables->exec("INSERT OR IGNORE INTO region VALUES (9, 0, 'step', '', NULL, NULL); INSERT INTO counter VALUES (" +
                   process + ", 0, 'PAPI_FP_OPS', 'papi', NULL); INSERT INTO counter_profile VALUES (" + process +
                   ", 9, 0, 10, 2500000000); INSERT INTO range_profile VALUES (" + process +
                   ", 9, 10, 1000000000, 0, NULL, NULL)");
    }
  }
  for (Tables* tables : {&run, &partial, &silent}) tables->analyze();
  EXPECT_NEAR(*run.metric("mfu"), 4e8 / 0.1 / 1e10, 1e-12);
  EXPECT_NEAR(*run.metric("hfu"), 5e9 / (2 * 5e9), 1e-12);
  // 4e9 operations; 10 allreduces of 1000 B on 2 ranks put 2 x 1000 x 2 (2 - 1) / 2 bytes on the wire each.
  EXPECT_NEAR(*run.metric("network_intensity"), 4e9 / 20e3, 1e-6);
  for (const char* id : {"mfu", "hfu", "network_intensity"}) {
    EXPECT_EQ(partial.why(id), "PARTIAL_RANKS") << id;
    EXPECT_EQ(silent.why(id), "NO_DATA") << id;
  }
}

}  // namespace
}  // namespace ddl::test
