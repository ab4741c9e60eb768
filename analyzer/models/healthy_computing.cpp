#include "analyzer/models/healthy_computing.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "analyzer/statistics.h"

namespace ddl::models {
namespace {

constexpr double kSamePlaces = 1.1;      // as many, of one program: by how much ranks differ
constexpr double kHardlyComputes = 0.1;  // of what the median rank does
constexpr int64_t kAnyProgram = -1;

}  // namespace

HealthyComputing::HealthyComputing(const Replay& replay, std::span<const PlacedComputing> computing,
                                   const std::unordered_set<int64_t>& late)
    : replay_(replay) {
  tell_programs(computing, late);
  for (const PlacedComputing& one : computing) {
    const ReplayOp& op = replay.ops()[one.op];
    if (late.contains(op.rank)) continue;
    for (const int64_t program : {program_.at(op.rank), kAnyProgram}) {
      in_step_[{op.step, {program, one.place}}].add(op.seconds);
      in_all_[{program, one.place}].add(op.seconds);
    }
  }
  for (const PlacedComputing& one : computing) {
    const ReplayOp& op = replay.ops()[one.op];
    if (const std::optional<double> level = level_of(one)) off_level_[{op.rank, one.place}].add(op.seconds - *level);
  }
  for (const auto& [of, off] : off_level_) {
    if (late.contains(of.first)) continue;
    Variances& variances = others_[{program_.at(of.first), of.second}];
    variances.sum += off.variance() * off.count;
    variances.count += off.count;
    ++variances.ranks;
  }
}

void HealthyComputing::tell_programs(std::span<const PlacedComputing> computing,
                                     const std::unordered_set<int64_t>& late) {
  struct Computing {
    double places = 0, seconds = 0;
  };
  std::map<int64_t, Computing> ranks;
  for (const PlacedComputing& one : computing) {
    const ReplayOp& op = replay_.ops()[one.op];
    ++ranks[op.rank].places;
    ranks[op.rank].seconds += op.seconds;
  }
  std::vector<double> seconds;
  for (const auto& [rank, own] : ranks) seconds.push_back(own.seconds);
  const double hardly_s = ranks.empty() ? 0 : kHardlyComputes * median_of(seconds);
  std::multimap<double, int64_t> by_places;
  for (const auto& [rank, own] : ranks)
    if (own.seconds >= hardly_s) by_places.emplace(own.places, rank);
  std::vector<double> least;            // places of a rank, by program
  std::unordered_set<int64_t> healthy;  // programs
  for (const auto& [places, rank] : by_places) {
    if (least.empty() || places > kSamePlaces * least.back()) least.push_back(places);
    program_[rank] = static_cast<int64_t>(least.size()) - 1;
    if (!late.contains(rank)) healthy.insert(program_[rank]);
  }
  // Who hardly computes is a server of some program. Replays keep the order in which it served, and save too little if
  // a worker came sooner; that it is among the others, as it always was, makes up for some of that.
  for (const auto& [rank, own] : ranks) {
    if (own.seconds >= hardly_s) continue;
    const auto off = [places = own.places](double of) { return std::abs(of - places); };
    const auto nearest =
        std::min_element(least.begin(), least.end(), [&](double a, double b) { return off(a) < off(b); });
    program_[rank] = nearest - least.begin();
  }
  for (auto& [rank, own] : program_)
    if (!healthy.contains(own)) own = kAnyProgram;
}

std::optional<double> HealthyComputing::of(const PlacedComputing& one) const {
  const std::optional<double> level = level_of(one);
  if (!level) return std::nullopt;
  const ReplayOp& op = replay_.ops()[one.op];
  const Moments& own = off_level_.at({op.rank, one.place});
  const auto found = others_.find({program_.at(op.rank), one.place});
  const Variances others = found == others_.end() ? Variances{} : found->second;
  // The others vary about a mean that they are part of, hence by (n - 1) / n of what each varies by; a late rank about
  // that mean by (n + 1) / n.
  const double as_others = others.ranks > 1 ? others.sum / others.count * (others.ranks + 1) / (others.ranks - 1) : 0;
  const double scale = own.variance() > 0 ? std::min(1.0, std::sqrt(as_others / own.variance())) : 0;
  return std::max(0.0, *level + (op.seconds - *level - own.mean()) * scale);
}

std::optional<double> HealthyComputing::level_of(const PlacedComputing& one) const {
  const ReplayOp& op = replay_.ops()[one.op];
  for (const int64_t program : {program_.at(op.rank), kAnyProgram}) {
    const Place place{program, one.place};
    if (const auto at = in_step_.find({op.step, place}); at != in_step_.end()) return at->second.mean();
    if (const auto at = in_all_.find(place); at != in_all_.end()) return at->second.mean();
  }
  return std::nullopt;
}

}  // namespace ddl::models
