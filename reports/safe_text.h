// Names come from other people's programs and may hold anything. A terminal must never be steered by them, a table never torn.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddl::reports {

/// `text` with everything that is not one visible, left-to-right character written out: control characters and bytes that are not UTF-8 as
/// \x1b, zero-width, bidirectional, right-to-left and combining characters as \u{202e}.
std::string printable(std::string_view text);

/// Columns that printable text takes on a terminal (East Asian wide characters take two).
size_t display_width(std::string_view text);

/// At most `width` columns of printable text, the middle replaced by "..": a name's ends tell names apart.
std::string shorten_middle(std::string_view text, size_t width);

/// The first code point of `text` that starts at `offset` (advanced beyond it); a byte that is not UTF-8 yields kNotUtf8 and is one byte.
char32_t next_code_point(std::string_view text, size_t& offset);
inline constexpr char32_t kNotUtf8 = 0xffffffff;

}  // namespace ddl::reports
