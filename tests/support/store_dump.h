// A store as text, to compare two.
#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <string>

namespace ddl::test {

/// All rows of all tables in the order of their keys, but for the moment of the ingest.
inline std::string store_dump(SQLite::Database& db) {
  std::string text;
  SQLite::Statement tables(
      db, "SELECT name, sql LIKE '%WITHOUT ROWID%' FROM sqlite_master WHERE type = 'table' ORDER BY name");
  while (tables.executeStep()) {
    const std::string name = tables.getColumn(0).getString();
    text += name + "\n";
    SQLite::Statement rows(db, "SELECT * FROM " + name + (tables.getColumn(1).getInt() != 0 ? "" : " ORDER BY rowid"));
    while (rows.executeStep()) {
      const bool moment = name == "meta" && rows.getColumn(0).getString() == "ingested_at";
      for (int i = 0; i < rows.getColumnCount() && !moment; ++i)
        text += (rows.isColumnNull(i) ? "NULL" : rows.getColumn(i).getString()) + "|";
      text += "\n";
    }
  }
  return text;
}

}  // namespace ddl::test
