#include "reports/html/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/format.h"
#include "reports/safe_text.h"

namespace ddl::reports::html {
namespace {

constexpr double kSwatch = 14;

// Words have no width that a program without a font could know; system fonts of 13 units are narrower than this.
double width_of(std::string_view text) { return 7.2 * static_cast<double>(display_width(text)); }

double item_width(const LegendItem& item) { return kSwatch + 6 + width_of(item.name) + 16; }

}  // namespace

std::string coordinate(double value) {
  const double tenths = std::round(value * 10);
  if (tenths == 0) return "0";
  std::string text = fmt::format("{}", static_cast<int64_t>(tenths) / 10);
  const auto tenth = std::abs(static_cast<int64_t>(tenths)) % 10;
  if (text == "0") text = tenths < 0 ? "-" : "";
  if (tenth != 0) text += fmt::format(".{}", tenth);
  return text;
}

Chart::Chart(std::string_view id, std::string_view title, std::string_view description, double height) {
  markup_.open("svg", {{"viewBox", fmt::format("0 0 {} {}", coordinate(kWidth), coordinate(std::ceil(height)))},
                       {"role", "img"},
                       {"aria-labelledby", fmt::format("{0}-title {0}-desc", id)}});
  markup_.element("title", {{"id", fmt::format("{}-title", id)}}, title);
  markup_.element("desc", {{"id", fmt::format("{}-desc", id)}}, description);
}

void Chart::rect(double x, double y, double width, double height, std::string_view css) {
  markup_.leaf("rect", {{"x", coordinate(x)},
                        {"y", coordinate(y)},
                        {"width", coordinate(width)},
                        {"height", coordinate(height)},
                        {"class", std::string(css)}});
}

void Chart::line(double x1, double y1, double x2, double y2, std::string_view css) {
  path(fmt::format("M{} {}L{} {}", coordinate(x1), coordinate(y1), coordinate(x2), coordinate(y2)), css);
}

void Chart::path(const std::string& d, std::string_view css) {
  markup_.leaf("path", {{"d", d}, {"class", std::string(css)}});
}

void Chart::circle(double x, double y, double radius, std::string_view css) {
  markup_.leaf("circle",
               {{"cx", coordinate(x)}, {"cy", coordinate(y)}, {"r", coordinate(radius)}, {"class", std::string(css)}});
}

void Chart::mark(size_t shape, double x, double y) {
  constexpr const char* kCss[kMarks] = {"s0", "s1", "s2", "s3", "s4"};
  const char* css = kCss[shape];
  const auto at = [](double a, double b) { return fmt::format("{} {}", coordinate(a), coordinate(b)); };
  switch (shape) {
    case 0:
      return circle(x, y, 5, css);
    case 1:
      return rect(x - 4.5, y - 4.5, 9, 9, css);
    case 2:
      return path(fmt::format("M{}l6 10h-12z", at(x, y - 6)), css);
    case 3:
      return path(fmt::format("M{}l6 6l-6 6l-6-6z", at(x, y - 6)), css);
    default:
      return path(fmt::format("M{}l6-10h-12z", at(x, y + 6)), css);
  }
}

void Chart::text(double x, double y, Anchor anchor, std::string_view text, std::string_view css) {
  constexpr const char* kAnchors[] = {"", "middle", "end"};
  markup_.element("text",
                  {{"x", coordinate(x)},
                   {"y", coordinate(y)},
                   {"text-anchor", kAnchors[static_cast<int>(anchor)]},
                   {"class", std::string(css)}},
                  text);
}

void Chart::begin_group(std::string_view tip) { markup_.open("g").element("title", {}, tip); }

void Chart::begin_scaled(double x, double y, double sx, double sy) {
  markup_.open("g", {{"transform", fmt::format("translate({:.2f} {:.2f})scale({:.4f} {:.4f})", x, y, sx, sy)}});
}

double legend_height(const std::vector<LegendItem>& items) {
  double x = 0, rows = 1;
  for (const LegendItem& item : items) {
    if (x > 0 && x + item_width(item) > kWidth) x = 0, ++rows;
    x += item_width(item);
  }
  return rows * (kLineHeight + 2) + 6;
}

double draw_legend(Chart& chart, double y, const std::vector<LegendItem>& items) {
  double x = 0, row = y;
  for (const LegendItem& item : items) {
    if (x > 0 && x + item_width(item) > kWidth) x = 0, row += kLineHeight + 2;
    chart.rect(x + 1, row + 1, kSwatch, kSwatch - 2, item.css);
    chart.text(x + kSwatch + 6, row + 12, Anchor::kStart, item.name);
    x += item_width(item);
  }
  return y + legend_height(items);
}

double mark_legend_height(const std::vector<MarkName>& marks) {
  return marks.empty() ? 0 : static_cast<double>(marks.size()) * (kLineHeight + 2) + 6;
}

void draw_mark_legend(Chart& chart, const std::vector<MarkName>& marks) {
  double y = 0;
  for (const MarkName& mark : marks) {
    chart.mark(mark.shape, 8, y + 8);
    chart.text(22, y + 12, Anchor::kStart, mark.name);
    y += kLineHeight + 2;
  }
}

double Scale::operator()(double value) const {
  const double part = logarithmic ? std::log(value / from) / std::log(to / from) : (value - from) / (to - from);
  return begin + part * (end - begin);
}

std::vector<double> round_ticks(double from, double to, int wanted) {
  if (!(to > from)) return {from};
  const double raw = (to - from) / wanted, power = std::pow(10.0, std::floor(std::log10(raw)));
  const double step = power * (raw / power <= 1 ? 1 : raw / power <= 2 ? 2 : raw / power <= 5 ? 5 : 10);
  std::vector<double> ticks;
  for (double number = std::ceil(from / step - 1e-9) + 0.0; number * step <= to * (1 + 1e-9); ++number)
    ticks.push_back(number * step);
  return ticks;
}

std::vector<double> log_ticks(double from, double to) {
  std::vector<double> ticks;
  for (double exponent = std::floor(std::log10(from)); exponent <= std::log10(to); ++exponent)
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double tick = digit * std::pow(10, exponent);
      if (tick >= from && tick <= to && (digit == 1 || to / from <= 300)) ticks.push_back(tick);
    }
  return ticks;
}

