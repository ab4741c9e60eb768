#include "analyzer/each_row.h"

#include <SQLiteCpp/Exception.h>
#include <fmt/format.h>

#include <exception>
#include <utility>

namespace ddl {
namespace {

/// The loop that runs, the innermost of this thread.
struct Running {
  const EachRow::Use* use = nullptr;
  std::exception_ptr failure;
};
thread_local Running running;

void use_row(sqlite3_context* context, int, sqlite3_value** values) {
  try {
    (*running.use)(RowValues(values));
  } catch (...) {  // no exception may cross SQLite's C frames
    running.failure = std::current_exception();
    sqlite3_result_error(context, "", 0);
  }
}

SQLite::Database& knowing_each_row(SQLite::Database& db) {
  sqlite3_stmt* statement = nullptr;
  const bool known = sqlite3_prepare_v2(db.getHandle(), "SELECT each_row(0)", -1, &statement, nullptr) == SQLITE_OK;
  sqlite3_finalize(statement);
  // Not again: that would end what the connection has prepared.
  if (!known && sqlite3_create_function(db.getHandle(), "each_row", -1, SQLITE_UTF8, nullptr, nullptr, use_row,
                                        [](sqlite3_context*) {}) != SQLITE_OK)
    throw SQLite::Exception(db.getHandle());
  return db;
}

}  // namespace

std::string RowValues::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_value_text(values_[column]));
  return bytes == nullptr ? std::string()
                          : std::string(bytes, static_cast<size_t>(sqlite3_value_bytes(values_[column])));
}

EachRow::EachRow(SQLite::Database& db, std::string_view columns, std::string_view from)
    : query_(knowing_each_row(db), fmt::format("SELECT each_row({}) FROM {}", columns, from)) {}

void EachRow::run_bound(const Use& use) {
  Running outer = std::exchange(running, {&use, nullptr});
  try {
    query_.next();
    query_.reset();
    running = std::move(outer);
  } catch (...) {
    query_.reset();
    if (const std::exception_ptr failure = std::exchange(running, std::move(outer)).failure)
      std::rethrow_exception(failure);
    throw;
  }
}

}  // namespace ddl
