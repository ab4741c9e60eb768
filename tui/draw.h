// Snapshot -> Frame: pure, the same for terminals, files, documentation and tests.
#pragma once

#include <vector>

#include "tui/frame.h"
#include "tui/snapshot.h"
#include "tui/view.h"

namespace ddl::tui {

// ---- Layout: a pure function of the size and of how much there is to show.
//
// Below 120x30 everything is stacked in one column, by importance. What does not fit is dropped in this order: layers
// and history, collectives, the status line, the legend, the trend, the bar, the numbers. Always left: who, the
// sentence, one rank, the keys.
enum class Area {
  kTitle,
  kNumbers,
  kTrend,
  kBar,
  kHeadline,
  kRanks,
  kStatus,
  kCollectives,
  kLayers,
  kAdvice,
  kHistory,
  kLegend,
  kKeys
};

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
  int ranks = 0, collectives = 0, layers = 0, history = 0;  ///< numbers of rows
  int headline = 0;                                         ///< columns of the sentence
  bool panels[4] = {true, true, true, true};                ///< View::panels
};

bool is_wide(Size size);
std::vector<Placed> layout(Size size, const Contents& contents);

// ---- the drawing

/// How much there is to lay out.
Contents contents_of(const Snapshot& snapshot, const View& view);
Frame draw(const Snapshot& snapshot, Size size, const Theme& theme, const View& view);

/// The lines by which PgUp and PgDn move: one screen.
int page_rows(const Snapshot& snapshot, Size size, const View& view);
/// The largest useful View::scroll; 0 if the whole page fits.
int scroll_limit(const Snapshot& snapshot, Size size, const View& view);

}  // namespace ddl::tui
