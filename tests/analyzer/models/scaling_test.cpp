#include "analyzer/models/scaling.h"

#include <gtest/gtest.h>

#include <cmath>

#include "analyzer/models/scaling_table.h"
#include "core/error.h"

namespace ddl::models {
namespace {

std::vector<ScalingRow> rows_of(const std::string& csv, std::optional<double> base = {}) {
  const ScalingTable table = read_scaling_table(CsvTable::parse(csv, "t.csv"));
  return scaling_rows(table.points, base, table.worker);
}

// ----------------------------------------------------------------------------------------------------- printed numbers

TEST(Printed, RoundsHalvesUpInDecimal) {
  EXPECT_EQ(half_up(3.9 / 4, 2), "0.98");  // a double has 0.97499999999999998, of which printf makes 0.97
  EXPECT_EQ(half_up(0.125, 2), "0.13");
  EXPECT_EQ(half_up(0.975 - 1e-9, 2), "0.97");
  EXPECT_EQ(half_up(-0.125, 2), "-0.13");
  EXPECT_EQ(half_up(-0.001, 2), "0.00");
  EXPECT_EQ(half_up(60.6 / 64, 2), "0.95");
  EXPECT_EQ(half_up(2.5, 0), "3");
}

TEST(Printed, KnowsWhatItsDigitsMayHaveBeen) {
  const Printed speedup = Printed::parse("3.9");
  EXPECT_NEAR(speedup.lo, 3.85, 1e-12);
  EXPECT_NEAR(speedup.hi, 3.95, 1e-12);
  EXPECT_NEAR(Printed::parse("1.20e3").hi, 1205, 1e-9);
  EXPECT_NEAR(Printed::parse("142").lo, 141.5, 1e-12);
  for (const char* bad : {"", "x", "1,2", "1.2.3", "inf", "nan", "1e999"})
    EXPECT_THROW(Printed::parse(bad), Error) << bad;
}

// ---------------------------------------------------------------------------------------------------------- efficiency

TEST(Scaling, BaseIsTheSmallestAndNamed) {
  const auto rows = rows_of("gpus,nodes,time_s\n16,4,3\n4,1,10\n8,2,5\n");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].point.workers, 4);
  for (const ScalingRow& row : rows) EXPECT_EQ(row.base, "1 node = 4 GPUs");
  EXPECT_NEAR(rows[1].speedup.value, 2, 1e-12);
  EXPECT_NEAR(rows[2].efficiency.value, 10.0 / 3 / 4, 1e-12);
  EXPECT_NEAR(*rows[2].incremental, 5.0 / 3 / 2, 1e-12);
  EXPECT_FALSE(rows[0].incremental);
}

TEST(Scaling, AnotherBaseAndNone) {
  const std::string csv = "ranks,throughput\n1,100\n2,180\n4,300\n";
  EXPECT_NEAR(rows_of(csv, 2)[0].efficiency.value, 100 / 180.0 * 2, 1e-12);
  EXPECT_EQ(rows_of(csv, 2)[0].base, "2 ranks");
  EXPECT_THROW(rows_of(csv, 8), Error);  // a base that was not measured
}

TEST(Scaling, WeakStrongAndMixedByTheBatches) {
  const auto kind = [](const std::string& csv) {
    return scaling_kind(read_scaling_table(CsvTable::parse(csv, "t")).points);
  };
  EXPECT_EQ(kind("gpus,throughput,local_batch\n1,1,32\n2,2,32\n4,3,32\n"), ScalingKind::kWeak);
  EXPECT_EQ(kind("gpus,throughput,global_batch\n1,1,256\n2,2,256\n4,3,255\n"), ScalingKind::kStrong);
  EXPECT_EQ(kind("gpus,throughput,global_batch\n1,1,256\n2,2,384\n"), ScalingKind::kMixed);
  EXPECT_EQ(kind("gpus,throughput,global_batch\n1,1,256\n2,2,\n"), ScalingKind::kUnknown);
  EXPECT_EQ(kind("gpus,throughput\n1,1\n2,2\n"), ScalingKind::kUnknown);
}

TEST(Scaling, TimesOfStepsCountTheirBatch) {
  const auto weak = rows_of("gpus,step_ms,local_batch\n1,100,32\n4,125,32\n");
  EXPECT_NEAR(weak[1].efficiency.value, 0.8, 1e-12);
  const auto strong = rows_of("gpus,step_s,global_batch\n1,0.100,32\n4,0.0500,32\n");
  EXPECT_NEAR(strong[1].efficiency.value, 0.5, 1e-12);
  EXPECT_THROW(rows_of("gpus,step_ms\n1,100\n"), Error);
}

TEST(Scaling, FlagsWhatIsOdd) {
  const auto certain = rows_of("gpus,throughput\n1,100.0\n2,190.0\n4,390.0\n8,850.0\n");
  EXPECT_EQ(certain[2].flags, std::vector<std::string>{"rises from 0.95 to 0.98"});
  EXPECT_EQ(certain[3].flags, (std::vector<std::string>{"rises from 0.98 to 1.06", "superlinear: 1.063"}));
  const auto rounding = rows_of("gpus,speedup\n1,1\n2,1.9\n4,3.9\n");  // 3.85/4 to 3.95/4, after 1.85/2 to 1.95/2
  EXPECT_EQ(rounding[2].flags, std::vector<std::string>{"rises from 0.95 to 0.98, within its uncertainty"});
}

