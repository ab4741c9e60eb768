// All rows of a large table, which are read once from begin to end: their columns come as arguments of a function that
// SQLite calls within its loop. To leave it for each row, and to ask for each column on its own, takes as long again as
// half of the reading.
//
//   EachRow rows(db, "e.process, e.step", "event e NOT INDEXED WHERE e.id >= ?1");
//   rows.run([&](const RowValues& row) { ++counts[row.integer(1)]; }, first);
//
// Rows come in the order in which SQLite reads its table: that of their ids where the table is NOT INDEXED.
#pragma once

#include <SQLiteCpp/Database.h>
#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/query.h"

namespace ddl {

/// As Query has them.
class RowValues {
 public:
  explicit RowValues(sqlite3_value** values) : values_(values) {}
  bool is_null(int column) const { return sqlite3_value_type(values_[column]) == SQLITE_NULL; }
  int64_t integer(int column) const { return sqlite3_value_int64(values_[column]); }
  double real(int column) const { return sqlite3_value_double(values_[column]); }
  std::string text(int column) const;
  std::optional<int64_t> maybe_integer(int column) const {
    return is_null(column) ? std::nullopt : std::optional<int64_t>(integer(column));
  }

 private:
  sqlite3_value** values_;
};

class EachRow {
 public:
  using Use = std::function<void(const RowValues&)>;

  EachRow(SQLite::Database& db, std::string_view columns, std::string_view from);

  /// Calls `use` for each row, with these values for ?1, ?2, ... Exceptions of `use` pass through.
  template <typename... Values>
  void run(const Use& use, const Values&... values) {
    query_.bind(values...);
    run_bound(use);
  }

 private:
  void run_bound(const Use& use);

  Query query_;
};

}  // namespace ddl
