// Lanes of a step as a drawing: time from left to right, a rank a row.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/html/chart.h"
#include "reports/html/step_lanes.h"

namespace ddl::reports::html {

struct LaneStyle {
  bool phases = false;  ///< forward and backward apart
  const char* waiting = "waiting for others";
  const char* heading = "rank";
};

constexpr double kLaneHeight = 22;

/// The legend of draw_lanes(); with the path's line if `path`.
std::vector<LegendItem> lane_legend(const LaneStyle& style, std::span<const Lane* const> lanes, bool path);

/// Draws the lanes in the order given, from `top` on, and outlines the parts of `path` that lie on them. `x` maps ns since `origin_ns`.
void draw_lanes(Chart& chart, const LaneStyle& style, std::span<const Lane* const> lanes, const std::vector<std::string>& names,
                const std::vector<PathPart>& path, int64_t origin_ns, const Scale& x, double top);

}  // namespace ddl::reports::html
