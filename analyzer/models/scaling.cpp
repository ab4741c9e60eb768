#include "analyzer/models/scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "analyzer/statistics.h"
#include "core/error.h"

namespace ddl::models {
namespace {

constexpr double kSameBatch = 0.005;

bool nearly(double a, double b) { return std::abs(a - b) <= kSameBatch * std::max(std::abs(a), std::abs(b)); }

std::string counted(double count, const std::string& noun) {
  return fmt::format("{:g} {}{}", count, noun, count == 1 ? "" : "s");
}

/// "1 node = 4 GPUs", "1 GPU".
std::string base_name(const ScalingPoint& base, const std::string& worker) {
  const std::string workers = counted(base.workers, worker);
  return base.nodes ? counted(*base.nodes, "node") + " = " + workers : workers;
}

/// "within the printed digits", if what the flag says may be rounding or noise.
std::string certainty(bool certain) { return certain ? "" : ", within its uncertainty"; }

void flag(ScalingRow& row, const ScalingRow* before) {
  const std::string now = half_up(row.efficiency.value, 2);
  if (before && before->point.workers < row.point.workers) {
    const std::string then = half_up(before->efficiency.value, 2);
    if (std::stod(now) > std::stod(then))
      row.flags.push_back(
          fmt::format("rises from {} to {}{}", then, now, certainty(row.efficiency.lo > before->efficiency.hi)));
  }
  if (row.point.workers > row.base_workers && std::stod(now) > 1)
    row.flags.push_back(
        fmt::format("superlinear: {}{}", half_up(row.efficiency.value, 3), certainty(row.efficiency.lo > 1)));
  if (!row.point.quoted_efficiency) return;
  const std::string& quoted = *row.point.quoted_efficiency;
  switch (check_quote(row.efficiency, quoted)) {
    case Quote::kAgrees:
      break;
    case Quote::kTruncated:
      row.flags.push_back(fmt::format("quoted {} is cut off, not rounded", quoted));
      break;
    case Quote::kDisagrees:
      row.flags.push_back(fmt::format("quoted {} does not follow: {} to {}", quoted, half_up(row.efficiency.lo, 3),
                                      half_up(row.efficiency.hi, 3)));
  }
}

ScalingRow make_row(const ScalingPoint& point, const ScalingPoint& base, const std::string& worker) {
  ScalingRow row;
  row.point = point;
  row.base_workers = base.workers;
  row.base = base_name(base, worker);
  const bool is_base = &point == &base;
  row.speedup = is_base ? Printed::exactly(1) : point.throughput / base.throughput;
  row.efficiency = row.speedup * Printed::exactly(base.workers / point.workers);
  if (point.epoch_s && base.epoch_s && point.time_s && base.time_s) {
    row.hardware = *base.epoch_s / *point.epoch_s * base.workers / point.workers;
    row.statistical = (*base.time_s / *base.epoch_s) / (*point.time_s / *point.epoch_s);
  }
  if (point.parts && base.parts) {
    // Throughput is batch over step time: the ratio of the local batches follows from both.
    const double local = row.efficiency.value * point.parts->step_s / base.parts->step_s;
    row.loss = loss_split(*point.parts, *base.parts, local);
  }
  return row;
}

}  // namespace

const char* name_of(ScalingKind kind) {
  switch (kind) {
    case ScalingKind::kWeak:
      return "weak";
    case ScalingKind::kStrong:
      return "strong";
    case ScalingKind::kMixed:
      return "mixed";
    case ScalingKind::kUnknown:
      break;
  }
  return "not known";
}

ScalingKind scaling_kind(const std::vector<ScalingPoint>& series) {
  std::set<double> sizes;
  bool weak = true, strong = true;
  for (const ScalingPoint& point : series) {
    if (!point.global_batch) return ScalingKind::kUnknown;
    sizes.insert(point.workers);
    strong &= nearly(*point.global_batch, *series[0].global_batch);
    weak &= nearly(*point.global_batch / point.workers, *series[0].global_batch / series[0].workers);
  }
  if (sizes.size() < 2) return ScalingKind::kUnknown;
  return weak ? ScalingKind::kWeak : strong ? ScalingKind::kStrong : ScalingKind::kMixed;
}

LossSplit loss_split(const StepParts& now, const StepParts& base, double k) {
  const auto part = [&](double StepParts::*seconds) { return (now.*seconds - k * base.*seconds) / now.step_s; };
  return {part(&StepParts::transfer_s), part(&StepParts::wait_s), part(&StepParts::copy_s), part(&StepParts::idle_s),
          part(&StepParts::compute_s)};
}

std::vector<std::vector<ScalingRow>> by_series(const std::vector<ScalingRow>& rows) {
  std::vector<std::vector<ScalingRow>> series;
  for (const ScalingRow& row : rows) {
    if (series.empty() || series.back()[0].point.series != row.point.series) series.emplace_back();
    series.back().push_back(row);
  }
  return series;
}

std::vector<ScalingRow> scaling_rows(const std::vector<ScalingPoint>& points, std::optional<double> base_workers,
                                     const std::string& worker) {
  if (points.empty()) throw Error("no sizes to compare", "give at least one run, or one row", ExitCode::kDataMissing);
  std::vector<std::string> order;
  for (const ScalingPoint& point : points) {
    const std::string of = point.series.empty() ? "" : " of " + point.series;
    if (!(point.workers > 0) || !std::isfinite(point.workers))
      throw Error(fmt::format("invalid size of {} {}s{}", point.workers, worker, of), "sizes are above 0",
                  ExitCode::kDataMissing);
    const Printed& x = point.throughput;
    if (!(x.lo > 0) || !(x.lo <= x.value) || !(x.value <= x.hi) || !std::isfinite(x.hi))
      throw Error(
          fmt::format("{}{}: the result is not above 0 within its printed digits", counted(point.workers, worker), of),
          "throughput, speed-up and time are above 0: give more digits", ExitCode::kDataMissing);
    if (std::find(order.begin(), order.end(), point.series) == order.end()) order.push_back(point.series);
  }
  std::vector<ScalingRow> rows;
  for (const std::string& name : order) {
    std::vector<ScalingPoint> series;
    for (const ScalingPoint& point : points)
      if (point.series == name) series.push_back(point);
    std::stable_sort(series.begin(), series.end(), [](const auto& a, const auto& b) { return a.workers < b.workers; });
    const auto base = std::find_if(series.begin(), series.end(), [&](const ScalingPoint& point) {
      return !base_workers || point.workers == *base_workers;
    });
    if (base == series.end())
      throw Error(fmt::format("the base of {} was not measured{}", counted(*base_workers, worker),
                              name.empty() ? "" : " in " + name),
                  "choose a --base that was", ExitCode::kDataMissing);
    size_t before = 0;  // rows of this series
    for (const ScalingPoint& point : series) {
      ScalingRow row = make_row(point, *base, worker);
      const ScalingRow* previous = before > 0 ? &rows.back() : nullptr;
      if (previous && previous->point.workers < point.workers)
        row.incremental = row.efficiency.value / previous->efficiency.value;
      flag(row, previous);
      rows.push_back(std::move(row));
      ++before;
    }
  }
  return rows;
}

ScalingTrend fit_trend(const std::vector<ScalingRow>& series) {
  std::set<double> sizes;
  for (const ScalingRow& row : series) sizes.insert(row.point.workers);
  if (sizes.size() < kTrendMinSizes)
    throw Error(fmt::format("too few distinct sizes for a projection: {}, at least {} are needed", sizes.size(),
                            kTrendMinSizes),
                "measure more sizes", ExitCode::kDataMissing);
  const double base = series[0].base_workers;
  const auto n = static_cast<double>(series.size());
  const auto fit = [&](bool linear) {
    const auto f = [&](const ScalingRow& row) {
      return linear ? row.point.workers / base : std::log2(row.point.workers / base);
    };
    ScalingTrend trend{.linear = linear, .largest = *sizes.rbegin(), .base_workers = base};
    double mean_y = 0, fy = 0, yy = 0;
    for (const ScalingRow& row : series) trend.mean_f += f(row) / n, mean_y += 1 / row.efficiency.value / n;
    for (const ScalingRow& row : series) {
      const double df = f(row) - trend.mean_f, dy = 1 / row.efficiency.value - mean_y;
      trend.spread_f += df * df, fy += df * dy, yy += dy * dy;
    }
    trend.b = fy / trend.spread_f;
    trend.a = mean_y - trend.b * trend.mean_f;
    const double residual = std::max(0.0, yy - trend.b * fy);
    trend.r2 = yy > 0 ? 1 - residual / yy : 1;
    trend.sigma = std::sqrt(residual / (n - 2));
    trend.t = student_t(n - 2, 0.95);
    trend.points = n;
    return trend;
  };
  const ScalingTrend log = fit(false), linear = fit(true);
  return linear.r2 > log.r2 ? linear : log;
}

Projection ScalingTrend::project(double workers) const {
  if (!(workers > 0)) throw Error(fmt::format("invalid size {:g}", workers), "sizes are above 0", ExitCode::kUsage);
  const double f = linear ? workers / base_workers : std::log2(workers / base_workers);
  const double inverse = a + b * f;
  const double off = t * sigma * std::sqrt(1 + 1 / points + (f - mean_f) * (f - mean_f) / spread_f);
  if (!(inverse - off > 0))
    throw Error(fmt::format("{:g} is too far for a projection: its interval includes every efficiency", workers),
                "measure larger sizes", ExitCode::kDataMissing);
  return {workers, {1 / inverse, 1 / (inverse + off), 1 / (inverse - off)}};
}

namespace {

constexpr double kTwoSided95 = 1.96;

double modelled_s(const RecordedScale& run, int64_t ranks, const Link& link) {
  double total_s = 0;
  for (const Sample& sample : run.samples) {
    const int64_t members = sample.ranks == run.ranks ? ranks : sample.ranks;
    total_s +=
        sample.instances * collective_work(sample.collective, kProjectedAlgorithm, members, sample.bytes).seconds(link);
  }
  return total_s;
}

double growth(const RecordedScale& run, int64_t ranks, const Link& link) {
  const double now_s = modelled_s(run, run.ranks, link);
  return now_s > 0 ? modelled_s(run, ranks, link) / now_s : 1;
}

}  // namespace

Projection project_run(const RecordedScale& run, int64_t ranks, bool strong) {
  const double growth_now = growth(run, ranks, run.fit.link);
  Link slower = run.fit.link;
  slower.alpha_s += run.fit.alpha_error_s;
  const double by_alpha = growth(run, ranks, slower) - growth_now;
  slower = run.fit.link;
  slower.beta_s_per_byte += run.fit.beta_error_s_per_byte;
  const double by_beta = growth(run, ranks, slower) - growth_now;
  const double off = kTwoSided95 * std::hypot(by_alpha, by_beta);

  const StepParts& p = run.parts;
  const double local = strong ? static_cast<double>(run.ranks) / static_cast<double>(ranks) : 1;
  const auto kept = [&](double factor) {  // of the run's own efficiency
    const double step_s = local * (p.compute_s + p.copy_s + p.idle_s) + p.wait_s + p.transfer_s * factor;
    return local * p.step_s / step_s;
  };
  return {static_cast<double>(ranks),
          {run.efficiency.value * kept(growth_now), run.efficiency.lo * kept(growth_now + off),
           run.efficiency.hi * kept(std::max(0.0, growth_now - off))}};
}

}  // namespace ddl::models
