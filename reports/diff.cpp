#include "reports/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analyzer/models/run_facts.h"
#include "reports/format.h"

namespace ddl::reports {
namespace {

/// "+3.1%"; a ratio without its sign would not say which way.
std::string signed_percent(double ratio) { return fmt::format("{}{}", ratio > 0 ? "+" : "", percent_text(ratio)); }

std::string interval_text(const Range& interval) {
  return std::isfinite(interval.hi)
             ? fmt::format("({} to {})", signed_percent(interval.lo), signed_percent(interval.hi))
             : fmt::format("({} and up)", signed_percent(interval.lo));
}

/// A bound has no relative change, nor has a sum over runs of different lengths.
Value change_text(const MetricChange& change) {
  if (change.ratio) return Value::text(signed_percent(*change.ratio));
  const bool of_zero = change.before.value && *change.before.value == 0 && change.after.value;
  return Value::absent(Unit::kText, of_zero ? "ZERO_DENOM" : "NOT_APPLICABLE");
}

Value value_of(const MetricValue& one, const std::string& unit) {
  return metric_value(one.value, unit, one.why)
      .bounded(!one.bound                          ? Value::Bound::kNone
               : *one.bound == MetricBound::kLower ? Value::Bound::kLower
                                                   : Value::Bound::kUpper);
}

Table findings_table(const NamedRun& before, const NamedRun& after) {
  Table table{.id = "finding_changes",
              .caption = "Findings",
              .columns = {{"state", "", Unit::kText},
                          {"saving_before_ns", "before", Unit::kDuration},
                          {"saving_after_ns", "after", Unit::kDuration},
                          {"id", "id", Unit::kText, 0},
                          {"sentence", "finding", Unit::kText}},
              .when_empty = "No findings, neither before nor after."};
  const auto saving = [](const std::optional<int64_t>& ns, const std::string& bound) {
    return ns ? Value::duration_ns(*ns).bounded(Value::bound_of(bound))
              : Value::absent(Unit::kDuration, "NOT_APPLICABLE");
  };
  for (const FindingChange& finding :
       compare_findings(before.view.db, before.view.world, after.view.db, after.view.world)) {
    const char* state = finding.state == FindingChange::State::kNew    ? "new"
                        : finding.state == FindingChange::State::kGone ? "gone"
                                                                       : "still";
    table.rows.push_back({Value::text(state), saving(finding.saving_before_ns, finding.bound_before),
                          saving(finding.saving_after_ns, finding.bound_after), Value::text(finding.id),
                          Value::text(finding.sentence)});
  }
  return table;
}

Table metric_changes_table(const std::vector<MetricChange>& metrics) {
  Table table{.id = "metric_changes",
              .caption = "Metrics, medians over the steps where each has one, with the 95% interval of the change",
              .columns = {{"change", "", Unit::kText},
                          {"before", "before", Unit::kNumber},
                          {"after", "after", Unit::kNumber},
                          {"by", "change", Unit::kText},
                          {"change_ratio", "change", Unit::kRatio, 0},
                          {"change_lo_ratio", "from", Unit::kRatio, 4},
                          {"change_hi_ratio", "to", Unit::kRatio, 4},
                          {"unit", "unit", Unit::kText, 2},
                          {"id", "name", Unit::kText},
                          {"meaning", "meaning", Unit::kText, 3}},
              .note = "what exactly each one says: ddl analyze --list"};
  const Value none = Value::absent(Unit::kRatio, "NOT_APPLICABLE");
  int64_t absent = 0;
  for (const MetricChange& metric : metrics) {
    if (metric.change == Change::kAbsent) {
      ++absent;
      continue;
    }
    const bool with_unit = metric.unit == "ns" || metric.unit == "bytes" || metric.unit == "bytes/s";
    table.rows.push_back(
        {Value::text(name_of(metric.change)), value_of(metric.before, metric.unit), value_of(metric.after, metric.unit),
         change_text(metric), metric.ratio ? Value::ratio(*metric.ratio) : none,
         metric.interval ? Value::ratio(metric.interval->lo) : none,
         metric.interval && std::isfinite(metric.interval->hi) ? Value::ratio(metric.interval->hi) : none,
         Value::text(with_unit ? "" : metric.unit), Value::text(metric.id), Value::text(metric.name)});
  }
  if (absent > 0) table.note = fmt::format("{} more are n/a in both; ", absent) + table.note;
  return table;
}

/// What makes the runs two different jobs.
void add_differences(const NamedRun& before, const NamedRun& after, Document& document) {
  const auto size = [](const RunView& run) { return std::max(run.ranks, run.expected_ranks); };
  if (size(before.view) != size(after.view))
    document.alerts.push_back(fmt::format("before {}, after {}: ddl scaling compares sizes",
                                          plural(size(before.view), "rank"), plural(size(after.view), "rank")));
  for (const auto& [when, of] : {std::pair<const char*, const RunView*>("before", &before.view),
                                 std::pair<const char*, const RunView*>("after", &after.view)}) {
    const RunView& run = *of;
    if (run.ranks < run.expected_ranks)
      document.alerts.push_back(
          fmt::format("{}: {} of {} ranks left no record: what they do is in no number, and in no finding", when,
                      run.expected_ranks - run.ranks, run.expected_ranks));
    if (run.worlds > 1)
      document.alerts.push_back(
          fmt::format("{}: the run has {} worlds, this is world {}", when, run.worlds, run.world));
  }
  if (before.view.has_steps != after.view.has_steps)
    document.alerts.push_back("only one of the runs has steps: its numbers are per step, the other's of the whole run");
  if (before.view.has_steps && after.view.has_steps && before.view.inferred_steps != after.view.inferred_steps)
    document.alerts.push_back(fmt::format(
        "the steps of {} are inferred from repeating collectives, the other run's are marked: they may not be the same",
        before.view.inferred_steps ? "before" : "after"));
  const auto a = models::samples_per_step(before.view.db, before.view.world),
             b = models::samples_per_step(after.view.db, after.view.world);
  if (a && b && *a != *b)
    document.alerts.push_back(
        fmt::format("samples per step: before {:g}, after {:g}; their step times are not of the same work", *a, *b));
}

}  // namespace

Document build_diff(const NamedRun& before, const NamedRun& after, const std::vector<MetricChange>& metrics) {
  Document document;
  document.headline = {"before " + before.name, "after " + after.name};
  document.facts = {{"before", Value::text(before.name)}, {"after", Value::text(after.name)}};
  add_differences(before, after, document);
  const SlowdownGate gate = slowdown_gate(metrics, before.view.db, before.view.world, after.view.db, after.view.world);
  if (gate.slower) {
    const auto value = [&](const MetricValue& one) { return metric_value(one.value, gate.by->unit, one.why); };
    const char* of = gate.mean ? "mean" : "median";
    NumberLine line{.id = "speed", .title = gate.by->id == "throughput" ? "THROUGHPUT" : "STEP"};
    line.items = {{"before", "before", value(gate.by->before), ""},
                  {"after", "after", value(gate.by->after), ""},
                  {"of", "", Value::text(of), ""}};
    document.lines.push_back(std::move(line));
    const std::string by = gate.by->interval ? " " + interval_text(*gate.by->interval) : "";
    const std::string change =
        fmt::format("{} {}{}, {} of the steps; {} {}", gate.by->id, signed_percent(*gate.by->ratio), by, of,
                    gate.mean ? "median" : "mean", signed_percent(gate.other.value_or(0)));
    document.verdict = !gate.known
                           ? fmt::format("{} {}; fewer than five steps in a run cannot tell whether that is a change",
                                         gate.by->id, signed_percent(*gate.by->ratio))
                       : !gate.seen ? "no change seen: " + change
                                    : fmt::format("{}: {}", *gate.slower > 0 ? "slower" : "faster", change);
  } else {
    document.verdict = "speed cannot be compared: no throughput and no step time in both";
  }
  document.tables.push_back(findings_table(before, after));
  document.tables.push_back(metric_changes_table(metrics));
  document.more = {
      "intervals are over the steps of each run: what differs from run to run shows in repeated runs only"};
  return document;
}

}  // namespace ddl::reports
