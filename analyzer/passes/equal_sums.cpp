#include "analyzer/passes/equal_sums.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr size_t kMaxBatches = 64;     // of a step
constexpr double kMinHits = 0.9;       // of the steps end where they should
constexpr size_t kMaxMisses = 8;       // in a row of steps where fewer end where they should
constexpr double kLongerPause = 2.0;   // before a step than within it
constexpr double kLeastCovered = 0.5;  // of the batches, or of the time
constexpr double kExactly = 0.99;      // kappa of sizes that repeat as nothing is fused

double hit_rate(size_t hits, size_t misses) {
  return hits == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(hits + misses);
}

/// ends[k]: bytes of the batches before k. Where steps of `bytes` begin, from `first` on; those that do not end with a
/// batch are left out.
struct Chain {
  std::vector<std::pair<size_t, size_t>> steps;
  size_t misses = 0;

  double hits() const { return hit_rate(steps.size(), misses); }
};

Chain follow(const std::vector<int64_t>& ends, size_t first, int64_t bytes) {
  Chain chain;
  size_t at = first;
  while (at + 1 < ends.size()) {
    const auto end = std::lower_bound(ends.begin() + static_cast<ptrdiff_t>(at) + 1, ends.end(), ends[at] + bytes);
    if (end == ends.end()) break;
    const auto to = static_cast<size_t>(end - ends.begin());
    if (*end == ends[at] + bytes) {
      chain.steps.emplace_back(at, to);
    } else if (++chain.misses > kMaxMisses && chain.hits() < kMinHits) {
      break;
    }
    at = to;
  }
  return chain;
}

/// Where the first step begins from which on steps go through to `first`, but for those that do not begin
/// where they should.
size_t follow_back(const std::vector<int64_t>& ends, size_t first, int64_t bytes) {
  size_t hits = 0, misses = 0;
  for (size_t at = first; ends[at] >= bytes;) {
    const int64_t begin_bytes = ends[at] - bytes;
    at = static_cast<size_t>(std::upper_bound(ends.begin(), ends.begin() + static_cast<ptrdiff_t>(at), begin_bytes) -
                             ends.begin()) -
         1;
    if (ends[at] == begin_bytes) {
      ++hits;
      first = at;
    } else if (++misses > kMaxMisses && hit_rate(hits, misses) < kMinHits) {
      break;
    }
  }
  return first;
}

/// Batches that are all as large as a step may be several to a step: as many as the pauses tell.
Chain by_pauses(std::span<const Batch> batches, const std::vector<int64_t>& ends, int64_t bytes, Chain chain) {
  // Places are counted in bytes: several batches in one, once, do not move what comes behind.
  const auto place = [&](size_t k) {
    return static_cast<size_t>((ends[chain.steps[k].first] - ends[chain.steps[0].first]) / bytes);
  };
  std::vector<std::pair<size_t, int64_t>> pauses;  // places, and the pauses before them
  for (size_t k = 1; k < chain.steps.size(); ++k)
    if (chain.steps[k].first == chain.steps[k - 1].second)
      pauses.emplace_back(place(k),
                          batches[chain.steps[k].first].enter_ns - batches[chain.steps[k - 1].second - 1].leave_ns);
  for (size_t n = kMaxBatches; n > 1; --n) {
    if (pauses.size() < n * kMinRepetitions) continue;
    for (size_t phase = 0; phase < n; ++phase) {
      std::vector<int64_t> between, within;
      for (const auto& [at, pause_ns] : pauses) (at % n == phase ? between : within).push_back(pause_ns);
      if (between.empty() || within.empty()) continue;
      std::sort(within.begin(), within.end());
      const int64_t long_within = within[within.size() * 9 / 10];
      if (static_cast<double>(upper_median_of(std::move(between))) < kLongerPause * static_cast<double>(long_within))
        continue;
      Chain joined;
      for (size_t k = 0; k + n <= chain.steps.size(); ++k)
        if (place(k) % n == phase && place(k + n - 1) == place(k) + n - 1)
          joined.steps.emplace_back(chain.steps[k].first, chain.steps[k + n - 1].second);
      joined.misses = (place(chain.steps.size() - 1) + 1 - phase) / n - joined.steps.size();
      return joined;
    }
  }
  return chain;
}

