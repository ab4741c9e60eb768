// Bucket counts against the published ones, the schedule against a simulation in small time steps.
#include "analyzer/models/fusion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/analyzer/models/published.h"

namespace ddl::models {
namespace {

/// "64x192x5x5->27x27": 64 * 192 * 5 * 5.
int64_t product_of(const std::string& shape) {
  int64_t product = 1, number = 0;
  for (const char c : shape + "x") {
    if (c >= '0' && c <= '9') {
      number = 10 * number + (c - '0');
      continue;
    }
    product *= std::max<int64_t>(number, 1);
    number = 0;
    if (c != 'x') break;
  }
  return product;
}

/// Gradients in the order of the forward pass: weight and bias of each layer, scale and shift of norms.
std::vector<Gradient> tensors_of(const CsvTable& layers) {
  std::vector<Gradient> tensors;
  for (size_t r = 0; r < layers.rows(); ++r) {
    const auto params = static_cast<int64_t>(layers.number(r, "params"));
    const std::string& type = layers.text(r, "type");
    if (params == 0) continue;
    const int64_t first = type.ends_with("norm") ? params / 2
                          : type == "embedding"  ? params
                                                 : product_of(layers.text(r, "shape"));
    tensors.push_back({4 * first, 0});
    if (params > first) tensors.push_back({4 * (params - first), 0});
  }
  return tensors;
}

TEST(Fusion, BucketCountsEqualThePublishedOnes) {  // all 15 networks
  const CsvTable counts = test::published("fusion_bucket_counts");
  const std::pair<const char*, int64_t> thresholds[] = {
      {"buckets_thr_0", 0},    {"thr_1MiB", 1 << 20},   {"thr_4MiB", 4 << 20},    {"thr_16MiB", 16 << 20},
      {"thr_25MiB", 25 << 20}, {"thr_64MiB", 64 << 20}, {"thr_128MiB", 128 << 20}};
  EXPECT_EQ(counts.rows(), 15u);
  for (size_t r = 0; r < counts.rows(); ++r) {
    const std::string& model = counts.text(r, "model");
    std::vector<Gradient> gradients = tensors_of(test::layer_table(model));
    std::reverse(gradients.begin(), gradients.end());
    EXPECT_EQ(static_cast<double>(gradients.size()), counts.number(r, "param_tensors")) << model;
    int64_t total = 0;
    for (const Gradient& gradient : gradients) total += gradient.bytes;
    EXPECT_EQ(static_cast<double>(total), counts.number(r, "grad_bytes_fp32")) << model;
    for (const auto& [column, threshold] : thresholds)
      EXPECT_EQ(static_cast<double>(fuse(gradients, threshold).size()), counts.number(r, column))
          << model << " " << column;
  }
}

TEST(Fusion, TensorsOfLayersAreThePublishedLists) {
  for (const char* model : {"alexnet", "vgg16", "resnet50", "bert_base_uncased"}) {
    const std::vector<Gradient> tensors = tensors_of(test::layer_table(model));
    const CsvTable list = test::published(std::string("param_tensors_") + model);
    ASSERT_EQ(tensors.size(), list.rows()) << model;
    for (size_t t = 0; t < tensors.size(); ++t)
      EXPECT_EQ(static_cast<double>(tensors[t].bytes), list.number(t, "bytes_fp32")) << model << " " << t;
  }
}

TEST(Fusion, ABucketIsReadyWithItsLastTensor) {
  const auto buckets = fuse({{10, 1}, {10, 3}, {10, 2}, {50, 4}, {5, 5}}, 25);
  ASSERT_EQ(buckets.size(), 4u);
  EXPECT_EQ(buckets[0].bytes, 20);
  EXPECT_EQ(buckets[0].ready_s, 3);
  EXPECT_EQ(buckets[0].tensors, 2);
  EXPECT_EQ(buckets[2].bytes, 50);  // larger than the threshold: alone
}

TEST(Fusion, ByHand) {
  const auto seconds = [](int64_t bytes) { return static_cast<double>(bytes); };
  const std::vector<Bucket> buckets = {{2, 1, 1}, {3, 1, 2}, {1, 1, 9}};
  const FusedStep hidden = schedule(buckets, 10, seconds, true);
  EXPECT_EQ(hidden.step_s, 10);  // 1..3, 3..6, 9..10
  EXPECT_EQ(hidden.comm_s, 6);
  EXPECT_EQ(schedule(buckets, 9, seconds, true).exposed_s, 1);
  EXPECT_EQ(schedule(buckets, 10, seconds, false).step_s, 16);
}

TEST(Fusion, NothingHidesBehindTheUpdate) {
  const auto seconds = [](int64_t bytes) { return static_cast<double>(bytes); };
  const std::vector<Bucket> buckets = {{2, 1, 1}, {3, 1, 2}, {1, 1, 9}};
  // backward ends at 9, the last transfer at 10, then 5 of update
  const FusedStep step = schedule(buckets, 14, seconds, true, 5);
  EXPECT_EQ(step.step_s, 15);
  EXPECT_EQ(step.exposed_s, 1);
  EXPECT_EQ(schedule(buckets, 14, seconds, false, 5).step_s, 20);
}

TEST(Fusion, ProgressIsWhatTheRecordedStepSays) {
  const auto seconds = [](int64_t bytes) { return static_cast<double>(bytes); };
  // 6 of transfers, of which 1 is exposed at best
  const std::vector<Bucket> buckets = {{2, 1, 1}, {3, 1, 2}, {1, 1, 9}};
  for (const auto& [exposed, share, factor] :
       {std::tuple(6.0, 0.0, 1.0), {1.0, 1.0, 1.0}, {3.5, 0.5, 1.0}, {12.0, 0.0, 2.0}, {0.5, 1.0, 1.0}}) {
    const Progress progress = progress_of(buckets, 14, seconds, 5, exposed);
    EXPECT_DOUBLE_EQ(progress.beside_share, share) << exposed;
    EXPECT_DOUBLE_EQ(progress.cost_factor, factor) << exposed;
    EXPECT_DOUBLE_EQ(schedule(buckets, 14, seconds, progress, 5).exposed_s, std::max(exposed, 1.0)) << exposed;
  }
}

/// Time in units: one transfer at a time, oldest ready bucket first.
int64_t simulate(const std::vector<Bucket>& buckets, int64_t compute) {
  int64_t now = 0, left = 0;
  size_t next = 0;
  for (;; ++now) {
    if (left == 0 && next < buckets.size() && buckets[next].ready_s <= static_cast<double>(now))
      left = buckets[next++].bytes;
    if (left == 0 && next == buckets.size() && now >= compute) return now;
    if (left > 0) --left;
  }
}

TEST(Fusion, EqualsASimulation) {
  std::mt19937 random(5);
  for (int i = 0; i < 500; ++i) {
    std::vector<Bucket> buckets;
    int64_t ready = 0;
    for (size_t b = random() % 8; b-- > 0;) {
      ready += static_cast<int64_t>(random() % 20);
      buckets.push_back({static_cast<int64_t>(1 + random() % 20), 1, static_cast<double>(ready)});
    }
    const int64_t compute = ready + static_cast<int64_t>(random() % 10);
    const FusedStep step = schedule(
        buckets, static_cast<double>(compute), [](int64_t bytes) { return static_cast<double>(bytes); }, true);
    EXPECT_EQ(step.step_s, static_cast<double>(simulate(buckets, compute)));
  }
}

TEST(Fusion, DdpClosesABucketThatHoldsItsCap) {
  const std::vector<Gradient> gradients = {{10, 1}, {10, 3}, {10, 2}, {50, 4}, {5, 5}};
  const auto buckets = fill(gradients, 25, 15);
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_EQ(buckets[0].bytes, 20) << "holds 15: a tensor is never split";
  EXPECT_EQ(buckets[0].ready_s, 3);
  EXPECT_EQ(buckets[1].bytes, 60);
  EXPECT_EQ(buckets[1].tensors, 2);
  EXPECT_EQ(buckets[2].bytes, 5);
  EXPECT_EQ(fill(gradients, 0, 0).size(), 5U);
  EXPECT_EQ(fill(gradients, 0, 30).size(), 3U) << "the first one has a cap of its own";
  EXPECT_EQ(fill(gradients, 1000, 1000).size(), 1U);
}

}  // namespace
}  // namespace ddl::models
