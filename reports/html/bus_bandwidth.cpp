// Bus bandwidth by size, both on logarithmic axes, against the model that was fitted to the run's own transfer times
// (models/link_fit.h): a point far below the line is a size that the library handles badly.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/models/link_fit.h"
#include "analyzer/models/run_facts.h"
#include "analyzer/query.h"
#include "core/error.h"
#include "reports/format.h"
#include "reports/html/chart.h"
#include "reports/html/figure.h"

namespace ddl::reports::html {
namespace {

constexpr double kBandwidthLeft = 84, kBandwidthRight = kWidth - 24, kBandwidthHeight = 260;

struct Point {
  double bytes = 0, busbw = 0;
  std::optional<double> model;
};

// One operation on communicators of one size.
struct Series {
  std::string op;
  int64_t ranks = 0;
  double factor = 1;  // bus bandwidth over S / time
  double instances = 0;
  std::vector<Point> points;
};

std::vector<Series> series_of(const RunView& run) {
  Query row(
      run.db,
      "SELECT o.name, c.size, g.bytes, g.busbw_xfer, g.bus_factor, g.instances FROM collective_group g JOIN op o ON o.id = g.op JOIN "
      "communicator c"
      " ON c.id = g.comm WHERE g.world = ? AND g.bytes > 0 AND g.busbw_xfer > 0 AND g.bus_factor > 0 AND g.upper_bound = 0 ORDER BY "
      "o.name, c.size, g.bytes");
  row.bind(run.world);
  std::vector<Series> all;
  while (row.next()) {
    if (all.empty() || all.back().op != row.text(0) || all.back().ranks != row.integer(1))
      all.push_back({row.text(0), row.integer(1), row.real(4), 0, {}});
    all.back().points.push_back({row.real(2), row.real(3), {}});
    all.back().instances += row.real(5);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Series& a, const Series& b) { return a.points.size() > b.points.size(); });
  return all;
}

struct Model {
  std::optional<models::LinkFit> fit;
  std::string why;  // not
  std::optional<double> operator()(const Series& series, double bytes) const {
    const auto collective = models::collective_of(series.op);
    if (!fit || !collective) return std::nullopt;
    const double seconds =
        models::collective_work(*collective, models::Algorithm::kRing, series.ranks, bytes).seconds(fit->link);
    return seconds > 0 ? std::optional(series.factor * bytes / seconds) : std::nullopt;
  }
};

Model model_of(const RunView& run) {
  Model model;
  try {
    model.fit =
        models::fit_link(models::samples_of(models::measured_collectives(run.db, run.world)), models::Algorithm::kRing);
  } catch (const Error& error) {
    model.why = error.what();
  }
  return model;
}

std::string name_of(const Series& series) { return fmt::format("{}, {} ranks", shown_name(series.op), series.ranks); }

std::string caption_of(const std::vector<Series>& all, const Model& model) {
  const Series* best = &all.front();
  const Point* most = &all.front().points.front();
  const Point* furthest = nullptr;
  const Series* of_furthest = nullptr;
  for (const Series& series : all)
    for (const Point& point : series.points) {
      if (point.busbw > most->busbw) most = &point, best = &series;
      if (point.model && (furthest == nullptr || point.busbw / *point.model < furthest->busbw / *furthest->model))
        furthest = &point, of_furthest = &series;
    }
  std::string text = fmt::format("The highest bus bandwidth is {}, of {} with {}.", bandwidth_text(most->busbw),
                                 name_of(*best), size_text(std::llround(most->bytes)));
  if (furthest != nullptr && furthest->busbw < 0.8 * *furthest->model)
    text += fmt::format(" Furthest below the model is {} with {}: {} where it expects {}.", name_of(*of_furthest),
                        size_text(std::llround(furthest->bytes)), bandwidth_text(furthest->busbw),
                        bandwidth_text(*furthest->model));
  else if (furthest != nullptr)
    text += " No size lies more than 20% below the model.";
  if (!model.fit) text += fmt::format(" No model: {}.", model.why);
  return text;
}

Table data_of(const std::vector<Series>& all) {
  Table table{.columns = {{"op", "Collective", Unit::kText},
                          {"ranks", "Ranks", Unit::kCount},
                          {"bytes", "Bytes", Unit::kBytes},
                          {"busbw", "Busbw", Unit::kBandwidth},
                          {"model", "Model", Unit::kBandwidth}}};
  for (const Series& series : all)
    for (const Point& point : series.points)
      table.rows.push_back({Value::text(series.op), Value::count(series.ranks), Value::bytes(std::llround(point.bytes)),
                            Value::bandwidth(point.busbw),
                            point.model ? Value::bandwidth(*point.model) : Value::absent(Unit::kBandwidth)});
  return table;
}

}  // namespace

