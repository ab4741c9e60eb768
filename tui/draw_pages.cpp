// Pages that take the place of the panels: help, why a rank, who waits for whom, all ranks at a glance.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/statistics.h"
#include "reports/format.h"
#include "reports/safe_text.h"
#include "tui/paint.h"

namespace ddl::tui {

void draw_help(Canvas& c, const Rect& r) {
  struct Key {
    const char *keys, *text;
  };
  constexpr Key kKeys[] = {
#define DDL_KEY(keys, label, text) {keys, text},
#include "tui/keys.def"
#undef DDL_KEY
  };
  put_rule(c, {r.x, r.y, r.width, 1}, "Help", "Esc: back   up down: more");
  std::vector<std::pair<std::string, std::string>> lines;
  const int keys = r.width >= 50 ? 16 : 13;
  for (const Key& key : kKeys) {
    std::string label = key.keys;
    for (const std::string& part : wrap(key.text, r.width - keys - 1, 9)) {
      lines.emplace_back(std::exchange(label, ""), part);
    }
  }
  const auto row = [&](const std::string& label, const std::string& text) {
    std::string left = label;
    for (const std::string& part : wrap(text, r.width - keys - 1, 9)) lines.emplace_back(std::exchange(left, ""), part);
  };
  lines.emplace_back("", "");
  row("LATE", "how much later than the median rank it enters the collectives of a step; waiting least is the same");
  row("WAIT", "waiting for others inside of collectives, ms per step");
  row("SKEW XFER", "waiting, and moving data: BUSBW is of XFER alone, of BEST compares with the best this job has shown");
  row("-", "not known. Waiting in messages is split by ddl report only");
  const char* words[] = {"compute", "compute+comm: both at once", "exposed comm: transfer that nothing hides", "waiting for others",
                         "idle"};
  for (size_t i = 0; i < kCategories; ++i) lines.emplace_back(utf8(glyph_of(c.theme, i)), words[i]);
  const int most = std::max(0, static_cast<int>(lines.size()) - (r.height - 1));
  const int scroll = std::clamp(c.view.scroll, 0, most);
  for (int i = 0; i < r.height - 1 && static_cast<size_t>(i + scroll) < lines.size(); ++i) {
    const auto& [label, text] = lines[static_cast<size_t>(i + scroll)];
    c.frame.put(r.x + 1, r.y + 1 + i, label, Style::kBold, r.x + keys);
    c.frame.put(r.x + keys, r.y + 1 + i, text, Style::kPlain, r.right());
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
  const RankRow& rank = *lines[static_cast<size_t>(std::clamp(c.view.cursor, 0, static_cast<int>(lines.size()) - 1))].row;
  put_rule(c, {r.x, r.y, r.width, 1}, fmt::format("Why rank {}?", rank.rank),
           "against the median of all others, ms per step; Backspace: back");
  struct Difference {
    std::string what;
    double own, others;
  };
  std::vector<Difference> differences;
  const auto add = [&](const std::string& what, const auto& value) {
    const std::optional<double> own = value(rank);
    std::vector<double> others;
    for (const RankRow& row : s.ranks) {
      if (row.rank == rank.rank) continue;
      if (const std::optional<double> v = value(row)) others.push_back(*v);
    }
    if (own && !others.empty()) differences.push_back({what, *own, median_of(others)});
  };
  const auto transfer = [](const RankRow& row) {
    return row.exposed_ns && row.wait_ns ? std::optional(*row.exposed_ns - *row.wait_ns) : std::nullopt;
  };
  add("computing", [](const RankRow& row) { return row.compute_ns; });
  add("waiting for others", [](const RankRow& row) { return row.wait_ns; });
  add("exposed transfer", transfer);
  for (size_t i = 0; i < s.layers.size(); ++i) {
    add("layer " + s.layers[i].name, [i](const RankRow& row) -> std::optional<double> {
      const auto found = std::find_if(row.layers.begin(), row.layers.end(), [i](const auto& l) { return l.first == i; });
      return found == row.layers.end() ? std::nullopt : std::optional(found->second);
    });
  }
  std::stable_sort(differences.begin(), differences.end(),
                   [](const Difference& a, const Difference& b) { return std::abs(a.own - a.others) > std::abs(b.own - b.others); });
  const int decimals = ms_decimals(s);
  const int name = std::clamp(r.width - 2 - 3 * 10, 8, 40);
  int y = r.y + 1;
  for (int x = r.x; x < r.right(); ++x) c.frame.put_glyph(x, y, U' ', Style::kHeader);
  c.frame.put(r.x + 2, y, "WHAT", Style::kHeader);
  const char* heads[] = {"THIS RANK", "OTHERS", "MORE"};
  for (int i = 0; i < 3; ++i) c.frame.put_right(r.x + 2 + name, y, heads[i], Style::kHeader, r.x + 2 + name + (i + 1) * 10);
  ++y;
  for (const Difference& d : differences) {
    if (y >= r.bottom() - 2) break;
    c.frame.put(r.x + 2, y, reports::shorten_middle(reports::printable(d.what), static_cast<size_t>(name - 1)), Style::kPlain,
                r.x + 2 + name);
    const std::string numbers[] = {ms_text(d.own, decimals, 9), ms_text(d.others, decimals, 9),
                                   ms_text(d.own - d.others, decimals, 9, true)};
    for (int i = 0; i < 3; ++i) c.frame.put_right(r.x + 2 + name, y, numbers[i], Style::kPlain, r.x + 2 + name + (i + 1) * 10);
    ++y;
  }
  if (differences.empty()) c.frame.put(r.x + 2, y++, "nothing is known of its steps yet", Style::kDim, r.right());
  if (y < r.bottom()) {
    std::string more = rank.node + fmt::format("/{}", rank.slot);
    if (!rank.call.empty()) more += fmt::format(", in {} for {}", rank.call, reports::short_duration(static_cast<int64_t>(rank.call_ns)));
    if (rank.lost > 0) more += fmt::format(", {} events lost", rank.lost);
    c.frame.put(r.x + 2, y, more, Style::kDim, r.right());
  }
}

void draw_matrix(Canvas& c, const Rect& r) {
  const Snapshot& s = c.s;
  put_rule(c, {r.x, r.y, r.width, 1}, "Who waits for whom",
           fmt::format("ms per {}, in collectives; Backspace: back", s.annotated ? "step" : "second"));
  std::map<int32_t, double> by_late, by_waiter;
  for (const auto& [pair, ns] : s.blame) {
    by_late[pair.first] += ns;
    by_waiter[pair.second] += ns;
  }
  const auto ordered = [](const std::map<int32_t, double>& sums) {
    std::vector<std::pair<double, int32_t>> order;
    for (const auto& [rank, ns] : sums) order.emplace_back(-ns, rank);
    std::sort(order.begin(), order.end());
    return order;
  };
  const auto lates = ordered(by_late), waiters = ordered(by_waiter);
  if (lates.empty()) {
    c.frame.put(r.x + 2, r.y + 1, "nobody waited in a collective", Style::kDim, r.right());
    return;
  }
  constexpr int kCell = 9;
  const int decimals = ms_decimals(s);
  const size_t columns = std::min(lates.size(), static_cast<size_t>(std::max(1, (r.width - 12) / kCell)));
  c.frame.put(r.x + 2, r.y + 1, "WAITER", Style::kHeader);
  for (size_t i = 0; i < columns; ++i)
    c.frame.put_right(r.x, r.y + 1, fmt::format("for {}", lates[i].second), Style::kHeader, r.x + 12 + static_cast<int>(i + 1) * kCell);
  for (size_t w = 0; w < waiters.size() && static_cast<int>(w) < r.height - 2; ++w) {
    const int y = r.y + 2 + static_cast<int>(w);
    c.frame.put(r.x + 2, y, fmt::format("rank {}", waiters[w].second), Style::kPlain, r.x + 12);
    for (size_t i = 0; i < columns; ++i) {
      const auto found = s.blame.find({lates[i].second, waiters[w].second});
      const std::string text = found == s.blame.end() ? (c.theme.unicode ? "·" : ".") : ms_text(found->second, decimals, kCell - 1);
      c.frame.put_right(r.x, y, text, Style::kPlain, r.x + 12 + static_cast<int>(i + 1) * kCell);
    }
  }
}

void draw_map(Canvas& c, const Rect& r) {
  const Snapshot& s = c.s;
  put_rule(c, {r.x, r.y, r.width, 1}, "Rank map", "one cell a rank, by lateness; Backspace: back");
  double high = 0.05 * s.p50_ns.value_or(0);
  for (const RankRow& row : s.ranks) high = std::max(high, row.late_ns.value_or(0));
  const int label = 7;
  const int room = std::max(8, r.width - label - 1);
  const int columns = room >= 64 ? 64 : room / 8 * 8;
  const int first = std::clamp(c.view.scroll, 0, std::max(0, static_cast<int>(s.ranks.size()) / columns));
  int y = r.y + 1;
  for (size_t at = static_cast<size_t>(first * columns); at < s.ranks.size() && y < r.bottom() - 1;
       at += static_cast<size_t>(columns), ++y) {
    c.frame.put_right(r.x, y, std::to_string(s.ranks[at].rank), Style::kDim, r.x + label - 1);
    for (size_t i = at; i < std::min(s.ranks.size(), at + static_cast<size_t>(columns)); ++i) {
      const RankRow& row = s.ranks[i];
      const int x = r.x + label + static_cast<int>(i - at);
      const bool over = row.life != Life::kRunning && row.life != Life::kStarting;
      const Style style = row.alarm ? Style::kAlarm : Style::kPlain;
      c.frame.put_glyph(x, y,
                        over           ? U'x'
                        : row.alarm    ? U'!'
                        : !row.late_ns ? U'?'
                                       : spark(c.theme, std::max(0.0, *row.late_ns), 0, high),
                        style);
    }
  }
  put_pieces(c, r.x, r.bottom() - 1, r.right(),
             {{utf8(spark(c.theme, 0, 0, 1)) + " not late", 5, Style::kDim},
              {fmt::format("{} {} ms late", utf8(spark(c.theme, 1, 0, 1)), ms_text(high, ms_decimals(s), 8)), 5, Style::kDim},
              {"! alarm", 3, Style::kDim},
              {"x ended", 2, Style::kDim},
              {"? not known", 1, Style::kDim}});
}

}  // namespace ddl::tui
