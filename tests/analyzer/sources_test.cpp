// What others published and the analyzer must reproduce or refuse: tables of tests/published, and statements of IBM's
// slides on DDL (Cho, 2018), of IBM's on parallel training (Kienzler), of an NVIDIA deck and of Dryden's guest lecture
// at ETH on parallelism in training. What belongs to one model is tested with it: models/*_test.cpp,
// results_lint_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analyzer/metrics/metrics.h"
#include "analyzer/models/allreduce_cost.h"
#include "analyzer/models/fusion.h"
#include "analyzer/models/link_fit.h"
#include "analyzer/models/scaling_table.h"
#include "analyzer/models/training_time.h"
#include "analyzer/passes/device_partition.h"
#include "store/ingest/gpu_facts.h"
#include "tests/analyzer/models/published.h"

namespace ddl {
namespace {

using models::ScalingRow;

std::vector<ScalingRow> published_rows(const std::string& name, const std::map<std::string, std::string>& names = {}) {
  const models::ScalingTable table = models::read_scaling_table(test::published(name), names);
  return models::scaling_rows(table.points, std::nullopt, table.worker);
}

std::string printed_efficiencies(const std::vector<ScalingRow>& rows) {
  std::string text;
  for (const ScalingRow& row : rows)
    text.append(text.empty() ? "" : " ").append(models::half_up(row.efficiency.value, 2));
  return text;
}

TEST(PublishedScaling, TableOfDdl) {
  const auto rows = published_rows("ddl_resnet50_scaling");
  EXPECT_EQ(printed_efficiencies(rows), "1.00 1.00 0.98 0.99 0.97 0.95 0.95");
  for (const ScalingRow& row : rows) EXPECT_EQ(row.base, "1 node = 4 GPUs");
  const CsvTable table = test::published("ddl_resnet50_scaling");
  for (size_t r = 0; r < rows.size(); ++r) {
    const size_t flags = r == 3 ? 1 : 0;  // 0.98 -> 0.99; all quoted efficiencies follow
    ASSERT_EQ(rows[r].flags.size(), flags) << "row " << r;
    if (r == 0) continue;  // the file gives the base an interval; 1 is 1
    EXPECT_NEAR(rows[r].efficiency.lo, table.number(r, "speedup_over_nodes_interval_lo"), 1e-6);
    EXPECT_NEAR(rows[r].efficiency.hi, table.number(r, "hi"), 1e-6);
  }
  EXPECT_EQ(rows[3].flags[0], "rises from 0.98 to 0.99, within its uncertainty");
}

TEST(PublishedScaling, TenDgxAreSuperlinear) {
  for (const auto& [one, ten, efficiency] : {std::tuple("166", "16", "1.038"), std::tuple("778", "77", "1.010")}) {
    const std::string csv = std::string("nodes,gpus,time_s\n1,8,") + one + "\n10,80," + ten + "\n";
    const auto table = models::read_scaling_table(CsvTable::parse(csv, "dgx"));
    const auto rows = models::scaling_rows(table.points, std::nullopt, table.worker);
    EXPECT_NE(std::find(rows[1].flags.begin(), rows[1].flags.end(), std::string("superlinear: ") + efficiency),
              rows[1].flags.end())
        << rows[1].flags.back();
  }
}

TEST(PublishedScaling, TensorFlowBenchmarksOf2017) {
  const CsvTable table = test::published("tf_benchmarks_2017_scaling");
  const auto rows = published_rows("tf_benchmarks_2017_scaling");
  ASSERT_EQ(rows.size(), 175u);
  ASSERT_EQ(table.rows(), 175u);
  for (size_t r = 0; r < rows.size(); ++r) {  // the file is sorted by series and size
    EXPECT_EQ(rows[r].point.series, table.text(r, "platform") + ", " + table.text(r, "model"));
    // To half a unit of the last digit: the file rounds 4.0625 to even, we round halves up.
    EXPECT_NEAR(rows[r].speedup.value, table.number(r, "speedup_recomputed"), 5e-4 + 1e-9) << rows[r].point.series;
    EXPECT_NEAR(rows[r].efficiency.value, table.number(r, "efficiency_recomputed"), 5e-5 + 1e-9)
        << rows[r].point.series;
    EXPECT_EQ(rows[r].base, "1 GPU");
  }
}

TEST(PublishedTimeToTrain, TimeToTrainIsHardwareTimesStatistics) {
  const CsvTable table = test::published("mlperf_scaling_decomposition");
  const auto rows = published_rows("mlperf_scaling_decomposition",
                                   {{"time_min", "time_to_train_min_olympic"}, {"epoch_s", "median_epoch_s"}});
  ASSERT_EQ(rows.size(), table.rows());
  for (size_t r = 0; r < rows.size(); ++r) {
    EXPECT_NEAR(*rows[r].hardware, table.number(r, "hardware_efficiency"), 1e-3);
    EXPECT_NEAR(*rows[r].statistical, table.number(r, "statistical_efficiency(effective_epochs_base/effective_epochs)"),
                1e-3);
    EXPECT_NEAR(rows[r].efficiency.value, table.number(r, "time_to_train_efficiency"), 1e-3);
    EXPECT_NEAR(*rows[r].hardware * *rows[r].statistical, rows[r].efficiency.value, 1e-12);
  }
  EXPECT_EQ(models::half_up(*rows[1].hardware, 3) + " " + models::half_up(*rows[1].statistical, 3) + " " +
                models::half_up(rows[1].efficiency.value, 3),
            "0.784 0.668 0.524");  // DGX-1, 8 -> 1040 V100
}

TEST(Overlap, ExposedIsWhatComputingDoesNotHide) {  // compute c, communication m, overlap o: m - o
  for (const auto& [c, m, o] :
       {std::tuple(70, 30, 10), std::tuple(70, 30, 0), std::tuple(70, 30, 30), std::tuple(5, 90, 5)}) {
    const Interval computing{0, c}, communicating{c - o, c - o + m};
    const DevicePartition part = partition_device({0, 200},
                                                  {{computing, DeviceClass::kCompute, std::nullopt, std::nullopt},
                                                   {communicating, DeviceClass::kCommunication, std::nullopt, 0}},
                                                  nullptr, {});
    EXPECT_EQ(part.exposed_comm_ns, m - o);
    EXPECT_EQ(part.compute_ns, c);
    EXPECT_EQ(part.comm_ns, m);
  }
}

TEST(PublishedTrainingTimes, StepsOfAnEpoch) {  // days and hours: Model.QuotedTrainingTimesAreChecked
  EXPECT_EQ(models::steps_per_epoch(1.2e6, 32), 37500);
  EXPECT_EQ(models::steps_per_epoch(7.5e6, 32), 234375);  // the last batch is whole
  EXPECT_EQ(models::steps_per_epoch(7.5e6 + 1, 32), 234376);
}

TEST(PublishedEpochs, EpochsLieBetweenTheFitsOfTheLeastAndTheMostEpochs) {
  // The table prints ranges of epochs where runs differed. E0 = 60.06, B0 = 1.52e5 is a fit to some choice of
  // them: the fits to all choices go around it, and we print that of the rows that are given (of the most
  // epochs 60.80 and 1.524e5).
  const CsvTable table = test::published("mlperf_resnet50_batch_vs_epochs");
  std::vector<size_t> rows;
  for (size_t r = 0; r < table.rows(); ++r)
    if (table.text(r, "round") == "v0.6") rows.push_back(r);
  double e0_lo = 1e9, e0_hi = 0, b0_lo = 1e9, b0_hi = 0, nearest = 1e9;
  for (size_t choice = 0; choice < size_t{1} << rows.size(); ++choice) {
    std::vector<models::BatchEpochs> points;
    for (size_t i = 0; i < rows.size(); ++i)
      points.push_back({table.number(rows[i], "global_batch"),
                        table.number(rows[i], (choice >> i & 1) != 0 ? "epochs_max" : "epochs_min")});
    const models::EpochModel model = models::fit_epochs(points);
    e0_lo = std::min(e0_lo, model.least_epochs), e0_hi = std::max(e0_hi, model.least_epochs);
    b0_lo = std::min(b0_lo, model.knee_batch), b0_hi = std::max(b0_hi, model.knee_batch);
    nearest = std::min(nearest, std::abs(model.least_epochs / 60.06 - 1) + std::abs(model.knee_batch / 1.52e5 - 1));
  }
  EXPECT_LT(e0_lo, 60.06);
  EXPECT_GT(e0_hi, 60.06);
  EXPECT_LT(b0_lo, 1.52e5);
  EXPECT_GT(b0_hi, 1.52e5);
  EXPECT_LT(nearest, 0.02);
}

TEST(PublishedDgxTable, OneConstantExplainsTheDgxTable) {
  const auto years = [](const char* printed) {
    return models::Printed::parse(printed) * models::Printed::exactly(365.25);
  };
  for (const auto& [pascal, dgx] :
       {std::pair("9.1", "166"), std::pair("42.6", "778"), std::pair("5.4", "98"), std::pair("1.1", "21")})
    EXPECT_TRUE((years(pascal) / models::Printed::parse(dgx)).agrees_with(models::Printed::exactly(20))) << pascal;
}

TEST(PublishedLinks, LinksArePerDirection) {
  const CsvTable links = test::published("links");
  EXPECT_NEAR(store::pcie_link("8.0 GT/s x16")->bytes_per_second, 1e9 * links.number(0, "per_direction_GBs"),
              5e5);  // not the 32 GB/s of both
}

TEST(PublishedQuotes, QuotedTablesAreCheckedByTheirDigits) {
  using models::check_quote, models::Printed, models::Quote;
  const CsvTable table = test::published("ddl_resnet50_scaling");
  for (size_t r = 0; r < table.rows(); ++r)
    EXPECT_EQ(check_quote(Printed::parse(table.text(r, "speedup_printed")) / Printed::exactly(table.number(r, "nodes")),
                          table.text(r, "efficiency_printed")),
              Quote::kAgrees);
  EXPECT_EQ(check_quote(Printed::exactly(7.5e6 / 32 * 0.3 * 100 / 86400), "35.2"), Quote::kDisagrees);  // 81.4 days
  // from 38000 steps only
  EXPECT_EQ(check_quote(Printed::exactly(38000 * 0.3 * 100 / 86400), "13.2"), Quote::kAgrees);
  EXPECT_EQ(check_quote(Printed::exactly(37500 * 0.3 * 100 / 86400), "13.2"), Quote::kDisagrees);
  for (const auto& [one, ten] : {std::pair("166", "16"), std::pair("778", "77")})
    EXPECT_EQ(check_quote(Printed::parse(one) / Printed::exactly(10), ten), Quote::kTruncated);
  for (const auto& [one, ten] : {std::pair("21", "2.1"), std::pair("98", "9.8")})
    EXPECT_EQ(check_quote(Printed::parse(one) / Printed::exactly(10), ten), Quote::kAgrees);
  EXPECT_EQ(check_quote(Printed::exactly(300000.0 * 120 / (12 * 3600)), "480"), Quote::kDisagrees);  // 833
}

TEST(AllreduceModel, ButterflyAndRabenseifnerCross) {
  EXPECT_NEAR(models::butterfly_to_rabenseifner_bytes(2, {1e-6, 1 / 12.5e9, 1 / 50e9}), 100000, 1e-6);
}

TEST(AllreduceModel, AFitRecoversTheLinkWithinTwoPercent) {
  const models::Link link = {1e-6, 1 / 12.5e9, 0};
  std::vector<models::Sample> samples;
  for (double bytes = 1024; bytes < 1e9; bytes *= 4)
    samples.push_back(
        {models::Collective::kAllreduce, 8, bytes,
         models::collective_work(models::Collective::kAllreduce, models::Algorithm::kRing, 8, bytes).seconds(link),
         10});
  const models::LinkFit fit = models::fit_link(samples, models::Algorithm::kRing, 0.0);
  EXPECT_NEAR(fit.link.alpha_s / link.alpha_s, 1, 0.02);
  EXPECT_NEAR(fit.link.beta_s_per_byte / link.beta_s_per_byte, 1, 0.02);
}

TEST(PublishedLayers, GradientsOfSeventeenNetworks) {  // fused or not, they are four bytes a parameter
  const CsvTable totals = test::published("layer_totals");
  int exact = 0;
  for (size_t r = 0; r < totals.rows(); ++r) {
    const CsvTable layers = test::layer_table(totals.text(r, "model"));
    if (totals.text(r, "match") != "exact") continue;
    ++exact;
    std::vector<models::Gradient> gradients;
    for (size_t l = 0; l < layers.rows(); ++l)
      gradients.push_back({4 * static_cast<int64_t>(layers.number(l, "params")), 0});
    for (const int64_t threshold : {int64_t{0}, int64_t{25} << 20}) {
      int64_t bytes = 0;
      for (const models::Bucket& bucket : models::fuse(gradients, threshold)) bytes += bucket.bytes;
      EXPECT_EQ(static_cast<double>(bytes), 4 * totals.number(r, "params_published")) << totals.text(r, "model");
    }
  }
  EXPECT_EQ(exact, 17);
}

// --------------------------------------------------------------------------------------------------------------- traps

TEST(Traps, RatiosOfPrintedDecimalsAreRoundedInDecimal) {  // as a double it is below 0.975
  EXPECT_EQ(models::half_up(3.9 / 4, 2), "0.98");
}

TEST(Traps, BothDirectionsOfARatioAreNamed) {  // larger is better, and the sentence says compute over communication
  for (const Metric& metric : all_metrics()) {
    if (metric.id.find("ccr_") == std::string::npos) continue;
    EXPECT_EQ(metric.better, "higher") << metric.id;
    EXPECT_LT(metric.name.find("ompute"), metric.name.find('/')) << metric.name;
  }
}

TEST(Traps, RingNeverBeatsRabenseifnerInTheModel) {  // where a measurement says so, it is the implementation
  for (int64_t p = 2; p <= 1024; p *= 2)
    for (double bytes = 1; bytes < 1e10; bytes *= 10) {
      const models::Link link = {5e-6, 1 / 12.5e9, 1 / 100e9};
      EXPECT_GE(models::allreduce_work(models::Algorithm::kRing, p, bytes).seconds(link) * (1 + 1e-12),
                models::allreduce_work(models::Algorithm::kRabenseifner, p, bytes).seconds(link));
    }
}

}  // namespace
}  // namespace ddl
