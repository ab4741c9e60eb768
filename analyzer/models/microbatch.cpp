#include "analyzer/models/microbatch.h"

#include <algorithm>
#include <limits>
#include <set>

namespace ddl::models {
namespace {

// A sum of many times is compared with another sum of the same: not to the last bit.
bool faster(double a, double b) { return a < b - 1e-12 * (a < 0 ? -a : a); }

}  // namespace

std::optional<MicroBatching> best_micro_batching(const std::vector<Kernel>& kernels, int64_t batch,
                                                 int64_t workspace_limit) {
  struct State {
    double time = std::numeric_limits<double>::infinity();
    int64_t pieces = 0;
    size_t kernel = SIZE_MAX;
  };
  std::vector<State> best(static_cast<size_t>(batch) + 1);
  best[0].time = 0;
  for (size_t b = 1; b < best.size(); ++b) {
    for (size_t k = 0; k < kernels.size(); ++k) {
      const auto micro = static_cast<size_t>(kernels[k].micro_batch);
      if (micro == 0 || micro > b || kernels[k].workspace_bytes > workspace_limit) continue;
      const State& before = best[b - micro];
      const double time = before.time + kernels[k].time;
      const bool tie = !faster(time, best[b].time) && !faster(best[b].time, time);
      if (faster(time, best[b].time) || (tie && before.pieces + 1 < best[b].pieces))
        best[b] = {time, before.pieces + 1, k};
    }
  }
  if (best.back().kernel == SIZE_MAX) return std::nullopt;
  MicroBatching result;
  for (size_t b = best.size() - 1; b > 0;) {
    const size_t k = best[b].kernel;
    ++result.kernels[k];
    result.workspace_bytes = std::max(result.workspace_bytes, kernels[k].workspace_bytes);
    b -= static_cast<size_t>(kernels[k].micro_batch);
  }
  // Counted, not accumulated: 256 additions of 0.1 are not 25.6.
  for (const auto& [kernel, times] : result.kernels) result.time += kernels[kernel].time * static_cast<double>(times);
  return result;
}

std::vector<MicroBatching> micro_batching_front(const std::vector<Kernel>& kernels, int64_t batch) {
  std::set<int64_t, std::greater<>> limits;
  for (const Kernel& kernel : kernels) limits.insert(kernel.workspace_bytes);
  std::vector<MicroBatching> front;
  for (const int64_t limit : limits) {  // each smaller limit takes some kernels away
    const auto best = best_micro_batching(kernels, batch, limit);
    if (!best) break;
    if (!front.empty() && !faster(front.back().time, best->time)) {
      front.back() = *best;  // as fast with less
    } else {
      front.push_back(*best);
    }
  }
  return front;
}

std::optional<std::vector<size_t>> choose_fronts(const std::vector<std::vector<MicroBatching>>& layers,
                                                 int64_t workspace_limit) {
  // Partial choices that are not beaten in both sums, by workspace ascending and so by time descending.
  struct Partial {
    int64_t workspace = 0;
    double time = 0;
    std::vector<size_t> choice;
  };
  std::vector<Partial> partial(1);
  for (const auto& layer : layers) {
    std::vector<Partial> next;
    for (const Partial& p : partial)
      for (size_t i = 0; i < layer.size(); ++i) {
        if (p.workspace + layer[i].workspace_bytes > workspace_limit) continue;
        Partial& one = next.emplace_back(p);
        one.workspace += layer[i].workspace_bytes;
        one.time += layer[i].time;
        one.choice.push_back(i);
      }
    std::sort(next.begin(), next.end(), [](const Partial& a, const Partial& b) {
      return a.workspace != b.workspace ? a.workspace < b.workspace : a.time < b.time;
    });
    partial.clear();
    for (Partial& p : next)
      if (partial.empty() || faster(p.time, partial.back().time)) partial.push_back(std::move(p));
    if (partial.empty()) return std::nullopt;
  }
  return partial.back().choice;  // the one with most workspace is the fastest
}

}  // namespace ddl::models
