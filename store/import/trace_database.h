// A trace that is another program's SQLite file: read-only, and not trusted. Every table may be absent, columns vary
// between versions, and values may have any type.
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

/// Rows of one table, and the present position.
class TraceRows {
 public:
  /// `sql`: its first column is the row's number.
  TraceRows(SQLite::Database& db, std::string table, const std::string& sql)
      : table_(std::move(table)), statement_(db, sql) {}

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
  /// Throws SQLite::Exception if it is not a database.
  explicit TraceDatabase(const std::filesystem::path& path);

  const std::set<std::string>& tables() const { return tables_; }
  bool has(const std::string& table) const { return tables_.contains(table); }
  bool has(const std::string& table, const std::string& column);

  /// Missing columns are NULL; a missing table has no rows. BadRecord, and SQLite's errors, become an Error that names
  /// file, table and row.
  void each(const std::string& table, const std::vector<std::string>& columns,
            const std::function<void(const TraceRows&)>& take);
  /// As each(), but rows that agree in the first `key` columns are one: the first of them.
  void each_distinct(const std::string& table, const std::vector<std::string>& columns, size_t key,
                     const std::function<void(const TraceRows&)>& take);
  /// As each(), for rows from several tables; messages name `table`. SELECT a.rowid, ... FROM ...
  void each_of(const std::string& table, const std::string& sql, const std::function<void(const TraceRows&)>& take);

  /// "trace.sqlite, WHAT".
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::set<std::string> columns_of(const std::string& table);
  /// ", a, b" for a SELECT.
  std::string list_of(const std::string& table, const std::vector<std::string>& columns);

  std::filesystem::path path_;
  SQLite::Database db_;
  std::set<std::string> tables_;
};

/// The difference of two is an int64_t. Throws BadRecord for other times.
int64_t time_in_range(int64_t time_ns);

}  // namespace ddl::store
