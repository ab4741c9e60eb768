#include "analyzer/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr const char* kKey = "analysis.tables";  // in meta: names, with a space between them

void drop_all(SQLite::Database& db, std::string_view list) {
  while (!list.empty()) {
    const std::string_view name = list.substr(0, list.find(' '));
    db.exec(fmt::format("DROP {} IF EXISTS main.\"{}\"", name.starts_with("v_") ? "VIEW" : "TABLE", name));
    list.remove_prefix(std::min(name.size() + 1, list.size()));
  }
}

std::string declared_names() {
  const std::string_view sql = kTablesSql;
  std::string names;
  for (const std::string_view create : {"\nCREATE TABLE ", "\nCREATE VIEW "}) {
    for (size_t at = sql.find(create); at != std::string_view::npos; at = sql.find(create, at + 1)) {
      const std::string_view name = sql.substr(at + create.size());
      names += (names.empty() ? "" : " ") + std::string(name.substr(0, name.find(' ')));
    }
  }
  return names;
}

}  // namespace

void make_tables(SQLite::Database& db) {
  Query earlier(db, "SELECT value FROM meta WHERE key = ?");
  earlier.bind(kKey);
  const std::string made = earlier.next() ? earlier.text(0) : "";
  earlier.reset();
  drop_all(db, made);
  db.exec(kTablesSql);
  Query(db, "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value")
      .run(kKey, declared_names());
}

}  // namespace ddl
