// Collectives with TIME = WAIT + XFER, layers, and what to do.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "reports/format.h"
#include "reports/safe_text.h"
#include "tui/paint.h"

namespace ddl::tui {
namespace {

/// A column of a table: its header and one text per row, right-aligned unless `left`.
struct TextColumn {
  std::string header;
  int width = 0;
  bool left = false;
  std::vector<std::string> cells;
};

/// Draws the columns that fit, from the left; `scroll` rows are left out.
void put_table(Canvas& c, const Rect& r, const std::vector<TextColumn>& columns, size_t rows, size_t scroll = 0) {
  for (int x = r.x; x < r.right(); ++x) c.frame.put_glyph(x, r.y, U' ', Style::kHeader);
  int x = r.x + 2;
  for (const TextColumn& column : columns) {
    if (x + column.width > r.right()) break;
    const auto put = [&](int y, const std::string& text, Style style) {
      if (column.left) {
        c.frame.put(x, y, reports::shorten_middle(text, static_cast<size_t>(column.width - 1)), style,
                    x + column.width);
      } else {
        c.frame.put_right(x, y, text, style, x + column.width);
      }
    };
    put(r.y, column.header, Style::kHeader);
    for (size_t i = scroll; i < rows && static_cast<int>(i - scroll) < r.height - 1; ++i)
      put(r.y + 1 + static_cast<int>(i - scroll), column.cells[i], Style::kPlain);
    x += column.width;
  }
}

std::string gigabytes(const std::optional<double>& bytes_per_s) {
  if (!bytes_per_s) return "-";
  if (*bytes_per_s > 0 && *bytes_per_s < 5e5) return "<0.001";
  return *bytes_per_s >= 1e10 ? fmt::format("{:.1f}", *bytes_per_s * 1e-9) : fmt::format("{:.3f}", *bytes_per_s * 1e-9);
}

std::string per_step_text(double n) {
  return n >= 10 || n == static_cast<int64_t>(n) ? fmt::format("{:.0f}", n) : fmt::format("{:.1f}", n);
}

/// Whether some rows are the same operation with the same bytes, as of groups that do the same.
bool are_told_apart_by_comm(const std::vector<CollectiveRow>& rows) {
  std::set<std::pair<std::string_view, std::optional<int64_t>>> seen;
  return !std::all_of(rows.begin(), rows.end(),
                      [&](const CollectiveRow& row) { return seen.emplace(row.op, row.bytes).second; });
}

/// Room for a name: what the other columns leave.
int name_width(int width, int others, size_t longest) {
  return std::clamp(std::min(static_cast<int>(longest) + 1, width - 2 - others), 10, 40);
}

}  // namespace

int axis_lines(const Snapshot& s, int height) {
  const int lines = static_cast<int>(s.axes.size()) + 2;
  return s.axes.empty() || height < lines + 5 ? 0 : lines;
}

namespace {

void draw_axes(Canvas& c, const Rect& r) {
  const Snapshot& s = c.s;
  put_rule(c, {r.x, r.y, r.width, 1}, "Axes of parallelism",
           fmt::format("ms per {}, mean rank; FROM: what tells the axis", s.annotated ? "step" : "second"));
  const int decimals = ms_decimals(s);
  size_t longest = 4;
  for (const AxisRow& row : s.axes) longest = std::max(longest, reports::display_width(row.axis));
  std::vector<TextColumn> columns;
  const auto column = [&](std::string header, int width, bool left, const auto& text) {
    TextColumn col{std::move(header), width, left, {}};
    for (const AxisRow& row : s.axes) col.cells.push_back(text(row));
    columns.push_back(std::move(col));
  };
  column("AXIS", name_width(r.width, 9 + 7 + 7 + 7 + 3 * 8, longest), true,
         [](const AxisRow& row) { return row.axis; });
  column("FROM", 9, true, [](const AxisRow& row) { return row.source; });
  column("COMMS", 7, false, [](const AxisRow& row) { return std::to_string(row.communicators); });
  column("RANKS", 7, false, [](const AxisRow& row) { return std::to_string(row.ranks); });
  column(s.annotated ? "n/STEP" : "n/s", 7, false, [](const AxisRow& row) { return per_step_text(row.per_step); });
  column("TIMEms", 8, false, [&](const AxisRow& row) { return ms_text(row.time_ns, decimals, 7); });
  column("WAITms", 8, false, [&](const AxisRow& row) { return maybe_ms(row.wait_ns, decimals, 7); });
  column("XFERms", 8, false, [&](const AxisRow& row) { return maybe_ms(row.transfer_ns, decimals, 7); });
  put_table(c, {r.x, r.y + 1, r.width, r.height - 1}, columns, s.axes.size());
}

}  // namespace

void draw_collectives(Canvas& c, const Rect& whole) {
  const Snapshot& s = c.s;
  Rect r = whole;
  if (const int lines = c.view.page == Page::kCollectives ? axis_lines(s, whole.height) : 0; lines > 0) {
    r.height -= lines;
    draw_axes(c, {r.x, r.bottom(), r.width, lines});
  }
  Rect body = r;
  const std::string per = s.annotated ? "ms per step" : "ms per second";
  if (is_wide({c.frame.width(), c.frame.height()}) || c.view.page == Page::kCollectives) {
    put_rule(c, {r.x, r.y, r.width, 1}, "Collectives", fmt::format("{}, mean rank; TIME = WAIT + XFER", per));
    body = {r.x, r.y + 1, r.width, r.height - 1};
  }
  const int decimals = ms_decimals(s);
  size_t longest = 10, longest_comm = 4;
  for (const CollectiveRow& row : s.collectives) {
    longest = std::max(longest, reports::display_width(reports::printable(row.op)));
    longest_comm = std::max(longest_comm, reports::display_width(reports::printable(row.comm)));
  }
  // Where room is short, communicators are shown if they alone tell rows apart.
  const bool comm = r.width >= 96 || (r.width >= 70 && are_told_apart_by_comm(s.collectives));
  const int comm_width = comm ? static_cast<int>(std::min<size_t>(longest_comm + 1, r.width >= 96 ? 18 : 8)) : 0;
  const int others = comm_width + 10 + 7 + 8 + 8 + 8 + (r.width >= 60 ? 12 : 0);
  const size_t n = s.collectives.size();
  std::vector<TextColumn> columns(comm ? 10 : 9);
  size_t at = 0;
  const auto column = [&](std::string header, int width, bool left, const auto& text) {
    TextColumn& col = columns[at++];
    col.header = std::move(header);
    col.width = width;
    col.left = left;
    for (const CollectiveRow& row : s.collectives) col.cells.push_back(text(row));
  };
  column("COLLECTIVE", name_width(r.width, others, longest), true,
         [](const CollectiveRow& row) { return reports::printable(row.op); });
  if (comm) column("COMM", comm_width, true, [](const CollectiveRow& row) { return reports::printable(row.comm); });
  column("BYTES", 10, false, [](const CollectiveRow& row) { return row.bytes ? reports::size_text(*row.bytes) : "-"; });
  column(s.annotated ? "n/STEP" : "n/s", 7, false,
         [](const CollectiveRow& row) { return per_step_text(row.per_step); });
  column("TIMEms", 8, false, [&](const CollectiveRow& row) { return ms_text(row.time_ns, decimals, 7); });
  column("WAITms", 8, false, [&](const CollectiveRow& row) { return maybe_ms(row.wait_ns, decimals, 7); });
  column("XFERms", 8, false, [&](const CollectiveRow& row) { return maybe_ms(row.transfer_ns, decimals, 7); });
  column("BUSBW GB/s", 12, false, [](const CollectiveRow& row) { return gigabytes(row.busbw); });
  column("of BEST", 9, false, [](const CollectiveRow& row) { return row.of_best ? percent(*row.of_best) : "-"; });
  column("ALGBW", 8, false, [](const CollectiveRow& row) { return gigabytes(row.algbw); });
  put_table(c, body, columns, n, c.view.page == Page::kCollectives ? static_cast<size_t>(first_line_of_page(c, r)) : 0);
  if (n == 0) c.frame.put(body.x + 2, body.y + 1, "no collective has been seen whole yet", Style::kDim, body.right());
}

void draw_layers(Canvas& c, const Rect& r) {
  const Snapshot& s = c.s;
  Rect body = r;
  if (is_wide({c.frame.width(), c.frame.height()}) || c.view.page == Page::kLayers) {
    put_rule(c, {r.x, r.y, r.width, 1}, "Layers",
             fmt::format("own time, median rank, ms per {}", s.annotated ? "step" : "second"));
    body = {r.x, r.y + 1, r.width, r.height - 1};
  }
  const int decimals = ms_decimals(s);
  size_t longest = 5;
  for (const LayerRow& row : s.layers)
    longest = std::max(longest, reports::display_width(reports::printable(row.name)));
  std::vector<TextColumn> columns;
  const auto column = [&](std::string header, int width, bool left, const auto& text) {
    TextColumn col{std::move(header), width, left, {}};
    for (const LayerRow& row : s.layers) col.cells.push_back(text(row));
    columns.push_back(std::move(col));
  };
  column("LAYER", name_width(r.width, 4 * 8, longest), true,
         [](const LayerRow& row) { return reports::printable(row.name); });
  column("FWD", 8, false, [&](const LayerRow& row) { return maybe_ms(row.forward_ns, decimals, 7); });
  column("BWD", 8, false, [&](const LayerRow& row) { return maybe_ms(row.backward_ns, decimals, 7); });
  column("OTHER", 8, false, [&](const LayerRow& row) { return maybe_ms(row.other_ns, decimals, 7); });
  column("COMM", 8, false, [&](const LayerRow& row) { return maybe_ms(row.comm_ns, decimals, 7); });
  put_table(c, body, columns, s.layers.size(),
            c.view.page == Page::kLayers ? static_cast<size_t>(first_line_of_page(c, r)) : 0);
  if (s.layers.empty())
    c.frame.put(body.x + 2, body.y + 1, "the job marks no layers (NVTX, ddl/annotate.h, ddl_annotate.py)", Style::kDim,
                body.right());
}

void draw_advice(Canvas& c, const Rect& r) {
  const Snapshot& s = c.s;
  put_rule(c, {r.x, r.y, r.width, 1}, "What to look at", "");
  int y = r.y + 1;
  const auto line = [&](const std::string& text, Style style) {
    if (y < r.bottom()) c.frame.put(r.x + 1, y++, text, style, r.right());
  };
  if (s.unreadable_spools > 0) {
    const std::string text =
        fmt::format("{} unreadable: {}", reports::plural(s.unreadable_spools, "spool"), s.unreadable_why);
    for (const std::string& part : wrap(reports::printable(text), r.width - 2, 2)) line(part, Style::kAlarm);
  }
  if (!s.devices_unknown.empty()) {
    const std::string text = fmt::format("GPUs of ranks {}: n/a (their records had not come for some steps)",
                                         reports::rank_list(s.devices_unknown, 4));
    for (const std::string& part : wrap(text, r.width - 2, 2)) line(part, Style::kAlarm);
  }
  if (!s.headline.next.empty()) {
    for (const std::string& part : wrap("next: " + s.headline.next, r.width - 2, 2)) line(part, Style::kPlain);
  }
  // The waiting, largest first: who keeps whom. Less than what makes a straggler (specification.md R8) is
  // not worth a line.
  constexpr double kWorthTelling = 0.02;  // of the others' time
  const double others_ns =
      (s.annotated ? s.p50_ns.value_or(0) : 1e9) * std::max(0.0, static_cast<double>(s.ranks.size()) - 1);
  std::vector<std::pair<double, int32_t>> order;  // ns, rank
  double all = 0;
  for (const auto& [pair, ns] : s.blame) {
    if (order.empty() || order.back().second != pair.first) order.emplace_back(0.0, pair.first);
    order.back().first += ns;
    all += ns;
  }
  std::erase_if(order, [&](const auto& rank) { return rank.first < kWorthTelling * others_ns; });
  std::sort(order.rbegin(), order.rend());
  if (!order.empty())
    line(s.annotated ? "waiting in collectives, by who came last:" : "waiting by who came last, per second:",
         Style::kDim);
  for (const auto& [ns, rank] : order) {
    if (y >= r.bottom()) break;
    line(fmt::format("  rank {:<5} kept others {} ms  {}", rank, ms_text(ns, ms_decimals(s), 8), percent(ns / all)),
         Style::kPlain);
  }
}

}  // namespace ddl::tui
