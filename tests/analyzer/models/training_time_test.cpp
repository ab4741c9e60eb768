#include "analyzer/models/training_time.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "tests/analyzer/models/published.h"

namespace ddl::models {
namespace {

TEST(TrainingTime, StepsOfAnEpoch) {  // 1.2 M images by 32; steps_per_epoch of MLPerf's logs (1,281,167 images)
  EXPECT_EQ(steps_per_epoch(1.2e6, 32), 37500);
  EXPECT_EQ(steps_per_epoch(33, 32), 2);
  const CsvTable table = test::published("mlperf_resnet50_batch_vs_epochs");
  for (size_t r = 0; r < table.rows(); ++r) {
    const double batch = table.number(r, "global_batch");
    EXPECT_LE(std::abs(static_cast<double>(steps_per_epoch(1281167, batch)) - table.number(r, "steps_per_epoch")), 1)
        << batch;
  }
}

std::vector<BatchEpochs> v06(const char* column) {
  const CsvTable table = test::published("mlperf_resnet50_batch_vs_epochs");
  std::vector<BatchEpochs> points;
  for (size_t r = 0; r < table.rows(); ++r)
    if (table.text(r, "round") == "v0.6") points.push_back({table.number(r, "global_batch"), table.number(r, column)});
  return points;
}

TEST(TrainingTime, EpochsOfMlperfGrowWithTheBatch) {
  const EpochModel model = fit_epochs(v06("epochs_max"));
  EXPECT_NEAR(model.least_epochs, 60.06, 1);
  EXPECT_NEAR(model.knee_batch, 1.52e5, 0.01e5);
  EXPECT_LT(model.worst_residual_epochs, 6.2);
  EXPECT_GT(model.r2, 0.8);
}

TEST(TrainingTime, NoOtherLineFitsBetter) {
  const auto points = v06("epochs_min");
  const EpochModel model = fit_epochs(points);
  const auto squares = [&](double e0, double b0) {
    double sum = 0;
    for (const BatchEpochs& p : points) sum += std::pow(p.epochs - e0 * (1 + p.batch / b0), 2);
    return sum;
  };
  const double best = squares(model.least_epochs, model.knee_batch);
  for (double e0 = 40; e0 < 80; e0 += 0.5)
    for (double b0 = 5e4; b0 < 5e5; b0 *= 1.02) EXPECT_GE(squares(e0, b0), best);
}

TEST(TrainingTime, KnownEpochsComeBack) {
  std::vector<BatchEpochs> points;
  for (const double b : {256.0, 1024.0, 8192.0, 65536.0}) points.push_back({b, 30 * (1 + b / 20000)});
  const EpochModel model = fit_epochs(points);
  EXPECT_NEAR(model.least_epochs, 30, 1e-9);
  EXPECT_NEAR(model.knee_batch, 20000, 1e-6);
  for (BatchEpochs& p : points) p.epochs = 90;
  EXPECT_TRUE(std::isinf(fit_epochs(points).knee_batch));
  EXPECT_EQ(fit_epochs(points).epochs(1e6), 90);
}

TEST(TrainingTime, RefusesTwoSizes) {
  EXPECT_THROW(fit_epochs({{256, 90}, {512, 90}, {512, 91}}), Error);
  EXPECT_THROW(fit_epochs({}), Error);
  EXPECT_THROW(fit_epochs({{1e4, 1}, {2e4, 10}, {3e4, 20}}), Error);
}

TEST(Amdahl, SparcmlRowsComeFromTheirFractions) {  // sparcml_speedups.csv
  const CsvTable table = test::published("sparcml_speedups");
  for (size_t r = 0; r < table.rows(); ++r) {
    const double whole = table.number(r, "speedup_end_to_end"), comm = table.number(r, "speedup_in_parentheses");
    const double fraction = table.number(r, "comm_fraction_if_parenthesis_is_comm_speedup");  // printed to four digits
    EXPECT_NEAR(amdahl(fraction, comm), whole, 5.1e-5 * whole * whole);
  }
  EXPECT_EQ(amdahl(0, 10), 1);
  EXPECT_DOUBLE_EQ(amdahl(1, 10), 10);
}

}  // namespace
}  // namespace ddl::models
