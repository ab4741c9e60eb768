// The schedule of a pipeline: its stages in the median step, forward and backward apart where the job names these
// phases, and its bubble against that of the schedule (specification.md "Pipeline bubbles").
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

constexpr size_t kMostStages = 32;
constexpr double kScheduleLeft = 72, kScheduleRight = kWidth - 28;

struct Stage {
  int64_t rank = 0, stage = 0;
};

struct Pipeline {
  int64_t stages = 0, micro_batches = 0, chunks = 1;
  std::vector<Stage> ranks;  // in the order of forward
  size_t others = 0;         // pipelines of the same world
};

// The first pipeline of the world.
Pipeline pipeline_of(const RunView& run) {
  Pipeline result;
  Query row(
      run.db,
      "SELECT rank, stage, stages, micro_batches, chunks, pipeline FROM v_pipeline WHERE world = ? AND rank IS NOT NULL ORDER BY "
      "pipeline, stage");
  row.bind(run.world);
  std::optional<int64_t> first, last;
  while (row.next()) {
    const int64_t pipeline = row.integer(5);
    if (!first)
      first = pipeline, result.stages = row.integer(2), result.micro_batches = row.integer(3),
      result.chunks = row.integer(4);
    if (pipeline == *first)
      result.ranks.push_back({row.integer(0), row.integer(1)});
    else if (last != pipeline)
      ++result.others;
    last = pipeline;
  }
  return result;
}

std::optional<int64_t> median_step(const RunView& run) {
  Query row(
      run.db,
      "SELECT step FROM steady_step WHERE world = ?1 AND annotated AND comm_ns IS NOT NULL ORDER BY longest_ns, step LIMIT 1 OFFSET"
      " (SELECT (count(*) - 1) / 2 FROM steady_step WHERE world = ?1 AND annotated AND comm_ns IS NOT NULL)");
  row.bind(run.world);
  return row.next() ? row.maybe_integer(0) : std::nullopt;
}

std::optional<double> metric(const RunView& run, const char* id) {
  Query row(run.db, "SELECT value FROM metric WHERE world = ? AND id = ?");
  row.bind(run.world, id);
  return row.next() ? row.maybe_real(0) : std::nullopt;
}

}  // namespace

std::vector<Figure> pipeline_schedule(const RunView& run) {
  Pipeline pipeline = pipeline_of(run);
  const std::optional<int64_t> step = median_step(run);
  if (pipeline.ranks.empty() || !step) return {};
  StepLanes lanes(run, *step);
  std::vector<const Lane*> shown;
  std::vector<std::string> names;
  Figure figure{.id = "pipeline", .title = "Pipeline schedule"};
  figure.data = {.columns = {{"stage", "Stage", Unit::kCount},
                             {"rank", "Rank", Unit::kCount},
                             {"compute_ns", "Compute", Unit::kDuration},
                             {"backward_ns", "of which backward", Unit::kDuration},
                             {"transfer_ns", "Transfer", Unit::kDuration},
                             {"wait_ns", "Bubble and other waiting", Unit::kDuration}}};
  bool phases = false;
  for (const Stage& stage : pipeline.ranks) {
    const Lane& lane = lanes.lane(stage.rank);
    phases = phases || !lane.backward.empty();
    figure.data.rows.push_back(
        {Value::count(stage.stage), Value::count(stage.rank), Value::duration_ns(lane.compute.length_ns()),
         Value::duration_ns(lane.backward.length_ns()), Value::duration_ns(lane.transfer.length_ns()),
         Value::duration_ns(lane.wait.length_ns())});
    if (shown.size() == kMostStages) continue;
    shown.push_back(&lane);
    names.push_back(std::to_string(stage.stage));
  }
  const LaneStyle style = style_of_stages(phases);
  const std::vector<LegendItem> legend = lane_legend(style, shown, false);
  const double top = legend_height(legend) + 22;
  Chart chart(figure.id, figure.title,
              "A lane for each stage, time from left to right: when it computed and when it waited for other stages.",
              top + kLaneHeight * static_cast<double>(shown.size()) + 26);
  draw_legend(chart, 0, legend);
  const Scale x{.from = 0,
                .to = static_cast<double>(std::max<int64_t>(1, lanes.window().length_ns())),
                .begin = kScheduleLeft,
                .end = kScheduleRight};
  const int64_t gap_ns = draw_lanes(chart, style, shown, names, {}, lanes.window().begin_ns, x, top);
  figure.svg = chart.take();

  figure.caption = fmt::format("{} stages, {} micro-batches{} a step.", pipeline.stages, pipeline.micro_batches,
                               pipeline.chunks > 1 ? fmt::format(", {} chunks a stage", pipeline.chunks) : "");
  const auto bubble = metric(run, "bubble"), model = metric(run, "bubble_model");
  if (bubble) figure.caption += fmt::format(" The bubble is {} of the stages' time", percent_text(*bubble));
  if (bubble && model)
    figure.caption += fmt::format("; the schedule asks for {}{}.", percent_text(*model),
                                  *bubble > 1.5 * *model && *bubble - *model > 0.01
                                      ? ": the rest is stages that take unequally long, or transfers"
                                      : "");
  else if (bubble)
    figure.caption += ".";
  figure.caption += clock_note(run);
  figure.reading = fmt::format("Step {}, the median one. Gaps below {} are not drawn.", *step, short_duration(gap_ns));
  if (pipeline.others > 0) figure.reading += fmt::format(" The first of {} pipelines.", pipeline.others + 1);
  if (shown.size() < pipeline.ranks.size())
    figure.reading += fmt::format(" The first {} stages; the table has all.", shown.size());
  return {std::move(figure)};
}

}  // namespace ddl::reports::html
