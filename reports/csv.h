// Tables of the store as CSV (RFC 4180): header, CRLF, integer ns and bytes, NULL as an empty field.
#pragma once

#include <SQLiteCpp/Database.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ddl::reports {

class Rows;
using Sink = std::function<void(std::string_view)>;

/// Header and all rows, in pieces.
void write_csv(Rows& rows, const Sink& sink);

/// All rows of the view or table `name`; "call" and "calls" find v_call too. Throws ddl::Error (kUsage) for an unknown
/// name.
void write_csv(SQLite::Database& db, std::string_view name, const Sink& sink);

/// One field. Text that a spreadsheet would take for a formula gets a leading '; control characters and invalid UTF-8
/// become U+FFFD; quoted if needed.
std::string csv_text(std::string_view text);

/// The views v_*, in schema order.
std::vector<std::string> stable_views();

/// Views first, then tables.
std::vector<std::string> view_names(SQLite::Database& db);
/// A line for each: its name, and its columns in parentheses.
std::string list_tables(SQLite::Database& db);

}  // namespace ddl::reports
