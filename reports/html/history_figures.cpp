#include "reports/html/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "reports/format.h"
#include "reports/history.h"
#include "reports/html/bars.h"
#include "reports/html/chart.h"

namespace ddl::reports::html {
namespace {

using history::JobSeries;
using history::RunChange;
using history::RunRow;

constexpr double kRunsLeft = 76, kRunsRight = kWidth - 24, kRunsTop = 22, kRunsHeight = 220;
constexpr size_t kDateRoom = 130;  // between dates below the axis
constexpr size_t kMostRunRows = 200;

/// Begins of the stretches between changes, and the number of runs.
std::vector<size_t> stretches_of(const JobSeries& series) {
  std::vector<size_t> ends = {0};
  for (const RunChange& change : series.changes) ends.push_back(change.first);
  ends.push_back(series.runs.size());
  return ends;
}

double step_ns(const RunRow& run) { return static_cast<double>(*run.step_time_ns); }

double middle_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Table run_rows(const JobSeries& series) {
  Table table{.columns = {{"date", "Date", Unit::kText},
                          {"run", "Run", Unit::kText},
                          {"step_time_ns", "Step time", Unit::kDuration}}};
  const size_t first = series.runs.size() > kMostRunRows ? series.runs.size() - kMostRunRows : 0;
  for (size_t i = first; i < series.runs.size(); ++i)
    table.rows.push_back({Value::text(date_of_run(*series.runs[i])), Value::text(run_word(*series.runs[i])),
                          Value::duration_ns(*series.runs[i]->step_time_ns)});
  if (first > 0) table.note = fmt::format("The newest {} of {}.", kMostRunRows, series.runs.size());
  return table;
}

void draw_dates(Chart& chart, const JobSeries& series, const Scale& x, double bottom) {
  const size_t runs = series.runs.size();
  const size_t wanted = std::min(runs, static_cast<size_t>(kRunsRight - kRunsLeft) / kDateRoom);
  std::string last;
  for (size_t i = 0; i < wanted; ++i) {
    const size_t at = wanted == 1 ? 0 : i * (runs - 1) / (wanted - 1);
    const std::string date = date_of_run(*series.runs[at]);
    const double place = x(static_cast<double>(at));
    chart.line(place, bottom, place, bottom + 4, "axis");
    if (date != last)
      chart.text(place, bottom + 17, i == 0 ? Anchor::kStart : i + 1 == wanted ? Anchor::kEnd : Anchor::kMiddle, date);
    last = date;
  }
}

Figure times_figure(const JobSeries& series, size_t number) {
  std::vector<double> sorted;
  for (const RunRow* run : series.runs) sorted.push_back(step_ns(*run));
  std::sort(sorted.begin(), sorted.end());
  // Single runs that took much longer stand at the upper edge: all others would be one line.
  const double usual = sorted[(sorted.size() - 1) * 98 / 100];
  const double highest = std::min(sorted.back(), usual + 2 * (usual - sorted.front()) + usual * 0.01);
  const auto above = static_cast<int64_t>(sorted.end() - std::upper_bound(sorted.begin(), sorted.end(), highest));
  const double margin = std::max((highest - sorted.front()) * 0.08, highest * 0.002);
  Figure figure{
      .id = fmt::format("job-{}", number),
      .title = series_title(series),
      .caption =
          fmt::format("{}: {}.", plural(static_cast<int64_t>(series.runs.size()), "run"), trend_sentence(series)),
      .reading =
          "A dash is a run, in the order of their start; the line is the median between changes, upright lines are changes. The axis does not "
          "begin at 0.",
      .data = run_rows(series)};
  const double top = kRunsTop, bottom = top + kRunsHeight;
  Chart chart(figure.id, figure.title,
              "Step times of the runs of a job in the order of their start, with the medians between changes.",
              bottom + 28);
  const double last = static_cast<double>(series.runs.size());
  const Scale x{.from = -0.5, .to = last - 0.5, .begin = kRunsLeft, .end = kRunsRight};
  const Scale y{.from = std::max(0.0, sorted.front() - margin), .to = highest + margin, .begin = bottom, .end = top};
  draw_time_axis_left(chart, y, kRunsLeft, kRunsRight);
  draw_dates(chart, series, x, bottom);
  const double half = std::clamp((kRunsRight - kRunsLeft) / last / 2, 1.0, 6.0);
  std::string dashes;
  for (size_t i = 0; i < series.runs.size(); ++i)
    dashes += fmt::format("M{} {}h{}", coordinate(x(static_cast<double>(i)) - half),
                          coordinate(y(std::min(step_ns(*series.runs[i]), y.to))), coordinate(2 * half));
  chart.path(dashes, "axis open");
  const std::vector<size_t> ends = stretches_of(series);
  for (size_t s = 0; s + 1 < ends.size(); ++s) {
    std::vector<double> times;
    for (size_t i = ends[s]; i < ends[s + 1]; ++i) times.push_back(step_ns(*series.runs[i]));
    const double from = x(static_cast<double>(ends[s]) - 0.5), to = x(static_cast<double>(ends[s + 1]) - 0.5),
                 level = y(middle_of(std::move(times)));
    chart.path(fmt::format("M{} {}H{}", coordinate(from), coordinate(level), coordinate(to)), "critical");
    if (s == 0) continue;
    chart.begin_group(change_sentence(series, series.changes[s - 1]));
    chart.line(from, top, from, bottom, "model");
    chart.end_group();
  }
  figure.svg = chart.take();
  if (above > 0)
    figure.reading +=
        fmt::format(" {} took longer than the drawing is high, and stand at its upper edge.", plural(above, "run"));
  return figure;
}

// As the parts of a step look in the figures of a run.
constexpr std::array<const char*, 6> kPartColours = {"c0", "c2", "c3", "c4", "c5", "c6"};

Figure parts_of_stretches(const JobSeries& series, size_t number) {
  Figure figure{
      .id = fmt::format("job-{}-parts", number),
      .title = fmt::format("What a step consists of: {}", series_title(series)),
      .caption = change_sentence(series, series.changes.back()) + ".",
      .reading =
          "A bar for each stretch between changes: medians over its runs of the parts of a mean step. The step time is that of the slowest rank, and may be "
          "longer."};
  Bars bars{.id = figure.id,
            .title = figure.title,
            .description = "A bar for each stretch between changes of the step time, cut into what a step went for.",
            .heading = "since"};
  figure.data.columns = {{"since", "Since", Unit::kText}, {"runs", "Runs", Unit::kCount}};
  const auto& parts = history::step_parts();
  for (size_t p = 0; p < parts.size(); ++p) {
    bars.parts.push_back({parts[p].name, kPartColours[p]});
    figure.data.columns.push_back({fmt::format("{}_ns", parts[p].id), parts[p].name, Unit::kDuration});
  }
  const std::vector<size_t> ends = stretches_of(series);
  for (size_t s = 0; s + 1 < ends.size(); ++s) {
    const std::string since = s == 0 ? "the first run" : run_word(*series.runs[ends[s]]);
    auto& cells = figure.data.rows.emplace_back(
        std::vector<Value>{Value::text(since), Value::count(static_cast<int64_t>(ends[s + 1] - ends[s]))});
    Bar bar{.name = since};
    for (const history::StepPart& part : parts) {
      std::vector<double> values;
      for (size_t i = ends[s]; i < ends[s + 1]; ++i)
        if (const auto value = part.of(*series.runs[i])) values.push_back(*value);
      bar.parts_ns.push_back(values.empty() ? 0 : middle_of(values));
      cells.push_back(values.empty() ? Value::absent(Unit::kDuration)
                                     : Value::duration_ns(std::llround(bar.parts_ns.back())));
    }
    bars.bars.push_back(std::move(bar));
  }
  figure.svg = draw_bars(bars);
  return figure;
}

}  // namespace

std::vector<Figure> history_figures(const HistoryView& view) {
  std::vector<Figure> figures;
  size_t number = 0;
  for (const JobSeries& series : view.series) {
    if (series.runs.empty()) continue;
    if (++number > kHistoryFigures) break;
    figures.push_back(times_figure(series, number));
    if (!series.changes.empty()) figures.push_back(parts_of_stretches(series, number));
  }
  return figures;
}

}  // namespace ddl::reports::html
