#include "analyzer/models/healthy_computing.h"

#include <algorithm>
#include <cmath>

namespace ddl::models {

HealthyComputing::HealthyComputing(const Replay& replay, std::span<const PlacedComputing> computing,
                                   const std::unordered_set<int64_t>& late)
    : replay_(replay) {
  for (const PlacedComputing& one : computing) {
    const ReplayOp& op = replay.ops()[one.op];
    if (late.contains(op.rank)) continue;
    in_step_[{op.step, one.place}].add(op.seconds);
    in_all_[one.place].add(op.seconds);
  }
  for (const PlacedComputing& one : computing) {
    const ReplayOp& op = replay.ops()[one.op];
    if (const std::optional<double> level = level_of(one)) off_level_[{op.rank, one.place}].add(op.seconds - *level);
  }
  for (const auto& [of, off] : off_level_) {
    if (late.contains(of.first)) continue;
    Variances& variances = others_[of.second];
    variances.sum += off.variance() * off.count;
    variances.count += off.count;
    ++variances.ranks;
  }
}

std::optional<double> HealthyComputing::of(const PlacedComputing& one) const {
  const std::optional<double> level = level_of(one);
  if (!level) return std::nullopt;
  const ReplayOp& op = replay_.ops()[one.op];
  const Moments& own = off_level_.at({op.rank, one.place});
  const Variances& others = others_.at(one.place);
  // The others vary about a mean that they are part of, hence by (n - 1) / n of what each varies by; a late rank about
  // that mean by (n + 1) / n.
  const double as_others = others.ranks > 1 ? others.sum / others.count * (others.ranks + 1) / (others.ranks - 1) : 0;
  const double scale = own.variance() > 0 ? std::min(1.0, std::sqrt(as_others / own.variance())) : 0;
  return std::max(0.0, *level + (op.seconds - *level - own.mean()) * scale);
}

std::optional<double> HealthyComputing::level_of(const PlacedComputing& one) const {
  if (const auto at = in_step_.find({replay_.ops()[one.op].step, one.place}); at != in_step_.end())
    return at->second.mean();
  const auto at = in_all_.find(one.place);
  return at != in_all_.end() ? std::optional(at->second.mean()) : std::nullopt;
}

}  // namespace ddl::models
