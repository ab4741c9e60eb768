// The checks of the project's source documents (sources.md, section 3) that concern the analyzer, by their ids, and the traps (section 6).
// Those that are tested with the model they belong to: A3 Pipeline, A6 Epochs, A11 Compression (training_time_test, pipeline_test), T2
// Allreduce*, T4 Fusion, T6 MicroBatch, T7 RingPlan, T9 Partition (models/*_test.cpp); A1, A5 and P4 also in scaling_test and
// results_lint_test.
#include <gtest/gtest.h>

#include <map>

#include "analyzer/models/scaling_table.h"
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
  for (const ScalingRow& row : rows) text.append(text.empty() ? "" : " ").append(models::half_up(row.efficiency.value, 2));
  return text;
}

TEST(SourcesA1, TableOfDdl) {
  const auto rows = published_rows("ddl_resnet50_scaling");
  EXPECT_EQ(printed_efficiencies(rows), "1.00 1.00 0.98 0.99 0.97 0.95 0.95");
  for (const ScalingRow& row : rows) EXPECT_EQ(row.base, "1 node = 4 GPUs");
  const CsvTable table = test::published("ddl_resnet50_scaling");
  for (size_t r = 0; r < rows.size(); ++r) {
    const size_t flags = r == 3 ? 1 : 0;  // 0.98 -> 0.99; all quoted efficiencies follow (C1)
    ASSERT_EQ(rows[r].flags.size(), flags) << "row " << r;
    if (r == 0) continue;  // the file gives the base an interval; 1 is 1
    EXPECT_NEAR(rows[r].efficiency.lo, table.number(r, "speedup_over_nodes_interval_lo"), 1e-6);
    EXPECT_NEAR(rows[r].efficiency.hi, table.number(r, "hi"), 1e-6);
  }
  EXPECT_EQ(rows[3].flags[0], "rises from 0.98 to 0.99, within its uncertainty");
}

TEST(SourcesA1, TenDgxAreSuperlinear) {
  for (const auto& [one, ten, efficiency] : {std::tuple("166", "16", "1.038"), std::tuple("778", "77", "1.010")}) {
    const std::string csv = std::string("nodes,gpus,time_s\n1,8,") + one + "\n10,80," + ten + "\n";
    const auto table = models::read_scaling_table(CsvTable::parse(csv, "dgx"));
    const auto rows = models::scaling_rows(table.points, std::nullopt, table.worker);
    EXPECT_NE(std::find(rows[1].flags.begin(), rows[1].flags.end(), std::string("superlinear: ") + efficiency), rows[1].flags.end())
        << rows[1].flags.back();
  }
}

TEST(SourcesA1, TensorFlowBenchmarksOf2017) {
  const CsvTable table = test::published("tf_benchmarks_2017_scaling");
  const auto rows = published_rows("tf_benchmarks_2017_scaling");
  ASSERT_EQ(rows.size(), 175u);
  ASSERT_EQ(table.rows(), 175u);
  for (size_t r = 0; r < rows.size(); ++r) {  // the file is sorted by series and size
    EXPECT_EQ(rows[r].point.series, table.text(r, "platform") + ", " + table.text(r, "model"));
    // To half a unit of the last digit: the file rounds 4.0625 to even, we round halves up.
    EXPECT_NEAR(rows[r].speedup.value, table.number(r, "speedup_recomputed"), 5e-4 + 1e-9) << rows[r].point.series;
    EXPECT_NEAR(rows[r].efficiency.value, table.number(r, "efficiency_recomputed"), 5e-5 + 1e-9) << rows[r].point.series;
    EXPECT_EQ(rows[r].base, "1 GPU");
  }
}

TEST(SourcesA5, TimeToTrainIsHardwareTimesStatistics) {
  const CsvTable table = test::published("mlperf_scaling_decomposition");
  const auto rows =
      published_rows("mlperf_scaling_decomposition", {{"time_min", "time_to_train_min_olympic"}, {"epoch_s", "median_epoch_s"}});
  ASSERT_EQ(rows.size(), table.rows());
  for (size_t r = 0; r < rows.size(); ++r) {
    EXPECT_NEAR(*rows[r].hardware, table.number(r, "hardware_efficiency"), 1e-3);
    EXPECT_NEAR(*rows[r].statistical, table.number(r, "statistical_efficiency(effective_epochs_base/effective_epochs)"), 1e-3);
    EXPECT_NEAR(rows[r].efficiency.value, table.number(r, "time_to_train_efficiency"), 1e-3);
    EXPECT_NEAR(*rows[r].hardware * *rows[r].statistical, rows[r].efficiency.value, 1e-12);
  }
  EXPECT_EQ(models::half_up(*rows[1].hardware, 3) + " " + models::half_up(*rows[1].statistical, 3) + " " +
                models::half_up(rows[1].efficiency.value, 3),
            "0.784 0.668 0.524");  // DGX-1, 8 -> 1040 V100
}

}  // namespace
}  // namespace ddl
