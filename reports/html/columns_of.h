// Reading the tables of the report by the keys of their columns: figures draw what the tables say.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include "reports/document.h"

namespace ddl::reports::html {

/// The column's index; the table must have it.
inline size_t column_of(const Table& table, std::string_view key) {
  const auto found =
      std::find_if(table.columns.begin(), table.columns.end(), [&](const Column& column) { return column.key == key; });
  return static_cast<size_t>(found - table.columns.begin());
}

inline std::optional<int64_t> maybe_integer(const Value& value) {
  return value.is_absent() ? std::nullopt : std::optional(value.as_integer());
}

/// Some columns of a table, as the data of a figure.
inline Table columns_of(const Table& table, std::initializer_list<std::string_view> keys) {
  Table result{};
  std::vector<size_t> chosen;
  for (const std::string_view key : keys) {
    chosen.push_back(column_of(table, key));
    result.columns.push_back(table.columns[chosen.back()]);
    Column& column = result.columns.back();
    column.keep = 9;
    if (column.title.empty()) column.title = column.key;
  }
  for (const auto& row : table.rows) {
    auto& cells = result.rows.emplace_back();
    for (const size_t c : chosen) cells.push_back(row[c]);
  }
  return result;
}

}  // namespace ddl::reports::html
