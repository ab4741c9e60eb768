#include "analyzer/query.h"

#include <fmt/format.h>

#include <iterator>

#include "core/error.h"

namespace ddl {

Query::Query(SQLite::Database& db, std::string_view sql) : connection_(db.getHandle()) {
  sqlite3_stmt* statement = nullptr;
  check(sqlite3_prepare_v3(connection_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &statement,
                           nullptr));
  statement_.reset(statement);
}

Query& Query::bind_named(const char* name, int64_t value) {
  const int index = sqlite3_bind_parameter_index(statement_.get(), name);
  if (index != 0) bind_one(index, value);
  return *this;
}

void Query::bind_one(int index, std::string_view value) {
  check(sqlite3_bind_text64(statement_.get(), index, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

bool Query::next() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) check(code);
  return false;
}

int Query::column_named(std::string_view name) const {
  for (int i = 0; i < sqlite3_column_count(statement_.get()); ++i) {
    if (name == sqlite3_column_name(statement_.get(), i)) return i;
  }
  return -1;
}

std::string Query::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  return bytes == nullptr ? std::string()
                          : std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column)));
}

void Query::check(int code) const {
  if (code == SQLITE_OK) return;
  const char* sql = statement_ ? sqlite3_sql(statement_.get()) : "";
  throw Error(
      fmt::format("the store cannot be analyzed: {}{}{}", sqlite3_errmsg(connection_), *sql == 0 ? "" : " in: ", sql),
      "the store may be damaged: remove run.sqlite and let ddl read the run directory again");
}

std::string id_list(SQLite::Database& db, std::string_view sql) {
  std::string list;
  for (Query rows(db, sql); rows.next();)
    fmt::format_to(std::back_inserter(list), "{}{}", list.empty() ? "" : ", ", rows.integer(0));
  return list;
}

}  // namespace ddl
