#include "analyzer/models/partition.h"

#include <algorithm>
#include <limits>

namespace ddl::models {
namespace {

/// Sums over layers [first, last].
class Sums {
 public:
  explicit Sums(const std::vector<LayerCost>& layers) : seconds_(1, 0), parameters_(1, 0) {
    for (const LayerCost& layer : layers) {
      seconds_.push_back(seconds_.back() + layer.forward_s + layer.backward_s);
      parameters_.push_back(parameters_.back() + layer.parameter_bytes);
    }
  }
  double seconds(size_t first, size_t last) const { return seconds_[last + 1] - seconds_[first]; }
  double parameter_bytes(size_t first, size_t last) const { return parameters_[last + 1] - parameters_[first]; }

 private:
  std::vector<double> seconds_, parameters_;
};

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

Partition partition_layers(const std::vector<LayerCost>& layers, int64_t stages) {
  const Sums sums(layers);
  const size_t n = layers.size();
  const auto k = std::min(static_cast<size_t>(stages), n);
  // best[s][i]: bottleneck of the first i layers in s stages; cut[s][i]: where its last stage begins.
  std::vector<std::vector<double>> best(k + 1, std::vector<double>(n + 1, kNever));
  std::vector<std::vector<size_t>> cut(k + 1, std::vector<size_t>(n + 1, 0));
  best[0][0] = 0;
  for (size_t s = 1; s <= k; ++s)
    for (size_t i = s; i <= n; ++i)
      for (size_t j = s - 1; j < i; ++j) {
        const double bottleneck = std::max(best[s - 1][j], sums.seconds(j, i - 1));
        if (bottleneck < best[s][i]) best[s][i] = bottleneck, cut[s][i] = j;
      }
  Partition partition;
  partition.bottleneck_s = n == 0 ? 0 : best[k][n];
  for (size_t s = k, i = n; s > 0; i = cut[s][i], --s) {
    const double seconds = sums.seconds(cut[s][i], i - 1);
    partition.stages.insert(partition.stages.begin(), {cut[s][i], i - 1, 1, seconds, seconds});
  }
  return partition;
}

Partition partition_with_replicas(const std::vector<LayerCost>& layers, int64_t workers, double bytes_per_second) {
  const Sums sums(layers);
  const size_t n = layers.size();
  const auto w = static_cast<size_t>(workers);
  const auto paced = [&](size_t first, size_t last, size_t replicas) {
    const double r = static_cast<double>(replicas);
    return std::max(sums.seconds(first, last), 2 * (r - 1) * sums.parameter_bytes(first, last) / bytes_per_second) / r;
  };
  struct State {
    double bottleneck = kNever;
    size_t cut = 0, replicas = 0;
  };
  // best[i][m]: the first i layers on m workers; its last stage begins at `cut` and has `replicas` workers.
  std::vector<std::vector<State>> best(n + 1, std::vector<State>(w + 1));
  best[0][0].bottleneck = 0;
  for (size_t i = 1; i <= n; ++i)
    for (size_t m = 1; m <= w; ++m)
      for (size_t j = 0; j < i; ++j)
        for (size_t r = 1; r <= m; ++r) {
          const double transfer = j == 0 ? 0 : 2 * layers[j - 1].activation_bytes / bytes_per_second;
          const double bottleneck = std::max({best[j][m - r].bottleneck, transfer, paced(j, i - 1, r)});
          if (bottleneck < best[i][m].bottleneck) best[i][m] = {bottleneck, j, r};
        }
  Partition partition;
  partition.bottleneck_s = best[n][w].bottleneck;
  for (size_t i = n, m = w; i > 0 && best[i][m].replicas > 0;) {
    const State& state = best[i][m];
    partition.stages.insert(partition.stages.begin(),
                            {state.cut, i - 1, static_cast<int64_t>(state.replicas), sums.seconds(state.cut, i - 1),
                             paced(state.cut, i - 1, state.replicas)});
    i = state.cut;
    m -= state.replicas;
  }
  return partition;
}

Memory layer_memory(const LayerCost& layer, double optimizer_values_per_weight, double batch_factor) {
  return {2 * layer.parameter_bytes, optimizer_values_per_weight * layer.parameter_bytes,
          2 * layer.activation_bytes * batch_factor};
}

}  // namespace ddl::models
