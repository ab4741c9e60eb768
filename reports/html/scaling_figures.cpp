#include "reports/html/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "analyzer/models/printed.h"
#include "analyzer/models/scaling.h"
#include "reports/format.h"
#include "reports/html/bars.h"
#include "reports/html/chart.h"

namespace ddl::reports::html {
namespace {

using models::ScalingRow;

constexpr double kScalingLeft = 48, kScalingRight = kWidth - 24, kScalingHeight = 260;

using ScalingSeries = std::vector<ScalingRow>;

std::string size_name(double workers, const std::string& worker) {
  return fmt::format("{:g} {}{}", workers, worker, workers == 1 ? "" : "s");
}

std::string efficiency_text(double efficiency) { return models::half_up(efficiency, 2); }

std::string caption_of_one(const ScalingSeries& series, const std::string& worker) {
  const ScalingRow& last = series.back();
  std::string text =
      fmt::format("On {} each does {} of what it did at the base ({}).", size_name(last.point.workers, worker),
                  efficiency_text(last.efficiency.value), last.base);
  const ScalingRow* worst = nullptr;
  double before = 0, worst_before = 0;
  for (const ScalingRow& row : series) {
    if (row.incremental && (worst == nullptr || *row.incremental < *worst->incremental))
      worst = &row, worst_before = before;
    before = row.point.workers;
  }
  if (worst != nullptr && series.size() > 2)
    text += fmt::format(" Dearest is the growth from {:g} to {}: it keeps {}.", worst_before,
                        size_name(worst->point.workers, worker), percent_text(*worst->incremental));
  return text;
}

std::string caption_of(const std::vector<ScalingSeries>& all, const std::string& worker) {
  if (all.size() == 1) return caption_of_one(all.front(), worker);
  const auto less = [](const ScalingSeries& a, const ScalingSeries& b) {
    return a.back().efficiency.value < b.back().efficiency.value;
  };
  const auto [least, most] = std::minmax_element(all.begin(), all.end(), less);
  const auto end_of = [&](const ScalingSeries& series) {
    const ScalingRow& last = series.back();
    return fmt::format("{} ({} on {}, base {})", efficiency_text(last.efficiency.value), shown_name(last.point.series),
                       size_name(last.point.workers, worker), last.base);
  };
  return fmt::format("At their largest sizes {} series keep from {} to {}.", all.size(), end_of(*least), end_of(*most));
}

Table data_of(const std::vector<ScalingRow>& rows, const std::string& worker) {
  Table table{.columns = {{"series", "Series", Unit::kText},
                          {"workers", worker + "s", Unit::kReal},
                          {"efficiency", "Efficiency", Unit::kEfficiency},
                          {"from", "From", Unit::kEfficiency},
                          {"to", "To", Unit::kEfficiency},
                          {"base", "Base", Unit::kText}}};
  for (const ScalingRow& row : rows)
    table.rows.push_back({Value::text(row.point.series), Value::real(row.point.workers),
                          Value::efficiency(row.efficiency.value), Value::efficiency(row.efficiency.lo),
                          Value::efficiency(row.efficiency.hi), Value::text(row.base)});
  return table;
}

// Sizes that were measured, as far as their numbers have room.
void draw_size_axis(Chart& chart, const std::vector<ScalingRow>& rows, const Scale& x, double bottom) {
  std::vector<double> sizes;
  for (const ScalingRow& row : rows) sizes.push_back(row.point.workers);
  std::sort(sizes.begin(), sizes.end());
  double free_from = 0;
  for (const double size : sizes) {
    const std::string text = fmt::format("{:g}", size);
    const double half = 4 * static_cast<double>(text.size());
    if (x(size) - half < free_from) continue;
    chart.line(x(size), bottom, x(size), bottom + 4, "axis");
    chart.text(x(size), bottom + 17, Anchor::kMiddle, text);
    free_from = x(size) + half + 8;
  }
}

Figure efficiency_figure(const std::vector<ScalingRow>& rows, const std::string& worker) {
  std::vector<ScalingSeries> all = models::by_series(rows);
  std::stable_sort(all.begin(), all.end(),
                   [](const ScalingSeries& a, const ScalingSeries& b) { return a.size() > b.size(); });
  Figure figure{.id = "scaling",
                .title = "Efficiency by size",
                .caption = caption_of(all, worker),
                .data = data_of(rows, worker)};
  const size_t drawn = std::min(all.size(), kMarks);
  double least = INFINITY, most = 0, highest = 1;
  for (const ScalingRow& row : rows) {
    least = std::min(least, row.point.workers), most = std::max(most, row.point.workers);
    highest = std::max({highest, row.efficiency.value, row.efficiency.hi});
  }
  const bool named = all.size() > 1;
  std::vector<MarkName> legend;
  for (size_t i = 0; named && i < drawn; ++i) legend.push_back({i, shown_name(all[i].front().point.series)});
  const double top = mark_legend_height(legend) + 6, bottom = top + kScalingHeight;
  Chart chart(
      figure.id, figure.title,
      fmt::format("Efficiency over the number of {}s, on a logarithmic axis. The dashed line is the ideal, 1.", worker),
      bottom + 40);
  const Scale x{
      .from = least / 1.15, .to = most * 1.15, .begin = kScalingLeft, .end = kScalingRight, .logarithmic = true};
  const Scale y{.from = 0, .to = highest * 1.06, .begin = bottom, .end = top};
  for (const double tick : round_ticks(y.from, y.to, 6)) {
    chart.line(kScalingLeft - 4, y(tick), kScalingRight, y(tick), "grid");
    chart.text(kScalingLeft - 8, y(tick) + 4, Anchor::kEnd, fmt::format("{:g}", tick));
  }
  draw_size_axis(chart, rows, x, bottom);
  chart.text((kScalingLeft + kScalingRight) / 2, bottom + 34, Anchor::kMiddle, worker + "s");
  chart.line(kScalingLeft, y(1), kScalingRight, y(1), "model");
  chart.text(kScalingRight, y(1) - 5, Anchor::kEnd, "ideal");
  draw_mark_legend(chart, legend);
  for (size_t i = 0; i < drawn; ++i) {
    const std::string name = named ? legend[i].name + ", " : "";
    std::string d;
    for (const ScalingRow& row : all[i])
      d += fmt::format("{}{} {}", d.empty() ? "M" : "L", coordinate(x(row.point.workers)),
                       coordinate(y(row.efficiency.value)));
    chart.path(d, "line");
    for (const ScalingRow& row : all[i]) {
      chart.begin_group(fmt::format("{}{}: {} ({} to {})", name, size_name(row.point.workers, worker),
                                    efficiency_text(row.efficiency.value), efficiency_text(row.efficiency.lo),
                                    efficiency_text(row.efficiency.hi)));
      chart.line(x(row.point.workers), y(row.efficiency.lo), x(row.point.workers), y(row.efficiency.hi), "axis");
      chart.mark(i, x(row.point.workers), y(row.efficiency.value));
      chart.end_group();
    }
  }
  figure.svg = chart.take();
  figure.reading =
      "Throughput against that of the base, over the ratio of sizes. Upright lines: as certain as the numbers are.";
  if (drawn < all.size())
    figure.reading += fmt::format(" Drawn are the {} series with most sizes; the table has all.", drawn);
  return figure;
}

struct StepPart {
  const char* key;
  const char* name;
  const char* css;  // as in the figures of a run
  double models::StepParts::*seconds;
};
constexpr std::array<StepPart, 5> kParts = {{{"compute_ns", "compute", "c0", &models::StepParts::compute_s},
                                             {"transfer_ns", "exposed transfer", "c2", &models::StepParts::transfer_s},
                                             {"wait_ns", "waiting for others", "c3", &models::StepParts::wait_s},
                                             {"copy_ns", "exposed copies", "c5", &models::StepParts::copy_s},
                                             {"idle_ns", "idle", "c6", &models::StepParts::idle_s}}};

// The largest run's loss, and the part of it that weighs most.
std::string loss_text(const std::vector<ScalingRow>& rows, const std::string& worker) {
  const auto largest =
      std::find_if(rows.rbegin(), rows.rend(), [](const ScalingRow& row) { return row.loss && row.incremental; });
  if (largest == rows.rend()) return "";
  const models::LossSplit& loss = *largest->loss;
  const std::pair<const char*, double> parts[] = {{"transfer", loss.transfer},
                                                  {"waiting for others", loss.wait},
                                                  {"copies", loss.copy},
                                                  {"idling", loss.idle},
                                                  {"computing longer", loss.compute}};
  const auto* most = std::max_element(std::begin(parts), std::end(parts),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
  const double lost = loss.transfer + loss.wait + loss.copy + loss.idle + loss.compute;
  if (!(lost > 0))
    return fmt::format("On {} a step loses nothing against the base.", size_name(largest->point.workers, worker));
  return fmt::format("On {} a step loses {} against the base, most of it to {}: {}.",
                     size_name(largest->point.workers, worker), percent_text(lost), most->first,
                     percent_text(most->second));
}

Figure parts_figure(const std::vector<ScalingRow>& rows, const std::string& worker) {
  Figure figure{
      .id = "scaling-parts",
      .title = "Where a step goes, by size",
      .caption = loss_text(rows, worker),
      .reading = "Means over ranks and steady steps. Under weak scaling every bar would be as long as the first."};
  Bars bars{.id = figure.id,
            .title = figure.title,
            .description = "A bar for each run, cut into what a step went for.",
            .heading = worker + "s"};
  figure.data.columns = {{"run", "Run", Unit::kText}, {"workers", worker + "s", Unit::kReal}};
  for (const StepPart& part : kParts) {
    bars.parts.push_back({part.name, part.css});
    figure.data.columns.push_back({part.key, part.name, Unit::kDuration});
  }
  for (const ScalingRow& row : rows) {
    if (!row.point.parts) continue;
    Bar& bar = bars.bars.emplace_back(Bar{.name = fmt::format("{:g}", row.point.workers)});
    auto& cells =
        figure.data.rows.emplace_back(std::vector<Value>{Value::text(row.point.label), Value::real(row.point.workers)});
    for (const StepPart& part : kParts) {
      const double ns = std::max(0.0, (*row.point.parts).*part.seconds * 1e9);
      bar.parts_ns.push_back(ns);
      cells.push_back(Value::duration_ns(std::llround(ns)));
    }
  }
  figure.svg = draw_bars(bars);
  return figure;
}

}  // namespace

std::vector<Figure> scaling_figures(const std::vector<ScalingRow>& rows, const std::string& worker) {
  std::vector<Figure> figures = {efficiency_figure(rows, worker)};
  if (std::any_of(rows.begin(), rows.end(), [](const ScalingRow& row) { return row.point.parts.has_value(); }))
    figures.push_back(parts_figure(rows, worker));
  return figures;
}

}  // namespace ddl::reports::html
