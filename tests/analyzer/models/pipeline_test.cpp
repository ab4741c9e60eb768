#include "analyzer/models/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/analyzer/models/published.h"

namespace ddl::models {
namespace {

TEST(Pipeline, GoldenValues) {  // specification.md B1 to B3, G-D; K = 4 with M = 16 and 4: GPipe, 1811.06965
  EXPECT_NEAR(pipeline_bubble(4, 8).of_total, 0.272727, 5e-7);
  EXPECT_NEAR(pipeline_bubble(4, 8).of_ideal, 0.375, 1e-15);
  EXPECT_NEAR(pipeline_bubble(4, 16).of_total, 0.1579, 5e-5);
  EXPECT_NEAR(pipeline_bubble(4, 4).of_total, 0.4286, 5e-5);
  EXPECT_NEAR(pipeline_bubble(4, 8, 2).of_ideal, 3.0 / 16, 1e-15);
  EXPECT_EQ(pipeline_bubble(1, 8).of_total, 0);
  for (int64_t p = 1; p < 20; ++p)
    for (int64_t m = 1; m < 20; ++m) {
      const Bubble b = pipeline_bubble(p, m);
      EXPECT_NEAR(b.of_total, b.of_ideal / (1 + b.of_ideal), 1e-15);
    }
}

TEST(Pipeline, PublishedBubblesAndThroughputOfGPipe) {
  const CsvTable table = test::published("gpipe_throughput");
  int gated = 0;
  for (size_t r = 0; r < table.rows(); ++r) {
    const double bubble = pipeline_bubble(static_cast<int64_t>(table.number(r, "K_partitions")),
                                          static_cast<int64_t>(table.number(r, "M_microbatches")))
                              .of_total;
    EXPECT_NEAR(bubble, table.number(r, "bubble_fraction"), 5.1e-5);
    // Only rows of which the paper says that the batch was not adjusted: the Transformer with 32 micro-batches.
    if (table.text(r, "model") != "transformer" || table.number(r, "M_microbatches") != 32 ||
        table.text(r, "platform") != "TPU table 2")
      continue;
    ++gated;
    const double model = table.number(r, "K_partitions") * (1 - bubble);
    EXPECT_NEAR(model / table.number(r, "published_normalised_throughput"), 1, 0.08);
  }
  EXPECT_EQ(gated, 3);
}

TEST(Pipeline, SchedulesWithoutBubble) {
  const StageTimes times = {1, 1, 0.75};
  EXPECT_EQ(bubble_seconds(Schedule::k1F1B, 4, times), 3 * 2.75);
  EXPECT_EQ(bubble_seconds(Schedule::kZeroBubbleH1, 4, times), 3 * 1.25);
  EXPECT_EQ(bubble_seconds(Schedule::kZeroBubbleH2, 4, times), 3 * 0.5);
  EXPECT_EQ(bubble_seconds(Schedule::kZeroBubbleH2, 4, {1, 1, 1}), 0);
}

/// Every micro-batch through every stage, event by event: forwards, then backwards from the last stage.
double simulate(const std::vector<double>& forward, const std::vector<double>& backward, int64_t micro_batches) {
  const size_t p = forward.size();
  std::vector<double> stage(p, 0);
  double end = 0;
  for (int64_t m = 0; m < micro_batches; ++m) {
    double ready = 0;
    for (size_t s = 0; s < p; ++s) ready = stage[s] = std::max(stage[s], ready) + forward[s];
    end = ready;
  }
  std::fill(stage.begin(), stage.end(), end);  // backward begins when the last forward is over
  for (int64_t m = 0; m < micro_batches; ++m) {
    double ready = 0;
    for (size_t s = p; s-- > 0;) ready = stage[s] = std::max(stage[s], ready) + backward[s];
    end = ready;
  }
  return end;
}

TEST(Pipeline, TheStepEqualsASimulation) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> time(0.1, 2);
  for (int i = 0; i < 200; ++i) {
    std::vector<double> forward(1 + random() % 6), backward(forward.size());
    for (double& t : forward) t = time(random);
    for (double& t : backward) t = time(random);
    const auto m = static_cast<int64_t>(1 + random() % 12);
    EXPECT_NEAR(gpipe_seconds(forward, backward, m), simulate(forward, backward, m), 1e-9);
  }
  const std::vector<double> equal(4, 1.0), twice(4, 2.0);
  EXPECT_DOUBLE_EQ(gpipe_seconds(equal, twice, 8), 11 * 3.0);
  EXPECT_NEAR(1 - 8 * 3.0 / gpipe_seconds(equal, twice, 8), pipeline_bubble(4, 8).of_total, 1e-12);
}

TEST(Pipeline, SchedulesPlayedThrough) {
  std::mt19937 random(4);
  std::uniform_real_distribution<double> time(0.1, 2);
  for (int i = 0; i < 50; ++i) {
    const size_t stages = 1 + random() % 5;
    const int64_t micro_batches = 1 + static_cast<int64_t>(random() % 8);
    std::vector<double> forward(stages), backward(stages);
    for (double& s : forward) s = time(random);
    for (double& s : backward) s = time(random);
    EXPECT_NEAR(pipeline_seconds(PassOrder::kGpipe, forward, backward, micro_batches),
                gpipe_seconds(forward, backward, micro_batches), 1e-9);
    double longest = 0;
    for (size_t s = 0; s < stages; ++s) longest = std::max(longest, forward[s] + backward[s]);
    EXPECT_GE(pipeline_seconds(PassOrder::k1F1B, forward, backward, micro_batches),
              longest * static_cast<double>(micro_batches) - 1e-9);
  }
  // Equal stages: both orders take (m + p - 1)(f + b); messages add two hops for each boundary to the first and the
  // last micro-batch.
  const std::vector<double> f(4, 1), b(4, 2);
  for (const PassOrder order : {PassOrder::kGpipe, PassOrder::k1F1B}) {
    EXPECT_DOUBLE_EQ(pipeline_seconds(order, f, b, 8), 33);
    EXPECT_GE(pipeline_seconds(order, f, b, 8, 0.5), 36);
  }
  EXPECT_DOUBLE_EQ(pipeline_seconds(PassOrder::kGpipe, f, b, 8, 0.5), 36);
}

}  // namespace
}  // namespace ddl::models
