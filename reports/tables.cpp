// The nvprof-like tables: Time(%) Time Calls Avg Min Max ... Name. Columns of our own stand between Max and Name only. Times are sums over
// ranks.
#include <fmt/format.h>

#include <map>
#include <string>

#include "analyzer/metrics/metrics.h"
#include "analyzer/query.h"
#include "reports/format.h"
#include "reports/overview.h"

namespace ddl::reports {
namespace {

Value integer_or_absent(const Query& row, int column, Value (*make)(int64_t), Unit unit, const std::string& why = {}) {
  return row.is_null(column) ? Value::absent(unit, why) : make(row.integer(column));
}

Value share(int64_t part, int64_t whole) {
  return whole == 0 ? Value::absent(Unit::kRatio, "ZERO_DENOM") : Value::ratio(static_cast<double>(part) / static_cast<double>(whole));
}

Value average(int64_t sum, int64_t count) {
  return count == 0 ? Value::absent(Unit::kDuration, "ZERO_DENOM") : Value::duration_ns((sum + count / 2) / count);
}

int64_t total(SQLite::Database& db, std::string_view sql, int64_t world) {
  Query query(db, sql);
  query.bind(world);
  return query.next() ? query.integer(0) : 0;
}

}  // namespace

Table collectives_table(const RunView& run) {
  Table table{.id = "collectives",
              .caption = "Collectives, summed over ranks. Wait is for ranks that came later; the rest is transfer.",
              .columns = {{"time_ratio", "Time(%)", Unit::kRatio},
                          {"time_ns", "Time", Unit::kDuration},
                          {"calls", "Calls", Unit::kCount},
                          {"avg_ns", "Avg", Unit::kDuration, 4},
                          {"min_ns", "Min", Unit::kDuration, 1},
                          {"max_ns", "Max", Unit::kDuration, 2},
                          {"wait_ns", "Wait", Unit::kDuration},
                          {"busbw_bytes_per_second", "Busbw", Unit::kBandwidth, 3},
                          {"name", "Name", Unit::kText},
                          {"op", "", Unit::kText, 0},
                          {"comm", "", Unit::kText, 0},
                          {"bytes", "", Unit::kBytes, 0},
                          {"instances", "", Unit::kCount, 0},
                          {"xfer_ns", "", Unit::kDuration, 0},
                          {"upper_bound", "", Unit::kCount, 0}},
              .rows = {},
              .note = {},
              .when_empty = "No collective was kept: the window held none, or the job makes none."};
  const int64_t all_ns = total(run.db, "SELECT sum(time_ns) FROM collective_group WHERE world = ?", run.world);
  Query row(run.db,
            "SELECT o.name, c.label, g.bytes, g.instances, g.calls, g.time_ns, g.min_ns, g.max_ns, g.wait_ns, g.xfer_ns, g.busbw_xfer, "
            "g.upper_bound, g.why, c.kind"
            " FROM collective_group g JOIN op o ON o.id = g.op JOIN communicator c ON c.id = g.comm WHERE g.world = ? ORDER BY g.time_ns "
            "DESC, g.op, g.comm, g.bytes");
  row.bind(run.world);
  bool any_bound = false;
  while (row.next()) {
    const std::string op = row.text(0), comm = row.text(1), why = row.text(12);
    const bool bound = row.integer(11) != 0;
    any_bound = any_bound || bound;
    const std::string size = row.is_null(2) || row.integer(2) == 0 ? "" : fmt::format(" {}", size_text(row.integer(2)));
    table.rows.push_back(
        {share(row.integer(5), all_ns), Value::duration_ns(row.integer(5)), Value::count(row.integer(4)),
         average(row.integer(5), row.integer(4)), Value::duration_ns(row.integer(6)), Value::duration_ns(row.integer(7)),
         integer_or_absent(row, 8, Value::duration_ns, Unit::kDuration, bound && why == "NOT_APPLICABLE" ? "NO_DATA" : why),
         row.is_null(10) ? Value::absent(Unit::kBandwidth, why) : Value::bandwidth(row.real(10)),
         Value::text(fmt::format("{}{}{} {}", op, bound ? "*" : "", size, row.text(13) == "world" ? "world" : comm)), Value::text(op),
         Value::text(comm), integer_or_absent(row, 2, Value::bytes, Unit::kBytes, why), Value::count(row.integer(3)),
         integer_or_absent(row, 9, Value::duration_ns, Unit::kDuration, why), Value::count(bound ? 1 : 0)});
  }
  if (any_bound) table.note = "* non-blocking, from post to completion: hidden time included, so no bandwidth can be told";
  return table;
}

Table calls_table(const RunView& run) {
  Table table{.id = "calls",
              .caption = "MPI calls, summed over ranks, whole run",
              .columns = {{"time_ratio", "Time(%)", Unit::kRatio},
                          {"time_ns", "Time", Unit::kDuration},
                          {"calls", "Calls", Unit::kCount},
                          {"avg_ns", "Avg", Unit::kDuration},
                          {"min_ns", "Min", Unit::kDuration, 2},
                          {"max_ns", "Max", Unit::kDuration, 3},
                          {"bytes", "Bytes", Unit::kBytes, 4},
                          {"name", "Name", Unit::kText},
                          {"time_estimated", "", Unit::kCount, 0}},
              .rows = {},
              .note = {},
              .when_empty = "No MPI call was completed."};
  const int64_t all_ns = total(run.db, "SELECT sum(time_ns) FROM v_call WHERE world = ?", run.world);
  Query row(run.db,
            "SELECT op, sum(calls), sum(bytes), sum(time_ns), min(min_ns), max(max_ns), max(time_estimated) FROM v_call WHERE world = ?"
            " GROUP BY op ORDER BY 4 DESC, op");
  row.bind(run.world);
  bool any_estimated = false;
  while (row.next()) {
    const bool estimated = row.integer(6) != 0;
    any_estimated = any_estimated || estimated;
    table.rows.push_back({share(row.integer(3), all_ns), Value::duration_ns(row.integer(3)), Value::count(row.integer(1)),
                          average(row.integer(3), row.integer(1)), integer_or_absent(row, 4, Value::duration_ns, Unit::kDuration),
                          integer_or_absent(row, 5, Value::duration_ns, Unit::kDuration), Value::bytes(row.integer(2)),
                          Value::text(row.text(0) + (estimated ? " ~" : "")), Value::count(estimated ? 1 : 0)});
  }
  if (any_estimated) table.note = "~ some of these calls were timed and the time scaled up; calls and bytes are exact";
  return table;
}

Table layers_table(const RunView& run) {
  Table table{.id = "layers",
              .caption = "Layers, summed over ranks, whole run",
              .columns = {{"time_ratio", "Time(%)", Unit::kRatio},
                          {"time_ns", "Time", Unit::kDuration},
                          {"calls", "Calls", Unit::kCount, 5},
                          {"avg_ns", "Avg", Unit::kDuration, 3},
                          {"compute_ns", "Compute", Unit::kDuration},
                          {"exposed_ns", "In MPI", Unit::kDuration},
                          {"wait_ns", "Wait", Unit::kDuration, 4},
                          {"phase", "Phase", Unit::kText},
                          {"layer", "Name", Unit::kText}},
              .rows = {},
              .note = {},
              .when_empty = {}};
  Query row(run.db,
            "SELECT layer, phase, sum(calls), sum(compute_ns), sum(exposed_ns), sum(wait_ns) FROM v_layer WHERE world = ?"
            " GROUP BY layer, phase ORDER BY sum(compute_ns + exposed_ns) DESC, layer, phase");
  row.bind(run.world);
  int64_t all_ns = 0;
  while (row.next()) {
    const int64_t time_ns = row.integer(3) + row.integer(4);
    all_ns += time_ns;
    table.rows.push_back({Value::absent(Unit::kRatio, "ZERO_DENOM"), Value::duration_ns(time_ns), Value::count(row.integer(2)),
                          average(time_ns, row.integer(2)), Value::duration_ns(row.integer(3)), Value::duration_ns(row.integer(4)),
                          row.is_null(5) ? Value::absent(Unit::kDuration, row.integer(4) == 0 ? "NOT_APPLICABLE" : "NO_DATA")
                                         : Value::duration_ns(row.integer(5)),
                          row.is_null(1) ? Value::absent(Unit::kText, "NOT_APPLICABLE") : Value::text(row.text(1)),
                          Value::text(row.text(0))});
  }
  for (auto& cells : table.rows) cells[0] = share(cells[1].as_integer(), all_ns);
  if (run.inferred_steps) {
    table.caption = "Layers, summed over ranks, in inferred steps";
    table.note = "inferred: a layer is a call by its place in the code and in the step, and the computing before it";
  }
  return table;
}

Table metrics_table(const RunView& run) {
  Table table{.id = "metric_table",
              .caption = "Metrics, with the 95% interval of those that have one value per step",
              .columns = {{"value", "Value", Unit::kNumber},
                          {"lo", "From", Unit::kNumber, 1},
                          {"hi", "To", Unit::kNumber, 1},
                          {"sigma", "Clock sigma", Unit::kNumber, 0},
                          {"unit", "Unit", Unit::kText, 2},
                          {"id", "Name", Unit::kText},
                          {"meaning", "Meaning", Unit::kText, 3}},
              .rows = {},
              .note = "what exactly each one says: ddl analyze --list",
              .when_empty = "No metric was computed."};
  std::map<std::string, std::string> meanings;
  for (const ddl::Metric& metric : all_metrics()) meanings.emplace(metric.id, metric.name);
  Query row(run.db, "SELECT id, value, unit, why, lo, hi, sigma FROM metric WHERE world = ? ORDER BY id");
  row.bind(run.world);
  bool across_clocks = false;
  while (row.next()) {
    across_clocks |= row.real(6) > 0;
    const std::string unit = row.text(2);
    const bool printed_with_unit = unit == "ns" || unit == "bytes" || unit == "bytes/s";
    table.rows.push_back({metric_value(row.maybe_real(1), unit, row.text(3)), metric_value(row.maybe_real(4), unit, "NOT_APPLICABLE"),
                          metric_value(row.maybe_real(5), unit, "NOT_APPLICABLE"), metric_value(row.maybe_real(6), unit, "NOT_APPLICABLE"),
                          Value::text(printed_with_unit ? "" : unit), Value::text(row.text(0)), Value::text(meanings[row.text(0)])});
  }
  constexpr size_t kSigma = 3;
  if (across_clocks) table.columns[kSigma].keep = 2;
  return table;
}

}  // namespace ddl::reports
