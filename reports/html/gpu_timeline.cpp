// The median and the worst steady step on the time axis of the GPUs: when each one computed, communicated, copied,
// and idled (blank).
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/query.h"
#include "reports/format.h"
#include "reports/html/chart.h"
#include "reports/html/draw_lanes.h"
#include "reports/html/figure.h"
#include "reports/html/step_lanes.h"

namespace ddl::reports::html {
namespace {

constexpr size_t kMostGpuLanes = 16;
constexpr double kGpuTimelineLeft = 72, kGpuTimelineRight = kWidth - 28;

struct Gpu {
  int64_t rank = 0, process = 0, device = 0;
  Interval window;
};

struct GpuPanel {
  const char* which;  // median, worst
  int64_t step = 0;
  Interval window;
  std::vector<Gpu> gpus;
  std::vector<Lane> lanes;
};

// Steady steps of which some GPU has a partition, by their length on the slowest rank.
std::vector<int64_t> steps_with_gpus(const RunView& run) {
  Query row(
      run.db,
      "SELECT s.step FROM steady_step s WHERE s.world = ?1 AND s.annotated AND s.step IN (SELECT g.step FROM gpu_part g JOIN "
      "process p ON p.id = g.process"
      " WHERE p.world = ?1) ORDER BY s.longest_ns, s.step");
  row.bind(run.world);
  std::vector<int64_t> steps;
  while (row.next()) steps.push_back(row.integer(0));
  return steps;
}

GpuPanel panel_of(const RunView& run, const char* which, int64_t step) {
  GpuPanel panel{which, step, {INT64_MAX, INT64_MIN}, {}, {}};
  Query row(
      run.db,
      "SELECT p.rank, p.id, g.device, s.start_ns, s.start_ns + g.duration_ns FROM gpu_part g JOIN process p ON p.id = g.process JOIN "
      "step s ON s.process = p.id AND"
      " s.step = g.step AND s.measured WHERE p.world = ? AND p.rank IS NOT NULL AND g.step = ? ORDER BY p.rank, g.device");
  row.bind(run.world, step);
  while (row.next()) {
    panel.gpus.push_back({row.integer(0), row.integer(1), row.integer(2), {row.integer(3), row.integer(4)}});
    panel.window = {std::min(panel.window.begin_ns, row.integer(3)), std::max(panel.window.end_ns, row.integer(4))};
  }
  return panel;
}

Lane lane_of(const RunView& run, const Gpu& gpu) {
  std::vector<Interval> compute, comm, copies, waits, known;
  // what began before the step may run into it
  const int64_t earliest_ns = gpu.window.begin_ns - gpu.window.length_ns();
  Query row(
      run.db,
      "SELECT g.start_ns, g.duration_ns, g.kind, g.comm IS NOT NULL OR n.class = 'communication' FROM gpu_event g JOIN gpu_name n ON "
      "n.id = g.name"
      " WHERE g.process = ? AND g.start_ns BETWEEN ? AND ? AND g.device = ? AND g.kind IN (1, 2, 3)");
  row.bind(gpu.process, earliest_ns, gpu.window.end_ns, gpu.device);
  while (row.next())
    (row.integer(2) != 1   ? copies
     : row.integer(3) != 0 ? comm
                           : compute)
        .push_back({row.integer(0), row.integer(0) + row.integer(1)});
  Query collective(
      run.db,
      "SELECT e.start_ns, e.duration_ns, k.wait_ns FROM event e JOIN collective k ON k.event = e.id WHERE e.process = ? AND "
      "e.start_ns BETWEEN ? AND ? AND"
      " e.kind = 4 AND k.wait_ns IS NOT NULL AND EXISTS (SELECT 1 FROM nccl_collective n JOIN gpu_event g ON g.process = "
      "e.process AND g.start_ns = n.kernel_start_ns AND g.comm = e.comm AND g.comm_rank IS n.comm_rank WHERE n.event = e.id"
      " AND g.device = ?)");
  collective.bind(gpu.process, earliest_ns, gpu.window.end_ns, gpu.device);
  while (collective.next()) {
    known.push_back({collective.integer(0), collective.integer(0) + collective.integer(1)});
    waits.push_back({collective.integer(0), collective.integer(0) + collective.integer(2)});
  }

  Lane lane;
  lane.rank = gpu.rank;
  lane.window = gpu.window;
  const IntervalSet inside({gpu.window}), all_compute = intersect(IntervalSet(compute), inside),
                                          all_comm = intersect(IntervalSet(comm), inside);
  const IntervalSet exposed = subtract(all_comm, all_compute), split = intersect(exposed, IntervalSet(known));
  lane.overlap = intersect(all_compute, all_comm);
  lane.compute = subtract(all_compute, lane.overlap);
  lane.wait = intersect(split, IntervalSet(waits));
  lane.transfer = subtract(split, lane.wait);
  lane.unsplit = subtract(exposed, split);
  lane.copy = subtract(subtract(intersect(IntervalSet(copies), inside), all_compute), all_comm);
  return lane;
}

int64_t busy_ns(const Lane& lane) {
  return lane.compute.length_ns() + lane.overlap.length_ns() + lane.transfer.length_ns() + lane.wait.length_ns() +
         lane.unsplit.length_ns() + lane.copy.length_ns();
}

std::string name_of(const Gpu& gpu) { return fmt::format("{}/{}", gpu.rank, gpu.device); }

std::string caption_of(const GpuPanel& panel) {
  int64_t busy = 0, all_ns = 0, compute_ns = 0;
  for (const Lane& lane : panel.lanes) {
    busy += busy_ns(lane), all_ns += lane.window.length_ns();
    compute_ns += lane.compute.length_ns() + lane.overlap.length_ns();
  }
  const auto percent = [&](int64_t ns) {
    return percent_text(static_cast<double>(ns) / static_cast<double>(std::max<int64_t>(all_ns, 1)));
  };
  return fmt::format(
      "The {} step (step {}) takes {} from its first begin to its last end; GPUs compute {} of it and idle {}.",
      panel.which, panel.step, short_duration(panel.window.length_ns()), percent(compute_ns), percent(all_ns - busy));
}

}  // namespace

std::vector<Figure> gpu_timeline(const RunView& run) {
  const std::vector<int64_t> steps = steps_with_gpus(run);
  if (steps.empty()) return {};
  Figure figure{
      .id = "gpu-timeline", .title = "The median and the worst step in time, on GPUs", .reading = "Blank: idle."};
  figure.data = {
      .columns = {{"which", "Which", Unit::kText}, {"step", "Step", Unit::kCount}, {"gpu", "Rank/GPU", Unit::kText}}};
  const LaneStyle style = style_of_gpus();
  for (const LaneLayer& layer : style.layers) figure.data.columns.push_back({layer.css, layer.name, Unit::kDuration});
  figure.data.columns.push_back({"idle_ns", "Idle", Unit::kDuration});
  const int64_t median = steps[(steps.size() - 1) / 2], worst = steps.back();
  std::vector<GpuPanel> panels = {panel_of(run, "median", median)};
  if (worst != median) panels.push_back(panel_of(run, "worst", worst));
  std::vector<const Lane*> all;
  int64_t longest_ns = 1;
  double height = 0;
  for (GpuPanel& panel : panels) {
    const size_t gpus = panel.gpus.size(), every = std::max<size_t>(1, (gpus + kMostGpuLanes - 1) / kMostGpuLanes);
    if (every > 1) figure.reading = fmt::format("Blank: idle. Every {}th of {} GPUs.", every, gpus);
    std::vector<Gpu> shown;
    for (size_t i = 0; i < gpus; i += every) shown.push_back(panel.gpus[i]);
    panel.gpus = std::move(shown);
    for (const Gpu& gpu : panel.gpus) {
      const Lane& lane = panel.lanes.emplace_back(lane_of(run, gpu));
      auto& cells = figure.data.rows.emplace_back(
          std::vector<Value>{Value::text(panel.which), Value::count(panel.step), Value::text(name_of(gpu))});
      for (const LaneLayer& layer : style.layers) cells.push_back(Value::duration_ns((lane.*layer.parts).length_ns()));
      cells.push_back(Value::duration_ns(lane.window.length_ns() - busy_ns(lane)));
    }
    longest_ns = std::max(longest_ns, panel.window.length_ns());
    height += 70 + kLaneHeight * static_cast<double>(panel.gpus.size());
    figure.caption += (figure.caption.empty() ? "" : " ") + caption_of(panel);
  }
  figure.caption += clock_note(run);
  for (const GpuPanel& panel : panels)
    for (const Lane& lane : panel.lanes) all.push_back(&lane);
  if (all.empty()) return {};

  const std::vector<LegendItem> legend = lane_legend(style, all, false);
  Chart chart(figure.id, figure.title,
              "A lane for each GPU, time from left to right: when it computed, communicated and copied.",
              legend_height(legend) + height);
  double y = draw_legend(chart, 0, legend);
  const Scale x{.from = 0, .to = static_cast<double>(longest_ns), .begin = kGpuTimelineLeft, .end = kGpuTimelineRight};
  int64_t gap_ns = 0;
  for (const GpuPanel& panel : panels) {
    chart.text(0, y + 14, Anchor::kStart, fmt::format("{} step: {}", panel.which, panel.step), "strong");
    std::vector<const Lane*> lanes;
    std::vector<std::string> names;
    for (const Lane& lane : panel.lanes) lanes.push_back(&lane);
    for (const Gpu& gpu : panel.gpus) names.push_back(name_of(gpu));
    gap_ns = std::max(gap_ns, draw_lanes(chart, style, lanes, names, {}, panel.window.begin_ns, x, y + 40));
    y += 70 + kLaneHeight * static_cast<double>(lanes.size());
  }
  figure.svg = chart.take();
  figure.reading += fmt::format(" Gaps below {} are not drawn; the shares count them.", short_duration(gap_ns));
  return {std::move(figure)};
}

}  // namespace ddl::reports::html
