// Lanes of a step as a drawing: time from left to right, a rank a row.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/html/chart.h"
#include "reports/html/step_lanes.h"

namespace ddl::reports::html {

/// What is drawn of a lane, in the order of drawing.
struct LaneLayer {
  const char* name;
  const char* css;
  IntervalSet Lane::*parts;
};

struct LaneStyle {
  const char* heading;  ///< above the names of the lanes
  std::vector<LaneLayer> layers;
};
LaneStyle style_of_ranks();
LaneStyle style_of_gpus();
/// `phases`: forward and backward apart.
LaneStyle style_of_stages(bool phases);

constexpr double kLaneHeight = 22;

/// The legend of draw_lanes(); with the path's line if `path`.
std::vector<LegendItem> lane_legend(const LaneStyle& style, std::span<const Lane* const> lanes, bool path);

/// Draws the lanes in the order given, from `top` on, and outlines the parts of `path` that lie on them. `x` maps
/// ns since `origin_ns`. Returns the time below which gaps are not drawn: as short as can be seen, or longer where
/// there are too many.
int64_t draw_lanes(Chart& chart, const LaneStyle& style, std::span<const Lane* const> lanes,
                   const std::vector<std::string>& names, const std::vector<PathPart>& path, int64_t origin_ns,
                   const Scale& x, double top);

}  // namespace ddl::reports::html
