// The result of somebody's own SELECT: columns with names, values of any type. Only reads: everything but SELECT is refused.
#pragma once

#include <SQLiteCpp/Database.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "reports/document.h"

struct sqlite3_stmt;

namespace ddl::reports {

class Rows {
 public:
  /// Throws ddl::Error with ExitCode::kUsage: not one statement, not a SELECT, or an error in it (with a hint).
  Rows(SQLite::Database& db, const std::string& sql);

  bool next();
  int columns() const;
  /// The first of the parameters that somebody would have to bind, ":world"; nothing: it has none.
  std::optional<std::string> parameter() const;
  std::string name(int column) const;
  Value value(int column) const;  ///< kCount, kReal, kText; null() for NULL; a blob as x'hex' text

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  SQLite::Database& db_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// All rows, for the text and JSON renderers. A column is text if any of its values is.
Table to_table(Rows& rows);

}  // namespace ddl::reports
