// Step time, exposed communication, waiting and bandwidth over the last steps, newest right, with the user's marks.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "tui/paint.h"

namespace ddl::tui {
namespace {

constexpr int kAxis = 14;  // columns left of the curves

struct Curve {
  const char* name;
  const char* unit;
  std::function<std::optional<double>(const HistoryPoint&)> value;
  std::function<std::string(double)> text;
  bool from_zero;
};

/// `rows` rows of block characters; a value takes eighths of a row.
void put_curve(Canvas& c, const Rect& r, const Curve& curve, size_t first) {
  const auto& history = c.s.history;
  double low = 0, high = 0;
  bool any = false;
  for (size_t i = first; i < history.size(); ++i) {
    const auto v = curve.value(history[i]);
    if (!v) continue;
    low = any ? std::min(low, *v) : *v;
    high = any ? std::max(high, *v) : *v;
    any = true;
  }
  low = curve.from_zero ? 0 : std::min(low, 0.9 * high);
  if (high <= low) high = low + 1;
  c.frame.put(r.x, r.y, curve.name, Style::kPlain, r.x + kAxis - 1);
  c.frame.put_right(r.x + 5, r.y, curve.text(high), Style::kDim, r.x + kAxis - 1);
  if (r.height > 1) {
    c.frame.put(r.x, r.y + 1, curve.unit, Style::kDim, r.x + kAxis - 1);
    if (r.height > 2 || *curve.unit == '\0')
      c.frame.put_right(r.x + 5, r.bottom() - 1, curve.text(low), Style::kDim, r.x + kAxis - 1);
  }
  for (int y = r.y; y < r.bottom(); ++y)
    c.frame.put_glyph(r.x + kAxis - 1, y, c.theme.unicode ? U'│' : U'|', Style::kDim);
  const int eighths = c.theme.unicode ? 8 : 7;
  for (size_t i = first; i < history.size(); ++i) {
    const auto v = curve.value(history[i]);
    if (!v) continue;
    const int x = r.x + kAxis + static_cast<int>(i - first);
    int units = std::max(1, static_cast<int>((*v - low) / (high - low) * r.height * eighths + 0.5));
    for (int y = r.bottom() - 1; y >= r.y && units > 0; --y, units -= eighths) {
      const double part = static_cast<double>(std::min(units, eighths) - 1) / (eighths - 1);
      c.frame.put_glyph(x, y, spark(c.theme, part, 0, 1), Style::kPlain);
    }
  }
}

}  // namespace

void draw_history(Canvas& c, const Rect& r) {
  const Snapshot& s = c.s;
  const auto columns = static_cast<size_t>(std::max(1, r.width - kAxis - 1));
  const size_t first = s.history.size() - std::min(columns, s.history.size());
  put_rule(c, {r.x, r.y, r.width, 1}, "History",
           fmt::format("{} {}, newest right", s.history.size() - first, s.annotated ? "steps" : "seconds"));
  const int decimals = ms_decimals(s);
  const std::vector<Curve> curves = {{"step", "ms", [](const HistoryPoint& p) { return std::optional(p.step_ns); },
                                      [&](double v) { return ms_text(v, decimals, 7); }, false},
                                     {"exposed", "comm %", [](const HistoryPoint& p) { return p.exposed_ratio; },
                                      [](double v) { return fmt::format("{:.0f}", 100 * v); }, true},
                                     {"waiting", "%", [](const HistoryPoint& p) { return p.wait_ratio; },
                                      [](double v) { return fmt::format("{:.0f}", 100 * v); }, true},
                                     {"busbw", "GB/s", [](const HistoryPoint& p) { return p.busbw; },
                                      [](double v) { return fmt::format("{:.3g}", v * 1e-9); }, true}};
  std::vector<const Curve*> known;
  for (const Curve& curve : curves) {
    const bool seconds = !s.annotated && &curve == &curves.front();  // all are as long
    const bool any = std::any_of(s.history.begin() + static_cast<ptrdiff_t>(first), s.history.end(),
                                 [&](const HistoryPoint& p) { return curve.value(p); });
    if (any && !seconds) known.push_back(&curve);
  }
  const bool axis = r.height >= 6;
  const int rows = r.height - 1 - (axis ? 1 : 0);
  const int shown = std::min(static_cast<int>(known.size()), std::max(1, rows / 2));
  int y = r.y + 1;
  for (int i = 0; i < shown; ++i) {
    const int height = rows / shown + (i < rows % shown ? 1 : 0);
    put_curve(c, {r.x, y, r.width, height}, *known[static_cast<size_t>(i)], first);
    y += height;
  }
  if (!axis || s.history.empty()) return;
  const std::string from = std::to_string(s.history[first].step), to = std::to_string(s.history.back().step);
  c.frame.put_right(r.x, y, s.annotated ? "step" : "second", Style::kDim, r.x + kAxis - 1);
  int x = c.frame.put(r.x + kAxis, y, from, Style::kDim);
  const int right = r.x + kAxis + static_cast<int>(s.history.size() - first);
  const bool both = right - static_cast<int>(to.size()) > x + 1;
  if (both) c.frame.put_right(x, y, to, Style::kDim, right);
  for (const auto& [step, text] : c.view.marks) {
    const auto at = std::find_if(s.history.begin() + static_cast<ptrdiff_t>(first), s.history.end(),
                                 [&marked = step](const HistoryPoint& p) { return p.step >= marked; });
    if (at == s.history.end()) continue;
    const int column = r.x + kAxis + static_cast<int>(at - s.history.begin()) - static_cast<int>(first);
    const int end = both ? right - static_cast<int>(to.size()) - 1 : right;
    if (column <= x || column >= end) continue;
    x = c.frame.put(column, y, wrap((c.theme.unicode ? "▲" : "^") + text, end - column, 1).front(), Style::kBold, end) +
        1;
  }
}

}  // namespace ddl::tui
