// A prepared statement for the passes: typed columns, NULL as std::optional, ddl::Error on failure.
//
// Why not SQLite::Statement: its columns share ownership of the statement, two atomic operations per value, and the
// passes read tens of millions of values. The Database stays SQLiteCpp's. Not thread-safe, as the connection behind it.
#pragma once

#include <SQLiteCpp/Database.h>
#include <sqlite3.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ddl {

class Query {
 public:
  Query(SQLite::Database& db, std::string_view sql);

  /// Starts over with these values for ?1, ?2, ...: all of them, or those not given keep their old ones.
  template <typename... Values>
  Query& bind(const Values&... values) {
    reset();
    int index = 0;
    (bind_one(++index, values), ...);
    return *this;
  }

  /// Binds `value` to a parameter by its name, ":world"; no effect if the statement has none of that name.
  Query& bind_named(const char* name, int64_t value);

  /// Binds and executes a statement that returns no rows.
  template <typename... Values>
  void run(const Values&... values) {
    bind(values...);
    while (next()) {
    }
    reset();
  }

  int columns() const { return sqlite3_column_count(statement_.get()); }

  /// Moves to the next row; false at the end.
  bool next();
  void reset() { sqlite3_reset(statement_.get()); }

  /// Number of the column of this name; -1: none.
  int column_named(std::string_view name) const;
  bool is_null(int column) const { return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }
  int64_t integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  double real(int column) const { return sqlite3_column_double(statement_.get(), column); }
  std::string text(int column) const;
  std::optional<int64_t> maybe_integer(int column) const {
    return is_null(column) ? std::nullopt : std::optional<int64_t>(integer(column));
  }
  std::optional<double> maybe_real(int column) const {
    return is_null(column) ? std::nullopt : std::optional<double>(real(column));
  }

 private:
  void check(int code) const;
  void bind_one(int index, std::integral auto value) {
    check(sqlite3_bind_int64(statement_.get(), index, static_cast<int64_t>(value)));
  }
  void bind_one(int index, double value) { check(sqlite3_bind_double(statement_.get(), index, value)); }
  void bind_one(int index, std::string_view value);
  void bind_one(int index, const char* value) {
    check(value == nullptr ? sqlite3_bind_null(statement_.get(), index)
                           : sqlite3_bind_text(statement_.get(), index, value, -1, SQLITE_TRANSIENT));
  }
  void bind_one(int index, const std::string& value) { bind_one(index, std::string_view(value)); }
  template <typename Value>
  void bind_one(int index, const std::optional<Value>& value) {
    if (value) {
      bind_one(index, *value);
    } else {
      check(sqlite3_bind_null(statement_.get(), index));
    }
  }

  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  sqlite3* connection_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// The integers that `sql` returns, as a list for IN: "3, 8". Where millions of rows are looked through for a few
/// values, SQLite compares with one or two that it is told three times as fast as it looks them up in what a SELECT
/// within IN returns.
std::string id_list(SQLite::Database& db, std::string_view sql);

}  // namespace ddl
