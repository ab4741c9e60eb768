// Where the tools write: colour, width, and output that must not be lost silently.
#pragma once

#include <string_view>

#include "reports/text.h"

namespace ddl::cli {

/// For standard output: $COLUMNS, else the terminal's width, else none; colour on a terminal unless NO_COLOR is
/// set or TERM is dumb.
reports::TextOptions output_options();

/// Writes all of `text` to standard output; throws ddl::Error if it cannot (disk full). A closed pipe ends the
/// program as usual.
void print_out(std::string_view text);

/// One line to standard error: "ddl: " + text, control characters made visible.
void print_note(std::string_view text);

bool stderr_is_terminal();

}  // namespace ddl::cli
