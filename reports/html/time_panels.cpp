#include "reports/html/time_panels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "reports/format.h"

namespace ddl::reports::html {
namespace {

constexpr double kPanelLeft = 72, kPanelRight = kWidth - 24, kPanelHeight = 62, kPanelPitch = kPanelHeight + 34;

/// Stairs over the bins that are known: left open, or closed at `bottom`.
std::string stairs(const TimeBins& bins, bool most, const Scale& x, const Scale& y, std::optional<double> bottom) {
  std::string d;
  double before = 0, end = 0;
  bool is_drawing = false;
  const auto lift = [&] {
    if (!is_drawing) return;
    d += fmt::format("H{}", coordinate(end));
    if (bottom) d += fmt::format("V{}z", coordinate(*bottom));
    is_drawing = false;
  };
  for (size_t i = 0; i < bins.bins().size(); ++i) {
    const TimeBins::Bin& bin = bins.bins()[i];
    if (!bin.seen) {
      lift();
      continue;
    }
    const double from = x(static_cast<double>(bins.begin_ns() + static_cast<int64_t>(i) * bins.width_ns())),
                 height = y(most ? bin.most : bin.mean());
    end = x(static_cast<double>(bins.begin_ns() + static_cast<int64_t>(i + 1) * bins.width_ns()));
    if (!is_drawing && bottom) {
      d += fmt::format("M{} {}V{}", coordinate(from), coordinate(*bottom), coordinate(height));
    } else if (!is_drawing) {
      d += fmt::format("M{} {}", coordinate(from), coordinate(height));
    } else if (coordinate(height) != coordinate(before)) {
      d += fmt::format("H{}V{}", coordinate(from), coordinate(height));
    }
    is_drawing = true;
    before = height;
  }
  lift();
  return d;
}

}  // namespace

std::vector<TimeLayer> most_and_mean(TimeBins& bins) { return {{&bins, "c6", true}, {&bins, "c0", false}}; }

std::vector<LegendItem> legend_of_most_and_mean() { return {{"c0", "mean"}, {"c6", "most"}}; }

TimeDrawing draw_time_panels(std::string_view id, std::string_view title, std::string_view description,
                             const TimePanelStyle& style, const std::vector<TimePanel>& panels) {
  std::set<TimeBins*> drawn;
  for (const TimePanel& panel : panels)
    for (const TimeLayer& layer : panel.layers) drawn.insert(layer.bins);
  const std::vector<TimeBins*> all(drawn.begin(), drawn.end());
  TimeBins::align(all);
  int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
  for (const TimeBins* bins : all)
    begin_ns = std::min(begin_ns, bins->begin_ns()), end_ns = std::max(end_ns, bins->end_ns());
  const Scale x{.from = static_cast<double>(begin_ns),
                .to = static_cast<double>(end_ns),
                .begin = kPanelLeft,
                .end = kPanelRight};
  const double top = legend_height(style.legend);
  Chart chart(id, title, description, top + kPanelPitch * static_cast<double>(panels.size()) + 36);
  draw_legend(chart, 0, style.legend);
  double bottom = top;
  for (const TimePanel& panel : panels) {
    double least = 0, most = panel.mark.value_or(0);
    for (const TimeLayer& layer : panel.layers)
      for (const TimeBins::Bin& bin : layer.bins->bins()) {
        if (!bin.seen) continue;
        const double value = layer.is_most ? bin.most : bin.mean();
        least = std::min(least, value), most = std::max(most, value);
      }
    if (most <= least) most = least + 1;
    const double panel_top = bottom + 24;
    bottom = panel_top + kPanelHeight;
    const Scale y{.from = least, .to = most, .begin = bottom, .end = panel_top};
    chart.text(kPanelLeft, panel_top - 7, Anchor::kStart, panel.name, "strong");
    for (const double tick : round_ticks(x.from, x.to, 6)) chart.line(x(tick), panel_top, x(tick), bottom + 4, "grid");
    chart.line(kPanelLeft - 4, y(most), kPanelRight, y(most), "grid");
    chart.text(kPanelLeft - 8, y(most) + 5, Anchor::kEnd, style.text(most));
    chart.text(kPanelLeft - 8, y(0) + 4, Anchor::kEnd, "0");
    for (const TimeLayer& layer : panel.layers) {
      const bool is_line = layer.css == std::string_view("line");
      chart.path(stairs(*layer.bins, layer.is_most, x, y, is_line ? std::nullopt : std::optional(y(0))), layer.css);
    }
    chart.line(kPanelLeft - 4, y(0), kPanelRight, y(0), "axis");
    if (panel.mark) chart.line(kPanelLeft, y(*panel.mark), kPanelRight, y(*panel.mark), "model");
    bottom += 10;
  }
  for (const double tick : round_ticks(x.from, x.to, 6))
    chart.text(x(tick), bottom + 9, Anchor::kMiddle, tick == 0 ? "0" : short_duration(std::llround(tick)));
  chart.text((kPanelLeft + kPanelRight) / 2, bottom + 27, Anchor::kMiddle, "time of the run");
  return {chart.take(), all.front()->width_ns()};
}

}  // namespace ddl::reports::html
