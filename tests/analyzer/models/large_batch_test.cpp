// Rules for large batches against the tables that they were published with (tests/published).
#include "analyzer/models/large_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/analyzer/models/published.h"

namespace ddl::models {
namespace {

using test::published;

TEST(LargeBatch, RatesAreThePublishedOnes) {
  const CsvTable goyal = published("goyal_minibatch_error");
  size_t linear = 0;
  for (size_t r = 0; r < goyal.rows(); ++r) {
    if (!goyal.text(r, "note").starts_with("Fig 3") && !goyal.text(r, "note").starts_with("gradual")) continue;
    const double batch = goyal.number(r, "minibatch_kn");
    EXPECT_NEAR(scaled_rate(BatchRule::kLinear, 0.1, 256, batch), goyal.number(r, "reference_lr"), 1e-9) << batch;
    ++linear;
    const auto rows = published_batches();
    const auto own = std::find_if(rows.begin(), rows.end(), [&](const PublishedBatch& row) {
      return row.network == std::string_view("resnet50") && row.rule == BatchRule::kLinear && row.batch == batch;
    });
    if (batch < 256) continue;
    ASSERT_NE(own, rows.end()) << batch;
    EXPECT_DOUBLE_EQ(own->rate, goyal.number(r, "reference_lr"));
    EXPECT_DOUBLE_EQ(own->error_percent, goyal.number(r, "top1_error_pct"));
  }
  EXPECT_EQ(linear, 9u);
  EXPECT_NEAR(scaled_rate(BatchRule::kSquareRoot, 0.1, 256, 8192), 0.5657, 5e-5);
  EXPECT_DOUBLE_EQ(scaled_rate(BatchRule::kLamb, 1e-3, 512, 32768), 8e-3);
  EXPECT_DOUBLE_EQ(scaled_rate(BatchRule::kLars, 0.1, 256, 512), 0.2);
}

/// For each batch in the table of AlexNet without LARS the best accuracy is in ours.
TEST(LargeBatch, AlexnetWithoutLars) {
  const CsvTable table = published("lars_alexnet_batch");
  size_t found = 0;
  for (const PublishedBatch& row : published_batches()) {
    if (!std::string_view(row.network).starts_with("alexnet") || row.rule != BatchRule::kLinear) continue;
    double best = 0, rate = 0;
    for (size_t r = 0; r < table.rows(); ++r) {
      const std::string name = table.text(r, "model") == "AlexNet" ? "alexnet" : "alexnet_bn";
      if (name != row.network || table.number(r, "batch") != row.batch || table.number(r, "accuracy_pct") <= best)
        continue;
      best = table.number(r, "accuracy_pct"), rate = table.number(r, "base_lr");
    }
    EXPECT_NEAR(row.error_percent, 100 - best, 1e-9) << row.network << " " << row.batch;
    EXPECT_DOUBLE_EQ(row.rate, rate);
    ++found;
  }
  EXPECT_EQ(found, 6u);
}

TEST(LargeBatch, SafeBatches) {
  EXPECT_EQ(published_safe_batch("resnet50", BatchRule::kLinear)->batch, 8192);
  EXPECT_EQ(published_safe_batch("resnet50")->batch, 32768);
  EXPECT_FALSE(published_safe_batch("resnet50", BatchRule::kSquareRoot));
  EXPECT_EQ(published_safe_batch("alexnet", BatchRule::kLinear)->batch, 512);
  EXPECT_EQ(published_safe_batch("bert")->batch, 32768);
  EXPECT_FALSE(published_safe_batch("lenet5"));
}

TEST(LargeBatch, AdviceWarnsFirst) {
  const auto advice = batch_change_advice(128, 256, 200.0);
  ASSERT_EQ(advice.size(), 2u);
  EXPECT_TRUE(advice[0].starts_with("256 samples a step are beyond the safe batch")) << advice[0];
  EXPECT_NE(advice[1].find("times 2 (linear"), std::string::npos) << advice[1];
  EXPECT_NE(advice[1].find("times 1.414 (square"), std::string::npos) << advice[1];
  EXPECT_EQ(batch_change_advice(128, 256, {}).size(), 1u);
  EXPECT_EQ(batch_change_advice(128, 256, 300.0).size(), 1u);
  EXPECT_EQ(batch_change_advice(8192, 65536, {}).size(), 3u);
}

}  // namespace
}  // namespace ddl::models
