#include "analyzer/metrics/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "analyzer/metrics/sources.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"
#include "core/error.h"

namespace ddl {
namespace {

struct Result {
  std::optional<double> value, lo, hi, p10, p90, sigma;
  std::optional<int64_t> steps;
  std::string why;
};

/// Columns that a metric need not have.
struct Columns {
  explicit Columns(const Query& rows) : lo(rows.column_named("lo")), hi(rows.column_named("hi")), sigma(rows.column_named("sigma")) {}
  static std::optional<double> value(const Query& rows, int column) { return column < 0 ? std::nullopt : rows.maybe_real(column); }
  int lo, hi, sigma;
};

Result of_job(const Metric& metric, Query& rows) {
  const Columns columns(rows);
  Result result;
  if (!rows.next())
    throw Error(fmt::format("metric {} returned no row", metric.id), "a job metric is one SELECT with one row (value, why)");
  result.value = rows.maybe_real(0);
  result.why = rows.text(1);
  result.lo = Columns::value(rows, columns.lo);
  result.hi = Columns::value(rows, columns.hi);
  result.sigma = Columns::value(rows, columns.sigma);
  return result;
}

std::string most_common(const std::map<std::string, int64_t>& reasons) {
  const auto most = std::max_element(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == reasons.end() ? "NO_DATA" : most->first;
}

Result of_steps(Query& rows) {
  const Columns columns(rows);
  std::vector<double> values, sigmas;
  std::map<std::string, int64_t> reasons;
  while (rows.next()) {
    if (rows.is_null(1)) {
      ++reasons[rows.text(2)];
      continue;
    }
    values.push_back(rows.real(1));
    if (const auto sigma = Columns::value(rows, columns.sigma)) sigmas.push_back(*sigma);
  }
  Result result;
  result.steps = static_cast<int64_t>(values.size());
  if (values.empty()) {
    result.why = most_common(reasons);
    return result;
  }
  std::sort(values.begin(), values.end());
  result.p10 = percentile_of(values, 0.1);
  result.p90 = percentile_of(values, 0.9);
  if (const std::optional<Range> interval = bootstrap_median(values)) {
    result.lo = interval->lo;
    result.hi = interval->hi;
  }
  result.value = median_of(values);
  if (!sigmas.empty()) result.sigma = median_of(sigmas);
  return result;
}

/// Fills `rank_metric`; the worst rank's value is the job's.
Result of_ranks(SQLite::Database& db, const Metric& metric, int64_t world, Query& rows) {
  const Columns columns(rows);
  Query insert(db, "INSERT INTO rank_metric (id, world, rank, value, why, sigma) VALUES (?, ?, ?, ?, ?, ?)");
  std::map<std::string, int64_t> reasons;
  Result result;
  while (rows.next()) {
    const std::optional<double> value = rows.maybe_real(1), sigma = Columns::value(rows, columns.sigma);
    insert.run(metric.id, world, rows.integer(0), value, value ? std::nullopt : std::optional(rows.text(2)), sigma);
    if (!value) {
      ++reasons[rows.text(2)];
      continue;
    }
    if (result.value && (metric.better == "higher" ? *value >= *result.value : *value <= *result.value)) continue;
    result.value = value;
    result.sigma = sigma;
  }
  if (!result.value) result.why = most_common(reasons);
  return result;
}

}  // namespace

Metric parse_metric(std::string_view file, std::string_view text) {
  Metric metric;
  const std::map<std::string_view, std::string Metric::*> fields = {
      {"id", &Metric::id},       {"name", &Metric::name},     {"unit", &Metric::unit},        {"better", &Metric::better},
      {"scope", &Metric::scope}, {"source", &Metric::source}, {"sentence", &Metric::sentence}};
  while (text.starts_with("-- ")) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(3, end - 3);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t colon = line.find(": ");
    const auto field = colon == std::string_view::npos ? fields.end() : fields.find(line.substr(0, colon));
    if (field == fields.end()) throw Error(fmt::format("metric file {}: cannot read the header line '{}'", file, line));
    metric.*field->second = line.substr(colon + 2);
  }
  for (const auto& [key, field] : fields) {
    if ((metric.*field).empty()) throw Error(fmt::format("metric file {}: the header has no '{}'", file, key));
  }
  if (metric.id + ".sql" != file) throw Error(fmt::format("metric file {}: its id is {}", file, metric.id));
  if (metric.scope != "job" && metric.scope != "step" && metric.scope != "rank")
    throw Error(fmt::format("metric file {}: scope is neither job, step nor rank", file));
  if (metric.scope == "rank" && metric.better == "none")
    throw Error(fmt::format("metric file {}: the worst rank's value is the job's, so one must be better", file));
  metric.sql = text;
  return metric;
}

const std::vector<Metric>& all_metrics() {
  static const std::vector<Metric> metrics = [] {
    std::vector<Metric> parsed;
    for (const MetricSource& source : metric_sources()) parsed.push_back(parse_metric(source.file, source.text));
    return parsed;
  }();
  return metrics;
}

void compute_metrics(SQLite::Database& db, int64_t world) {
  Query insert(db,
               "INSERT INTO metric (id, world, value, unit, why, lo, hi, p10, p90, steps, sigma) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  for (const Metric& metric : all_metrics()) {
    Query rows(db, metric.sql);
    rows.bind_named(":world", world);
    const Result result = metric.scope == "job"    ? of_job(metric, rows)
                          : metric.scope == "step" ? of_steps(rows)
                                                   : of_ranks(db, metric, world, rows);
    if (!result.value && result.why.empty()) throw Error(fmt::format("metric {} has neither a value nor a reason", metric.id));
    insert.run(metric.id, world, result.value, metric.unit, result.value ? std::nullopt : std::optional(result.why), result.lo, result.hi,
               result.p10, result.p90, result.steps, result.value ? result.sigma : std::nullopt);
  }
}

}  // namespace ddl
