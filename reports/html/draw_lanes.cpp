#include "reports/html/draw_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace ddl::reports::html {
namespace {

constexpr double kGap = 4;          // between lanes
constexpr double kSmallest = 0.25;  // closer parts of one kind are drawn as one, thinner ones not at all
constexpr double kLeastLength = 0.15;

// All parts as boxes of one path; what is closer than kSmallest melts.
void append_boxes(std::string& d, const IntervalSet& parts, int64_t origin_ns, const Scale& x, double y, double height) {
  double begin = 0, end = -1;
  const auto flush = [&] {
    if (end - begin >= kLeastLength)
      d += fmt::format("M{} {}h{}v{}h-{}z", coordinate(begin), coordinate(y), coordinate(end - begin), coordinate(height),
                       coordinate(end - begin));
  };
  for (const Interval& part : parts.parts()) {
    const double from = x(static_cast<double>(part.begin_ns - origin_ns)), to = x(static_cast<double>(part.end_ns - origin_ns));
    if (end >= begin && from - end < kSmallest) {
      end = to;
      continue;
    }
    flush();
    begin = from, end = to;
  }
  flush();
}

struct Layer {
  const char* name;
  const char* css;
  IntervalSet Lane::*parts;
};

std::vector<Layer> layers_of(const LaneStyle& style) {
  std::vector<Layer> layers = {{style.phases ? "forward and other computing" : "compute", "c0", &Lane::compute}};
  if (style.phases) layers.push_back({"backward", "c1", &Lane::backward});
  layers.push_back({"transfer", "c2", &Lane::transfer});
  layers.push_back({style.waiting, "c3", &Lane::wait});
  layers.push_back({"in MPI, waiting not known", "c4", &Lane::unsplit});
  return layers;
}

void draw_path(Chart& chart, const std::map<int64_t, size_t>& rows, const std::vector<PathPart>& path, int64_t origin_ns, const Scale& x,
               double top) {
  std::string d;
  double end = 0;
  const size_t nowhere = rows.size();
  size_t before = nowhere;
  for (const PathPart& part : path) {
    const auto row = rows.find(part.rank);
    if (row == rows.end()) {
      before = nowhere;
      continue;
    }
    const double y = top + static_cast<double>(row->second) * kLaneHeight + (kLaneHeight - kGap) / 2;
    const double from = x(static_cast<double>(part.interval.begin_ns - origin_ns)),
                 to = x(static_cast<double>(part.interval.end_ns - origin_ns));
    if (before == row->second && from - end < kSmallest) {
      end = to;
      continue;
    }
    if (before != nowhere) d += fmt::format("H{}", coordinate(end));
    d += fmt::format("{}{} {}", before == nowhere ? "M" : "L", coordinate(from), coordinate(y));
    before = row->second, end = to;
  }
  if (before != nowhere) d += fmt::format("H{}", coordinate(end));
  if (d.empty()) return;
  chart.path(d, "critical halo");
  chart.path(d, "critical");
}

}  // namespace

std::vector<LegendItem> lane_legend(const LaneStyle& style, std::span<const Lane* const> lanes, bool path) {
  std::vector<LegendItem> legend;
  for (const Layer& layer : layers_of(style))
    if (std::any_of(lanes.begin(), lanes.end(), [&](const Lane* lane) { return !(lane->*layer.parts).empty(); }))
      legend.push_back({layer.css, layer.name});
  if (path) legend.push_back({"ink", "critical path"});
  return legend;
}

void draw_lanes(Chart& chart, const LaneStyle& style, std::span<const Lane* const> lanes, const std::vector<std::string>& names,
                const std::vector<PathPart>& path, int64_t origin_ns, const Scale& x, double top) {
  chart.text(x.begin - 8, top - 5, Anchor::kEnd, style.heading);
  draw_time_axis(chart, x, top, top + kLaneHeight * static_cast<double>(lanes.size()));
  std::map<int64_t, size_t> rows;
  for (size_t i = 0; i < lanes.size(); ++i) {
    rows[lanes[i]->rank] = i;
    chart.text(x.begin - 8, top + static_cast<double>(i) * kLaneHeight + 14, Anchor::kEnd, names[i]);
  }
  for (const Layer& layer : layers_of(style)) {
    std::string d;
    for (size_t i = 0; i < lanes.size(); ++i)
      append_boxes(d, lanes[i]->*layer.parts, origin_ns, x, top + static_cast<double>(i) * kLaneHeight + 1, kLaneHeight - kGap - 2);
    if (!d.empty()) chart.path(d, layer.css);
  }
  draw_path(chart, rows, path, origin_ns, x, top);
}

}  // namespace ddl::reports::html
