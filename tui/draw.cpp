#include "tui/draw.h"

#include <algorithm>

#include "reports/safe_text.h"
#include "tui/paint.h"

namespace ddl::tui {
namespace {

bool is_panel(Area area) {
  return area == Area::kRanks || area == Area::kStatus || area == Area::kCollectives || area == Area::kLayers ||
         area == Area::kAdvice || area == Area::kHistory;
}

void draw_panel(Canvas& c, const Placed& part) {
  switch (part.area) {
    case Area::kRanks:
      return draw_ranks(c, part.rect);
    case Area::kStatus:
      return draw_status(c, part.rect);
    case Area::kCollectives:
      return draw_collectives(c, part.rect);
    case Area::kLayers:
      return draw_layers(c, part.rect);
    case Area::kAdvice:
      return draw_advice(c, part.rect);
    case Area::kHistory:
      return draw_history(c, part.rect);
    default:
      return draw_head(c, part);
  }
}

void draw_page(Canvas& c, const Rect& r) {
  switch (c.view.page) {
    case Page::kHelp:
      return draw_help(c, r);
    case Page::kSetup:
      return draw_setup(c, r);
    case Page::kWhy:
      return draw_why(c, r);
    case Page::kMatrix:
      return draw_matrix(c, r);
    case Page::kMap:
      return draw_map(c, r);
    case Page::kLayers:
      return draw_layers(c, r);
    case Page::kCollectives:
      return draw_collectives(c, r);
    case Page::kMain:
      return;
  }
}

/// What the lines around the panels leave.
Rect page_rect(const std::vector<Placed>& parts, Size size) {
  int top = size.height, bottom = size.height;
  for (const Placed& part : parts) {
    if (is_panel(part.area)) top = std::min(top, part.rect.y);
    if (part.area == Area::kKeys || part.area == Area::kLegend) bottom = std::min(bottom, part.rect.y);
  }
  return {0, top, size.width, std::max(1, bottom - top)};
}

int rank_rows(const std::vector<Placed>& parts, Size size) {
  for (const Placed& part : parts) {
    if (part.area == Area::kRanks) return std::max(1, part.rect.height - (is_wide(size) ? 2 : 1));
  }
  return 1;
}

bool shows_ranks(const View& view) { return view.page == Page::kMain || view.page == Page::kWhy; }

}  // namespace

int page_rows(const Snapshot& s, Size size, const View& view) {
  const std::vector<Placed> parts = layout(size, contents_of(s, view));
  return shows_ranks(view) ? rank_rows(parts, size) : std::max(1, page_extent(s, view, page_rect(parts, size)).rows);
}

int scroll_limit(const Snapshot& s, Size size, const View& view) {
  return shows_ranks(view) ? 0
                           : page_extent(s, view, page_rect(layout(size, contents_of(s, view)), size)).last_scroll();
}

Contents contents_of(const Snapshot& s, const View& view) {
  Contents contents;
  contents.ranks = static_cast<int>(visible_lines(s, view).size());
  contents.collectives = static_cast<int>(s.collectives.size());
  contents.layers = static_cast<int>(s.layers.size());
  contents.history = static_cast<int>(s.history.size());
  contents.headline = static_cast<int>(reports::display_width(s.headline.text)) + 2;
  std::copy(std::begin(view.panels), std::end(view.panels), contents.panels);
  return contents;
}

Frame draw(const Snapshot& s, Size size, const Theme& theme, const View& view) {
  Frame frame(size, !theme.unicode);
  Canvas canvas{frame, s, theme, view};
  const Contents contents = contents_of(s, view);
  const std::vector<Placed> parts = layout({frame.width(), frame.height()}, contents);
  if (view.page == Page::kMain) {
    for (const Placed& part : parts) draw_panel(canvas, part);
    if (is_wide({frame.width(), frame.height()})) {  // what divides panels that stand side by side
      for (const Placed& part : parts) {
        for (int y = part.rect.y;
             part.rect.x > 0 && (part.area == Area::kLayers || part.area == Area::kAdvice) && y < part.rect.bottom();
             ++y)
          frame.put_glyph(part.rect.x - 1, y,
                          theme.unicode ? (y == part.rect.y ? U'┬' : U'│') : (y == part.rect.y ? U'+' : U'|'),
                          Style::kDim);
      }
    }
    return frame;
  }
  // A page takes all the room of the panels.
  for (const Placed& part : parts) {
    if (!is_panel(part.area)) draw_head(canvas, part);
  }
  draw_page(canvas, page_rect(parts, {frame.width(), frame.height()}));
  return frame;
}

}  // namespace ddl::tui
