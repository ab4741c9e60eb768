// Snapshot -> Frame: pure, the same for terminals, files, documentation and tests.
#pragma once

#include "tui/frame.h"
#include "tui/layout.h"
#include "tui/snapshot.h"
#include "tui/view.h"

namespace ddl::tui {

/// How much there is to lay out.
Contents contents_of(const Snapshot& snapshot, const View& view);
Frame draw(const Snapshot& snapshot, Size size, const Theme& theme, const View& view);

/// Lines that PgUp and PgDn move by: as many as are on the screen.
int page_rows(const Snapshot& snapshot, Size size, const View& view);
/// The largest View::scroll that shows something new; 0 where all of the page is on the screen.
int scroll_limit(const Snapshot& snapshot, Size size, const View& view);

}  // namespace ddl::tui
