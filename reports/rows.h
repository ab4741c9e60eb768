// The result of a user's SELECT: columns with names, values of any type. Read-only: everything but SELECT is refused.
#pragma once

#include <SQLiteCpp/Database.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "reports/document.h"

struct sqlite3_stmt;

namespace ddl::reports {

class Rows {
 public:
  /// Throws ddl::Error with ExitCode::kUsage: not one statement, not a SELECT, or an error in it (with a hint).
  Rows(SQLite::Database& db, const std::string& sql);

  /// From now on throws ddl::Error (kUsage) once calls of next() have taken longer than this in all.
  void limit_time(double seconds);
  /// next() ends after this many rows; cut(): there were more.
  void limit_rows(size_t most) { most_ = most; }
  bool cut() const { return cut_; }
  bool next();
  int columns() const;
  /// The first parameter without a value, ":world"; nothing: none.
  std::optional<std::string> parameter() const;
  std::string name(int column) const;
  Value value(int column) const;  ///< kCount, kReal, kText; null() for NULL; a blob as x'hex' text

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  struct Deadline {
    std::chrono::steady_clock::time_point at;
    double seconds = 0;
    bool passed = false;
  };
  struct Unlimited {
    void operator()(SQLite::Database* db) const;
  };
  SQLite::Database& db_;
  size_t most_ = SIZE_MAX, read_ = 0;
  bool cut_ = false;
  std::unique_ptr<Deadline> deadline_;  ///< at a stable address, for SQLite
  std::unique_ptr<SQLite::Database, Unlimited> limited_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// All rows, for the text and JSON renderers. A column is text if any of its values is.
Table to_table(Rows& rows);

}  // namespace ddl::reports
