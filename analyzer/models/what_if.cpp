#include "analyzer/models/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>
#include <utility>

#include "analyzer/models/healthy_computing.h"
#include "analyzer/statistics.h"
#include "core/error.h"

namespace ddl::models {
namespace {

constexpr double kWorstShare = 0.03;
constexpr double kIncomparable = 0.05;  // of what ranks compute longer

/// The recorded durations; `change` gets each operation with its duration.
std::vector<double> changed(const Replay& replay, const std::function<double(const ReplayOp&)>& change) {
  std::vector<double> durations;
  for (const ReplayOp& op : replay.ops()) durations.push_back(change(op));
  return durations;
}

/// By kind, over the operations that `counts`: their mean; NaN without any.
std::vector<double> means(const Replay& replay, const std::function<bool(const ReplayOp&)>& counts) {
  std::vector<double> sum(replay.kinds().size()), count(replay.kinds().size());
  for (const ReplayOp& op : replay.ops())
    if (counts(op)) sum[op.kind] += op.seconds, ++count[op.kind];
  for (size_t k = 0; k < sum.size(); ++k) sum[k] /= count[k];
  return sum;
}

bool is_transfer(const Replay& replay, const ReplayOp& op) { return replay.kinds()[op.kind].transfer; }

class Attribution {
 public:
  explicit Attribution(const Replay& replay) : replay_(replay), ideal_(ideal_durations(replay)), mixed_(ideal_) {
    ideal_s_ = replay.mean_step_seconds(ideal_);
  }
  double ideal_s() const { return ideal_s_; }

  /// Mean step if the operations that `keep` took what they took, and the others what they ideally do.
  double only(const std::function<bool(const ReplayOp&)>& keep) {
    for (size_t i = 0; i < ideal_.size(); ++i)
      mixed_[i] = keep(replay_.ops()[i]) ? replay_.ops()[i].seconds : ideal_[i];
    return replay_.mean_step_seconds(mixed_);
  }

 private:
  const Replay& replay_;
  const std::vector<double> ideal_;
  std::vector<double> mixed_;
  double ideal_s_ = 0;
};

void worst_first(std::vector<SlowdownShare>& shares) {
  std::stable_sort(shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.slowdown > b.slowdown; });
}

/// All ranks, or of very many those that compute longest beyond what is ideal: each costs a replay.
std::vector<int64_t> suspects(const Replay& replay) {
  std::vector<int64_t> ranks = replay.ranks();
  if (ranks.size() <= kMostReplayedRanks) return ranks;
  const std::vector<double> mean = means(replay, [](const ReplayOp&) { return true; });
  std::map<int64_t, double> beyond;
  for (const ReplayOp& op : replay.ops())
    if (!is_transfer(replay, op)) beyond[op.rank] += op.seconds - mean[op.kind];
  std::stable_sort(ranks.begin(), ranks.end(), [&](int64_t a, int64_t b) { return beyond[a] > beyond[b]; });
  ranks.resize(kMostReplayedRanks);
  return ranks;
}

}  // namespace

std::vector<double> ideal_durations(const Replay& replay) {
  std::vector<double> ideal = means(replay, [](const ReplayOp&) { return true; });
  std::vector<std::vector<double>> transfers(ideal.size());
  for (const ReplayOp& op : replay.ops())
    if (is_transfer(replay, op)) transfers[op.kind].push_back(op.seconds);
  for (size_t k = 0; k < ideal.size(); ++k)
    if (!transfers[k].empty())
      ideal[k] = replay.kinds()[k].upper_bound ? *std::min_element(transfers[k].begin(), transfers[k].end())
                                               : median_of(transfers[k]);
  return changed(replay, [&](const ReplayOp& op) { return ideal[op.kind]; });
}

