// A trace that is an SQLite file of another program: read only, and trusted in nothing. Every table may be absent, columns come and go between
// versions, and any value may be of any type.
#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddl::store {

/// Rows of one table, and where in it we are.
class TraceRows {
 public:
  /// `sql`: its first column is the row's number.
  TraceRows(SQLite::Database& db, std::string table, const std::string& sql) : table_(std::move(table)), statement_(db, sql) {}

  bool next() { return statement_.executeStep(); }
  int64_t number() const { return statement_.getColumn(0).getInt64(); }
  /// The others throw BadRecord for values of another type.
  std::optional<int64_t> maybe(int column) const;
  int64_t integer(int column) const;
  /// Nothing for what is not a whole number.
  std::optional<int64_t> integer_if_any(int column) const;
  std::optional<std::string> text(int column) const;
  std::string place() const;

 private:
  std::string table_;
  SQLite::Statement statement_;
};

class TraceDatabase {
 public:
  /// Throws SQLite::Exception if that is no database.
  explicit TraceDatabase(const std::filesystem::path& path);

  const std::set<std::string>& tables() const { return tables_; }
  bool has(const std::string& table) const { return tables_.contains(table); }
  bool has(const std::string& table, const std::string& column);

  /// Columns that the table lacks are NULL; without the table there are no rows. BadRecord, and what SQLite finds wrong, become an Error that
  /// names file, table and row.
  void each(const std::string& table, const std::vector<std::string>& columns, const std::function<void(const TraceRows&)>& take);
  /// As each(), for rows made of several tables, of which `table` is named to people. SELECT a.rowid, ... FROM ...
  void each_of(const std::string& table, const std::string& sql, const std::function<void(const TraceRows&)>& take);

  /// "trace.sqlite, WHAT".
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::set<std::string> columns_of(const std::string& table);

  std::filesystem::path path_;
  SQLite::Database db_;
  std::set<std::string> tables_;
};

/// The difference of two is an int64_t. Throws BadRecord for other times.
int64_t time_in_range(int64_t time_ns);

}  // namespace ddl::store