std::vector<Figure> bus_bandwidth(const RunView& run) {
  std::vector<Series> all = series_of(run);
  if (all.empty()) return {};
  const Model model = model_of(run);
  double least_bytes = INFINITY, most_bytes = 0, least = INFINITY, most = 0;
  for (Series& series : all)
    for (Point& point : series.points) {
      point.model = model(series, point.bytes);
      least_bytes = std::min(least_bytes, point.bytes), most_bytes = std::max(most_bytes, point.bytes);
      least = std::min({least, point.busbw, point.model.value_or(point.busbw)}),
      most = std::max({most, point.busbw, point.model.value_or(point.busbw)});
    }
  Figure figure{
      .id = "busbw", .title = "Bus bandwidth by size", .caption = caption_of(all, model), .data = data_of(all)};
  const size_t drawn = std::min(all.size(), kMarks);

  std::vector<MarkName> legend;
  for (size_t i = 0; i < drawn; ++i) legend.push_back({i, name_of(all[i])});
  const double top = mark_legend_height(legend) + 6, bottom = top + kBandwidthHeight;
  Chart chart(
      figure.id, figure.title,
      "Points: measured bus bandwidth over the size of the operation, both axes logarithmic. Dashed lines: what the model expects.",
      bottom + 40);
  const Scale x{.from = least_bytes / 2,
                .to = most_bytes * 2,
                .begin = kBandwidthLeft,
                .end = kBandwidthRight,
                .logarithmic = true};
  const Scale y{.from = least / 1.5, .to = most * 1.5, .begin = bottom, .end = top, .logarithmic = true};
  const double size_step = std::max(1.0, std::ceil(std::log2(x.to / x.from) / 8));
  for (double exponent = std::ceil(std::log2(x.from)); exponent <= std::log2(x.to); exponent += size_step) {
    chart.line(x(std::exp2(exponent)), top, x(std::exp2(exponent)), bottom + 4, "grid");
    chart.text(x(std::exp2(exponent)), bottom + 17, Anchor::kMiddle, size_text(std::llround(std::exp2(exponent))));
  }
  for (const double tick : log_ticks(y.from, y.to)) {
    chart.line(kBandwidthLeft - 4, y(tick), kBandwidthRight, y(tick), "grid");
    chart.text(kBandwidthLeft - 8, y(tick) + 4, Anchor::kEnd, bandwidth_text(tick));
  }
  chart.text((kBandwidthLeft + kBandwidthRight) / 2, bottom + 34, Anchor::kMiddle, "size of the operation");
  draw_mark_legend(chart, legend);
  for (size_t i = 0; i < drawn; ++i) {
    const Series& series = all[i];
    std::string curve;
    if (model(series, series.points.front().bytes) && series.points.size() > 1) {
      const double from = series.points.front().bytes, to = series.points.back().bytes;
      for (int k = 0; k <= 24; ++k) {
        const double bytes = from * std::pow(to / from, k / 24.0);
        const auto expected = model(series, bytes);
        if (expected)
          curve += fmt::format("{}{} {}", curve.empty() ? "M" : "L", coordinate(x(bytes)),
                               coordinate(y(std::clamp(*expected, y.from, y.to))));
      }
      chart.path(curve, "model");
    }
    for (const Point& point : series.points) {
      chart.begin_group(fmt::format("{}, {}: {}", name_of(series), size_text(std::llround(point.bytes)),
                                    bandwidth_text(point.busbw)));
      chart.mark(i, x(point.bytes), y(point.busbw));
      chart.end_group();
    }
  }
  figure.svg = chart.take();
  figure.reading =
      "From the median transfer time, waiting left out; the factor of nccl-tests makes operations comparable.";
  if (model.fit)
    figure.reading +=
        fmt::format(" Dashed: latency {} and bandwidth {}, fitted to these transfers as a ring (R2 {:.3f}).",
                    short_duration(std::llround(model.fit->link.alpha_s * 1e9)),
                    bandwidth_text(1 / model.fit->link.beta_s_per_byte), model.fit->r2);
  if (drawn < all.size()) figure.reading += fmt::format(" Drawn are the {} with most sizes; the table has all.", drawn);
  return {std::move(figure)};
}

}  // namespace ddl::reports::html