Slowdown slowdown_of(const Replay& replay, const std::function<int64_t(int64_t rank)>& stage_of) {
  Slowdown result;
  Attribution attribution(replay);
  result.step_s = replay.mean_step_seconds(replay.recorded());
  const double ideal_s = result.ideal_step_s = attribution.ideal_s();
  if (!(ideal_s > 0))
    throw Error("the operations take no time, so there is no slowdown to explain", "check the durations in the trace",
                ExitCode::kDataMissing);
  result.slowdown = result.step_s / ideal_s;

  for (const ReplayKind& kind : replay.kinds()) {
    const auto same = [&](const SlowdownShare& share) { return share.name == kind.type; };
    if (std::any_of(result.types.begin(), result.types.end(), same)) continue;
    const double kept_s =
        attribution.only([&](const ReplayOp& op) { return replay.kinds()[op.kind].type == kind.type; });
    result.types.push_back({kind.type, 0, kept_s / ideal_s});
  }
  worst_first(result.types);

  for (const int64_t rank : suspects(replay))
    result.ranks.push_back({"", rank, attribution.only([&](const ReplayOp& op) { return op.rank == rank; }) / ideal_s});
  worst_first(result.ranks);
  const auto worst = static_cast<size_t>(std::ceil(kWorstShare * static_cast<double>(replay.ranks().size())));
  for (size_t i = 0; i < std::min(worst, result.ranks.size()); ++i)
    result.worst_ranks.push_back(result.ranks[i].number);

  const double lost_s = result.step_s - ideal_s;
  const bool lost = lost_s > 1e-9 * ideal_s;  // rounding is not a loss
  const auto fixed_by = [&](const std::function<bool(const ReplayOp&)>& fixed) -> std::optional<double> {
    if (!lost) return std::nullopt;
    return (result.step_s - attribution.only([&](const ReplayOp& op) { return !fixed(op); })) / lost_s;
  };
  const std::vector<int64_t>& bad = result.worst_ranks;
  result.fixed_by_ranks =
      fixed_by([&](const ReplayOp& op) { return std::find(bad.begin(), bad.end(), op.rank) != bad.end(); });
  result.fixed_by_worst_rank =
      bad.size() == 1 ? result.fixed_by_ranks : fixed_by([&](const ReplayOp& op) { return op.rank == bad.front(); });
  if (!stage_of) return result;

  std::map<int64_t, std::vector<int64_t>> stages;
  for (const int64_t rank : replay.ranks()) stages[stage_of(rank)].push_back(rank);
  for (const auto& [stage, ranks] : stages)
    result.stages.push_back(
        {"", stage, attribution.only([&, s = stage](const ReplayOp& op) { return stage_of(op.rank) == s; }) / ideal_s});
  const int64_t last = stages.rbegin()->first;
  result.fixed_by_last_stage = fixed_by([&](const ReplayOp& op) { return stage_of(op.rank) == last; });
  return result;
}

std::vector<double> faster_network(const Replay& replay, double factor) {
  return changed(replay,
                 [&](const ReplayOp& op) { return is_transfer(replay, op) ? op.seconds / factor : op.seconds; });
}

std::vector<double> healthy_rank(const Replay& replay, int64_t rank) { return healthy_ranks(replay, {rank}); }

