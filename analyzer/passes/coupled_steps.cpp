#include "analyzer/passes/coupled_steps.h"

#include <algorithm>
#include <cstdlib>

#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr double kNearlyAllUnits = 0.9;
constexpr double kAsMany = 1.1;

bool has_time(const Interval& unit) { return unit.end_ns > unit.begin_ns; }

/// How many of each group lie within the time in which all groups have some; nothing: there is no such time.
std::vector<size_t> counts_of(std::span<const std::vector<Interval>> groups) {
  int64_t begin_ns = INT64_MIN, end_ns = INT64_MAX;
  for (const std::vector<Interval>& units : groups) {
    const auto first = std::find_if(units.begin(), units.end(), has_time);
    const auto last = std::find_if(units.rbegin(), units.rend(), has_time);
    if (first == units.end()) return {};
    begin_ns = std::max(begin_ns, first->begin_ns);
    end_ns = std::min(end_ns, last->end_ns);
  }
  if (begin_ns >= end_ns) return {};
  std::vector<size_t> counts;
  for (const std::vector<Interval>& units : groups)
    counts.push_back(static_cast<size_t>(std::count_if(units.begin(), units.end(), [&](const Interval& unit) {
      return has_time(unit) && unit.begin_ns >= begin_ns && unit.end_ns <= end_ns;
    })));
  return counts;
}

bool are_as_many(std::span<const std::vector<Interval>> groups) {
  const std::vector<size_t> counts = counts_of(groups);
  if (counts.empty()) return true;
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return static_cast<double>(*most) <= kAsMany * static_cast<double>(*least) + 2;  // one at each end
}

/// By unit: when the last of the exchanges that began in it was over; 0: none did.
std::vector<int64_t> met_in_units(const GroupSteps& group) {
  std::vector<int64_t> met_ns(group.units.size());
  size_t unit = 0;
  for (const Interval& exchange : group.exchanges) {
    while (unit < group.units.size() && group.units[unit].end_ns <= exchange.begin_ns) ++unit;
    if (unit < group.units.size() && group.units[unit].begin_ns <= exchange.begin_ns)
      met_ns[unit] = std::max(met_ns[unit], exchange.end_ns);
  }
  return met_ns;
}

/// A group's steps, numbered by the exchange at their begin, and when each of its exchanges was over.
struct Cut {
  CoupledSteps steps;
  std::vector<int64_t> met_ns;
};

std::optional<Cut> cut(const GroupSteps& group) {
  const std::vector<int64_t> met_ns = met_in_units(group);
  const auto meeting = met_ns.size() - static_cast<size_t>(std::count(met_ns.begin(), met_ns.end(), int64_t{0}));
  const bool always = static_cast<double>(meeting) >= kNearlyAllUnits * static_cast<double>(met_ns.size());
  std::vector<size_t> begins;
  for (size_t i = 0; i < met_ns.size(); ++i)
    if (met_ns[i] != 0 && (always || i == 0 || met_ns[i - 1] == 0)) begins.push_back(i);
  if (begins.size() < 2) return std::nullopt;
  std::vector<int64_t> lengths;
  for (size_t i = 1; i < begins.size(); ++i) lengths.push_back(static_cast<int64_t>(begins[i] - begins[i - 1]));
  const int64_t units = upper_median_of(lengths);
  const auto regular = std::count(lengths.begin(), lengths.end(), units);
  if (static_cast<double>(regular) < kNearlyAllUnits * static_cast<double>(lengths.size())) return std::nullopt;
  Cut result;
  result.steps.units = static_cast<size_t>(units);
  for (size_t b = 0; b < begins.size(); ++b) {
    const size_t first = begins[b], last = first + result.steps.units;
    bool whole = b + 1 < begins.size() ? last == begins[b + 1] : last <= group.units.size();
    if (!whole) continue;
    whole = has_time(group.units[first]);
    for (size_t i = first + 1; i < last; ++i) whole &= group.units[i].begin_ns == group.units[i - 1].end_ns;
    if (whole) result.steps.steps.push_back({first, last, static_cast<int64_t>(b)});
  }
  for (const size_t begin : begins) result.met_ns.push_back(met_ns[begin]);
  return result.steps.steps.empty() ? std::nullopt : std::optional(std::move(result));
}

/// By how many the exchanges of `own` are behind those of `other` that were over at the same time.
int64_t behind(const std::vector<int64_t>& own_ns, const std::vector<int64_t>& other_ns) {
  std::vector<int64_t> shifts;
  auto nearest = other_ns.begin();
  for (size_t i = 0; i < own_ns.size(); ++i) {
    const auto off_ns = [&](int64_t at_ns) { return std::abs(at_ns - own_ns[i]); };
    while (nearest + 1 != other_ns.end() && off_ns(nearest[1]) <= off_ns(*nearest)) ++nearest;
    shifts.push_back(nearest - other_ns.begin() - static_cast<int64_t>(i));
  }
  return upper_median_of(std::move(shifts));
}

}  // namespace

bool keep_step(std::span<const GroupSteps> groups) {
  std::vector<std::vector<Interval>> units;
  for (const GroupSteps& group : groups) units.push_back(group.units);
  return are_as_many(units);
}

std::optional<std::vector<CoupledSteps>> couple_steps(std::span<const GroupSteps> groups) {
  std::vector<Cut> cuts;
  std::vector<std::vector<Interval>> whole;
  for (const GroupSteps& group : groups) {
    std::optional<Cut> one = cut(group);
    if (!one) return std::nullopt;
    std::vector<Interval>& steps = whole.emplace_back();
    for (const CoupledSteps::Step& step : one->steps.steps)
      steps.push_back({group.units[step.first].begin_ns, group.units[step.last - 1].end_ns});
    cuts.push_back(std::move(*one));
  }
  if (!are_as_many(whole)) return std::nullopt;
  std::vector<int64_t> first;
  for (const Cut& one : cuts) first.push_back(behind(one.met_ns, cuts.front().met_ns));
  const int64_t least = *std::min_element(first.begin(), first.end());
  std::vector<CoupledSteps> result;
  for (size_t g = 0; g < cuts.size(); ++g) {
    for (CoupledSteps::Step& step : cuts[g].steps.steps) step.number += first[g] - least;
    result.push_back(std::move(cuts[g].steps));
  }
  return result;
}

}  // namespace ddl