namespace {
std::string tick_text(double tick) { return tick == 0 ? "0" : short_duration(std::llround(tick)); }
}  // namespace

void draw_time_axis(Chart& chart, const Scale& scale, double top, double bottom) {
  for (const double tick : scale.logarithmic ? log_ticks(scale.from, scale.to) : round_ticks(scale.from, scale.to, 6)) {
    const double x = scale(tick);
    chart.line(x, top, x, bottom + 4, "grid");
    chart.text(x, bottom + 17, Anchor::kMiddle, tick_text(tick));
  }
}

void draw_time_axis_left(Chart& chart, const Scale& scale, double left, double right) {
  for (const double tick : scale.logarithmic ? log_ticks(scale.from, scale.to) : round_ticks(scale.from, scale.to, 4)) {
    chart.line(left - 4, scale(tick), right, scale(tick), "grid");
    chart.text(left - 8, scale(tick) + 4, Anchor::kEnd, tick_text(tick));
  }
}

void draw_number_axis(Chart& chart, const std::vector<int64_t>& numbers, double left, double right, double bottom,
                      size_t wanted) {
  const size_t every = std::max<size_t>(1, (numbers.size() + wanted - 1) / wanted);
  const double width = (right - left) / static_cast<double>(numbers.size());
  for (size_t i = 0; i < numbers.size(); i += every) {
    const double x = left + (static_cast<double>(i) + 0.5) * width;
    chart.line(x, bottom, x, bottom + 4, "axis");
    chart.text(x, bottom + 17, Anchor::kMiddle, std::to_string(numbers[i]));
  }
}

}  // namespace ddl::reports::html
