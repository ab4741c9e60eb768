#include "store/import/trace_database.h"

#include <SQLiteCpp/Exception.h>
#include <fmt/format.h>

#include "core/regular_file.h"
#include "store/database.h"
#include "store/import/input_file.h"

namespace ddl::store {

std::optional<int64_t> TraceRows::maybe(int column) const {
  const SQLite::Column value = statement_.getColumn(column + 1);
  if (value.isNull()) return std::nullopt;
  if (!value.isInteger()) throw BadRecord{fmt::format("{} is not a whole number", value.getName())};
  return value.getInt64();
}

int64_t TraceRows::integer(int column) const {
  const std::optional<int64_t> value = maybe(column);
  if (!value) throw BadRecord{fmt::format("{} is missing", statement_.getColumnName(column + 1))};
  return *value;
}

std::optional<int64_t> TraceRows::integer_if_any(int column) const {
  const SQLite::Column value = statement_.getColumn(column + 1);
  return value.isInteger() ? std::optional(value.getInt64()) : std::nullopt;
}

std::optional<std::string> TraceRows::text(int column) const {
  const SQLite::Column value = statement_.getColumn(column + 1);
  return value.isNull() ? std::nullopt : std::optional(value.getString());
}

std::string TraceRows::place() const { return fmt::format("table {}, row {}", table_, number()); }

TraceDatabase::TraceDatabase(const std::filesystem::path& path)
    : path_(path), db_(checked_database(path, NamedBy::kUser), SQLite::OPEN_READONLY) {
  db_.exec("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA temp_store = FILE");
  // Views are somebody's program, which may never end.
  SQLite::Statement tables(db_, "SELECT name FROM sqlite_master WHERE type = 'table'");
  while (tables.executeStep()) tables_.insert(tables.getColumn(0).getString());
}

std::set<std::string> TraceDatabase::columns_of(const std::string& table) {
  std::set<std::string> there;
  SQLite::Statement info(db_, "SELECT name FROM pragma_table_info(?)");
  info.bind(1, table);
  while (info.executeStep()) there.insert(info.getColumn(0).getString());
  return there;
}

bool TraceDatabase::has(const std::string& table, const std::string& column) {
  return has(table) && columns_of(table).contains(column);
}

std::string TraceDatabase::list_of(const std::string& table, const std::vector<std::string>& columns) {
  std::string list;
  try {
    const std::set<std::string> there = columns_of(table);
    for (const std::string& column : columns)
      list += fmt::format(", {}\"{}\"", there.contains(column) ? "" : "NULL AS ", column);
  } catch (const SQLite::Exception& error) {
    fail(fmt::format("table {}: {}", table, error.what()));
  }
  return list;
}

void TraceDatabase::each(const std::string& table, const std::vector<std::string>& columns,
                         const std::function<void(const TraceRows&)>& take) {
  if (has(table)) each_of(table, fmt::format("SELECT rowid{} FROM \"{}\"", list_of(table, columns), table), take);
}

void TraceDatabase::each_distinct(const std::string& table, const std::vector<std::string>& columns, size_t key,
                                  const std::function<void(const TraceRows&)>& take) {
  if (!has(table)) return;
  std::string places;  // of the result's columns; the first is the number of the row
  for (size_t i = 0; i < key; ++i) places += fmt::format("{}{}", i == 0 ? "" : ", ", i + 2);
  // SQLite takes the columns outside of the key from the row that min() chose.
  each_of(table, fmt::format("SELECT min(rowid){} FROM \"{}\" GROUP BY {}", list_of(table, columns), table, places),
          take);
}

void TraceDatabase::each_of(const std::string& table, const std::string& sql,
                            const std::function<void(const TraceRows&)>& take) {
  try {
    TraceRows rows(db_, table, sql);
    while (rows.next()) {
      try {
        take(rows);
      } catch (const BadRecord& bad) {
        fail(fmt::format("{}: {}", rows.place(), bad.what));
      }
    }
  } catch (const SQLite::Exception& error) {
    fail(fmt::format("table {}: {}", table, error.what()));
  }
}

void TraceDatabase::fail(const std::string& what) const {
  throw Error(fmt::format("{}, {}", path_.string(), what), "", ExitCode::kDataMissing);
}

int64_t time_in_range(int64_t time_ns) {
  constexpr int64_t kLatestTimeNs = 4'000'000'000'000'000'000;
  if (time_ns < -kLatestTimeNs || time_ns > kLatestTimeNs) throw BadRecord{"its time is out of range"};
  return time_ns;
}

}  // namespace ddl::store
