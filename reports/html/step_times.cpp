// Step time over the run: what the mean rank did in each step, piled up, and the slowest rank's time as a line. Steps
// beyond kMostStepColumns share a column, which shows their mean; the line shows the longest of them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "analyzer/query.h"
#include "reports/format.h"
#include "reports/html/chart.h"
#include "reports/html/figure.h"

namespace ddl::reports::html {
namespace {

constexpr size_t kMostStepColumns = 160;
constexpr double kStepTimesLeft = 72, kStepTimesRight = kWidth - 24, kStepTimesHeight = 240;

struct Part {
  const char* name;
  const char* css;
};
constexpr std::array<Part, 5> kStepParts = {{{"compute", "c0"},
                                             {"exposed transfer", "c2"},
                                             {"waiting for others", "c3"},
                                             {"in calls, waiting not known", "c4"},
                                             {"idle", "c6"}}};
using Parts = std::array<double, kStepParts.size()>;  // ns of the mean rank

struct StepTime {
  int64_t step = 0;
  double longest_ns = 0;
  int64_t slowest_rank = 0;
  Parts parts{};
};

// All steps that ended, the first ones too.
std::vector<StepTime> times_of_steps(const RunView& run) {
  Query row(
      run.db,
      "SELECT step, max(duration_ns), rank, avg(compute_ns), avg(exposed_ns), iif(count(wait_ns) = count(*), avg(wait_ns), NULL), "
      "avg(idle_ns)"
      " FROM v_step WHERE world = ? AND duration_ns IS NOT NULL AND compute_ns IS NOT NULL GROUP BY step ORDER BY step");
  row.bind(run.world);
  std::vector<StepTime> steps;
  while (row.next()) {
    StepTime& step = steps.emplace_back();
    step.step = row.integer(0), step.longest_ns = row.real(1), step.slowest_rank = row.integer(2);
    const double exposed_ns = row.real(4), wait_ns = row.real(5);
    const bool split = !row.is_null(5);
    step.parts = {row.real(3), split ? exposed_ns - wait_ns : 0, split ? wait_ns : 0, split ? 0 : exposed_ns,
                  row.real(6)};
  }
  return steps;
}

struct StepColumn {
  int64_t first = 0, last = 0;
  double longest_ns = 0;
  Parts parts{};
};

std::vector<StepColumn> columns_of(const std::vector<StepTime>& steps) {
  const size_t per_column = (steps.size() + kMostStepColumns - 1) / kMostStepColumns;
  std::vector<StepColumn> columns;
  for (size_t begin = 0; begin < steps.size(); begin += per_column) {
    const size_t end = std::min(begin + per_column, steps.size());
    StepColumn& column = columns.emplace_back();
    column.first = steps[begin].step, column.last = steps[end - 1].step;
    for (size_t i = begin; i < end; ++i) {
      column.longest_ns = std::max(column.longest_ns, steps[i].longest_ns);
      for (size_t p = 0; p < kStepParts.size(); ++p)
        column.parts[p] += steps[i].parts[p] / static_cast<double>(end - begin);
    }
  }
  return columns;
}

// A staircase over the columns, closed at the bottom or left open.
std::string staircase(const std::vector<double>& heights, double bottom, bool closed) {
  const double width = (kStepTimesRight - kStepTimesLeft) / static_cast<double>(heights.size());
  std::string d = closed
                      ? fmt::format("M{} {}V{}", coordinate(kStepTimesLeft), coordinate(bottom), coordinate(heights[0]))
                      : fmt::format("M{} {}", coordinate(kStepTimesLeft), coordinate(heights[0]));
  for (size_t i = 1; i < heights.size(); ++i) {
    if (coordinate(heights[i]) == coordinate(heights[i - 1])) continue;
    d += fmt::format("H{}V{}", coordinate(kStepTimesLeft + static_cast<double>(i) * width), coordinate(heights[i]));
  }
  d += fmt::format("H{}", coordinate(kStepTimesRight));
  if (closed) d += fmt::format("V{}z", coordinate(bottom));
  return d;
}

std::string caption_of(std::vector<StepTime> steps, const RunView& run) {
  const auto shorter = [](const StepTime& a, const StepTime& b) { return a.longest_ns < b.longest_ns; };
  std::sort(steps.begin(), steps.end(), shorter);
  const StepTime& worst = steps.back();
  std::string text = fmt::format("{}, warm-up included: {} in the median. The longest is step {}: {}, on rank {}.",
                                 plural(static_cast<int64_t>(steps.size()), "step"),
                                 short_duration(std::llround(steps[steps.size() / 2].longest_ns)), worst.step,
                                 short_duration(std::llround(worst.longest_ns)), worst.slowest_rank);
  Query change(run.db, "SELECT value FROM metric WHERE world = ? AND id = 'step_time_change'");
  change.bind(run.world);
  if (change.next() && !change.is_null(0) && change.real(0) != 1)
    text += fmt::format(" Since its last lasting change it is {} {}.", percent_text(std::abs(change.real(0) - 1)),
                        change.real(0) > 1 ? "longer" : "shorter");
  return text;
}

Table data_of(const std::vector<StepColumn>& columns, const std::array<bool, kStepParts.size()>& used) {
  Table table{.columns = {{"first", "From step", Unit::kCount},
                          {"last", "To step", Unit::kCount},
                          {"longest_ns", "Longest", Unit::kDuration}}};
  for (size_t p = 0; p < kStepParts.size(); ++p)
    if (used[p]) table.columns.push_back({kStepParts[p].css, kStepParts[p].name, Unit::kDuration});
  for (const StepColumn& column : columns) {
    auto& cells = table.rows.emplace_back(std::vector<Value>{Value::count(column.first), Value::count(column.last),
                                                             Value::duration_ns(std::llround(column.longest_ns))});
    for (size_t p = 0; p < kStepParts.size(); ++p)
      if (used[p]) cells.push_back(Value::duration_ns(std::llround(column.parts[p])));
  }
  return table;
}

}  // namespace

std::vector<Figure> step_times(const RunView& run) {
  const std::vector<StepTime> steps = times_of_steps(run);
  if (steps.size() < 2) return {};
  const std::vector<StepColumn> columns = columns_of(steps);
  std::array<bool, kStepParts.size()> used{};
  double longest_ns = 1;
  for (const StepColumn& column : columns) {
    longest_ns = std::max(longest_ns, column.longest_ns);
    for (size_t p = 0; p < kStepParts.size(); ++p) used[p] = used[p] || column.parts[p] > 0;
  }
  Figure figure{.id = "steps",
                .title = "Step time over the run",
                .caption = caption_of(steps, run),
                .data = data_of(columns, used)};
  std::vector<LegendItem> legend;
  for (size_t p = 0; p < kStepParts.size(); ++p)
    if (used[p]) legend.push_back({kStepParts[p].css, kStepParts[p].name});
  legend.push_back({"ink", "slowest rank"});
  const double top = legend_height(legend) + 6, bottom = top + kStepTimesHeight;
  Chart chart(
      figure.id, figure.title,
      fmt::format("Time over {} columns of steps: the parts of the mean rank piled up, and the slowest rank as a line.",
                  columns.size()),
      bottom + 38);
  draw_legend(chart, 0, legend);
  const Scale y{.from = 0, .to = longest_ns, .begin = bottom, .end = top};
  draw_time_axis_left(chart, y, kStepTimesLeft, kStepTimesRight);
  std::vector<double> sums(columns.size(), 0);
  std::vector<std::string> areas;
  for (size_t p = 0; p < kStepParts.size(); ++p) {
    std::vector<double> heights;
    for (size_t c = 0; c < columns.size(); ++c) heights.push_back(y(sums[c] += columns[c].parts[p]));
    areas.push_back(used[p] ? staircase(heights, bottom, true) : "");
  }
  for (size_t p = kStepParts.size(); p-- > 0;)  // the upper ones first, the lower ones over them
    if (used[p]) chart.path(areas[p], kStepParts[p].css);
  std::vector<double> line;
  for (const StepColumn& column : columns) line.push_back(y(column.longest_ns));
  chart.path(staircase(line, bottom, false), "line");
  std::vector<int64_t> numbers;
  for (const StepColumn& column : columns) numbers.push_back(column.first);
  draw_number_axis(chart, numbers, kStepTimesLeft, kStepTimesRight, bottom, 10);
  chart.text((kStepTimesLeft + kStepTimesRight) / 2, bottom + 34, Anchor::kMiddle, "step");
  figure.svg = chart.take();
  figure.reading = "Parts: mean over ranks. Line: the slowest rank.";
  if (run.warmup_steps > 0)
    figure.reading += fmt::format(" The first {} steps are shown here and left out of all means.", run.warmup_steps);
  if (columns.size() < steps.size())
    figure.reading += " Columns stand for several steps: parts are their means, the line is their longest.";
  return {std::move(figure)};
}

}  // namespace ddl::reports::html
