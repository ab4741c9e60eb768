// Snapshot -> Frame: pure, the same for terminals, files, documentation and tests.
#pragma once

#include <vector>

#include "tui/frame.h"
#include "tui/snapshot.h"
#include "tui/view.h"

namespace ddl::tui {

// ---- Which part of the screen shows what: a pure function of the size and of how much there is to show.
//
// Below 120x30 everything is stacked in one column, by importance: what does not fit goes in this order: layers and history, collectives,
// the status line, the legend, the trend, the bar, the numbers. What stays at any size is who, the sentence, one rank, and the keys.
enum class Area { kTitle, kNumbers, kTrend, kBar, kHeadline, kRanks, kStatus, kCollectives, kLayers, kAdvice, kHistory, kLegend, kKeys };

struct Rect {
  int x = 0, y = 0, width = 0, height = 0;
  int right() const { return x + width; }
  int bottom() const { return y + height; }
};

struct Placed {
  Area area;
  Rect rect;
};

struct Contents {
  int ranks = 0, collectives = 0, layers = 0, history = 0;  ///< rows there are
  int headline = 0;                                         ///< columns of the sentence
  bool panels[4] = {true, true, true, true};                ///< View::panels
};

bool is_wide(Size size);
std::vector<Placed> layout(Size size, const Contents& contents);

// ---- the drawing

/// How much there is to lay out.
Contents contents_of(const Snapshot& snapshot, const View& view);
Frame draw(const Snapshot& snapshot, Size size, const Theme& theme, const View& view);

/// Lines that PgUp and PgDn move by: as many as are on the screen.
int page_rows(const Snapshot& snapshot, Size size, const View& view);
/// The largest View::scroll that shows something new; 0 where all of the page is on the screen.
int scroll_limit(const Snapshot& snapshot, Size size, const View& view);

}  // namespace ddl::tui
