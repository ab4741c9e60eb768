// The median and the worst steady step on one time axis, lanes by rank, with the critical path: what the
// step's end waited for.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/query.h"
#include "reports/format.h"
#include "reports/html/chart.h"
#include "reports/html/draw_lanes.h"
#include "reports/html/figure.h"
#include "reports/html/step_lanes.h"

namespace ddl::reports::html {
namespace {

constexpr size_t kMostLanes = 16;
constexpr double kTimelineLeft = 56, kTimelineRight = kWidth - 28;

struct Panel {
  const char* which;  // median, worst
  StepLanes lanes;
  std::vector<PathPart> path;
  std::vector<int64_t> shown;
};

// Steps of which every rank kept its events.
std::vector<int64_t> whole_steps(const RunView& run) {
  Query row(
      run.db,
      "SELECT step FROM steady_step WHERE world = ? AND annotated AND comm_ns IS NOT NULL ORDER BY longest_ns, step");
  row.bind(run.world);
  std::vector<int64_t> steps;
  while (row.next()) steps.push_back(row.integer(0));
  return steps;
}

// How long the path is on each rank, the longest first.
std::vector<std::pair<int64_t, int64_t>> time_on(const std::vector<PathPart>& path) {
  std::map<int64_t, int64_t> by_rank;
  for (const PathPart& part : path) by_rank[part.rank] += part.interval.length_ns();
  std::vector<std::pair<int64_t, int64_t>> result(by_rank.begin(), by_rank.end());
  std::stable_sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return result;
}

// Those of the critical path first, then others evenly.
std::vector<int64_t> choose(const std::vector<int64_t>& ranks,
                            const std::vector<std::pair<int64_t, int64_t>>& on_path) {
  std::set<int64_t> chosen;
  for (const auto& [rank, ns] : on_path)
    if (chosen.size() < kMostLanes) chosen.insert(rank);
  const size_t every = std::max<size_t>(1, ranks.size() / kMostLanes);
  for (size_t i = 0; i < ranks.size() && chosen.size() < kMostLanes; i += every) chosen.insert(ranks[i]);
  return {chosen.begin(), chosen.end()};
}

IntervalSet path_on(const std::vector<PathPart>& path, int64_t rank) {
  std::vector<Interval> parts;
  for (const PathPart& part : path)
    if (part.rank == rank) parts.push_back(part.interval);
  return IntervalSet(parts);
}

// Begins and ends of several hosts would stretch a step by the errors of their clocks: within these it is as long as on
// its slowest rank.
std::string length_of(const RunView& run, const StepLanes& lanes) {
  const int64_t window_ns = lanes.window().length_ns();
  Query row(run.db, "SELECT longest_ns FROM steady_step WHERE world = ? AND step = ?");
  row.bind(run.world, lanes.step());
  const int64_t longest_ns = row.next() ? row.integer(0) : window_ns;
  const std::optional<double> error_ns = clock_error_ns(run);
  if (!error_ns || static_cast<double>(window_ns - longest_ns) <= *error_ns)
    return fmt::format("{} on its slowest rank", short_duration(longest_ns));
  return fmt::format("{} from its first begin to its last end", short_duration(window_ns));
}

std::string caption_of(const RunView& run, Panel& panel) {
  const auto on = time_on(panel.path);
  std::string text =
      fmt::format("The {} step (step {}) takes {}.", panel.which, panel.lanes.step(), length_of(run, panel.lanes));
  if (on.empty()) return text;
  int64_t computing_ns = 0, all_ns = 0;
  for (const auto& [rank, ns] : on) {
    all_ns += ns;
    computing_ns += intersect(panel.lanes.lane(rank).compute, path_on(panel.path, rank)).length_ns();
  }
  const auto percent = [&](int64_t ns) {
    return percent_text(static_cast<double>(ns) / static_cast<double>(std::max<int64_t>(all_ns, 1)));
  };
  if (on.size() == 1)
    text += fmt::format(" All of its critical path is on rank {}", on[0].first);
  else
    text += fmt::format(
        " {} of its critical path is on rank {}, the rest on {}", percent(on[0].second), on[0].first,
        on.size() == 2 ? fmt::format("rank {}", on[1].first) : fmt::format("{} other ranks", on.size() - 1));
  return text + fmt::format("; {} of the path is computing.", percent(computing_ns));
}

void add_rows(Panel& panel, Table& table) {
  std::map<int64_t, int64_t> on;
  for (const auto& [rank, ns] : time_on(panel.path)) on[rank] = ns;
  for (const int64_t rank : panel.shown) {
    const Lane& lane = panel.lanes.lane(rank);
    table.rows.push_back({Value::text(panel.which), Value::count(panel.lanes.step()), Value::count(rank),
                          Value::duration_ns(lane.compute.length_ns()), Value::duration_ns(lane.transfer.length_ns()),
                          Value::duration_ns(lane.wait.length_ns()), Value::duration_ns(lane.unsplit.length_ns()),
                          Value::duration_ns(on.contains(rank) ? on[rank] : 0)});
  }
}

}  // namespace

std::vector<Figure> step_timeline(const RunView& run) {
  if (!run.facts.threads_tell() || !calls_show_computing(run)) return {};
  const std::vector<int64_t> steps = whole_steps(run);
  if (steps.empty() || run.ranks < 2) return {};
  Figure figure{.id = "timeline", .title = {}};
  figure.data = {.columns = {{"which", "Which", Unit::kText},
                             {"step", "Step", Unit::kCount},
                             {"rank", "Rank", Unit::kCount},
                             {"compute_ns", "Compute", Unit::kDuration},
                             {"transfer_ns", "Transfer", Unit::kDuration},
                             {"wait_ns", "Waiting", Unit::kDuration},
                             {"unsplit_ns", "Not split", Unit::kDuration},
                             {"critical_ns", "On the critical path", Unit::kDuration}}};
  Query gpus(run.db, "SELECT 1 FROM gpu_part g JOIN process p ON p.id = g.process WHERE p.world = ? LIMIT 1");
  gpus.bind(run.world);
  figure.title =
      gpus.next() ? "The median and the worst step in time, on the hosts" : "The median and the worst step in time";
  const int64_t median = steps[(steps.size() - 1) / 2], worst = steps.back();
  std::vector<Panel> panels;
  panels.reserve(2);
  for (const auto& [which, step] : {std::pair("median", median), std::pair("worst", worst)}) {
    if (which != std::string_view("median") && step == median) continue;
    Panel& panel = panels.emplace_back(Panel{which, StepLanes(run, step), {}, {}});
    panel.path = critical_path(panel.lanes);
    panel.shown = choose(panel.lanes.ranks(), time_on(panel.path));
    figure.caption += (figure.caption.empty() ? "" : " ") + caption_of(run, panel);
    add_rows(panel, figure.data);
  }
  figure.caption += clock_note(run);

  int64_t longest_ns = 1;
  double height = 0;
  std::vector<const Lane*> all;
  for (Panel& panel : panels) {
    longest_ns = std::max(longest_ns, panel.lanes.window().length_ns());
    height += 44 + kLaneHeight * static_cast<double>(panel.shown.size()) + 26;
    for (const int64_t rank : panel.shown) all.push_back(&panel.lanes.lane(rank));
  }
  const LaneStyle style = style_of_ranks();
  const std::vector<LegendItem> legend = lane_legend(style, all, true);
  Chart chart(
      figure.id, figure.title,
      "A lane for each rank, time from left to right: when it computed, transferred and waited. A line marks the critical path.",
      legend_height(legend) + height);
  double y = draw_legend(chart, 0, legend);
  const Scale x{.from = 0, .to = static_cast<double>(longest_ns), .begin = kTimelineLeft, .end = kTimelineRight};
  int64_t gap_ns = 0;
  for (Panel& panel : panels) {
    chart.text(0, y + 14, Anchor::kStart, fmt::format("{} step: {}", panel.which, panel.lanes.step()), "strong");
    std::vector<const Lane*> lanes;
    std::vector<std::string> names;
    for (const int64_t rank : panel.shown)
      lanes.push_back(&panel.lanes.lane(rank)), names.push_back(std::to_string(rank));
    gap_ns =
        std::max(gap_ns, draw_lanes(chart, style, lanes, names, panel.path, panel.lanes.window().begin_ns, x, y + 40));
    y += 44 + kLaneHeight * static_cast<double>(lanes.size()) + 26;
  }
  figure.svg = chart.take();
  figure.reading =
      "The critical path is what the end of the step waited for: a rank as long as it works, then the one that it waited for. What is not "
      "on it can take longer without "
      "making the step longer.";
  if (panels.front().lanes.ranks().size() > kMostLanes)
    figure.reading +=
        fmt::format(" {} of {} ranks: those on the path first.", kMostLanes, panels.front().lanes.ranks().size());
  figure.reading += fmt::format(" Gaps below {} are not drawn.", short_duration(gap_ns));
  return {std::move(figure)};
}

}  // namespace ddl::reports::html
