// Tables of the document as HTML: right-aligned numbers, a box of their own that scrolls sideways, so that the page never does.
#pragma once

#include <string_view>

#include "reports/document.h"
#include "reports/html/markup.h"

namespace ddl::reports::html {

/// `label`: what the table holds, for readers who hear it and for the keyboard, which can scroll it.
void write_table(Markup& page, const Table& table, std::string_view label);

}  // namespace ddl::reports::html
