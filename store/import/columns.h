// Columns of a statement's current row that may be NULL.
#pragma once

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Statement.h>

#include <cstdint>
#include <optional>
#include <string>

namespace ddl::store {

inline std::optional<int64_t> maybe_integer(const SQLite::Statement& row, int column) {
  return row.isColumnNull(column) ? std::nullopt : std::optional(row.getColumn(column).getInt64());
}

inline std::optional<std::string> maybe_text(const SQLite::Statement& row, int column) {
  return row.isColumnNull(column) ? std::nullopt : std::optional(row.getColumn(column).getString());
}

}  // namespace ddl::store
