// One drawing of the report: an SVG of kWidth units, to which figures add bars, lines and words. Colours and patterns
// are classes of style.css, so that a drawing follows the reader's light or dark scheme and prints.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reports/html/markup.h"

namespace ddl::reports::html {

constexpr double kWidth = 640;
constexpr double kLineHeight = 18;  ///< of text in a drawing
constexpr size_t kMarks = 5;        ///< shapes

/// A coordinate with at most one decimal: finer ones are invisible and make the file larger.
std::string coordinate(double value);

enum class Anchor { kStart, kMiddle, kEnd };

class Chart {
 public:
  /// `id`: of the page's element; `description`: what is drawn, for readers who do not see it.
  Chart(std::string_view id, std::string_view title, std::string_view description, double height);

  void rect(double x, double y, double width, double height, std::string_view css);
  void line(double x1, double y1, double x2, double y2, std::string_view css);
  void path(const std::string& d, std::string_view css);
  void circle(double x, double y, double radius, std::string_view css);
  /// One of kMarks shapes around (x, y), each with its colour: series differ even without colours.
  void mark(size_t shape, double x, double y);
  void text(double x, double y, Anchor anchor, std::string_view text, std::string_view css = {});
  /// What is drawn until end_group() shows `tip` under the pointer.
  void begin_group(std::string_view tip);
  /// What is drawn until end_group() is in units of its own: (0, 0) is at (x, y), one unit is sx wide and sy high.
  void begin_scaled(double x, double y, double sx, double sy);
  void end_group() { markup_.close(); }

  std::string take() { return markup_.take(); }

 private:
  Markup markup_;
};

/// What the colours of a drawing mean, in a row: the class of the swatch and its name.
struct LegendItem {
  std::string_view css;
  std::string name;
};
/// Starts at the drawing's left edge and wraps. Returns the y below it.
double draw_legend(Chart& chart, double y, const std::vector<LegendItem>& items);
/// How high draw_legend() will be.
double legend_height(const std::vector<LegendItem>& items);

/// What marks stand for, one below the other at the drawing's left edge.
struct MarkName {
  size_t shape;
  std::string name;
};
void draw_mark_legend(Chart& chart, const std::vector<MarkName>& marks);
double mark_legend_height(const std::vector<MarkName>& marks);

/// Maps [from, to] of the data to [begin, end] of the drawing, by value or by its logarithm.
struct Scale {
  double from = 0, to = 1, begin = 0, end = 1;
  bool logarithmic = false;
  double operator()(double value) const;
};

/// Round numbers (1, 2 or 5 times a power of ten) from `from` to `to`, about `wanted` of them.
std::vector<double> round_ticks(double from, double to, int wanted);

/// For logarithmic axes: 1, 2 and 5 times powers of ten within [from, to]; of a wide range the powers alone.
std::vector<double> log_ticks(double from, double to);

/// An axis of times at the bottom of a plot, with grid lines up to `top`; and one at the left, with lines to `right`.
void draw_time_axis(Chart& chart, const Scale& scale, double top, double bottom);
void draw_time_axis_left(Chart& chart, const Scale& scale, double left, double right);

/// Numbered columns (steps) from `left` to `right`: a few of their numbers below `bottom`, at most `wanted`.
void draw_number_axis(Chart& chart, const std::vector<int64_t>& numbers, double left, double right, double bottom,
                      size_t wanted);

}  // namespace ddl::reports::html
