// Shared by the drawing files: glyphs, numbers in fixed columns, bars.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tui/draw.h"

namespace ddl::tui {

struct Canvas {
  Frame& frame;
  const Snapshot& s;
  const Theme& theme;
  const View& view;
};

/// Items of one line; the least important are dropped first.
struct Piece {
  std::string text;
  int weight = 0;
  Style style = Style::kPlain;
};
/// In order, two blanks apart, never cut. Returns the column behind the last.
int put_pieces(Canvas& c, int x, int y, int end, const std::vector<Piece>& pieces);

/// Decimals of milliseconds that give a step about four digits.
int ms_decimals(const Snapshot& s);
/// Milliseconds in at most `width` columns: with fewer decimals if needed, then in seconds, minutes, hours.
std::string ms_text(double ns, int decimals, int width, bool with_sign = false);
std::string maybe_ms(const std::optional<double>& ns, int decimals, int width, bool with_sign = false);
/// "17%".
std::string percent(double ratio);
/// "2 spools unreadable", or nothing.
std::string unreadable_text(const Snapshot& s);
/// "2 groups apart" of a job in parts whose ranks never wait for each other, or nothing.
std::string parts_text(const Snapshot& s);
/// The time of a step in a sentence: "412.7 ms".
std::string step_text(const Snapshot& s, double ns);

Style style_of(size_t category);
char32_t glyph_of(const Theme& theme, size_t category);
/// Cells of a bar for each category, `width` together (largest remainder).
std::vector<int> bar_cells(const Shares& shares, int width);
void put_bar(Canvas& c, int x, int y, const Shares& shares, int width);
/// One of eight heights (or of seven characters without Unicode) for `value` in [low, high].
char32_t spark(const Theme& theme, double value, double low, double high);
/// A rule with a title: the top of a panel.
void put_rule(Canvas& c, const Rect& r, const std::string& title, const std::string& more);
/// A full-screen page: how many lines it has, and how many rows there are for them.
struct PageExtent {
  int lines = 0, rows = 0;
  int last_scroll() const { return std::max(0, lines - rows); }
};
/// Lines for axes on the collectives' page; 0: none, or no room.
int axis_lines(const Snapshot& s, int height);
PageExtent page_extent(const Snapshot& s, const View& view, const Rect& r);  // draw_pages.cpp
/// The first visible line of the page.
int first_line_of_page(const Canvas& c, const Rect& r);
/// `text` in at most `lines` lines of whole words; ends with ".." if cut.
std::vector<std::string> wrap(const std::string& text, int width, int lines);

void draw_head(Canvas& c, const Placed& part);  // draw_head.cpp: title, numbers, trend, bar, headline, legend, keys
void draw_ranks(Canvas& c, const Rect& r);      // draw_ranks.cpp
void draw_status(Canvas& c, const Rect& r);
void draw_collectives(Canvas& c, const Rect& r);  // draw_tables.cpp
void draw_layers(Canvas& c, const Rect& r);
void draw_advice(Canvas& c, const Rect& r);
void draw_history(Canvas& c, const Rect& r);  // draw_history.cpp
void draw_help(Canvas& c, const Rect& r);     // draw_pages.cpp
void draw_setup(Canvas& c, const Rect& r);
void draw_why(Canvas& c, const Rect& r);
void draw_matrix(Canvas& c, const Rect& r);
void draw_map(Canvas& c, const Rect& r);

}  // namespace ddl::tui
