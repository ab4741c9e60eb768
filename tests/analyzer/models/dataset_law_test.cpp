#include "analyzer/models/dataset_law.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/error.h"

namespace ddl::models {
namespace {

std::vector<DataPoint> points_of(double a, double b, double c, double noise = 0) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> off(0, noise);
  std::vector<DataPoint> points;
  for (double m = 1e4; m < 2e7; m *= 2) points.push_back({m, (a * std::pow(m, b) + c) * (1 + off(random))});
  return points;
}

TEST(DatasetLaw, RecoversWhatMadeThePoints) {
  const DatasetLaw law = fit_dataset_law(points_of(2, -0.2, 0.05));
  EXPECT_NEAR(law.a, 2, 1e-4);
  EXPECT_NEAR(law.b, -0.2, 1e-5);
  EXPECT_NEAR(law.c, 0.05, 1e-5);
  EXPECT_TRUE(law.is_plausible());
  EXPECT_NEAR(law.samples(0.1), std::pow(2 / 0.05, 5), 1e-3 * std::pow(40, 5));  // (a / (e - c))^(1/0.2)
  EXPECT_NEAR(law.error(law.samples(0.07)), 0.07, 1e-9);
  EXPECT_THROW(law.samples(0.05), Error);
  const DatasetLaw noisy = fit_dataset_law(points_of(2, -0.2, 0.05, 0.005));
  EXPECT_NEAR(noisy.b, -0.2, 0.03);
  EXPECT_GT(noisy.r2, 0.99);
}

TEST(DatasetLaw, OfOtherExponents) {
  for (const double b : {-1.0, -0.5, -0.05}) {
    const DatasetLaw law = fit_dataset_law(points_of(3, b, 0));
    EXPECT_NEAR(law.b, b, 1e-4);
    EXPECT_NEAR(law.c, 0, 1e-4);
    EXPECT_FALSE(law.is_plausible());
  }
}

TEST(DatasetLaw, RefusesWhatDoesNotFall) {
  EXPECT_THROW(fit_dataset_law({{1, 1}, {2, 0.5}, {4, 0.3}}), Error);
  EXPECT_THROW(fit_dataset_law({{1, 1}, {2, 2}, {4, 3}, {8, 4}}), Error);
  EXPECT_THROW(fit_dataset_law({{0, 1}, {2, 2}, {4, 3}, {8, 4}}), Error);
}

}  // namespace
}  // namespace ddl::models
