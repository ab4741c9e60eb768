// The rank table: who is late, who waits, where the step goes. Columns keep their width while values move, and fall
// away from the right.
#include <fmt/format.h>

#include <algorithm>

#include "reports/format.h"
#include "reports/safe_text.h"
#include "tui/paint.h"

namespace ddl::tui {
namespace {

struct Columns {
  bool compact = false;
  int rank = 0, node = 0, late = 0, wait = 0, bar = 0, gpu = 0, memory = 0, trend = 0;  ///< widths; 0: not shown
};

Columns columns_for(const Snapshot& s, int width) {
  Columns c;
  const auto digits = static_cast<int>(std::to_string(std::max(s.world_size - 1, 0)).size());
  c.compact = width < 60;
  c.rank = std::max(4, digits);
  c.late = c.compact ? 6 : 8;
  int left = width - 2 - c.rank - c.late - 1;
  if (left >= 7) left -= c.wait = c.compact ? 6 : 7;
  if (c.compact) {
    c.bar = left >= 5 ? left - 2 : 0;
    return c;
  }
  size_t longest = 4;
  for (const RankRow& row : s.ranks)
    longest = std::max(longest, reports::display_width(reports::printable(row.node)) + 2 + (row.slot > 9));
  c.node = static_cast<int>(std::clamp<size_t>(longest, 9, width >= 100 ? 24 : 12));
  left -= c.node + 2;
  const bool gpu =
      std::any_of(s.ranks.begin(), s.ranks.end(), [](const RankRow& row) { return row.gpu_ratio.has_value(); });
  if (gpu && left >= 50) left -= c.gpu = 5;
  if (gpu && left >= 50) left -= c.memory = 5;
  c.trend = std::clamp(left / 4, 6, 30) + 1;
  c.bar = left - c.trend - 1;
  return c;
}

std::string node_text(const RankRow& row, int width) {
  const std::string slot = fmt::format("/{}", row.slot);
  return reports::shorten_middle(reports::printable(row.node),
                                 static_cast<size_t>(std::max(1, width - static_cast<int>(slot.size())))) +
         slot;
}

/// Instead of the bar: what a rank sits in, or how it ended.
std::string instead(const Snapshot& s, const RankRow& row) {
  const bool runs = row.life == Life::kRunning;
  std::string text = runs ? "" : name_of(row.life);
  if (!row.call.empty()) {
    const bool named =
        !runs || s.feed == Feed::kHung || s.feed == Feed::kStale || row.call_ns > 3 * s.p50_ns.value_or(0);
    if (named)
      text += fmt::format("{}in {} {}", text.empty() ? "" : ", ", row.call,
                          !runs ? "" : reports::short_duration(static_cast<int64_t>(row.call_ns)));
  } else if (s.feed == Feed::kHung && text.empty()) {
    text = "in no call";
  } else if (row.stale && text.empty()) {
    text = "nothing new for " + reports::short_duration(static_cast<int64_t>(row.silent_ns));
  }
  return text;
}

/// The first line that is shown, so that the cursor is.
int first_line(const View& view, int lines, int rows) {
  return std::clamp(std::clamp(view.cursor, 0, std::max(0, lines - 1)) - rows / 2, 0, std::max(0, lines - rows));
}

const RankRow* same_rank(const Snapshot& s, int32_t rank) {
  const auto found = std::find_if(s.ranks.begin(), s.ranks.end(), [&](const RankRow& row) { return row.rank == rank; });
  return found == s.ranks.end() ? nullptr : &*found;
}

std::optional<double> less(const std::optional<double>& a, const std::optional<double>& b) {
  return a && b ? std::optional(*a - *b) : std::nullopt;
}

void draw_header(Canvas& c, const Columns& k, int x, int y, int end) {
  const std::string arrow = c.theme.unicode ? (c.view.inverted ? "▲" : "▼") : (c.view.inverted ? "^" : "v");
  const bool unit = !k.compact;
  const std::string delta = c.view.baseline != nullptr ? (c.theme.unicode ? "Δ" : "d") : "";
  const auto label = [&](Column column, std::string text) { return (c.view.sort == column ? arrow : "") + text; };
  for (int i = x; i < end; ++i) c.frame.put_glyph(i, y, U' ', Style::kHeader);
  x += 2;
  c.frame.put_right(x, y, label(Column::kRank, "RANK"), Style::kHeader, x + k.rank);
  if (c.view.sort == Column::kRank && k.rank < 5) c.frame.put(x - 1, y, arrow + "RANK", Style::kHeader, x + k.rank);
  x += k.rank;
  if (k.node > 0) c.frame.put(x + 1, y, label(Column::kNode, "NODE"), Style::kHeader);
  x += k.node > 0 ? k.node + 2 : 0;
  c.frame.put_right(x, y, label(Column::kLate, delta + (unit ? "LATEms" : "LATE")), Style::kHeader, x + k.late);
  x += k.late;
  if (k.wait > 0)
    c.frame.put_right(x, y, label(Column::kWait, delta + (unit && c.view.sort != Column::kWait ? "WAITms" : "WAIT")),
                      Style::kHeader, x + k.wait);
  x += k.wait + 2;
  if (k.bar > 0)
    c.frame.put(x, y,
                label(Column::kStep, k.compact       ? "STEP"
                                     : c.s.gpus      ? "HOST'S TIME"
                                     : c.s.annotated ? "WHERE THE STEP GOES"
                                                     : "WHERE THE TIME GOES"),
                Style::kHeader, x + k.bar);
  x += k.bar;
  if (k.gpu > 0) c.frame.put_right(x, y, label(Column::kGpu, "GPU%"), Style::kHeader, x + k.gpu);
  x += k.gpu;
  if (k.memory > 0) c.frame.put_right(x, y, "MEM%", Style::kHeader, x + k.memory);
  x += k.memory;
  if (k.trend > 0)
    c.frame.put(x + 1, y,
                k.trend < 16    ? "TREND"
                : c.s.annotated ? "LATE, by step"
                                : "LATE, by second",
                Style::kHeader, x + k.trend);
}

}  // namespace

void draw_ranks(Canvas& c, const Rect& r) {
  const Snapshot& s = c.s;
  const bool wide = is_wide({c.frame.width(), c.frame.height()});
  const std::vector<Line> lines = visible_lines(s, c.view);
  int y = r.y;
  const int rows = r.height - 1 - (wide ? 1 : 0);
  const int cursor = std::clamp(c.view.cursor, 0, std::max(0, static_cast<int>(lines.size()) - 1));
  const int first = first_line(c.view, static_cast<int>(lines.size()), rows);
  if (wide) {
    put_rule(c, {r.x, y++, r.width, 1}, "Ranks",
             fmt::format("sort {}{}  filter {}  {}-{} of {}", name_of(c.view.sort), c.view.inverted ? " inverted" : "",
                         c.view.filter.empty() ? "none" : c.view.filter.text(), lines.empty() ? 0 : first + 1,
                         std::min<int>(first + rows, static_cast<int>(lines.size())), lines.size()));
  }
  const Columns k = columns_for(s, r.width - (wide ? 1 : 0));
  draw_header(c, k, r.x, y++, r.right());
  double high = 0;
  for (const RankRow& row : s.ranks) {
    for (const auto& late : row.trend) high = std::max(high, late.value_or(0));
  }
  high = std::max(high, 0.05 * s.p50_ns.value_or(0));
  const int decimals = ms_decimals(s);
  for (int i = first; i < std::min(first + rows, static_cast<int>(lines.size())); ++i, ++y) {
    const Line& line = lines[static_cast<size_t>(i)];
    const RankRow& row = *line.row;
    const RankRow* base = c.view.baseline != nullptr ? same_rank(*c.view.baseline, row.rank) : nullptr;
    const Style text = row.alarm                                     ? Style::kAlarm
                       : is_over(row.life) || s.feed == Feed::kStale ? Style::kDim
                                                                     : Style::kPlain;
    if (i == cursor) c.frame.put(r.x, y, ">", Style::kBold);
    if (row.alarm) c.frame.put(r.x + 1, y, "!", Style::kAlarm);
    int x = r.x + 2;
    c.frame.put_right(x, y, std::to_string(row.rank), text, x + k.rank);
    x += k.rank;
    if (k.node > 0) {
      const std::string name =
          line.node ? fmt::format("{} x{}",
                                  reports::shorten_middle(reports::printable(row.node),
                                                          static_cast<size_t>(std::max(1, k.node - 6))),
                                  line.ranks)
                    : std::string(line.inside ? " " : "") + node_text(row, k.node - (line.inside ? 1 : 0));
      c.frame.put(x + 1, y, name, text, x + 1 + k.node);
      x += k.node + 2;
    }
    const std::optional<double> late = base != nullptr ? less(row.late_ns, base->late_ns) : row.late_ns;
    const std::optional<double> wait = base != nullptr ? less(row.wait_ns, base->wait_ns) : row.wait_ns;
    c.frame.put_right(x, y, maybe_ms(late, decimals, k.late - 1, true), text, x + k.late);
    x += k.late;
    if (k.wait > 0) c.frame.put_right(x, y, maybe_ms(wait, decimals, k.wait - 1, base != nullptr), text, x + k.wait);
    x += k.wait + 2;
    const std::string words = instead(s, row);
    if (k.bar > 0) {
      if (!words.empty()) {
        const std::vector<std::string> shown = wrap(words, k.bar, 1);
        if (!shown.empty()) c.frame.put(x, y, shown.front(), text, x + k.bar);
      } else if (row.shares) {
        put_bar(c, x, y, *row.shares, k.bar);
      } else if (row.computing_ratio) {
        c.frame.put(x, y, fmt::format("computes {} of the last second", reports::percent_text(*row.computing_ratio)),
                    text, x + k.bar);
      }
    }
    x += k.bar;
    const auto ratio = [&](const std::optional<double>& value, int width) {
      if (width > 0) c.frame.put_right(x, y, value ? fmt::format("{:.0f}", 100 * *value) : "-", text, x + width);
      x += width;
    };
    ratio(row.gpu_ratio, k.gpu);
    ratio(row.memory_ratio, k.memory);
    if (k.trend > 0) {
      const size_t cells = std::min(static_cast<size_t>(k.trend - 1), row.trend.size());
      int at = x + k.trend - static_cast<int>(cells);
      for (size_t t = row.trend.size() - cells; t < row.trend.size(); ++t, ++at) {
        if (row.trend[t]) c.frame.put_glyph(at, y, spark(c.theme, *row.trend[t], 0, high), text);
      }
    }
    if (i == cursor) c.frame.select_row(r.x, y, r.right());
  }
  if (lines.empty())
    c.frame.put(r.x + 2, y, c.view.filter.empty() ? "no ranks yet" : "no rank passes the filter", Style::kDim,
                r.right());
}

Place place_at(const Snapshot& s, Size size, const View& view, int x, int y) {
  Place place;
  const bool wide = is_wide(size);
  for (const Placed& part : layout(size, contents_of(s, view))) {
    const Rect& r = part.rect;
    if (part.area != Area::kRanks || x < r.x || x >= r.right() || y < r.y || y >= r.bottom()) continue;
    const int lines = static_cast<int>(visible_lines(s, view).size());
    const int head = wide ? 2 : 1, rows = r.height - head;
    const int line = first_line(view, lines, rows) + y - r.y - head;
    if (y - r.y >= head && line < lines) place.line = line;
    if (y - r.y != head - 1) continue;
    const Columns k = columns_for(s, r.width - (wide ? 1 : 0));
    const int edges[] = {2 + k.rank, k.node > 0 ? k.node + 2 : 0, k.late, k.wait, 2 + k.bar, k.gpu};
    int edge = r.x;
    for (int i = 0; i < kColumns && !place.column; ++i) {
      edge += edges[i];
      if (x < edge) place.column = static_cast<Column>(i);
    }
  }
  return place;
}

void draw_status(Canvas& c, const Rect& r) {
  const Snapshot& s = c.s;
  const size_t lines = visible_lines(s, c.view).size();
  put_pieces(c, r.x + 2, r.y, r.right(),
             {{fmt::format("{} of {} ranks", lines, s.ranks.size()), 6, Style::kDim},
              {fmt::format("sort {}{}", name_of(c.view.sort), c.view.inverted ? " inverted" : ""), 5, Style::kDim},
              {fmt::format("filter {}", c.view.filter.empty() ? "none" : c.view.filter.text()),
               c.view.filter.empty() ? 1 : 9, c.view.filter.empty() ? Style::kDim : Style::kBold},
              {parts_text(s), 7},
              {fmt::format("window {} {}", s.window, s.annotated ? "steps" : "s"), 4, Style::kDim},
              {unreadable_text(s), 8, Style::kAlarm},
              {fmt::format("lost {}", s.lost), s.lost > 0 ? 8 : 3, s.lost > 0 ? Style::kAlarm : Style::kDim},
              {s.overhead_ratio ? fmt::format("overhead {:.1f}%", 100 * *s.overhead_ratio) : "", 2, Style::kDim},
              {s.own_cpu_ratio ? fmt::format("top {:.1f}%", 100 * *s.own_cpu_ratio) : "", 3, Style::kDim}});
}

}  // namespace ddl::tui
