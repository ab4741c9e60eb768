#include "reports/html/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "reports/format.h"
#include "reports/html/chart.h"

namespace ddl::reports::html {
namespace {

constexpr double kTuningLeft = 72, kTuningRight = kWidth - 24, kTuningHeight = 260;
constexpr double kWide = 4;  // from this ratio on an axis of costs is logarithmic

// Which mark a trial gets.
size_t kind_of(const TrialMark& trial) { return trial.is_default ? 0 : trial.is_winner ? 2 : 1; }
constexpr std::array<const char*, 3> kKinds = {"the default", "another configuration", "the winner"};

// Costs from `least` to `most`, with some room around them.
Scale cost_scale(double least, double most, double begin, double end) {
  const bool wide = most / least > kWide;
  const double room = wide ? std::pow(most / least, 0.05) : 1 + std::max(0.01, 0.06 * (most / least - 1));
  return {.from = least / room, .to = most * room, .begin = begin, .end = end, .logarithmic = wide};
}

std::vector<MarkName> legend_of(const std::vector<TrialMark>& trials) {
  std::vector<MarkName> legend;
  for (size_t kind = 0; kind < kKinds.size(); ++kind)
    if (std::any_of(trials.begin(), trials.end(), [&](const TrialMark& trial) { return kind_of(trial) == kind; }))
      legend.push_back({kind, kKinds[kind]});
  return legend;
}

std::string tip_of(const TrialMark& trial) {
  std::string tip = trial.stage + ", " + shown_name(trial.point) + ": ";
  tip += trial.cost_ns ? short_duration(std::llround(*trial.cost_ns)) : "failed";
  if (trial.predicted_ns) tip += fmt::format(", predicted {}", short_duration(std::llround(*trial.predicted_ns)));
  return tip;
}

struct ValueRange {
  double least = INFINITY, most = 0;
  void add(const std::optional<double>& value) {
    if (value) least = std::min(least, *value), most = std::max(most, *value);
  }
};

std::string history_caption(const std::vector<TrialMark>& trials) {
  std::map<std::string, bool> points;
  int64_t failed = 0;
  ValueRange range;
  for (const TrialMark& trial : trials) {
    points[trial.point] = true;
    failed += !trial.cost_ns;
    range.add(trial.cost_ns);
  }
  std::string text = fmt::format("{} of {}, from {} to {}.", plural(static_cast<int64_t>(trials.size()), "trial"),
                                 plural(static_cast<int64_t>(points.size()), "configuration"),
                                 short_duration(std::llround(range.least)), short_duration(std::llround(range.most)));
  if (failed > 0) text += fmt::format(" {} failed.", plural(failed, "trial"));
  return text;
}

Figure history_figure(const std::vector<TrialMark>& trials, const std::string& cost_name) {
  Figure figure{
      .id = "trials",
      .title = "Every trial",
      .caption = history_caption(trials),
      .reading =
          "From left to right in the order in which they were made. The spread of the default's marks is the machine's noise."};
  figure.data.columns = {{"trial", "Trial", Unit::kCount},
                         {"stage", "Stage", Unit::kText},
                         {"point", "Configuration", Unit::kText},
                         {"cost_ns", cost_name, Unit::kDuration}};
  ValueRange range;
  for (const TrialMark& trial : trials) range.add(trial.cost_ns);
  const std::vector<MarkName> legend = legend_of(trials);
  const double top = mark_legend_height(legend) + 22, bottom = top + kTuningHeight;
  Chart chart(figure.id, figure.title,
              "A mark for each trial: its cost from bottom to top, lower is better; trials follow each other.",
              bottom + 24);
  draw_mark_legend(chart, legend);
  const Scale y = cost_scale(range.least, range.most, bottom, top);
  draw_time_axis_left(chart, y, kTuningLeft, kTuningRight);
  const Scale x{
      .from = -0.5, .to = static_cast<double>(trials.size()) - 0.5, .begin = kTuningLeft, .end = kTuningRight};
  double free_from = 0;
  for (size_t i = 0; i < trials.size(); ++i) {
    const TrialMark& trial = trials[i];
    const double at = x(static_cast<double>(i));
    if (i == 0 || trials[i - 1].stage != trial.stage) {
      const double edge = x(static_cast<double>(i) - 0.5);
      if (i > 0) chart.line(edge, top - 4, edge, bottom, "axis");
      // One below the other where stages are short.
      chart.text(edge + 4, edge < free_from ? bottom + 17 : top - 8, Anchor::kStart, trial.stage);
      free_from = edge + 8 * static_cast<double>(trial.stage.size());
    }
    chart.begin_group(tip_of(trial));
    if (trial.cost_ns)
      chart.mark(kind_of(trial), at, y(*trial.cost_ns));
    else
      chart.path(fmt::format("M{} {}l8 8m0-8l-8 8", coordinate(at - 4), coordinate(top + 2)), "line");
    chart.end_group();
    figure.data.rows.push_back(
        {Value::count(static_cast<int64_t>(i) + 1), Value::text(trial.stage), Value::text(trial.point),
         trial.cost_ns ? Value::duration_ns(std::llround(*trial.cost_ns)) : Value::absent(Unit::kDuration)});
  }
  if (std::any_of(trials.begin(), trials.end(), [](const TrialMark& trial) { return !trial.cost_ns; }))
    figure.reading += " A cross at the top is a trial that failed.";
  figure.svg = chart.take();
  return figure;
}

// For one configuration.
struct Predicted {
  TrialMark mark;
  double log_sum = 0;
  int64_t trials = 0;
  double measured_ns() const { return std::exp(log_sum / static_cast<double>(trials)); }
  double error() const { return measured_ns() / *mark.predicted_ns - 1; }
};

std::vector<Predicted> predicted_points(const std::vector<TrialMark>& trials) {
  std::vector<Predicted> points;
  std::map<std::string, size_t> numbers;
  for (const TrialMark& trial : trials) {
    if (!trial.cost_ns || !trial.predicted_ns) continue;
    const auto [at, is_new] = numbers.try_emplace(trial.point, points.size());
    if (is_new) points.push_back({trial});
    Predicted& point = points[at->second];
    point.log_sum += std::log(*trial.cost_ns);
    ++point.trials;
  }
  return points;
}

Figure prediction_figure(const std::vector<Predicted>& points, const std::string& cost_name) {
  Figure figure{
      .id = "predicted",
      .title = "Predicted against measured",
      .reading =
          "A mark for each configuration that was tried: the geometric mean of its trials. On the dashed line the prediction was "
          "right; it only chose what to try, the verdict is of measurements alone."};
  figure.data.columns = {{"point", "Configuration", Unit::kText},
                         {"predicted_ns", "Predicted", Unit::kDuration},
                         {"measured_ns", cost_name, Unit::kDuration},
                         {"error_ratio", "Measured beyond it", Unit::kRatio},
                         {"trials", "Trials", Unit::kCount}};
  ValueRange range;
  std::vector<double> errors;
  std::vector<TrialMark> marks;
  for (const Predicted& point : points) {
    range.add(point.mark.predicted_ns);
    range.add(point.measured_ns());
    errors.push_back(std::abs(point.error()));
    marks.push_back(point.mark);
    figure.data.rows.push_back({Value::text(point.mark.point),
                                Value::duration_ns(std::llround(*point.mark.predicted_ns)),
                                Value::duration_ns(std::llround(point.measured_ns())), Value::ratio(point.error()),
                                Value::count(point.trials)});
  }
  std::sort(errors.begin(), errors.end());
  figure.caption = fmt::format("The prediction was off by {} in the median, by {} at most.",
                               percent_text(errors[errors.size() / 2]), percent_text(errors.back()));
  const std::vector<MarkName> legend = legend_of(marks);
  const double top = mark_legend_height(legend) + 6, bottom = top + kTuningHeight;
  Chart chart(figure.id, figure.title, "Measured cost, from bottom to top, over predicted cost, from left to right.",
              bottom + 40);
  draw_mark_legend(chart, legend);
  const Scale y = cost_scale(range.least, range.most, bottom, top);
  Scale x = y;
  x.begin = kTuningLeft, x.end = kTuningRight;
  draw_time_axis_left(chart, y, kTuningLeft, kTuningRight);
  draw_time_axis(chart, x, top, bottom);
  chart.text((kTuningLeft + kTuningRight) / 2, bottom + 34, Anchor::kMiddle, "predicted");
  chart.line(kTuningLeft, bottom, kTuningRight, top, "model");
  for (const Predicted& point : points) {
    chart.begin_group(fmt::format("{}: {}, predicted {}", shown_name(point.mark.point),
                                  short_duration(std::llround(point.measured_ns())),
                                  short_duration(std::llround(*point.mark.predicted_ns))));
    chart.mark(kind_of(point.mark), x(*point.mark.predicted_ns), y(point.measured_ns()));
    chart.end_group();
  }
  figure.svg = chart.take();
  return figure;
}

}  // namespace

std::vector<Figure> tuning_figures(const std::vector<TrialMark>& trials, const std::string& cost_name) {
  if (std::count_if(trials.begin(), trials.end(), [](const TrialMark& trial) { return trial.cost_ns.has_value(); }) < 2)
    return {};
  std::vector<Figure> figures = {history_figure(trials, cost_name)};
  if (const std::vector<Predicted> points = predicted_points(trials); points.size() > 1)
    figures.push_back(prediction_figure(points, cost_name));
  return figures;
}

}  // namespace ddl::reports::html
