// Pages that take the place of the panels: help, why a rank, who waits for whom, all ranks at a glance.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/statistics.h"
#include "reports/format.h"
#include "reports/safe_text.h"
#include "tui/paint.h"

namespace ddl::tui {

namespace {

constexpr int kMapLabel = 7;  // columns left of the cells

int map_columns(const Rect& r) {
  const int room = std::max(8, r.width - kMapLabel - 1);
  return room >= 64 ? 64 : room / 8 * 8;
}

/// Ranks by what is summed of them, the largest first.
std::vector<int32_t> ranks_by(const Snapshot& s, int32_t std::pair<int32_t, int32_t>::*rank) {
  std::map<int32_t, double> sums;
  for (const auto& [pair, ns] : s.blame) sums[pair.*rank] += ns;
  std::vector<int32_t> ranks;
  for (const auto& [number, ns] : sums) ranks.push_back(number);
  std::stable_sort(ranks.begin(), ranks.end(), [&](int32_t a, int32_t b) { return sums[a] > sums[b]; });
  return ranks;
}
std::vector<int32_t> late_ranks(const Snapshot& s) { return ranks_by(s, &std::pair<int32_t, int32_t>::first); }
std::vector<int32_t> waiting_ranks(const Snapshot& s) { return ranks_by(s, &std::pair<int32_t, int32_t>::second); }

struct HelpLine {
  std::string label, text;
};

int help_column(int width) { return width >= 50 ? 16 : 13; }

std::vector<HelpLine> help_lines(const Theme& theme, int width) {
  constexpr std::pair<const char*, const char*> kRows[] = {
#define DDL_KEY(keys, label, text) {keys, text},
#include "tui/keys.def"
#undef DDL_KEY
      {"", ""},
      {"LATE", "how much later than the median rank it enters the collectives of a step; waiting least is the same"},
      {"groups apart", "their ranks never wait for each other: LATE is against the median of its group"},
      {"WAIT", "waiting for others inside of collectives, ms per step"},
      {"WAIT XFER",
       "waiting, and moving data: BUSBW is of XFER alone, of BEST compares with the best this job has shown"},
      {"-", "not known. Waiting in messages is split by ddl report only"},
  };
  constexpr const char* kCategoryTexts[] = {"compute",
                                            "compute+comm: both at once",
                                            "exposed comm: transfer that nothing hides",
                                            "waiting for others",
                                            "exposed copies of GPUs",
                                            "idle"};
  std::vector<HelpLine> lines;
  for (const auto& [keys, text] : kRows) {
    std::string label = keys;
    if (label.empty()) lines.push_back({});
    for (const std::string& part : wrap(text, width - help_column(width) - 1, 9))
      lines.push_back({std::exchange(label, ""), part});
  }
  for (size_t i = 0; i < kCategories; ++i) lines.push_back({utf8(glyph_of(theme, i)), kCategoryTexts[i]});
  return lines;
}

}  // namespace

PageExtent page_extent(const Snapshot& s, const View& view, const Rect& r) {
  const int below_rule = r.height - 1, below_header = r.height - 2;
  switch (view.page) {
    case Page::kHelp:
      return {static_cast<int>(help_lines({}, r.width).size()), below_rule};
    case Page::kMatrix:
      return {static_cast<int>(waiting_ranks(s).size()), below_header};
    case Page::kMap:
      return {(static_cast<int>(s.ranks.size()) + map_columns(r) - 1) / map_columns(r), below_header};
    case Page::kLayers:
      return {static_cast<int>(s.layers.size()), below_header};
    case Page::kCollectives:
      return {static_cast<int>(s.collectives.size()), below_header - axis_lines(s, r.height)};
    case Page::kSetup:
    case Page::kWhy:
    case Page::kMain:
      break;
  }
  return {0, below_rule};
}

int first_line_of_page(const Canvas& c, const Rect& r) {
  return std::clamp(c.view.scroll, 0, page_extent(c.s, c.view, r).last_scroll());
}

void draw_help(Canvas& c, const Rect& r) {
  put_rule(c, {r.x, r.y, r.width, 1}, "Help", "Esc: back   up down: more");
  const std::vector<HelpLine> lines = help_lines(c.theme, r.width);
  const int column = help_column(r.width);
  int y = r.y + 1;
  for (auto i = static_cast<size_t>(first_line_of_page(c, r)); i < lines.size() && y < r.bottom(); ++i, ++y) {
    c.frame.put(r.x + 1, y, lines[i].label, Style::kBold, r.x + column);
    c.frame.put(r.x + column, y, lines[i].text, Style::kPlain, r.right());
  }
}

void draw_setup(Canvas& c, const Rect& r) {
  const View& v = c.view;
  put_rule(c, {r.x, r.y, r.width, 1}, "Setup", "F12 saves it; F2: back");
  const auto shown = [&](int panel) { return v.panels[panel] ? "shown" : "hidden"; };
  const std::pair<const char*, std::string> lines[] = {
      {"1", fmt::format("ranks        {}", shown(0))},
      {"2", fmt::format("layers       {}", shown(1))},
      {"3", fmt::format("collectives  {}", shown(2))},
      {"4", fmt::format("history      {}", shown(3))},
      {"d", fmt::format("refresh      every {} s", v.interval_s)},
      {"< >", fmt::format("sort         {}{}", name_of(v.sort), v.inverted ? ", inverted (I)" : "")},
      {"t", fmt::format("by node      {}", v.by_node ? "yes" : "no")},
      {"/", fmt::format("filter       {}", v.filter.empty() ? "none" : v.filter.text())},
  };
  int y = r.y + 1;
  for (const auto& [key, text] : lines) {
    if (y >= r.bottom()) return;
    c.frame.put(r.x + 2, y, key, Style::kBold);
    c.frame.put(r.x + 7, y++, text, Style::kPlain, r.right());
  }
}

void draw_why(Canvas& c, const Rect& r) {
  const Snapshot& s = c.s;
  const std::vector<Line> lines = visible_lines(s, c.view);
  if (lines.empty()) {
    put_rule(c, {r.x, r.y, r.width, 1}, "Why", "Backspace: back");
    return;
  }
  const RankRow& rank =
      *lines[static_cast<size_t>(std::clamp(c.view.cursor, 0, static_cast<int>(lines.size()) - 1))].row;
  put_rule(c, {r.x, r.y, r.width, 1}, fmt::format("Why rank {}?", rank.rank),
           fmt::format("against the median of {}, ms per {}; Backspace: back", rank.part ? "its group" : "all others",
                       s.annotated ? "step" : "second"));
  struct Difference {
    std::string what;
    double own, others;
  };
  std::vector<Difference> differences;
  const auto add = [&](const std::string& what, const auto& value) {
    const std::optional<double> own = value(rank);
    std::vector<double> others;
    for (const RankRow& row : s.ranks) {
      if (row.rank == rank.rank || row.part != rank.part) continue;
      if (const std::optional<double> v = value(row)) others.push_back(*v);
    }
    if (own && !others.empty()) differences.push_back({what, *own, median_of(others)});
  };
  const auto transfer = [](const RankRow& row) {
    return row.exposed_ns && row.wait_ns ? std::optional(*row.exposed_ns - *row.wait_ns) : std::nullopt;
  };
  add(!s.gpus ? "computing"
      : s.mpi ? "outside MPI"
              : "outside collectives",
      [](const RankRow& row) { return row.compute_ns; });
  add("waiting for others", [](const RankRow& row) { return row.wait_ns; });
  add("exposed transfer", transfer);
  for (size_t i = 0; i < s.layers.size(); ++i) {
    add("layer " + s.layers[i].name, [i](const RankRow& row) -> std::optional<double> {
      const auto found =
          std::find_if(row.layers.begin(), row.layers.end(), [i](const auto& l) { return l.first == i; });
      return found == row.layers.end() ? std::nullopt : std::optional(found->second);
    });
  }
  std::stable_sort(differences.begin(), differences.end(), [](const Difference& a, const Difference& b) {
    return std::abs(a.own - a.others) > std::abs(b.own - b.others);
  });
  const int decimals = ms_decimals(s);
  const int name = std::clamp(r.width - 2 - 3 * 10, 8, 40);
  int y = r.y + 1;
  if (!rank.stack.empty()) {
    for (const std::string& line :
         wrap("stack: " + reports::printable(rank.stack), r.width - 3, std::max(1, r.height - 6)))
      c.frame.put(r.x + 2, y++, line, Style::kPlain, r.right());
  }
  for (int x = r.x; x < r.right(); ++x) c.frame.put_glyph(x, y, U' ', Style::kHeader);
  c.frame.put(r.x + 2, y, "WHAT", Style::kHeader);
  const char* heads[] = {"THIS RANK", "OTHERS", "MORE"};
  for (int i = 0; i < 3; ++i)
    c.frame.put_right(r.x + 2 + name, y, heads[i], Style::kHeader, r.x + 2 + name + (i + 1) * 10);
  ++y;
  for (const Difference& d : differences) {
    if (y >= r.bottom() - 2) break;
    c.frame.put(r.x + 2, y, reports::shorten_middle(reports::printable(d.what), static_cast<size_t>(name - 1)),
                Style::kPlain, r.x + 2 + name);
    const std::string numbers[] = {ms_text(d.own, decimals, 9), ms_text(d.others, decimals, 9),
                                   ms_text(d.own - d.others, decimals, 9, true)};
    for (int i = 0; i < 3; ++i)
      c.frame.put_right(r.x + 2 + name, y, numbers[i], Style::kPlain, r.x + 2 + name + (i + 1) * 10);
    ++y;
  }
  if (differences.empty()) c.frame.put(r.x + 2, y++, "none of its steps is known yet", Style::kDim, r.right());
  if (y < r.bottom()) {
    std::string more = rank.node + fmt::format("/{}", rank.slot);
    if (!rank.call.empty())
      more += fmt::format(", in {} for {}", rank.call, reports::short_duration(static_cast<int64_t>(rank.call_ns)));
    if (rank.lost > 0) more += fmt::format(", {} events lost", rank.lost);
    c.frame.put(r.x + 2, y, more, Style::kDim, r.right());
  }
}

void draw_matrix(Canvas& c, const Rect& r) {
  const Snapshot& s = c.s;
  put_rule(c, {r.x, r.y, r.width, 1}, "Who waits for whom",
           fmt::format("ms per {}, in collectives; Backspace: back", s.annotated ? "step" : "second"));
  const std::vector<int32_t> lates = late_ranks(s), waiters = waiting_ranks(s);
  if (lates.empty()) {
    const char* why = s.negotiates
                          ? "-: background threads make its MPI calls; ddl report says whose training thread is late"
                          : "nobody waited in a collective";
    int y = r.y + 1;
    for (const std::string& part : wrap(why, r.width - 3, std::max(1, r.height - 1)))
      if (y < r.bottom()) c.frame.put(r.x + 2, y++, part, Style::kDim, r.right());
    return;
  }
  constexpr int kCell = 9;
  const int decimals = ms_decimals(s);
  const size_t columns = std::min(lates.size(), static_cast<size_t>(std::max(1, (r.width - 12) / kCell)));
  c.frame.put(r.x + 2, r.y + 1, "WAITER", Style::kHeader);
  for (size_t i = 0; i < columns; ++i)
    c.frame.put_right(r.x, r.y + 1, fmt::format("for {}", lates[i]), Style::kHeader,
                      r.x + 12 + static_cast<int>(i + 1) * kCell);
  int y = r.y + 2;
  for (auto w = static_cast<size_t>(first_line_of_page(c, r)); w < waiters.size() && y < r.bottom(); ++w, ++y) {
    c.frame.put(r.x + 2, y, fmt::format("rank {}", waiters[w]), Style::kPlain, r.x + 12);
    for (size_t i = 0; i < columns; ++i) {
      const auto found = s.blame.find({lates[i], waiters[w]});
      const std::string text =
          found == s.blame.end() ? (c.theme.unicode ? "·" : ".") : ms_text(found->second, decimals, kCell - 1);
      c.frame.put_right(r.x, y, text, Style::kPlain, r.x + 12 + static_cast<int>(i + 1) * kCell);
    }
  }
}

void draw_map(Canvas& c, const Rect& r) {
  const Snapshot& s = c.s;
  put_rule(c, {r.x, r.y, r.width, 1}, "Rank map", "one cell a rank, by lateness; Backspace: back");
  double high = 0.05 * s.p50_ns.value_or(0);
  for (const RankRow& row : s.ranks) high = std::max(high, row.late_ns.value_or(0));
  const int columns = map_columns(r);
  const int first = first_line_of_page(c, r);
  int y = r.y + 1;
  for (size_t at = static_cast<size_t>(first * columns); at < s.ranks.size() && y < r.bottom() - 1;
       at += static_cast<size_t>(columns), ++y) {
    c.frame.put_right(r.x, y, std::to_string(s.ranks[at].rank), Style::kDim, r.x + kMapLabel - 1);
    for (size_t i = at; i < std::min(s.ranks.size(), at + static_cast<size_t>(columns)); ++i) {
      const RankRow& row = s.ranks[i];
      const int x = r.x + kMapLabel + static_cast<int>(i - at);
      const Style style = row.alarm ? Style::kAlarm : Style::kPlain;
      c.frame.put_glyph(x, y,
                        is_over(row.life) ? U'x'
                        : row.alarm       ? U'!'
                        : !row.late_ns    ? U'?'
                                          : spark(c.theme, std::max(0.0, *row.late_ns), 0, high),
                        style);
    }
  }
  put_pieces(
      c, r.x, r.bottom() - 1, r.right(),
      {{utf8(spark(c.theme, 0, 0, 1)) + " not late", 5, Style::kDim},
       {fmt::format("{} {} ms late", utf8(spark(c.theme, 1, 0, 1)), ms_text(high, ms_decimals(s), 8)), 5, Style::kDim},
       {"! alarm", 3, Style::kDim},
       {"x ended", 2, Style::kDim},
       {"? not known", 1, Style::kDim}});
}

}  // namespace ddl::tui
