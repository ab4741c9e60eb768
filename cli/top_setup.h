// The setup that F12 saved: $XDG_CONFIG_HOME/ddl/top.conf, lines of NAME=VALUE.
#pragma once

#include <string>
#include <vector>

#include "tui/view.h"

namespace ddl::cli {

/// In lower case.
std::vector<std::string> column_names();
/// Column by one of these names. Throws ddl::Error.
tui::Column parse_column(const std::string& text);

/// The saved setup, else the defaults. An invalid line is ignored, with a note.
tui::View load_setup();
/// Returns a message for the user.
std::string save_setup(const tui::View& view);

}  // namespace ddl::cli
