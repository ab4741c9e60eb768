#include "analyzer/run_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "analyzer/query.h"

namespace ddl {
namespace {

/// Metrics that are sums over the whole run and its ranks, and grow with both.
constexpr std::string_view kSums[] = {"barrier_wait", "early_reduce",   "late_broadcast", "late_receiver",
                                      "late_sender",  "nxn_completion", "nxn_wait"};

/// What sums over a whole run are over, and whether waits are known from below only.
struct Basis {
  int64_t steps = 0, ranks = 0;
  bool bounded = false;
};

Basis basis_of(SQLite::Database& db, int64_t world) {
  Query row(db, "SELECT used + warmup + incomplete, ranks, bounded FROM steady_world WHERE world = ?");
  if (!row.bind(world).next()) return {};
  return {row.integer(0), row.integer(1), row.integer(2) != 0};
}

std::map<std::string, MetricValue> metrics_of(SQLite::Database& db, int64_t world) {
  std::map<std::string, MetricValue> values;
  const bool bounded = basis_of(db, world).bounded;
  Query row(db, "SELECT id, value, why, lo, hi FROM metric WHERE world = ?1");
  for (row.bind(world); row.next();) {
    MetricValue& value = values[row.text(0)];
    value.value = row.maybe_real(1);
    value.why = row.text(2);
    if (!row.is_null(3) && !row.is_null(4)) value.interval = {row.real(3), row.real(4)};
    if (bounded && value.value) value.bound = bound_of(row.text(0));
  }
  return values;
}

struct StoredFinding {
  std::string id, sentence;
  std::optional<int64_t> rank, saving_ns;
  std::string bound;
  int64_t position = 0;
  std::string subject;
};

std::vector<StoredFinding> findings_of(SQLite::Database& db, int64_t world) {
  std::vector<StoredFinding> findings;
  Query row(
      db,
      "SELECT id, rank, sentence, saving_ns, coalesce(saving_bound, ''), position, coalesce(a.subject, '') FROM finding"
      " LEFT JOIN finding_about a USING (position) WHERE world = ?1 OR world IS NULL ORDER BY position");
  for (row.bind(world); row.next();)
    findings.push_back({row.text(0), row.text(2), row.maybe_integer(1), row.maybe_integer(3), row.text(4),
                        row.integer(5), row.text(6)});
  return findings;
}

/// For each finding of `now` that of `old` which it continues; -1: it is new. None is continued twice.
std::vector<ptrdiff_t> pair_findings(const std::vector<StoredFinding>& old, const std::vector<StoredFinding>& now) {
  std::vector<ptrdiff_t> before(now.size(), -1);
  std::vector<bool> taken(old.size());
  for (size_t n = 0; n < now.size(); ++n) {
    for (size_t o = 0; o < old.size() && before[n] < 0; ++o) {
      if (taken[o] || old[o].id != now[n].id || old[o].rank != now[n].rank || old[o].subject != now[n].subject)
        continue;
      before[n] = static_cast<ptrdiff_t>(o);
      taken[o] = true;
    }
  }
  return before;
}

/// A metric's mean over the steady steps, a rate's over their time, with the 95 % interval of the mean. Steps that tell
/// no value take their time all the same: those that evaluate, or whose samples the next one reports. Where some ranks
/// alone tell theirs, nothing is known.
MetricValue mean_of(SQLite::Database& db, int64_t world, const Metric& metric) {
  constexpr double kNormal95 = 1.959964;
  Query row(
      db,
      fmt::format(
          "SELECT coalesce(v.value, 0), s.longest_ns FROM (SELECT step, value, why FROM ({})) v JOIN"
          " (SELECT step, longest_ns FROM steady_step WHERE world = :world AND annotated"
          " UNION SELECT step, longest_ns FROM timed_step WHERE world = :world) s ON s.step = v.step WHERE v.value IS NOT NULL OR v.why = 'NO_DATA'",
          metric.sql));
  row.bind_named(":world", world);
  const bool rate = metric.unit.ends_with("/s");
  std::vector<double> values, weights;
  double sum = 0, weight = 0;
  while (row.next()) {
    weights.push_back(rate ? row.real(1) : 1);
    values.push_back(row.real(0) * weights.back());
    sum += values.back(), weight += weights.back();
  }
  if (weight <= 0) return {.value = {}, .why = "NO_DATA"};
  MetricValue mean{.value = sum / weight, .why = {}, .interval = interval_of_ratio(values, weights)};
  // the error itself is an estimate, of few steps a poor one: Student's t instead of the normal distribution
  if (mean.interval) {
    const double wider = student_t(static_cast<double>(values.size() - 1), 0.95) / kNormal95;
    mean.interval = Range{*mean.value - wider * (*mean.value - mean.interval->lo),
                          *mean.value + wider * (mean.interval->hi - *mean.value)};
  }
  return mean;
}

/// A metric's median over the steps, also of a rate.
MetricValue typical_of(SQLite::Database& db, int64_t world, const Metric& metric) {
  Metric by_steps = metric;
  by_steps.sql = fmt::format("SELECT step, value, why FROM ({})", metric.sql);
  const MetricResult result = evaluate(db, by_steps, world);
  MetricValue median{.value = result.value, .why = result.why};
  if (result.lo && result.hi) median.interval = Range{*result.lo, *result.hi};
  return median;
}

}  // namespace

const char* name_of(Change change) {
  switch (change) {
    case Change::kBetter:
      return "better";
    case Change::kWorse:
      return "worse";
    case Change::kChanged:
      return "changed";
    case Change::kNotSeen:
      return "no change seen";
    case Change::kNoInterval:
      return "no interval";
    case Change::kAppeared:
      return "was n/a";
    case Change::kGone:
      return "now n/a";
    case Change::kAbsent:
      break;
  }
  return "n/a";
}

Range difference_interval(double a, const Range& of_a, double b, const Range& of_b) {
  const double change = b - a;
  return {change - std::hypot(b - of_b.lo, of_a.hi - a), change + std::hypot(of_b.hi - b, a - of_a.lo)};
}

Range ratio_interval(double a, const Range& of_a, double b, const Range& of_b) {
  const double a_lo = std::max(0.0, of_a.lo), a_hi = of_a.hi, b_lo = std::max(0.0, of_b.lo), b_hi = of_b.hi, ab = a * b;
  const double of_lo = std::sqrt(std::max(0.0, ab * ab - b_lo * a_hi * (2 * b - b_lo) * (2 * a - a_hi)));
  const double of_hi = std::sqrt(std::max(0.0, ab * ab - b_hi * a_lo * (2 * b - b_hi) * (2 * a - a_lo)));
  return {b_lo > 0 ? b_lo * (2 * b - b_lo) / (ab + of_lo) : 0,
          a_lo > 0 ? (ab + of_hi) / (a_lo * (2 * a - a_lo)) : std::numeric_limits<double>::infinity()};
}

MetricChange compare_metric(const MetricValue& before, const MetricValue& after, const std::string& better) {
  MetricChange result{.before = before, .after = after, .change = Change::kAbsent};
  if (!before.value || !after.value) {
    result.change = after.value ? Change::kAppeared : before.value ? Change::kGone : Change::kAbsent;
    return result;
  }
  const double a = *before.value, b = *after.value;
  if (a != 0) result.ratio = (b - a) / std::abs(a);
  if (!before.interval || !after.interval) {
    result.change = Change::kNoInterval;
    if (before.bound || after.bound) result.ratio.reset();
    return result;
  }
  const Range range = difference_interval(a, *before.interval, b, *after.interval);
  if (a > 0 && b >= 0) {
    const Range ratio = ratio_interval(a, *before.interval, b, *after.interval);
    result.interval = Range{ratio.lo - 1, ratio.hi - 1};
  }
  bool rises = range.lo > 0, falls = range.hi < 0;
  if (before.bound || after.bound) {
    result.ratio.reset();
    result.interval.reset();
    rises &= before.bound != MetricBound::kLower && after.bound != MetricBound::kUpper;
    falls &= before.bound != MetricBound::kUpper && after.bound != MetricBound::kLower;
  }
  if (!rises && !falls) {
    result.change = before.bound || after.bound ? Change::kNoInterval : Change::kNotSeen;
  } else if (better != "higher" && better != "lower") {
    result.change = Change::kChanged;
  } else {
    result.change = rises == (better == "higher") ? Change::kBetter : Change::kWorse;
  }
  return result;
}

std::vector<MetricChange> compare_metrics(SQLite::Database& before, int64_t world_before, SQLite::Database& after,
                                          int64_t world_after) {
  const std::map<std::string, MetricValue> old = metrics_of(before, world_before), now = metrics_of(after, world_after);
  const auto value = [](const std::map<std::string, MetricValue>& values, const std::string& id) {
    const auto at = values.find(id);
    return at == values.end() ? MetricValue{.why = "NO_DATA"} : at->second;
  };
  const Basis was = basis_of(before, world_before), is = basis_of(after, world_after);
  const bool alike = was.steps == is.steps && was.ranks == is.ranks;
  std::vector<MetricChange> changes;
  for (const Metric& metric : all_metrics()) {
    MetricChange change = compare_metric(value(old, metric.id), value(now, metric.id), metric.better);
    change.id = metric.id, change.name = metric.name, change.unit = metric.unit;
    if (!alike && std::find(std::begin(kSums), std::end(kSums), metric.id) != std::end(kSums)) change.ratio.reset();
    changes.push_back(std::move(change));
  }
  const auto order = [](const MetricChange& change) {
    switch (change.change) {
      case Change::kWorse:
        return 0;
      case Change::kBetter:
        return 1;
      case Change::kChanged:
        return 2;
      case Change::kAppeared:
      case Change::kGone:
        return 3;
      case Change::kNoInterval:
        return 4;
      case Change::kNotSeen:
        return 5;
      case Change::kAbsent:
        break;
    }
    return 6;
  };
  const auto size = [](const MetricChange& change) { return std::abs(change.ratio.value_or(0)); };
  std::stable_sort(changes.begin(), changes.end(), [&](const MetricChange& a, const MetricChange& b) {
    return order(a) != order(b) ? order(a) < order(b) : size(a) > size(b);
  });
  return changes;
}

std::vector<FindingChange> compare_findings(SQLite::Database& before, int64_t world_before, SQLite::Database& after,
                                            int64_t world_after) {
  using State = FindingChange::State;
  const std::vector<StoredFinding> old = findings_of(before, world_before), now = findings_of(after, world_after);
  const std::vector<ptrdiff_t> continued = pair_findings(old, now);
  std::vector<std::pair<int64_t, FindingChange>> changes;  // with the position
  for (size_t n = 0; n < now.size(); ++n) {
    const StoredFinding& finding = now[n];
    const StoredFinding* was = continued[n] < 0 ? nullptr : &old[static_cast<size_t>(continued[n])];
    changes.push_back({finding.position,
                       {was ? State::kStill : State::kNew, finding.id, finding.sentence, finding.rank,
                        was ? was->saving_ns : std::nullopt, finding.saving_ns, was ? was->bound : "", finding.bound}});
  }
  for (size_t o = 0; o < old.size(); ++o) {
    const StoredFinding& finding = old[o];
    if (std::find(continued.begin(), continued.end(), static_cast<ptrdiff_t>(o)) == continued.end())
      changes.push_back({finding.position,
                         {State::kGone, finding.id, finding.sentence, finding.rank, finding.saving_ns, std::nullopt,
                          finding.bound, ""}});
  }
  std::stable_sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) {
    return a.second.state != b.second.state ? a.second.state < b.second.state : a.first < b.first;
  });
  std::vector<FindingChange> sorted;
  for (auto& [position, change] : changes) sorted.push_back(std::move(change));
  return sorted;
}

