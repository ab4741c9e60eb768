// Names come from other programs and may hold anything: they must never steer a terminal or tear a table.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddl::reports {

/// `text` with everything written out that is not one visible, left-to-right character: control characters and invalid
/// UTF-8 as \x1b; zero-width, bidirectional, right-to-left and combining characters as \u{202e}.
std::string printable(std::string_view text);

/// Columns of printable text on a terminal (East Asian wide characters take two).
size_t display_width(std::string_view text);

/// At most `width` columns of printable text, the middle replaced by "..": the ends tell names apart.
std::string shorten_middle(std::string_view text, size_t width);

/// The first code point of `text` that starts at `offset` (advanced beyond it); a byte that is not UTF-8 yields
/// kNotUtf8 and is one byte.
char32_t next_code_point(std::string_view text, size_t& offset);
inline constexpr char32_t kNotUtf8 = 0xffffffff;

}  // namespace ddl::reports
