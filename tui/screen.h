// ddl-top on a terminal: looks, shows, takes keys, until the user has seen enough.
#pragma once

#include "tui/terminal.h"
#include "tui/top.h"

namespace ddl::tui {

/// `source` may have nothing to show yet: then the screen says so. Returns the exit code.
int run_screen(Source& source, const TopOptions& options, Color color);

}  // namespace ddl::tui
