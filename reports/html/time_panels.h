// Numbers over the time of the run, in panels below each other on one axis: mean or maximum of each span.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/html/chart.h"
#include "reports/time_bins.h"

namespace ddl::reports::html {

/// Room on a page; the figure's table has the other numbers.
constexpr size_t kMostTimePanels = 6;

/// Drawn over the earlier ones.
struct TimeLayer {
  TimeBins* bins;
  const char* css;  ///< of an area, or "line"
  bool is_most;     ///< else the mean
};

struct TimePanel {
  std::string name;
  std::vector<TimeLayer> layers;
  std::optional<double> mark;  ///< a level to compare with, dashed
};

struct TimePanelStyle {
  std::vector<LegendItem> legend;
  std::function<std::string(double)> text;  ///< formats a number at the axis
};

/// The most of one number, and before it the mean.
std::vector<TimeLayer> most_and_mean(TimeBins& bins);
std::vector<LegendItem> legend_of_most_and_mean();

/// The drawing, and the length of a span.
struct TimeDrawing {
  std::string svg;
  int64_t span_ns = 0;
};
TimeDrawing draw_time_panels(std::string_view id, std::string_view title, std::string_view description,
                             const TimePanelStyle& style, const std::vector<TimePanel>& panels);

}  // namespace ddl::reports::html
