// PipeDream's VGG-16 profile, and brute force over all partitions.
#include "analyzer/models/partition.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <random>

#include "tests/analyzer/models/published.h"

namespace ddl::models {
namespace {

std::vector<LayerCost> vgg16() {
  const CsvTable table = test::published("pipedream_profile_vgg16");
  std::vector<LayerCost> layers;
  for (size_t r = 1; r < table.rows(); ++r) {  // node1 is the input
    layers.push_back({table.text(r, "op"), table.number(r, "fwd_ms") / 1e3, table.number(r, "bwd_ms") / 1e3,
                      table.number(r, "activation_bytes_per_minibatch"), table.number(r, "param_bytes_fp32")});
  }
  return layers;
}

TEST(StagePartition, Vgg16) {  // bottlenecks of PipeDream's profile, pipedream_profile_vgg16.csv
  const auto layers = vgg16();
  EXPECT_NEAR(partition_layers(layers, 1).bottleneck_s, 0.672535, 1e-9);
  EXPECT_NEAR(partition_layers(layers, 2).bottleneck_s, 0.370931, 1e-9);
  EXPECT_NEAR(partition_layers(layers, 4).bottleneck_s, 0.216450, 1e-9);
  EXPECT_NEAR(partition_layers(layers, 8).bottleneck_s, 0.159531, 1e-9);
}

TEST(StagePartition, Vgg16OnSixteenWorkersIsFifteenAndOne) {
  // The published choice, and that it beats data parallelism on 10 Gbit/s: pipedream_speedups.csv, cluster A
  // (5.28x measured there).
  const CsvTable table = test::published("pipedream_speedups");
  ASSERT_EQ(table.text(0, "config"), "15-1");
  const auto layers = vgg16();
  const Partition best = partition_with_replicas(layers, 16, 10e9 / 8);
  std::vector<int64_t> config;
  for (const Stage& stage : best.stages) config.push_back(stage.replicas);
  double parameters = 0;
  for (const LayerCost& layer : layers) parameters += layer.parameter_bytes;
  const double data_parallel = 2 * 15 * parameters / (10e9 / 8) / 16;
  EXPECT_LT(best.bottleneck_s, data_parallel / 2);
  EXPECT_EQ(config, (std::vector<int64_t>{15, 1}));
}

std::vector<LayerCost> random_layers(std::mt19937& random, size_t most) {
  std::vector<LayerCost> layers(1 + random() % most);
  for (LayerCost& l : layers)
    l = {"", static_cast<double>(random() % 50), static_cast<double>(random() % 50),
         static_cast<double>(random() % 100), static_cast<double>(random() % 100)};
  return layers;
}

TEST(StagePartition, EqualsBruteForce) {
  std::mt19937 random(8);
  for (int i = 0; i < 200; ++i) {
    const auto layers = random_layers(random, 9);
    const int64_t stages = static_cast<int64_t>(1 + random() % layers.size());
    double truth = INFINITY;
    for (uint32_t cuts = 0; cuts < 1u << (layers.size() - 1); ++cuts) {  // bit l: a cut behind layer l
      if (std::popcount(cuts) != stages - 1) continue;
      double slowest = 0, sum = 0;
      for (size_t l = 0; l < layers.size(); ++l) {
        sum += layers[l].forward_s + layers[l].backward_s;
        slowest = std::max(slowest, sum);
        if (cuts >> l & 1) sum = 0;
      }
      truth = std::min(truth, slowest);
    }
    const Partition found = partition_layers(layers, stages);
    EXPECT_EQ(found.bottleneck_s, truth);
    ASSERT_EQ(found.stages.size(), static_cast<size_t>(stages));
    EXPECT_EQ(found.stages.front().first, 0u);
    EXPECT_EQ(found.stages.back().last, layers.size() - 1);
    for (size_t s = 1; s < found.stages.size(); ++s) EXPECT_EQ(found.stages[s].first, found.stages[s - 1].last + 1);
  }
}

TEST(StagePartition, WithReplicasEqualsBruteForce) {
  std::mt19937 random(9);
  for (int i = 0; i < 100; ++i) {
    const auto layers = random_layers(random, 5);
    const int64_t workers = static_cast<int64_t>(1 + random() % 5);
    const std::function<double(size_t, int64_t)> rest = [&](size_t first, int64_t left) -> double {
      if (first == layers.size()) return left == 0 ? 0 : INFINITY;
      double best = INFINITY, seconds = 0, parameters = 0;
      for (size_t last = first; last < layers.size(); ++last) {
        seconds += layers[last].forward_s + layers[last].backward_s;
        parameters += layers[last].parameter_bytes;
        for (int64_t r = 1; r <= left; ++r) {
          const double n = static_cast<double>(r);
          const double stage = std::max(seconds / n, 2 * (n - 1) / n * parameters / 2.0);
          const double transfer = last + 1 < layers.size() ? 2 * layers[last].activation_bytes / 2.0 : 0;
          best = std::min(best, std::max({stage, transfer, rest(last + 1, left - r)}));
        }
      }
      return best;
    };
    const Partition found = partition_with_replicas(layers, workers, 2.0);
    EXPECT_NEAR(found.bottleneck_s, rest(0, workers), 1e-9);
    int64_t used = 0;
    for (const Stage& stage : found.stages) used += stage.replicas;
    EXPECT_EQ(used, workers);
  }
}

TEST(LayerMemory, Vgg16WithBatch128) {  // 2 x 553.4 MB + 2 x 14.68 GB = 28.38 GiB
  double total = 0, doubled = 0, adam = 0;
  for (const LayerCost& layer : vgg16()) {
    total += layer_memory(layer).total();
    doubled += layer_memory(layer, 0, 2).total();
    adam += layer_memory(layer, 2).total();
  }
  EXPECT_NEAR(total / 0x1p30, 28.38, 0.005);
  EXPECT_NEAR(adam - total, 2 * 553430176.0, 1);
  EXPECT_NEAR(doubled - total, 2 * 14682148868.0, 1);
}

}  // namespace
}  // namespace ddl::models