TEST(Scaling, QuotedEfficienciesAreChecked) {
  const auto rows = rows_of("gpus,speedup,efficiency\n1,1,1.00\n10,9.96,0.99\n100,50.0,0.6\n");
  EXPECT_EQ(rows[1].flags, std::vector<std::string>{"quoted 0.99 is cut off, not rounded"});
  EXPECT_EQ(rows[2].flags, std::vector<std::string>{"quoted 0.6 does not follow: 0.500 to 0.501"});
}

TEST(Scaling, BadTablesAreErrors) {
  for (const char* csv :
       {"gpus,speedup\n", "gpus\n1\n", "speedup\n1\n", "gpus,speedup\n0,1\n", "gpus,speedup\n-1,1\n",
        "gpus,time_s\n1,0.0\n", "gpus,throughput\n1,-5\n", "gpus,throughput\n1,x\n", "gpus,throughput\n1e999,5\n"})
    EXPECT_THROW(rows_of(csv), Error) << csv;
}

TEST(Scaling, LossAddsUpToWhatIsMissing) {
  const StepParts small = {
      .step_s = 1.0, .compute_s = 0.8, .transfer_s = 0.1, .wait_s = 0.05, .copy_s = 0.02, .idle_s = 0.03};
  const StepParts large = {
      .step_s = 1.25, .compute_s = 0.85, .transfer_s = 0.2, .wait_s = 0.1, .copy_s = 0.03, .idle_s = 0.07};
  for (const double k : {1.0, 0.25, 0.6}) {  // weak, strong, mixed
    const LossSplit loss = loss_split(large, small, k);
    const double efficiency = k * small.step_s / large.step_s;
    EXPECT_NEAR(loss.transfer + loss.wait + loss.copy + loss.idle + loss.compute, 1 - efficiency, 1e-12);
  }
  EXPECT_NEAR(loss_split(large, small, 1).transfer, 0.1 / 1.25, 1e-12);
}

// ---------------------------------------------------------------------------------------------------------- projection

std::vector<ScalingRow> series(const std::function<double(double)>& inverse_efficiency,
                               const std::vector<double>& noise) {
  std::vector<ScalingPoint> points;
  for (size_t i = 0; i < noise.size(); ++i) {
    const double n = std::exp2(static_cast<double>(i));
    ScalingPoint& point = points.emplace_back();
    point.workers = n;
    point.throughput = Printed::exactly(n / (inverse_efficiency(n) + noise[i]));
  }
  return scaling_rows(points, std::nullopt, "rank");
}

TEST(ScalingTrend, RecoversTheLawThatMadeIt) {
  const auto logarithm = fit_trend(series([](double n) { return 1 + 0.02 * std::log2(n); }, {0, 0, 0, 0, 0}));
  EXPECT_FALSE(logarithm.linear);
  EXPECT_NEAR(logarithm.project(1024).efficiency.value, 1 / 1.2, 1e-9);
  const auto ring = fit_trend(series([](double n) { return 0.99 + 0.01 * n; }, {0, 0, 0, 0, 0}));
  EXPECT_TRUE(ring.linear);
  EXPECT_NEAR(ring.project(101).efficiency.value, 0.5, 1e-9);
}

TEST(ScalingTrend, IntervalHoldsTheTruthAndGrowsWithTheDistance) {
  const auto law = [](double n) { return 1 + 0.03 * std::log2(n); };
  const ScalingTrend trend = fit_trend(series(law, {0, 0.004, -0.004, 0.003, -0.003, 0.002}));
  for (const double n : {64.0, 256.0, 1024.0}) {
    const Projection at = trend.project(n);
    EXPECT_LT(at.efficiency.lo, 1 / law(n));
    EXPECT_GT(at.efficiency.hi, 1 / law(n));
  }
  const auto width = [&](double n) { return trend.project(n).efficiency.hi - trend.project(n).efficiency.lo; };
  EXPECT_GT(width(1024), width(64));
}

TEST(ScalingTrend, RefusesFewSizes) {
  EXPECT_THROW(fit_trend(series([](double) { return 1; }, {0, 0, 0})), Error);
  EXPECT_NO_THROW(fit_trend(series([](double) { return 1; }, {0, 0, 0, 0})));
}

TEST(ProjectRun, FollowsTheRingOfItsLink) {
  const Link link = {10e-6, 1e-9, 0};
  const double bytes = 1e6;
  const auto ring_s = [&](int64_t p) { return allreduce_work(Algorithm::kRing, p, bytes).seconds(link); };
  RecordedScale run{.ranks = 8, .parts = {}, .efficiency = Printed::exactly(0.9), .samples = {}, .fit = {}};
  run.samples = {{Collective::kAllreduce, 8, bytes, ring_s(8), 20}};
  run.fit.link = link;
  run.parts = {.step_s = 0.010 + 0.001 + ring_s(8),
               .compute_s = 0.010,
               .transfer_s = ring_s(8),
               .wait_s = 0.001,
               .copy_s = 0,
               .idle_s = 0};
  const Projection weak = project_run(run, 64, false);
  EXPECT_NEAR(weak.efficiency.value, 0.9 * run.parts.step_s / (0.011 + ring_s(64)), 1e-12);
  const Projection strong = project_run(run, 64, true);
  EXPECT_NEAR(strong.efficiency.value, 0.9 * run.parts.step_s / 8 / (0.010 / 8 + 0.001 + ring_s(64)), 1e-12);
  EXPECT_EQ(weak.efficiency.lo, weak.efficiency.hi);  // a fit without error
  run.fit.alpha_error_s = 1e-6;
  const Projection unsure = project_run(run, 64, false);
  EXPECT_LT(unsure.efficiency.lo, weak.efficiency.value);
  EXPECT_GT(unsure.efficiency.hi, weak.efficiency.value);
}

}  // namespace
}  // namespace ddl::models
