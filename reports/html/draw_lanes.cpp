#include "reports/html/draw_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace ddl::reports::html {
namespace {

constexpr double kLaneGap = 4;        // between lanes
constexpr double kFinest = 0.25;      // gaps that are drawn, in units of the drawing, and boxes so wide ...
constexpr size_t kMostBoxes = 1'500;  // ... unless there would be more: then twice as wide ones

// All parts as boxes of one path; parts of one kind with a gap below `smallest` are one box, and narrower
// boxes are left out.
size_t append_boxes(std::string& d, const IntervalSet& parts, int64_t origin_ns, const Scale& x, double y,
                    double height, double smallest) {
  size_t boxes = 0;
  double begin = 0, end = -1;
  const auto flush = [&] {
    if (end - begin < smallest / 2) return;
    d += fmt::format("M{} {}h{}v{}h-{}z", coordinate(begin), coordinate(y), coordinate(end - begin), coordinate(height),
                     coordinate(end - begin));
    ++boxes;
  };
  for (const Interval& part : parts.parts()) {
    const double from = x(static_cast<double>(part.begin_ns - origin_ns)),
                 to = x(static_cast<double>(part.end_ns - origin_ns));
    if (end >= begin && from - end < smallest) {
      end = to;
      continue;
    }
    flush();
    begin = from, end = to;
  }
  flush();
  return boxes;
}

void draw_path(Chart& chart, const std::map<int64_t, size_t>& rows, const std::vector<PathPart>& path,
               int64_t origin_ns, const Scale& x, double top) {
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
    const double y = top + static_cast<double>(row->second) * kLaneHeight + (kLaneHeight - kLaneGap) / 2;
    const double from = x(static_cast<double>(part.interval.begin_ns - origin_ns)),
                 to = x(static_cast<double>(part.interval.end_ns - origin_ns));
    if (to - from < kFinest) continue;
    if (before == row->second && from - end < kFinest) {
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

LaneStyle style_of_ranks() {
  return {"rank",
          {{"compute", "c0", &Lane::compute},
           {"transfer", "c2", &Lane::transfer},
           {"waiting for others", "c3", &Lane::wait},
           {"in calls, waiting not known", "c4", &Lane::unsplit}}};
}

LaneStyle style_of_gpus() {
  return {"rank/GPU",
          {{"compute", "c0", &Lane::compute},
           {"compute and communication", "c1", &Lane::overlap},
           {"exposed transfer", "c2", &Lane::transfer},
           {"waiting for others", "c3", &Lane::wait},
           {"exposed, waiting not known", "c4", &Lane::unsplit},
           {"exposed copies", "c5", &Lane::copy}}};
}

LaneStyle style_of_stages(bool phases) {
  LaneStyle style = style_of_ranks();
  style.heading = "stage";
  style.layers[2].name = "bubble: waiting for other stages";
  if (phases) {
    style.layers[0].name = "forward and other computing";
    style.layers.insert(style.layers.begin() + 1, {"backward", "c1", &Lane::backward});
  }
  return style;
}

std::vector<LegendItem> lane_legend(const LaneStyle& style, std::span<const Lane* const> lanes, bool path) {
  std::vector<LegendItem> legend;
  for (const LaneLayer& layer : style.layers)
    if (std::any_of(lanes.begin(), lanes.end(), [&](const Lane* lane) { return !(lane->*layer.parts).empty(); }))
      legend.push_back({layer.css, layer.name});
  if (path) legend.push_back({"ink", "critical path"});
  return legend;
}

int64_t draw_lanes(Chart& chart, const LaneStyle& style, std::span<const Lane* const> lanes,
                   const std::vector<std::string>& names, const std::vector<PathPart>& path, int64_t origin_ns,
                   const Scale& x, double top) {
  chart.text(x.begin - 8, top - 5, Anchor::kEnd, style.heading);
  draw_time_axis(chart, x, top, top + kLaneHeight * static_cast<double>(lanes.size()));
  std::map<int64_t, size_t> rows;
  for (size_t i = 0; i < lanes.size(); ++i) {
    rows[lanes[i]->rank] = i;
    chart.text(x.begin - 8, top + static_cast<double>(i) * kLaneHeight + 14, Anchor::kEnd, names[i]);
  }
  std::vector<std::string> paths(style.layers.size());
  double smallest = kFinest;
  for (;; smallest *= 2) {
    size_t boxes = 0;
    for (size_t l = 0; l < paths.size(); ++l) {
      paths[l].clear();
      for (size_t i = 0; i < lanes.size(); ++i)
        boxes += append_boxes(paths[l], lanes[i]->*style.layers[l].parts, origin_ns, x,
                              top + static_cast<double>(i) * kLaneHeight + 1, kLaneHeight - kLaneGap - 2, smallest);
    }
    if (boxes <= kMostBoxes) break;
  }
  for (size_t l = 0; l < paths.size(); ++l)
    if (!paths[l].empty()) chart.path(paths[l], style.layers[l].css);
  draw_path(chart, rows, path, origin_ns, x, top);
  return std::llround(smallest / (x.end - x.begin) * (x.to - x.from));
}

}  // namespace ddl::reports::html
