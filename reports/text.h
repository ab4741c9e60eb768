// The text report. On a terminal it is fitted to the width, with names shortened in the middle, never numbers. In a
// pipe nothing is shortened and tables take their full width, but sentences still break into lines that a log can show.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/document.h"

namespace ddl::reports {

struct TextOptions {
  /// columns; unset: full width, no shortening. Less than kNarrowest counts as kNarrowest
  std::optional<size_t> width;
  bool color = false;  ///< ANSI bold, dim and red
};

constexpr size_t kNarrowest = 60;
constexpr size_t kComfortable = 104;  ///< the layout width if none is given and it fits

/// Leaves out what the document leaves empty, so that a section is a document with one table.
std::string render_text(const Document& document, const TextOptions& options);

/// One table; nothing but it.
std::string render_table(const Table& table, const TextOptions& options);

/// Lines of at most `width` columns, broken at spaces but never within "rank 3" or "4.9 ms". A longer word is shortened
/// in the middle, or gets its own line if `shorten` is false.
std::vector<std::string> wrap(std::string_view text, size_t width, bool shorten = true);

enum class Style { kPlain, kBold, kDim, kAlert };
std::string styled(std::string_view text, Style style, const TextOptions& options);

/// One printable line with its newline: "train, job 4711, 4 ranks on 1 host: step 232 ms, compute 30.0%, exposed
/// transfer 62.2%, waiting 7.8%; 2 findings, first: rank 3 is late". Alerts and missing data come before findings.
/// `document`: build_overview() or any other with a header.
std::string render_one_line(const Document& document);

}  // namespace ddl::reports