std::vector<double> healthy_ranks(const Replay& replay, const std::vector<int64_t>& ranks) {
  const std::vector<int64_t>& all = replay.ranks();
  for (const int64_t rank : ranks)
    if (!std::binary_search(all.begin(), all.end(), rank))
      throw Error(fmt::format("there is no rank {}", rank), fmt::format("ranks are {} to {}", all.front(), all.back()),
                  ExitCode::kUsage);
  const std::unordered_set<int64_t> healed(ranks.begin(), ranks.end());
  std::vector<PlacedComputing> computing;
  for (size_t i = 0; i < replay.ops().size(); ++i)
    if (const ReplayOp& op = replay.ops()[i]; !is_transfer(replay, op))
      computing.push_back({static_cast<Replay::Op>(i), op.kind});
  const HealthyComputing healthy(replay, computing, healed);
  const auto heals = [&](const ReplayOp& op) { return healed.contains(op.rank) && !is_transfer(replay, op); };
  const double healed_count = static_cast<double>(healed.size()),
               others_count = static_cast<double>(all.size()) - healed_count;
  struct Computing {
    double own_s = 0, others_s = 0;  // of a rank
  };
  std::map<int64_t, Computing> steps;
  double alone_s = 0, longer_s = 0;
  for (const ReplayOp& op : replay.ops()) {
    if (is_transfer(replay, op)) continue;
    Computing& step = steps[op.step];
    healed.contains(op.rank) ? step.own_s += op.seconds / healed_count : step.others_s += op.seconds / others_count;
  }
  for (const PlacedComputing& one : computing)
    if (const ReplayOp& op = replay.ops()[one.op]; heals(op) && !healthy.of(one)) alone_s += op.seconds / healed_count;
  bool all_compute = true;
  for (const auto& [number, step] : steps) {
    longer_s += step.own_s - step.others_s;
    all_compute &= step.own_s > 0 && step.others_s > 0;
  }
  if (all_compute && alone_s > kIncomparable * std::abs(longer_s)) {
    const auto share = [&](const ReplayOp& op) { return steps.at(op.step).others_s / steps.at(op.step).own_s; };
    return changed(replay, [&](const ReplayOp& op) { return heals(op) ? op.seconds * share(op) : op.seconds; });
  }
  std::vector<double> durations = replay.recorded();
  for (const PlacedComputing& one : computing)
    if (heals(replay.ops()[one.op])) durations[one.op] = healthy.of(one).value_or(durations[one.op]);
  return durations;
}

std::vector<double> larger_batch(const Replay& replay, double factor, std::span<const double> within_s) {
  std::vector<double> durations = replay.recorded();
  const std::vector<ReplayOp>& ops = replay.ops();
  for (size_t i = 0; i < ops.size(); ++i)
    if (!is_transfer(replay, ops[i])) durations[i] += (factor - 1) * (within_s.empty() ? ops[i].seconds : within_s[i]);
  return durations;
}

std::vector<double> balanced(const Replay& replay) {
  const std::vector<double> mean = means(replay, [](const ReplayOp&) { return true; });
  return changed(replay, [&](const ReplayOp& op) { return is_transfer(replay, op) ? op.seconds : mean[op.kind]; });
}

std::vector<double> even_layer(const Replay& replay, std::span<const double> layer_s) {
  // by step and kind: seconds, and operations that have it
  std::map<std::pair<int64_t, size_t>, std::pair<double, double>> sums;
  const std::vector<ReplayOp>& ops = replay.ops();
  if (layer_s.empty()) return replay.recorded();
  for (size_t i = 0; i < ops.size(); ++i) {
    if (layer_s[i] <= 0) continue;
    auto& [seconds, count] = sums[{ops[i].step, ops[i].kind}];
    seconds += layer_s[i];
    ++count;
  }
  std::vector<double> durations = replay.recorded();
  for (size_t i = 0; i < ops.size(); ++i) {
    if (layer_s[i] <= 0) continue;
    const auto& [seconds, count] = sums.at({ops[i].step, ops[i].kind});
    durations[i] += seconds / count - layer_s[i];
  }
  return durations;
}

double overlapped_step_seconds(const Replay& replay) {
  const double computing_s = replay.mean_step_seconds(
      changed(replay, [&](const ReplayOp& op) { return is_transfer(replay, op) ? 0 : op.seconds; }));
  std::map<int64_t, double> transfer_s;
  for (const ReplayOp& op : replay.ops())
    if (is_transfer(replay, op)) transfer_s[op.rank] += op.seconds;
  double longest_s = 0;
  for (const auto& [rank, seconds] : transfer_s) longest_s = std::max(longest_s, seconds);
  return std::max(computing_s, longest_s / static_cast<double>(replay.steps().size()));
}

}  // namespace ddl::models
