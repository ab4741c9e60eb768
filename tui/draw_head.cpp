// The lines around the panels: who and when, the three numbers, the trend, where the job's step goes, the one sentence,
// the legend, the keys.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "reports/format.h"
#include "reports/safe_text.h"
#include "tui/paint.h"

namespace ddl::tui {
namespace {

constexpr int kFull = 60;  // columns from which on nothing is abbreviated

std::string state(const Canvas& c) {
  const Snapshot& s = c.s;
  if (c.view.paused) return c.view.back > 0 ? fmt::format("paused -{}", c.view.back) : "paused";
  switch (s.feed) {
    case Feed::kWaiting:
      return "waiting";
    case Feed::kLive:
      return fmt::format("live {:.1f}s", s.interval_s);
    case Feed::kStale:
      return fmt::format("stale {:.0f}s", s.silent_ns * 1e-9);
    case Feed::kHung:
      return fmt::format("hung {:.0f}s", s.stall->waited_ns * 1e-9);
    case Feed::kEnded:
      return "ended";
    case Feed::kReplay:
      return "replay";
  }
  return {};
}

Style state_style(const Canvas& c) {
  if (c.view.paused) return Style::kBold;
  switch (c.s.feed) {
    case Feed::kStale:
    case Feed::kHung:
      return Style::kAlarm;
    case Feed::kEnded:
      return c.s.headline.alarm ? Style::kAlarm : Style::kBold;
    default:
      return Style::kPlain;
  }
}

std::string step_word(const Snapshot& s) {
  if (!s.step) return {};
  return s.annotated ? fmt::format("step {}", *s.step) : "no steps marked";
}

void draw_title(Canvas& c, const Rect& r) {
  const Snapshot& s = c.s;
  const bool full = r.width >= kFull;
  const std::string nodes =
      s.nodes > 1 ? fmt::format("{} ranks/{} nodes", s.world_size, s.nodes) : fmt::format("{} ranks", s.world_size);
  int end = r.right();
  if (!s.clock.empty() && full) {
    c.frame.put_right(r.x, r.y, s.clock, Style::kDim, end);
    end -= static_cast<int>(s.clock.size()) + 2;
  }
  put_pieces(c, r.x, r.y, end,
             {{"ddl-top", 1, Style::kDim},
              {reports::shorten_middle(reports::printable(s.name), full ? 24 : 12), 7, Style::kTitle},
              {s.job_id.empty() ? "" : reports::shorten_middle(reports::printable("job " + s.job_id), 24), 3},
              {full ? nodes : fmt::format("{}r", s.world_size), 5},
              {s.other_worlds > 0 ? fmt::format("+{} worlds", s.other_worlds) : "", 2},
              {step_word(s), 8},
              {state(c), 9, state_style(c)},
              {is_wide({r.width, c.frame.height()}) ? reports::shorten_middle(reports::printable(s.run), 40) : "", 0,
               Style::kDim}});
}

std::string ratio_text(const std::optional<double>& ratio) { return ratio ? fmt::format("{:.2f}", *ratio) : "-"; }

std::string ratio_piece(const char* name, const std::optional<double>& ratio) {
  return ratio ? fmt::format("{} {}", name, percent(*ratio)) : "";
}

void draw_numbers(Canvas& c, const Rect& r) {
  const Snapshot& s = c.s;
  const bool full = r.width >= kFull;
  const auto plain = [&](const char* name, const std::optional<double>& ns) {
    return ns ? fmt::format("{} {:.{}f}", name, *ns * 1e-6, ms_decimals(s)) : "";
  };
  std::vector<Piece> pieces;
  if (s.now_ns && s.annotated)
    pieces.push_back({full ? "step " + step_text(s, *s.now_ns) : step_text(s, *s.now_ns), 9, Style::kBold});
  pieces.push_back({plain("p50", s.p50_ns), 8});
  pieces.push_back({full ? plain("p99", s.p99_ns) : "", 6});
  if (s.samples_per_s) pieces.push_back({fmt::format("{} samples/s", reports::number_text(*s.samples_per_s)), 6});
  const char* exposed = r.width >= 100 ? "exposed comm" : full ? "exposed" : "exp";
  pieces.push_back({ratio_piece(s.gpus ? (s.mpi ? "in MPI" : "in collectives") : exposed, s.exposed_ratio), 7});
  pieces.push_back({ratio_piece("overlap", s.overlap_ratio), 4});
  if (s.gpu_ratios && full)
    pieces.push_back(
        {fmt::format(fmt::runtime(r.width >= 120 ? "comp/comm {} raw {} xfer {} exposed" : "comp/comm {} {} {}"),
                     ratio_text(s.gpu_ratios->raw), ratio_text(s.gpu_ratios->transfer),
                     ratio_text(s.gpu_ratios->exposed)),
         7});
  if (r.width >= 100) {
    pieces.push_back({parts_text(s), 5});
    pieces.push_back({fmt::format("window {} {}", s.window, s.annotated ? "steps" : "s"), 1});
    pieces.push_back(
        {fmt::format("lost {} events", s.lost), s.lost > 0 ? 7 : 3, s.lost > 0 ? Style::kAlarm : Style::kPlain});
    pieces.push_back({unreadable_text(s), 7, Style::kAlarm});
    if (s.spools_in_turns > 0)
      pieces.push_back({fmt::format("{} in turns: descriptors", reports::plural(s.spools_in_turns, "spool")), 6});
    if (s.overhead_ratio) pieces.push_back({fmt::format("overhead {:.1f}%", 100 * *s.overhead_ratio), 3});
    if (s.own_cpu_ratio)
      pieces.push_back({fmt::format("ddl-top {:.1f}% of a core", 100 * *s.own_cpu_ratio), 2, Style::kDim});
  }
  put_pieces(c, r.x, r.y, r.right(), pieces);
}

void draw_trend(Canvas& c, const Rect& r) {
  const Snapshot& s = c.s;
  if (s.history.empty()) return;
  // As many steps as there are; where they are more than cells, a cell shows the longest of several.
  const size_t cells = static_cast<size_t>(std::max(1, r.width - 8 - 24));
  const size_t per_cell = (s.history.size() + cells - 1) / cells;
  std::vector<double> longest;
  for (size_t i = s.history.size() % per_cell; i < s.history.size(); ++i) {
    if ((i - s.history.size() % per_cell) % per_cell == 0) longest.push_back(0);
    longest.back() = std::max(longest.back(), s.history[i].step_ns);
  }
  const double high = *std::max_element(longest.begin(), longest.end());
  const double low = std::min(*std::min_element(longest.begin(), longest.end()), 0.8 * high);
  int x = c.frame.put(r.x, r.y, s.annotated ? "step ms " : "        ", Style::kDim);
  if (s.annotated) {
    for (const double ns : longest) c.frame.put_glyph(x++, r.y, spark(c.theme, ns, low, high), Style::kPlain);
    const int decimals = ms_decimals(s);
    c.frame.put_right(
        x + 1, r.y,
        fmt::format("max {} now {}", ms_text(high, decimals, 8), ms_text(s.history.back().step_ns, decimals, 8)),
        Style::kPlain, r.right());
  }
}

void draw_bar(Canvas& c, const Rect& r) {
  if (!c.s.shares) return;
  const Shares& shares = *c.s.shares;
  if (r.width < kFull) {
    put_bar(c, r.x, r.y, shares, r.width);
    return;
  }
  const std::vector<int> percents = bar_cells(shares, 100);  // they add up
  const auto p = [&](size_t i) { return std::to_string(percents[i]); };
  const std::string wait = c.s.waiting_known ? p(kWaiting) : "-";
  // Of GPUs nothing is known: what their hosts do outside MPI is not computing, and may be idling.
  const std::string words =
      c.s.gpus ? fmt::format("outside {} {} +{} comm {} wait {}", c.s.mpi ? "MPI" : "collectives", p(kCompute),
                             p(kOverlapped), p(kTransfer), wait)
               : fmt::format("comp {} +{} comm {} wait {}{} idle {}", p(kCompute), p(kOverlapped), p(kTransfer), wait,
                             shares[kCopy] > 0 ? " copy " + p(kCopy) : "", p(kIdle));
  const int end = r.right() - static_cast<int>(words.size()) - 2;
  const int x = c.frame.put(r.x, r.y, c.s.gpus ? "hosts   " : c.s.gpu_ratios ? "GPUs    " : "job     ", Style::kDim);
  put_bar(c, x, r.y, shares, end - x);
  c.frame.put_right(end, r.y, words, Style::kPlain, r.right());
}

void draw_headline(Canvas& c, const Rect& r) {
  const Headline& h = c.s.headline;
  if (!c.view.message.empty()) {
    c.frame.put(r.x, r.y, wrap("  " + c.view.message, r.width, 1).front(), Style::kBold, r.right());
    return;
  }
  const bool mark = r.width >= 30;
  const int width = r.width - (mark ? 2 : 0);
  std::vector<std::string> lines = wrap(h.text, width, r.height);
  const bool whole = !lines.empty() && !lines.back().ends_with("..");
  if (!whole && !h.brief.empty()) {
    // Whole words of the sentence say more than all of the brief one where two thirds of it fit.
    size_t shown = 0;
    for (const std::string& line : lines) shown += line.size() + 1;
    if (3 * shown < 2 * h.text.size() || r.width < kFull) lines = wrap(h.brief, width, r.height);
  }
  const Style style = h.alarm ? Style::kAlarm : Style::kPlain;
  if (mark && h.alarm) c.frame.put(r.x, r.y, "!", Style::kAlarm);
  for (size_t i = 0; i < lines.size(); ++i)
    c.frame.put(r.x + (mark ? 2 : 0), r.y + static_cast<int>(i), lines[i], style, r.right());
}

void draw_legend(Canvas& c, const Rect& r) {
  constexpr const char* kLong[] = {"compute", "compute+comm", "exposed comm", "waiting for others", "copies", "idle"};
  constexpr const char* kShort[] = {"comp", "both", "comm", "wait", "copy", "idle"};
  constexpr const char* kMpiLong[] = {"outside MPI", "outside MPI+comm", "exposed comm", "waiting for others"};
  constexpr const char* kHostLong[] = {"outside collectives", "outside+comm", "exposed comm", "waiting for others"};
  constexpr const char* kHostShort[] = {"host", "both", "comm", "wait"};
  const bool copies = c.s.shares && (*c.s.shares)[kCopy] > 0;  // GPUs alone have any
  const bool full = r.width >= (copies ? 86 : 74);
  const std::span<const char* const> words =
      c.s.gpus ? (full ? std::span<const char* const>(c.s.mpi ? kMpiLong : kHostLong) : kHostShort)
               : (full ? std::span<const char* const>(kLong) : kShort);
  int x = r.x + (full ? 2 : 0);
  for (size_t i = 0; i < words.size(); ++i) {
    if (i == kCopy && !copies) continue;
    const char* word = words[i];
    const int columns = 2 + static_cast<int>(std::string_view(word).size());
    if (x + columns > r.right()) return;
    c.frame.put_glyph(x, r.y, glyph_of(c.theme, i), style_of(i));
    x = c.frame.put(x + 2, r.y, word, Style::kDim) + (full ? 2 : 1);
  }
}

void draw_keys(Canvas& c, const Rect& r) {
  if (!c.view.prompt.empty()) {
    const int x = c.frame.put(r.x, r.y, c.view.prompt, Style::kKey, r.right());
    const auto room = static_cast<size_t>(std::max(0, r.right() - x - 1));
    std::string_view typed = c.view.typed;
    for (size_t first = 0; reports::display_width(typed) > room; first = 0) {  // its end is what is being typed
      reports::next_code_point(typed, first);
      typed.remove_prefix(first);
    }
    const int end = c.frame.put(x, r.y, typed, Style::kBold, r.right());
    c.frame.put(end, r.y, "_", Style::kKey, r.right());
    return;
  }
  struct Footer {
    const char *keys, *label;
  };
  constexpr Footer kFooter[] = {
#define DDL_KEY(keys, label, text) {keys, label},
#include "tui/keys.def"
#undef DDL_KEY
  };
  if (r.width < kFull) {
    put_pieces(c, r.x, r.y, r.right(),
               {{"? help", 9, Style::kKey},
                {"/ filter", 7, Style::kKey},
                {"> sort", 6, Style::kKey},
                {"q quit", 8, Style::kKey}});
    return;
  }
  std::vector<std::pair<std::string, const char*>> keys;
  for (const Footer& f : kFooter) {
    if (*f.label == '\0') continue;
    const std::string all = f.keys;
    const size_t at = all.find('F');
    keys.emplace_back(at == std::string::npos ? all.substr(0, all.find(' ')) : all.substr(at, all.find(' ', at) - at),
                      f.label);
  }
  std::sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.size(), a.first) < std::pair(b.first.size(), b.first);
  });
  int x = r.x;
  for (const auto& [key, label] : keys) {
    const int columns = static_cast<int>(key.size() + std::string_view(label).size());
    if (x + columns > r.right()) return;
    x = c.frame.put(x, r.y, key, Style::kBold);
    x = c.frame.put(x, r.y, label, Style::kKey) + 1;
  }
}

}  // namespace

void draw_head(Canvas& c, const Placed& part) {
  switch (part.area) {
    case Area::kTitle:
      return draw_title(c, part.rect);
    case Area::kNumbers:
      return draw_numbers(c, part.rect);
    case Area::kTrend:
      return draw_trend(c, part.rect);
    case Area::kBar:
      return draw_bar(c, part.rect);
    case Area::kHeadline:
      return draw_headline(c, part.rect);
    case Area::kLegend:
      return draw_legend(c, part.rect);
    case Area::kKeys:
      return draw_keys(c, part.rect);
    default:
      return;
  }
}

}  // namespace ddl::tui