int64_t median_pause_ns(std::span<const Batch> batches, const Repetition& found) {
  std::vector<int64_t> pauses_ns;
  for (const auto& [first, last] : found.steps)
    if (first > 0) pauses_ns.push_back(batches[first].enter_ns - batches[first - 1].leave_ns);
  return pauses_ns.empty() ? 0 : upper_median_of(std::move(pauses_ns));
}

/// Sizes that repeat exactly, but over more reductions than `sums` has in a step, and after longer pauses: what is
/// fused in every other step pauses before each.
std::optional<Repetition> longer_repetition(std::span<const Batch> batches, const Repetition& sums) {
  std::vector<Beat> beats;
  for (const Batch& batch : batches) beats.push_back({batch.bytes, batch.enter_ns, batch.leave_ns});
  std::optional<Repetition> found = find_repetition(beats);
  if (!found || found->period <= sums.period || found->agreement < kExactly) return std::nullopt;
  const auto pause_ns = [&](const Repetition& of) {
    return static_cast<double>(std::max<int64_t>(0, median_pause_ns(batches, of)));
  };
  return pause_ns(*found) > kLongerPause * pause_ns(sums) ? std::move(found) : std::nullopt;
}

}  // namespace

std::optional<Repetition> find_equal_sums(std::span<const Batch> batches) {
  if (batches.size() < kMinRepetitions) return std::nullopt;
  std::vector<int64_t> ends{0};
  for (const Batch& batch : batches) ends.push_back(ends.back() + batch.bytes);
  const size_t middle = batches.size() / 2;
  Chain best;
  int64_t step_bytes = 0;
  // A step begins within as many batches as a step may have, and ends within as many.
  for (size_t first = middle; first < std::min(middle + kMaxBatches, batches.size()); ++first) {
    for (size_t end = first + 1; end <= std::min(first + kMaxBatches, batches.size()); ++end) {
      const int64_t bytes = ends[end] - ends[first];
      if (bytes <= 0 || (step_bytes > 0 && bytes > step_bytes)) continue;
      const Chain chain = follow(ends, first, bytes);
      if (chain.steps.size() < kMinRepetitions || chain.hits() < kMinHits) continue;
      // A place within a step may be the end of a batch by chance; the begin of a step nearly always is.
      if (bytes == step_bytes && chain.steps.size() + best.misses <= best.steps.size() + chain.misses) continue;
      step_bytes = bytes;
      best = chain;
    }
  }
  if (step_bytes == 0) return std::nullopt;
  const Chain whole = follow(ends, follow_back(ends, best.steps.front().first, step_bytes), step_bytes);
  if (whole.steps.size() > best.steps.size()) best = whole;
  best = by_pauses(batches, ends, step_bytes, std::move(best));
  // What begins with the first batch of all has nothing before it that would say when the step began.
  if (!best.steps.empty() && best.steps.front().first == 0) best.steps.erase(best.steps.begin());
  if (best.steps.size() < kMinRepetitions) return std::nullopt;
  Repetition result;
  size_t together = 0;
  for (const auto& [begin, end] : best.steps) together += end - begin;
  result.period =
      static_cast<size_t>(std::lround(static_cast<double>(together) / static_cast<double>(best.steps.size())));
  result.agreement = best.hits();
  result.steps = best.steps;
  const int64_t whole_ns = batches[best.steps.back().second - 1].leave_ns - batches[best.steps.front().first].enter_ns;
  if (whole_ns < kMinPeriodNs * static_cast<int64_t>(best.steps.size())) return std::nullopt;
  const double run_ns = static_cast<double>(batches.back().leave_ns - batches.front().enter_ns);
  const double covered = std::max(static_cast<double>(together) / static_cast<double>(batches.size()),
                                  static_cast<double>(whole_ns) / run_ns);
  if (covered < kLeastCovered) return std::nullopt;
  if (std::optional<Repetition> longer = longer_repetition(batches, result)) return longer;
  return result;
}

}  // namespace ddl
