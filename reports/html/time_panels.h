// Numbers over the time of the run, one panel below the other on one axis: the mean of each span of time (or what it was at most) as an area,
// and what it was at most as a line.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/html/chart.h"
#include "reports/time_bins.h"

namespace ddl::reports::html {

/// What a page has room for; the numbers of all others are in the figure's table.
constexpr size_t kMostTimePanels = 6;

struct TimePanel {
  std::string name;
  TimeBins* area = nullptr;
  TimeBins* line = nullptr;    ///< may be that of the area
  std::optional<double> mark;  ///< a level to compare with, dashed
};

struct TimePanelStyle {
  const char* css;    ///< of the areas
  bool area_is_most;  ///< else the mean
  std::vector<LegendItem> legend;
  std::function<std::string(double)> text;  ///< of a number at the axis
};

/// The drawing, and how long a span of it is.
struct TimeDrawing {
  std::string svg;
  int64_t span_ns = 0;
};
TimeDrawing draw_time_panels(std::string_view id, std::string_view title, std::string_view description, const TimePanelStyle& style,
                             const std::vector<TimePanel>& panels);

}  // namespace ddl::reports::html