namespace {

SlowdownGate gate_of(const MetricChange& change, bool mean) {
  SlowdownGate gate;
  if (!change.before.value || !change.after.value || *change.before.value <= 0 || *change.after.value <= 0) return gate;
  const double before = *change.before.value, after = *change.after.value;
  gate.by = change;
  gate.mean = mean;
  gate.slower = change.id == "throughput" ? before / after - 1 : after / before - 1;
  gate.known = change.before.interval && change.after.interval;
  gate.seen = change.change == Change::kBetter || change.change == Change::kWorse;
  return gate;
}

}  // namespace

SlowdownGate slowdown_gate(const std::vector<MetricChange>& metrics, SQLite::Database& before, int64_t world_before,
                           SQLite::Database& after, int64_t world_after) {
  const auto find = [&](const char* id) -> const MetricChange* {
    const auto at = std::find_if(metrics.begin(), metrics.end(), [&](const MetricChange& m) { return m.id == id; });
    return at != metrics.end() && at->before.value && at->after.value ? &*at : nullptr;
  };
  const MetricChange* by = find("throughput");
  if (!by) by = find("step_time");
  if (!by) return {};
  const auto metric =
      std::find_if(all_metrics().begin(), all_metrics().end(), [&](const Metric& m) { return m.id == by->id; });
  const auto compare = [&](MetricValue (*of)(SQLite::Database&, int64_t, const Metric&)) {
    MetricChange change =
        compare_metric(of(before, world_before, *metric), of(after, world_after, *metric), metric->better);
    change.id = by->id, change.name = by->name, change.unit = by->unit;
    return change;
  };
  const MetricChange of_medians = compare(typical_of), of_means = compare(mean_of);
  SlowdownGate median = gate_of(of_medians, false), mean = gate_of(of_means, true);
  median.other = of_means.ratio, mean.other = of_medians.ratio;
  return mean.seen ? mean : median;
}

}  // namespace ddl
