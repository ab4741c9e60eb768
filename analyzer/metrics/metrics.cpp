#include "analyzer/metrics/metrics.h"

#include <SQLiteCpp/Savepoint.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "analyzer/parallel_reads.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"
#include "core/error.h"

namespace ddl {
namespace {

/// The columns that the SELECT of a scope must begin with.
struct ScopeColumns {
  const char* scope;
  const char* columns;
  int count;
};
constexpr ScopeColumns kScopes[] = {
    {"job", "value, why", 2}, {"step", "step, value, why", 3}, {"rank", "rank, value, why", 3}};

/// Columns that a metric need not have.
struct Columns {
  explicit Columns(const Query& rows)
      : lo(rows.column_named("lo")),
        hi(rows.column_named("hi")),
        sigma(rows.column_named("sigma")),
        part(rows.column_named("part")),
        whole(rows.column_named("whole")) {}
  static std::optional<double> value(const Query& rows, int column) {
    return column < 0 ? std::nullopt : rows.maybe_real(column);
  }
  int lo, hi, sigma, part, whole;
};

MetricResult of_job(const Metric& metric, Query& rows) {
  const Columns columns(rows);
  MetricResult result;
  if (!rows.next())
    throw Error(fmt::format("metric {} returned no row", metric.id),
                "a job metric is one SELECT with one row (value, why)", ExitCode::kUsage);
  result.value = rows.maybe_real(0);
  result.why = rows.text(1);
  result.lo = Columns::value(rows, columns.lo);
  result.hi = Columns::value(rows, columns.hi);
  result.sigma = Columns::value(rows, columns.sigma);
  if (rows.next())
    throw Error(fmt::format("metric {} returned several rows", metric.id),
                "a job metric is one SELECT with one row (value, why)", ExitCode::kUsage);
  return result;
}

std::string most_common(const std::map<std::string, int64_t>& reasons) {
  const auto most = std::max_element(reasons.begin(), reasons.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == reasons.end() ? "NO_DATA" : most->first;
}

constexpr double kNextToNone = 0.01;  // of what a mean step is divided by; so little that one odd step does not make it

/// The parts and wholes of a ratio, by step.
struct RatioOfSums {
  std::vector<double> parts, wholes;
  double part = 0, whole = 0;
  double whole_sigma = 0;  ///< through the clocks

  /// `sigma`: of the step's value.
  void add(double one_part, double one_whole, std::optional<double> sigma) {
    parts.push_back(one_part);
    wholes.push_back(one_whole);
    part += one_part;
    whole += one_whole;
    if (sigma && one_part > 0) whole_sigma += *sigma * one_whole * one_whole / one_part;
  }

  bool is_hidden_by_median() const {
    std::vector<double> sorted = wholes;
    return whole > 0 && median_of(sorted) < kNextToNone * whole / static_cast<double>(wholes.size());
  }
};

/// A step whose denominator is 0 has an infinite value: left out, it would leave the others' median, which is not the
/// job's. Infinite values order as others do; the result never is one.
MetricResult of_steps(const Metric& metric, Query& rows) {
  const Columns columns(rows);
  std::vector<double> values, sigmas;
  RatioOfSums sums;
  std::map<std::string, int64_t> reasons;
  while (rows.next()) {
    if (const auto part = Columns::value(rows, columns.part), whole = Columns::value(rows, columns.whole);
        part && whole)
      sums.add(*part, *whole, Columns::value(rows, columns.sigma));
    if (rows.is_null(1)) {
      ++reasons[rows.text(2)];
      continue;
    }
    values.push_back(rows.real(1));
    if (const auto sigma = Columns::value(rows, columns.sigma)) sigmas.push_back(*sigma);
  }
  MetricResult result;
  result.steps = static_cast<int64_t>(values.size());
  if (values.empty()) {
    result.why = most_common(reasons);
    return result;
  }
  const auto if_finite = [](double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; };
  const bool by_sums = sums.whole > 0 && (metric.unit.ends_with("/s") || sums.is_hidden_by_median());
  result.value = by_sums ? sums.part / sums.whole : if_finite(median_of(values));
  if (!result.value) {
    result.steps = 0;
    result.why = "ZERO_DENOM";
    return result;
  }
  std::sort(values.begin(), values.end());
  result.p10 = if_finite(percentile_of(values, 0.1));
  result.p90 = if_finite(percentile_of(values, 0.9));
  const std::optional<Range> interval = by_sums ? interval_of_ratio(sums.parts, sums.wholes) : bootstrap_median(values);
  if (interval && std::isfinite(interval->hi)) {
    result.lo = interval->lo;
    result.hi = interval->hi;
  }
  if (!sigmas.empty())
    result.sigma = by_sums ? sums.part * sums.whole_sigma / (sums.whole * sums.whole) : median_of(sigmas);
  return result;
}

/// The worst rank's value is the job's.
MetricResult of_ranks(const Metric& metric, Query& rows) {
  const Columns columns(rows);
  std::map<std::string, int64_t> reasons;
  MetricResult result;
  while (rows.next()) {
    const MetricResult::OfRank& rank = result.ranks.emplace_back(
        MetricResult::OfRank{rows.integer(0), rows.maybe_real(1), Columns::value(rows, columns.sigma), rows.text(2)});
    if (!rank.value) {
      ++reasons[rank.why];
      continue;
    }
    if (result.value && (metric.better == "higher" ? *rank.value >= *result.value : *rank.value <= *result.value))
      continue;
    result.value = rank.value;
    result.sigma = rank.sigma;
  }
  if (!result.value) result.why = most_common(reasons);
  return result;
}

/// Whether it needs what the threads do not tell: GPUs compute and communicate, recorded (then metrics of
/// GPUs tell it) or not.
bool is_untold(SQLite::Database& db, const Metric& metric, int64_t world) {
  if (metric.needs.empty()) return false;
  Query row(db,
            "SELECT 1 FROM rank_resource r JOIN steady_world w ON w.world = r.world"
            " WHERE r.world = ?1 AND (r.resource = 'unseen' OR (r.resource = 'device' AND w.waits_by = 'device'))"
            " AND (?2 OR (SELECT total(exposed_ns) FROM steady_rank WHERE world = ?1) = 0)");
  row.bind(world, metric.needs == "computing");
  return row.next();
}

}  // namespace

Metric parse_metric(std::string_view file, std::string_view text) {
  const auto refuse = [&](const std::string& what) {
    throw Error(fmt::format("metric file {}: {}", file, what), "analyzer/metrics/metrics.h says what one is made of",
                ExitCode::kUsage);
  };
  Metric metric;
  const std::map<std::string_view, std::string Metric::*> fields = {{"id", &Metric::id},
                                                                    {"name", &Metric::name},
                                                                    {"unit", &Metric::unit},
                                                                    {"better", &Metric::better},
                                                                    {"scope", &Metric::scope},
                                                                    {"source", &Metric::source},
                                                                    {"sentence", &Metric::sentence},
                                                                    {"bound", &Metric::bound},
                                                                    {"needs", &Metric::needs}};
  while (text.starts_with("-- ")) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(3, end - 3);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t colon = line.find(": ");
    const auto field = colon == std::string_view::npos ? fields.end() : fields.find(line.substr(0, colon));
    if (field == fields.end()) refuse(fmt::format("cannot read the header line '{}'", line));
    metric.*field->second = line.substr(colon + 2);
  }
  for (const auto& [key, field] : fields) {
    if ((metric.*field).empty() && field != &Metric::bound && field != &Metric::needs)
      refuse(fmt::format("the header has no '{}'", key));
  }
  if (metric.id + ".sql" != file) refuse(fmt::format("its id is {}", metric.id));
  if (std::none_of(std::begin(kScopes), std::end(kScopes),
                   [&](const ScopeColumns& s) { return s.scope == metric.scope; }))
    refuse("scope is neither job, step nor rank");
  if (metric.better != "higher" && metric.better != "lower" && metric.better != "none")
    refuse("better is neither higher, lower nor none");
  if (!metric.bound.empty() && metric.bound != "lower" && metric.bound != "upper")
    refuse("bound is neither lower nor upper");
  if (!metric.needs.empty() && metric.needs != "computing" && metric.needs != "communication")
    refuse("needs is neither computing nor communication");
  if (metric.scope == "rank" && metric.better == "none")
    refuse("the worst rank's value is the job's, so one must be better");
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

std::optional<MetricBound> bound_of(std::string_view id) {
  const std::vector<Metric>& metrics = all_metrics();
  const auto found =
      std::find_if(metrics.begin(), metrics.end(), [&](const Metric& metric) { return metric.id == id; });
  if (found == metrics.end() || found->bound.empty()) return std::nullopt;
  return found->bound == "lower" ? MetricBound::kLower : MetricBound::kUpper;
}

MetricResult evaluate(SQLite::Database& db, const Metric& metric, int64_t world) {
  Query rows(db, metric.sql);
  const ScopeColumns& shape = *std::find_if(std::begin(kScopes), std::end(kScopes),
                                            [&](const ScopeColumns& s) { return s.scope == metric.scope; });
  if (rows.columns() < shape.count)
    throw Error(fmt::format("metric {} has {} columns", metric.id, rows.columns()),
                fmt::format("a {} metric is SELECT {} FROM ...", shape.scope, shape.columns), ExitCode::kUsage);
  rows.bind_named(":world", world);
  MetricResult result = metric.scope == "job"    ? of_job(metric, rows)
                        : metric.scope == "step" ? of_steps(metric, rows)
                                                 : of_ranks(metric, rows);
  if (!result.value && result.why.empty())
    throw Error(fmt::format("metric {} has neither a value nor a reason", metric.id),
                "why is NO_DATA, ZERO_DENOM, ... where value is NULL", ExitCode::kUsage);
  if (is_untold(db, metric, world)) {
    result = MetricResult();
    result.why = "NO_DATA";
  }
  if (!result.value) result.sigma.reset();
  return result;
}

void compute_metrics(SQLite::Database& db, int64_t world, unsigned threads) {
  const std::vector<Metric>& metrics = all_metrics();
  std::vector<MetricResult> results(metrics.size());
  read_in_parallel(db, threads, metrics.size(), [&](size_t i, SQLite::Database& connection) {
    results[i] = evaluate(connection, metrics[i], world);
  });
  SQLite::Savepoint savepoint(db, "metrics");
  Query insert(
      db,
      "INSERT INTO metric (id, world, value, unit, why, lo, hi, p10, p90, steps, sigma) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Query insert_rank(db, "INSERT INTO rank_metric (id, world, rank, value, why, sigma) VALUES (?, ?, ?, ?, ?, ?)");
  const auto reason = [](const std::optional<double>& value, const std::string& why) {
    return value ? std::nullopt : std::optional(why);
  };
  for (size_t i = 0; i < metrics.size(); ++i) {
    const Metric& metric = metrics[i];
    const MetricResult& result = results[i];
    for (const MetricResult::OfRank& rank : result.ranks)
      insert_rank.run(metric.id, world, rank.rank, rank.value, reason(rank.value, rank.why), rank.sigma);
    insert.run(metric.id, world, result.value, metric.unit, reason(result.value, result.why), result.lo, result.hi,
               result.p10, result.p90, result.steps, result.sigma);
  }
  savepoint.release();
}

}  // namespace ddl
