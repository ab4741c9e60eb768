// The 15 vectors of mu-cuDNN's own test, and brute force over everything small.
#include "analyzer/models/microbatch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "tests/analyzer/models/published.h"

namespace ddl::models {
namespace {

constexpr int64_t kLimit = 64 << 20;

/// mu-cuDNN's artificial layer: a fast kernel that needs 1 MiB per sample and a slow one that needs a byte;
/// workspaces below 64 MiB.
std::vector<Kernel> artificial(bool powers_of_two) {
  std::vector<Kernel> kernels;
  for (int64_t b = 1; b <= 256; b = powers_of_two ? 2 * b : b + 1) {
    const double samples = static_cast<double>(b);
    if (b << 20 < kLimit) kernels.push_back({b, 0.1 * samples + 0.01, b << 20, "fast"});
    kernels.push_back({b, 10 * samples + 0.1, b, "slow"});
  }
  return kernels;
}

TEST(MicroBatch, TheFrontEqualsThePublishedVectors) {
  const CsvTable table = test::published("ucudnn_dp_vectors");
  const std::vector<Kernel> kernels = artificial(true);
  const auto front = micro_batching_front(kernels, 256);
  ASSERT_EQ(front.size(), table.rows());
  ASSERT_EQ(front.size(), 15u);
  for (size_t i = 0; i < front.size(); ++i) {
    EXPECT_EQ(std::llround(front[i].time * 100), std::llround(table.number(i, "time") * 100));
    EXPECT_EQ(static_cast<double>(front[i].workspace_bytes), table.number(i, "workspace_bytes"));
    ASSERT_EQ(front[i].kernels.size(), 1u);
    const auto [kernel, times] = *front[i].kernels.begin();
    EXPECT_EQ(static_cast<double>(times), table.number(i, "n_microbatches"));
    EXPECT_EQ(static_cast<double>(kernels[kernel].micro_batch), table.number(i, "microbatch"));
    EXPECT_EQ(kernels[kernel].name, table.text(i, "kernel"));
  }
}

TEST(MicroBatch, AnySizeIsBetterThanPowersOfTwo) {  // mu-cuDNN's policy "all"
  EXPECT_NEAR(best_micro_batching(artificial(false), 256, kLimit - 1)->time, 25.65, 1e-9);
}

TEST(MicroBatch, NothingAddsUp) {
  EXPECT_FALSE(best_micro_batching({{3, 1, 0, ""}}, 8, 100));
  EXPECT_FALSE(best_micro_batching({{4, 1, 101, ""}}, 8, 100));
  EXPECT_FALSE(best_micro_batching({}, 1, 100));
  EXPECT_TRUE(micro_batching_front({{3, 1, 0, ""}}, 8).empty());
}

double brute(const std::vector<Kernel>& kernels, int64_t batch, int64_t limit) {
  if (batch == 0) return 0;
  double best = INFINITY;
  for (const Kernel& k : kernels)
    if (k.micro_batch <= batch && k.workspace_bytes <= limit)
      best = std::min(best, k.time + brute(kernels, batch - k.micro_batch, limit));
  return best;
}

TEST(MicroBatch, EqualsBruteForce) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    std::vector<Kernel> kernels(1 + random() % 4);
    for (Kernel& k : kernels)
      k = {static_cast<int64_t>(1 + random() % 4), static_cast<double>(1 + random() % 50),
           static_cast<int64_t>(random() % 8), ""};
    const auto batch = static_cast<int64_t>(1 + random() % 8);
    const auto limit = static_cast<int64_t>(random() % 8);
    const auto found = best_micro_batching(kernels, batch, limit);
    const double truth = brute(kernels, batch, limit);
    ASSERT_EQ(found.has_value(), std::isfinite(truth));
    if (!found) continue;
    EXPECT_DOUBLE_EQ(found->time, truth);
    EXPECT_LE(found->workspace_bytes, limit);
    int64_t samples = 0;
    for (const auto& [kernel, times] : found->kernels) samples += times * kernels[kernel].micro_batch;
    EXPECT_EQ(samples, batch);
  }
}

TEST(Knapsack, EqualsBruteForce) {
  std::mt19937 random(4);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::vector<MicroBatching>> layers(1 + random() % 4);
    for (auto& layer : layers)
      for (size_t n = 1 + random() % 4; n-- > 0;)
        layer.push_back({static_cast<double>(1 + random() % 30), static_cast<int64_t>(random() % 10), {}});
    const auto limit = static_cast<int64_t>(random() % 30);
    double truth = INFINITY;
    const std::function<void(size_t, double, int64_t)> all = [&](size_t l, double time, int64_t workspace) {
      if (workspace > limit) return;
      if (l == layers.size()) truth = std::min(truth, time);
      for (size_t c = 0; l < layers.size() && c < layers[l].size(); ++c)
        all(l + 1, time + layers[l][c].time, workspace + layers[l][c].workspace_bytes);
    };
    all(0, 0, 0);
    const auto choice = choose_fronts(layers, limit);
    ASSERT_EQ(choice.has_value(), std::isfinite(truth));
    if (!choice) continue;
    double time = 0;
    int64_t workspace = 0;
    for (size_t l = 0; l < layers.size(); ++l)
      time += layers[l][(*choice)[l]].time, workspace += layers[l][(*choice)[l]].workspace_bytes;
    EXPECT_EQ(time, truth);
    EXPECT_LE(workspace, limit);
  }
}

}  // namespace
}  // namespace ddl::models
