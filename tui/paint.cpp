#include "tui/paint.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "reports/format.h"
#include "reports/safe_text.h"

namespace ddl::tui {

int put_pieces(Canvas& c, int x, int y, int end, const std::vector<Piece>& pieces) {
  std::vector<const Piece*> shown;
  for (const Piece& p : pieces) {
    if (!p.text.empty()) shown.push_back(&p);
  }
  const auto columns = [&] {
    int sum = 0;
    for (const Piece* p : shown) sum += static_cast<int>(reports::display_width(reports::printable(p->text))) + 2;
    return sum - 2;
  };
  while (!shown.empty() && columns() > end - x)
    shown.erase(std::min_element(shown.begin(), shown.end(),
                                 [](const Piece* a, const Piece* b) { return a->weight < b->weight; }));
  for (const Piece* p : shown) x = c.frame.put(x, y, p->text, p->style, end) + 2;
  return shown.empty() ? x : x - 2;
}

int ms_decimals(const Snapshot& s) {
  const double step_ms = s.p50_ns ? *s.p50_ns * 1e-6 : s.now_ns ? *s.now_ns * 1e-6 : 100;
  return step_ms >= 100 ? 1 : step_ms >= 10 ? 2 : 3;
}

std::string ms_text(double ns, int decimals, int width, bool with_sign) {
  const auto number = [&](double value, int digits) {
    return with_sign ? fmt::format("{:+.{}f}", value, digits) : fmt::format("{:.{}f}", value, digits);
  };
  const auto fits = [&](const std::string& text) { return static_cast<int>(text.size()) <= width; };
  for (int digits = decimals; digits >= 0; --digits) {
    if (std::string text = number(ns * 1e-6, digits); fits(text)) return text;
  }
  for (const auto& [unit, ns_per] : {std::pair{"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}) {
    if (std::string text = number(ns / ns_per, 0) + unit; fits(text)) return text;
  }
  return "-";
}

std::string maybe_ms(const std::optional<double>& ns, int decimals, int width, bool with_sign) {
  return ns ? ms_text(*ns, decimals, width, with_sign) : "-";
}

std::string unreadable_text(const Snapshot& s) {
  return s.unreadable_spools > 0 ? reports::plural(s.unreadable_spools, "spool") + " unreadable" : "";
}

std::string parts_text(const Snapshot& s) { return s.parts > 1 ? fmt::format("{} groups apart", s.parts) : ""; }

std::string percent(double ratio) { return fmt::format("{:.0f}%", 100 * ratio); }

std::string step_text(const Snapshot& s, double ns) { return fmt::format("{:.{}f} ms", ns * 1e-6, ms_decimals(s)); }

Style style_of(size_t category) { return static_cast<Style>(static_cast<size_t>(Style::kCompute) + category); }

char32_t glyph_of(const Theme& theme, size_t category) {
  constexpr char32_t kUnicode[kCategories] = {U'█', U'▓', U'▒', U'░', U'▪', U'·'};
  constexpr char32_t kAscii[kCategories] = {U'#', U'=', U'~', U'w', U'c', U'.'};
  return theme.unicode ? kUnicode[category] : kAscii[category];
}

std::vector<int> bar_cells(const Shares& shares, int width) {
  std::vector<int> cells;
  std::vector<std::pair<double, size_t>> rest;
  for (size_t i = 0; i < kCategories; ++i) {
    const double exact = std::max(0.0, shares[i]) * width;
    cells.push_back(static_cast<int>(exact));
    rest.emplace_back(exact - std::floor(exact), i);
  }
  std::stable_sort(rest.begin(), rest.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  int left = width - std::accumulate(cells.begin(), cells.end(), 0);
  for (size_t i = 0; left > 0 && i < rest.size(); ++i, --left) ++cells[rest[i].second];
  return cells;
}

void put_bar(Canvas& c, int x, int y, const Shares& shares, int width) {
  const std::vector<int> cells = bar_cells(shares, width);
  for (size_t category = 0; category < kCategories; ++category) {
    for (int i = 0; i < cells[category]; ++i)
      c.frame.put_glyph(x++, y, glyph_of(c.theme, category), style_of(category));
  }
}

char32_t spark(const Theme& theme, double value, double low, double high) {
  constexpr std::u32string_view kUnicode = U"▁▂▃▄▅▆▇█", kAscii = U"_.-:=+*#";
  const double share = high > low ? std::clamp((value - low) / (high - low), 0.0, 1.0) : 0;
  const std::u32string_view heights = theme.unicode ? kUnicode : kAscii;
  return heights[static_cast<size_t>(std::lround(share * static_cast<double>(heights.size() - 1)))];
}

void put_rule(Canvas& c, const Rect& r, const std::string& title, const std::string& more) {
  const char32_t line = c.theme.unicode ? U'─' : U'-';
  for (int x = r.x; x < r.right(); ++x) c.frame.put_glyph(x, r.y, line, Style::kDim);
  int x = c.frame.put(r.x + 1, r.y, " " + title + " ", Style::kTitle, r.right() - 1);
  if (more.empty() || static_cast<int>(reports::display_width(more)) + 3 > r.right() - x) return;
  c.frame.put(x + 1, r.y, " " + more + " ", Style::kDim, r.right() - 1);
}

std::vector<std::string> wrap(const std::string& text, int width, int lines) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (end > at)
      words.push_back(reports::shorten_middle(reports::printable(text.substr(at, end - at)),
                                              static_cast<size_t>(std::max(2, width))));
    at = end + 1;
  }
  std::vector<std::string> result;
  std::string line;
  const auto columns = [](const std::string& t) { return static_cast<int>(reports::display_width(t)); };
  for (size_t i = 0; i < words.size(); ++i) {
    const int gap = line.empty() ? 0 : 1;
    const bool last_line = static_cast<int>(result.size()) == lines - 1;
    const int spare = last_line && i + 1 < words.size() ? 3 : 0;  // for " .."
    if (columns(line) + gap + columns(words[i]) + spare <= width ||
        (last_line && i + 1 == words.size() && columns(line) + gap + columns(words[i]) <= width)) {
      line += (gap ? " " : "") + words[i];
      continue;
    }
    if (last_line) {
      // Everything that is left may still fit.
      std::string rest = line;
      for (size_t j = i; j < words.size(); ++j) rest += (rest.empty() ? "" : " ") + words[j];
      result.push_back(columns(rest) <= width ? rest : line + (columns(line) + 3 <= width ? " .." : ""));
      return result;
    }
    result.push_back(line);
    line = words[i];
  }
  if (!line.empty()) result.push_back(line);
  return result;
}

}  // namespace ddl::tui
