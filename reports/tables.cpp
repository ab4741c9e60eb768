// The nvprof-like tables: Time(%) Time Calls Avg Min Max ... Name. Columns of our own stand between Max and Name only.
// Times are sums over ranks.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <vector>

#include "analyzer/metrics/metrics.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"
#include "reports/format.h"
#include "reports/overview.h"
#include "reports/text.h"

namespace ddl::reports {
namespace {

Value average(int64_t sum, int64_t count) {
  return count == 0 ? Value::absent(Unit::kDuration, "ZERO_DENOM") : Value::duration_ns((sum + count / 2) / count);
}

}  // namespace

Value cell(const Query& row, int column, Unit unit, const std::string& why) {
  if (row.is_null(column)) return Value::absent(unit, why);
  return unit == Unit::kText ? Value::text(row.text(column))
         : is_integer(unit)  ? Value::of(unit, row.integer(column))
                             : Value::of(unit, row.real(column));
}

std::vector<Value> cells(const Query& row, const Table& table, const std::string& why) {
  std::vector<Value> cells;
  for (const Column& column : table.columns)
    cells.push_back(cell(row, static_cast<int>(cells.size()), column.unit, *column.why == '\0' ? why : column.why));
  return cells;
}

Table collectives_table(const RunView& run) {
  Table table{
      .id = "collectives",
      .caption = "Collectives, summed over ranks. Wait is for ranks that came later; the rest is transfer.",
      .columns = {{"time_ratio", "Time(%)", Unit::kRatio, 9, "ZERO_DENOM"},
                  {"time_ns", "Time", Unit::kDuration},
                  {"calls", "Calls", Unit::kCount},
                  {"avg_ns", "Avg", Unit::kDuration, 4, "ZERO_DENOM"},
                  {"min_ns", "Min", Unit::kDuration, 1},
                  {"max_ns", "Max", Unit::kDuration, 2},
                  {"wait_ns", "Wait", Unit::kDuration, 9, ""},
                  {"busbw_bytes_per_second", "Busbw", Unit::kBandwidth, 3, ""},
                  {"name", "Name", Unit::kText},
                  {"op", "", Unit::kText, 0},
                  {"comm", "", Unit::kText, 0},
                  {"bytes", "", Unit::kBytes, 0, ""},
                  {"instances", "", Unit::kCount, 0},
                  {"xfer_ns", "", Unit::kDuration, 0, ""},
                  {"upper_bound", "", Unit::kCount, 0}},
      .when_empty = "No collective was kept: the job calls none, or none ran in the window (--steps, --after)."};
  Query row(run.db, R"(
    SELECT g.time_ns * 1.0 / nullif(sum(g.time_ns) OVER (), 0), g.time_ns, g.calls, (g.time_ns + g.calls / 2) / nullif(g.calls, 0),
           g.min_ns, g.max_ns, g.wait_ns, g.busbw_xfer, o.name || iif(g.upper_bound, '*', ''), o.name, c.label, g.bytes, g.instances,
           g.xfer_ns, g.upper_bound <> 0, g.why, c.kind = 'world', g.wait_method IS 'lower-bound'
    FROM collective_group g
    JOIN op o ON o.id = g.op
    JOIN communicator c ON c.id = g.comm
    WHERE g.world = ?
    ORDER BY g.time_ns DESC, g.op, g.comm, g.bytes)");
  row.bind(run.world);
  bool any_bound = false;
  while (row.next()) {
    std::vector<Value> group = cells(row, table, row.text(15));
    const bool bound = row.integer(14) != 0, known_from_below = row.integer(17) != 0;
    any_bound = any_bound || bound;
    if (bound && group[6].why() == "NOT_APPLICABLE") group[6] = Value::absent(Unit::kDuration, "NO_DATA");
    if (known_from_below) {
      group[6] = group[6].bounded(Value::Bound::kLower);
      group[13] = group[13].bounded(Value::Bound::kUpper);
    }
    const std::string size =
        row.is_null(11) || row.integer(11) == 0 ? "" : fmt::format(" {}", size_text(row.integer(11)));
    group[8] = Value::text(fmt::format("{}{} {}", row.text(8), size, row.integer(16) != 0 ? "world" : row.text(10)));
    table.rows.push_back(std::move(group));
  }
  if (any_bound)
    table.note = "* non-blocking, from post to completion: hidden time included, so no bandwidth can be told";
  return table;
}

void merge_like_groups(Table& collectives) {
  enum : size_t { kRatio, kTime, kCalls, kAvg, kMin, kMax, kWait, kBusbw, kName, kOp, kComm, kBytes };
  using Row = std::vector<Value>;
  const auto family = [](const Row& row) {
    const std::string comm = row[kComm].as_text();
    return fmt::format("{} {} {}", row[kOp].as_text(), table_text(row[kBytes]),
                       comm.substr(0, comm.find_last_not_of("0123456789") + 1));
  };
  std::map<std::string, std::vector<const Row*>> like;
  std::vector<std::string> order;
  for (const Row& row : collectives.rows) {
    const bool numbered =
        !row[kComm].as_text().empty() && std::isdigit(static_cast<unsigned char>(row[kComm].as_text().back()));
    const std::string key = numbered ? family(row) : fmt::format("{} alone", order.size());
    if (like[key].empty()) order.push_back(key);
    like[key].push_back(&row);
  }
  std::vector<Row> merged;
  for (const std::string& key : order) {
    const std::vector<const Row*>& rows = like[key];
    Row one = *rows.front();
    if (rows.size() > 1) {
      int64_t time_ns = 0, calls = 0, wait_ns = 0, min_ns = INT64_MAX, max_ns = 0;
      double ratio = 0;
      std::vector<double> busbw;
      const Value *no_wait = nullptr, *any_bound = nullptr;
      const auto avg_of = [](const Row* row) { return (*row)[kAvg].is_absent() ? 0 : (*row)[kAvg].as_integer(); };
      for (const Row* row : rows) {
        time_ns += (*row)[kTime].as_integer();
        calls += (*row)[kCalls].as_integer();
        min_ns = std::min(min_ns, (*row)[kMin].as_integer());
        max_ns = std::max(max_ns, (*row)[kMax].as_integer());
        if (!(*row)[kRatio].is_absent()) ratio += (*row)[kRatio].as_double();
        if (!(*row)[kBusbw].is_absent()) busbw.push_back((*row)[kBusbw].as_double());
        const Value& wait = (*row)[kWait];
        if (wait.is_absent()) no_wait = &wait;
        if (wait.bound() != Value::Bound::kNone) any_bound = &wait;
        wait_ns += wait.is_absent() ? 0 : wait.as_integer();
      }
      const auto by_avg = std::minmax_element(rows.begin(), rows.end(),
                                              [&](const Row* a, const Row* b) { return avg_of(a) < avg_of(b); });
      if (!one[kRatio].is_absent()) one[kRatio] = Value::ratio(ratio);
      one[kTime] = Value::duration_ns(time_ns);
      one[kCalls] = Value::count(calls);
      one[kAvg] = average(time_ns, calls);
      one[kMin] = Value::duration_ns(min_ns);
      one[kMax] = Value::duration_ns(max_ns);
      one[kWait] = no_wait != nullptr
                       ? *no_wait
                       : Value::duration_ns(wait_ns).bounded(any_bound ? any_bound->bound() : Value::Bound::kNone);
      if (!busbw.empty()) one[kBusbw] = Value::bandwidth(median_of(busbw));
      const std::string first = one[kName].as_text();
      const std::string what = first.substr(0, first.size() - one[kComm].as_text().size());
      const std::string comm = one[kComm].as_text();
      one[kName] = Value::text(fmt::format("{}{}*: {} groups, avg {} to {}, worst {}", what,
                                           comm.substr(0, comm.find_last_not_of("0123456789") + 1), rows.size(),
                                           table_duration(avg_of(*by_avg.first)),
                                           table_duration(avg_of(*by_avg.second)), (**by_avg.second)[kComm].as_text()));
    }
    merged.push_back(std::move(one));
  }
  std::stable_sort(merged.begin(), merged.end(),
                   [](const Row& a, const Row& b) { return a[kTime].as_integer() > b[kTime].as_integer(); });
  collectives.rows = std::move(merged);
}

Table axes_table(const RunView& run) {
  Table table{
      .id = "axes",
      .caption = "Collectives by axis of parallelism, summed over ranks. Exposed: GPUs compute nothing beside them.",
      .columns = {{"time_ratio", "Time(%)", Unit::kRatio, 9, "ZERO_DENOM"},
                  {"time_ns", "Time", Unit::kDuration},
                  {"calls", "Calls", Unit::kCount, 3},
                  {"wait_ns", "Wait", Unit::kDuration, 9, ""},
                  {"xfer_ns", "Transfer", Unit::kDuration, 9, ""},
                  {"exposed_ns", "Exposed", Unit::kDuration},
                  {"late_rank", "Late rank", Unit::kCount, 2},
                  {"late_ratio", "Its share", Unit::kRatio, 1},
                  {"communicators", "Communicators", Unit::kCount, 0},
                  {"source", "Known by", Unit::kText, 4},
                  {"axis", "Axis", Unit::kText}},
      .when_empty = "No collective ran on a communicator of two ranks."};
  Query row(run.db, R"(
    WITH axis AS (
      SELECT a.axis, min(a.source) AS source, count(DISTINCT g.comm) AS communicators, sum(g.calls) AS calls, sum(g.time_ns) AS time_ns,
             iif(sum(g.split_calls) = sum(g.calls), sum(g.wait_ns), NULL) AS wait_ns,
             iif(sum(g.split_calls) = sum(g.calls), sum(g.xfer_ns), NULL) AS xfer_ns,
             max(g.why) AS why, max(g.wait_method IS 'lower-bound') AS bounded
      FROM collective_group g
      JOIN communicator_axis a ON a.communicator = g.comm
      WHERE g.world = ?1
      GROUP BY a.axis
    ), blamed AS (
      SELECT a.axis, l.rank, sum(l.wait_ns) AS wait_ns, sum(sum(l.wait_ns)) OVER (PARTITION BY a.axis) AS all_ns,
             row_number() OVER (PARTITION BY a.axis ORDER BY sum(l.wait_ns) DESC, l.rank) AS place
      FROM late l
      JOIN communicator_axis a ON a.communicator = l.comm
      WHERE l.world = ?1
      GROUP BY a.axis, l.rank
    ), exposed AS (
      SELECT g.axis, sum(g.exposed_ns) AS exposed_ns
      FROM gpu_axis_part g
      JOIN process p ON p.id = g.process
      WHERE p.world = ?1 AND g.step IS NULL AND g.axis IS NOT NULL
      GROUP BY g.axis
    )
    SELECT x.time_ns * 1.0 / nullif(sum(x.time_ns) OVER (), 0), x.time_ns, x.calls, x.wait_ns, x.xfer_ns, e.exposed_ns,
           iif(b.all_ns > 0, b.rank, NULL), b.wait_ns * 1.0 / nullif(b.all_ns, 0), x.communicators, x.source, x.axis, x.why, x.bounded
    FROM axis x
    LEFT JOIN blamed b ON b.axis = x.axis AND b.place = 1
    LEFT JOIN exposed e ON e.axis = x.axis
    ORDER BY x.time_ns DESC, x.axis)");
  row.bind(run.world);
  while (row.next()) {
    std::vector<Value>& axis = table.rows.emplace_back(cells(row, table, row.text(11)));
    if (row.integer(12) == 0) continue;
    axis[3] = axis[3].bounded(Value::Bound::kLower);
    axis[4] = axis[4].bounded(Value::Bound::kUpper);
  }
  return table;
}

/// Whose calls were recorded: "MPI", "MPI and NCCL", ...
std::string called_libraries(const RunView& run) {
  Query row(
      run.db,
      "SELECT DISTINCT CASE WHEN o.name LIKE 'nccl%' THEN 'NCCL' WHEN o.name LIKE 'gloo::%' THEN 'Gloo' ELSE 'MPI' END FROM profile f"
      " JOIN process p ON p.id = f.process JOIN op o ON o.id = f.op WHERE p.world = ? ORDER BY 1 = 'MPI' DESC, 1");
  row.bind(run.world);
  std::vector<std::string> names;
  while (row.next()) names.push_back(row.text(0));
  return names.empty() ? "MPI" : fmt::format("{}", fmt::join(names, " and "));
}

Table calls_table(const RunView& run) {
  Table table{.id = "calls",
              .caption = called_libraries(run) + " calls, summed over ranks, whole run",
              .columns = {{"time_ratio", "Time(%)", Unit::kRatio, 9, "ZERO_DENOM"},
                          {"time_ns", "Time", Unit::kDuration},
                          {"calls", "Calls", Unit::kCount},
                          {"avg_ns", "Avg", Unit::kDuration, 9, "ZERO_DENOM"},
                          {"min_ns", "Min", Unit::kDuration, 2, "NO_DATA"},
                          {"max_ns", "Max", Unit::kDuration, 3, "NO_DATA"},
                          {"bytes", "Bytes", Unit::kBytes, 4, "NO_DATA"},
                          {"name", "Name", Unit::kText},
                          {"time_estimated", "", Unit::kCount, 0}},
              .when_empty = "No call was completed."};
  Query row(run.db, R"(
    SELECT sum(f.time_ns) * 1.0 / nullif(sum(sum(f.time_ns)) OVER (), 0), sum(f.time_ns), sum(f.calls),
           (sum(f.time_ns) + sum(f.calls) / 2) / nullif(sum(f.calls), 0), min(f.min_ns), max(f.max_ns),
           iif(count(f.bytes) = count(*), sum(f.bytes), NULL), o.name || iif(max(f.time_estimated), ' ~', ''), max(f.time_estimated) <> 0
    FROM profile f
    JOIN process p ON p.id = f.process
    JOIN op o ON o.id = f.op
    WHERE p.world = ?
    GROUP BY o.name
    ORDER BY 2 DESC, o.name)");
  row.bind(run.world);
  while (row.next()) {
    table.rows.push_back(cells(row, table));
    if (row.integer(8) != 0)
      table.note = "~ some of these calls were timed and the time scaled up; calls and bytes are exact";
  }
  return table;
}

Table layers_table(const RunView& run) {
  Table table{.id = "layers",
              .caption = "Layers, summed over ranks, whole run",
              .columns = {{"time_ratio", "Time(%)", Unit::kRatio, 9, "ZERO_DENOM"},
                          {"time_ns", "Time", Unit::kDuration},
                          {"calls", "Calls", Unit::kCount, 5},
                          {"avg_ns", "Avg", Unit::kDuration, 3, "ZERO_DENOM"},
                          {"compute_ns", "Compute", Unit::kDuration},
                          {"exposed_ns", "In calls", Unit::kDuration},
                          {"wait_ns", "Wait", Unit::kDuration, 4, ""},
                          {"phase", "Phase", Unit::kText},
                          {"layer", "Name", Unit::kText}},
              .when_empty = "The job names no layers. Name them with ddl/annotate.h, ddl_annotate.py or NVTX."};
  Query row(run.db, R"(
    SELECT time_ns * 1.0 / nullif(sum(time_ns) OVER (), 0), time_ns, calls, (time_ns + calls / 2) / nullif(calls, 0), compute_ns, exposed_ns,
           wait_ns, phase, layer
    FROM (SELECT *, compute_ns + exposed_ns AS time_ns FROM layer_total WHERE world = ?)
    ORDER BY time_ns DESC, layer, phase)");
  row.bind(run.world);
  while (row.next()) table.rows.push_back(cells(row, table, row.integer(5) == 0 ? "NOT_APPLICABLE" : "NO_DATA"));
  if (run.inferred_steps) {
    table.caption = "Layers, summed over ranks, in inferred steps";
    table.note = "inferred: a layer is a call by its place in the code and in the step, and the computing before it";
  }
  return table;
}

namespace {

Table empty_metrics_table() {
  return {.id = "metric_table",
          .caption = "Metrics, with the 95% interval of those that have one value per step",
          .columns = {{"value", "Value", Unit::kNumber},
                      {"lo", "From", Unit::kNumber, 1},
                      {"hi", "To", Unit::kNumber, 1},
                      {"sigma", "Clock sigma", Unit::kNumber, 0},
                      {"unit", "Unit", Unit::kText, 2},
                      {"id", "Name", Unit::kText},
                      {"meaning", "Meaning", Unit::kText, 3}},
          .note = "what exactly each one says: ddl analyze --list",
          .when_empty = "No metric was computed. Compute them with: ddl analyze RUN."};
}

void add_metric_row(const Metric& metric, const std::string& meaning, Table& table) {
  const auto other = [&](const std::optional<double>& value) {
    return metric_value(value, metric.unit, "NOT_APPLICABLE");
  };
  const bool printed_with_unit = metric.unit == "ns" || metric.unit == "bytes" || metric.unit == "bytes/s";
  table.rows.push_back({metric_value(metric.value, metric.unit, metric.why), other(metric.lo), other(metric.hi),
                        other(metric.sigma), Value::text(printed_with_unit ? "" : metric.unit), Value::text(metric.id),
                        Value::text(meaning)});
  constexpr size_t kSigma = 3;
  if (metric.sigma.value_or(0) > 0) table.columns[kSigma].keep = 2;
}

}  // namespace

Table metrics_table(const RunView& run) {
  Table table = empty_metrics_table();
  std::map<std::string, std::string> meanings;
  for (const ddl::Metric& metric : all_metrics()) meanings.emplace(metric.id, metric.name);
  Document document;
  add_metrics(run, document);
  for (const Metric& metric : document.metrics) add_metric_row(metric, meanings[metric.id], table);
  return table;
}

std::vector<Table> tried_metric(const ddl::Metric& metric, const MetricResult& result) {
  Table job = empty_metrics_table();
  job.caption = fmt::format("The metric that was tried, {}: {}", metric.source, metric.sentence);
  job.note = "";
  const Metric shown{.id = metric.id,
                     .unit = metric.unit,
                     .value = result.value,
                     .why = result.why,
                     .lo = result.lo,
                     .hi = result.hi,
                     .sigma = result.sigma};
  add_metric_row(shown, metric.name, job);
  if (metric.scope != "rank") return {std::move(job)};
  Table ranks{.id = "rank_metric_table",
              .caption = "For each rank",
              .columns = {{"rank", "Rank", Unit::kCount}, {"value", "Value", Unit::kNumber}},
              .when_empty = "The run has no rank."};
  for (const MetricResult::OfRank& rank : result.ranks)
    ranks.rows.push_back({Value::count(rank.rank), metric_value(rank.value, metric.unit, rank.why)});
  return {std::move(job), std::move(ranks)};
}

std::string describe_metric(const ddl::Metric& metric) {
  std::string text = fmt::format("{}  ({}; {}; {}; of a {}; {})\n", metric.id, metric.name, metric.unit,
                                 metric.better == "none" ? "neither is better" : metric.better + " is better",
                                 metric.scope, metric.source);
  for (const std::string& line : wrap(metric.sentence, 96)) text += "    " + line + "\n";
  return text;
}

}  // namespace ddl::reports
