#include "reports/rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

#include "core/error.h"
#include "reports/csv.h"

namespace ddl::reports {
namespace {

constexpr const char* kReadOnly = "a recorded run is only read: use SELECT";

// A list of what is allowed, since SQLite's list of what writes grows (VACUUM INTO creates files even on a
// read-only connection).
int allow_reading(void*, int action, const char* first, const char*, const char*, const char*) {
  if (action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_FUNCTION || action == SQLITE_RECURSIVE)
    return SQLITE_OK;
  constexpr std::string_view kPragmas[] = {"table_info", "table_xinfo", "table_list", "user_version", "application_id"};
  const bool harmless = action == SQLITE_PRAGMA && first != nullptr &&
                        std::find(std::begin(kPragmas), std::end(kPragmas), first) != std::end(kPragmas);
  return harmless ? SQLITE_OK : SQLITE_DENY;
}

std::string views_hint(SQLite::Database& db) {
  std::vector<std::string> names = view_names(db);
  std::erase_if(names, [](const std::string& name) { return !name.starts_with("v_"); });
  return fmt::format("views: {}; all: ddl query --tables", fmt::join(names, ", "));
}

[[noreturn]] void throw_error(SQLite::Database& db, int code) {
  const std::string message = sqlite3_errmsg(db.getHandle());
  std::string hint;
  if (code == SQLITE_AUTH)
    hint = kReadOnly;
  else if (message.starts_with("no such table"))
    hint = views_hint(db);
  else if (message.starts_with("no such column"))
    hint = "ddl query --tables lists the columns of every view";
  throw Error(fmt::format("SQL: {}", message), hint, ExitCode::kUsage);
}

std::string hex(const void* data, int bytes) {
  std::string text = "x'";
  for (int i = 0; i < bytes; ++i) text += fmt::format("{:02x}", static_cast<const unsigned char*>(data)[i]);
  return text + "'";
}

}  // namespace

void Rows::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Rows::Rows(SQLite::Database& db, const std::string& sql) : db_(db) {
  sqlite3* connection = db.getHandle();
  sqlite3_set_authorizer(connection, allow_reading, nullptr);
  sqlite3_stmt* statement = nullptr;
  const char* tail = nullptr;
  const int code = sqlite3_prepare_v2(connection, sql.c_str(), static_cast<int>(sql.size() + 1), &statement, &tail);
  sqlite3_set_authorizer(connection, nullptr, nullptr);
  statement_.reset(statement);
  if (code != SQLITE_OK) throw_error(db, code);
  if (statement == nullptr) throw Error("SQL: empty statement", "e.g. 'SELECT * FROM v_rank'", ExitCode::kUsage);
  if (sqlite3_column_count(statement) == 0) throw Error("SQL: not a SELECT", kReadOnly, ExitCode::kUsage);
  if (std::strspn(tail, " \t\r\n;") != std::strlen(tail))
    throw Error("SQL: more than one statement", "give one SELECT at a time", ExitCode::kUsage);
}

void Rows::Unlimited::operator()(SQLite::Database* db) const {
  sqlite3_progress_handler(db->getHandle(), 0, nullptr, nullptr);
}

void Rows::limit_time(double seconds) {
  constexpr int kInstructionsBetweenLooks = 10'000;  // a tenth of a millisecond
  using Clock = std::chrono::steady_clock;
  deadline_ = std::make_unique<Deadline>();
  deadline_->at = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  deadline_->seconds = seconds;
  const auto look = [](void* given) {
    auto* deadline = static_cast<Deadline*>(given);
    deadline->passed = Clock::now() > deadline->at;
    return deadline->passed ? 1 : 0;
  };
  sqlite3_progress_handler(db_.getHandle(), kInstructionsBetweenLooks, look, deadline_.get());
  limited_.reset(&db_);
}

bool Rows::next() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_INTERRUPT && deadline_ && deadline_->passed)
    throw Error(fmt::format("SQL: stopped after {:g} s", deadline_->seconds), "give it more time: --timeout 10m",
                ExitCode::kUsage);
  if (code == SQLITE_ROW) {
    cut_ = read_ == most_;
    read_ += cut_ ? 0 : 1;
    return !cut_;
  }
  if (code != SQLITE_DONE) throw_error(db_, code);
  return false;
}

std::optional<std::string> Rows::parameter() const {
  if (sqlite3_bind_parameter_count(statement_.get()) == 0) return std::nullopt;
  const char* name = sqlite3_bind_parameter_name(statement_.get(), 1);
  return name == nullptr ? "?" : name;
}

int Rows::columns() const { return sqlite3_column_count(statement_.get()); }

std::string Rows::name(int column) const { return sqlite3_column_name(statement_.get(), column); }

Value Rows::value(int column) const {
  sqlite3_stmt* row = statement_.get();
  switch (sqlite3_column_type(row, column)) {
    case SQLITE_INTEGER:
      return Value::count(sqlite3_column_int64(row, column));
    case SQLITE_FLOAT:
      return Value::real(sqlite3_column_double(row, column));
    case SQLITE_NULL:
      return Value::null(Unit::kCount);
    case SQLITE_BLOB:
      return Value::text(hex(sqlite3_column_blob(row, column), sqlite3_column_bytes(row, column)));
    default: {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
      return Value::text(std::string(text, static_cast<size_t>(sqlite3_column_bytes(row, column))));
    }
  }
}

Table to_table(Rows& rows) {
  Table table;
  std::set<std::string> ids;  // keys of JSON: two columns of a join may have one name
  for (int c = 0; c < rows.columns(); ++c) {
    std::string id = rows.name(c);
    for (int again = 2; !ids.insert(id).second; ++again) id = fmt::format("{}_{}", rows.name(c), again);
    table.columns.push_back({id, rows.name(c), Unit::kReal});
  }
  while (rows.next()) {
    auto& cells = table.rows.emplace_back();
    for (int c = 0; c < rows.columns(); ++c) {
      cells.push_back(rows.value(c));
      if (cells.back().unit() == Unit::kText) table.columns[static_cast<size_t>(c)].unit = Unit::kText;
    }
  }
  return table;
}

}  // namespace ddl::reports
