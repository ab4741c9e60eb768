#include "analyzer/run_diff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "analyzer/metrics/metrics.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

std::map<std::string, MetricValue> metrics_of(SQLite::Database& db, int64_t world) {
  std::map<std::string, MetricValue> values;
  Query row(db, "SELECT id, value, why, lo, hi FROM metric WHERE world = ?1");
  for (row.bind(world); row.next();) {
    MetricValue& value = values[row.text(0)];
    value.value = row.maybe_real(1);
    value.why = row.text(2);
    if (!row.is_null(3) && !row.is_null(4)) value.interval = {row.real(3), row.real(4)};
  }
  return values;
}

struct StoredFinding {
  std::string sentence;
  std::optional<int64_t> saving_ns;
  std::string bound;
  int64_t position = 0;
};
using FindingKey = std::pair<std::string, std::optional<int64_t>>;

std::map<FindingKey, StoredFinding> findings_of(SQLite::Database& db, int64_t world) {
  std::map<FindingKey, StoredFinding> findings;
  Query row(
      db,
      "SELECT id, rank, sentence, saving_ns, coalesce(saving_bound, ''), position FROM finding WHERE world = ?1 OR world IS NULL ORDER BY position");
  for (row.bind(world); row.next();)
    findings.try_emplace({row.text(0), row.maybe_integer(1)},
                         StoredFinding{row.text(2), row.maybe_integer(3), row.text(4), row.integer(5)});
  return findings;
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
    return result;
  }
  const Range range = difference_interval(a, *before.interval, b, *after.interval);
  if (a != 0) result.interval = Range{range.lo / std::abs(a), range.hi / std::abs(a)};
  const bool rises = range.lo > 0, falls = range.hi < 0;
  if (!rises && !falls) {
    result.change = Change::kNotSeen;
  } else if (better != "higher" && better != "lower") {
    result.change = Change::kChanged;
  } else {
    result.change = rises == (better == "higher") ? Change::kBetter : Change::kWorse;
  }
  return result;
}

std::vector<MetricChange> compare_metrics(SQLite::Database& before, int64_t world_before, SQLite::Database& after, int64_t world_after) {
  const std::map<std::string, MetricValue> old = metrics_of(before, world_before), now = metrics_of(after, world_after);
  const auto value = [](const std::map<std::string, MetricValue>& values, const std::string& id) {
    const auto at = values.find(id);
    return at == values.end() ? MetricValue{.why = "NO_DATA"} : at->second;
  };
  std::vector<MetricChange> changes;
  for (const Metric& metric : all_metrics()) {
    MetricChange change = compare_metric(value(old, metric.id), value(now, metric.id), metric.better);
    change.id = metric.id, change.name = metric.name, change.unit = metric.unit;
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

std::vector<FindingChange> compare_findings(SQLite::Database& before, int64_t world_before, SQLite::Database& after, int64_t world_after) {
  using State = FindingChange::State;
  const std::map<FindingKey, StoredFinding> old = findings_of(before, world_before), now = findings_of(after, world_after);
  std::vector<std::pair<int64_t, FindingChange>> changes;  // with the position
  for (const auto& [key, finding] : now) {
    const auto was = old.find(key);
    const bool still = was != old.end();
    changes.push_back({finding.position,
                       {still ? State::kStill : State::kNew, key.first, finding.sentence, key.second,
                        still ? was->second.saving_ns : std::nullopt, finding.saving_ns, still ? was->second.bound : "", finding.bound}});
  }
  for (const auto& [key, finding] : old)
    if (!now.contains(key))
      changes.push_back(
          {finding.position, {State::kGone, key.first, finding.sentence, key.second, finding.saving_ns, std::nullopt, finding.bound, ""}});
  std::stable_sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) {
    return a.second.state != b.second.state ? a.second.state < b.second.state : a.first < b.first;
  });
  std::vector<FindingChange> sorted;
  for (auto& [position, change] : changes) sorted.push_back(std::move(change));
  return sorted;
}

SlowdownGate slowdown_gate(const std::vector<MetricChange>& metrics) {
  const auto find = [&](const char* id) -> const MetricChange* {
    const auto at = std::find_if(metrics.begin(), metrics.end(), [&](const MetricChange& m) { return m.id == id; });
    return at != metrics.end() && at->before.value && at->after.value ? &*at : nullptr;
  };
  SlowdownGate gate;
  const MetricChange* throughput = find("throughput");
  gate.by = throughput ? throughput : find("step_time");
  if (!gate.by || *gate.by->before.value <= 0 || *gate.by->after.value <= 0) return gate;
  const double before = *gate.by->before.value, after = *gate.by->after.value;
  gate.slower = throughput ? before / after - 1 : after / before - 1;
  gate.known = gate.by->interval.has_value();
  gate.seen = gate.by->change == Change::kBetter || gate.by->change == Change::kWorse;
  return gate;
}

}  // namespace ddl
