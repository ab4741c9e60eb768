#include "analyzer/made_rows.h"

#include <SQLiteCpp/Exception.h>
#include <sqlite3.h>

#include <string>
#include <utility>

namespace ddl {
namespace {

struct MadeTable {
  sqlite3_vtab base;  // first: SQLite sees only this
  MadeRows::State* state;
};

struct MadeCursor {
  sqlite3_vtab_cursor base;
  MadeRows::State* state;
  MadeRow row;
  sqlite3_int64 rowid;
  bool at_end;
};

int go_on(MadeCursor& cursor) {
  try {
    cursor.at_end = cursor.state->next == nullptr || !(*cursor.state->next)(cursor.row);
    ++cursor.rowid;
    return SQLITE_OK;
  } catch (...) {  // no exception may cross SQLite's C frames
    cursor.state->failure = std::current_exception();
    cursor.at_end = true;
    return SQLITE_ERROR;
  }
}

int connect_made(sqlite3* db, void* state, int, const char* const*, sqlite3_vtab** table, char**) {
  std::string columns = "CREATE TABLE made_rows(c0";
  for (int i = 1; i < MadeRow::kMostColumns; ++i) columns += ", c" + std::to_string(i);
  const int code = sqlite3_declare_vtab(db, (columns + ")").c_str());
  if (code == SQLITE_OK) *table = &(new MadeTable{{}, static_cast<MadeRows::State*>(state)})->base;
  return code;
}

int disconnect_made(sqlite3_vtab* table) {
  delete reinterpret_cast<MadeTable*>(table);
  return SQLITE_OK;
}

int plan_made(sqlite3_vtab*, sqlite3_index_info* info) {
  info->estimatedCost = 1e9;
  return SQLITE_OK;
}

int open_made(sqlite3_vtab* table, sqlite3_vtab_cursor** cursor) {
  *cursor = &(new MadeCursor{{}, reinterpret_cast<MadeTable*>(table)->state, {}, 0, true})->base;
  return SQLITE_OK;
}

int close_made(sqlite3_vtab_cursor* cursor) {
  delete reinterpret_cast<MadeCursor*>(cursor);
  return SQLITE_OK;
}

int first_made(sqlite3_vtab_cursor* cursor, int, const char*, int, sqlite3_value**) {
  return go_on(*reinterpret_cast<MadeCursor*>(cursor));
}
int next_made(sqlite3_vtab_cursor* cursor) { return go_on(*reinterpret_cast<MadeCursor*>(cursor)); }
int no_more_made(sqlite3_vtab_cursor* cursor) { return reinterpret_cast<MadeCursor*>(cursor)->at_end ? 1 : 0; }

int rowid_made(sqlite3_vtab_cursor* cursor, sqlite3_int64* id) {
  *id = reinterpret_cast<MadeCursor*>(cursor)->rowid;
  return SQLITE_OK;
}

int column_made(sqlite3_vtab_cursor* cursor, sqlite3_context* context, int column) {
  const MadeRow::Cell& cell = reinterpret_cast<MadeCursor*>(cursor)->row.cell(column);
  switch (cell.type) {
    case MadeRow::Cell::Type::kInteger:
      sqlite3_result_int64(context, cell.integer);
      break;
    case MadeRow::Cell::Type::kReal:
      sqlite3_result_double(context, cell.real);
      break;
    case MadeRow::Cell::Type::kText:
      sqlite3_result_text(context, cell.text, -1, SQLITE_STATIC);
      break;
    case MadeRow::Cell::Type::kNull:
      break;
  }
  return SQLITE_OK;
}

constexpr sqlite3_module made_module() {
  sqlite3_module module = {};  // xCreate stays NULL: the table is there by its name alone
  module.xConnect = connect_made;
  module.xBestIndex = plan_made;
  module.xDisconnect = disconnect_made;
  module.xOpen = open_made;
  module.xClose = close_made;
  module.xFilter = first_made;
  module.xNext = next_made;
  module.xEof = no_more_made;
  module.xColumn = column_made;
  module.xRowid = rowid_made;
  return module;
}

constexpr sqlite3_module kMadeModule = made_module();

}  // namespace

MadeRows::MadeRows(SQLite::Database& db) : db_(db) {
  if (sqlite3_create_module(db.getHandle(), "made_rows", &kMadeModule, &state_) != SQLITE_OK) throw SQLite::Exception(db.getHandle());
}

MadeRows::~MadeRows() { sqlite3_create_module(db_.getHandle(), "made_rows", nullptr, nullptr); }

void MadeRows::insert(std::string_view sql, const std::function<bool(MadeRow&)>& next) {
  Query statement(db_, sql);
  state_ = {&next, nullptr};
  try {
    statement.run();
    state_ = {};
  } catch (...) {
    if (const std::exception_ptr failure = std::exchange(state_, {}).failure) std::rethrow_exception(failure);
    throw;
  }
}

}  // namespace ddl
