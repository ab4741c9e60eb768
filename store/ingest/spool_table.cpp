#include "store/ingest/spool_table.h"

#include <SQLiteCpp/Exception.h>
#include <sqlite3.h>

#include <utility>

namespace ddl::store {

namespace {

struct Table {
  sqlite3_vtab base;  // first: SQLite sees only this
  SpoolTable::State* state;
};

struct Cursor {
  sqlite3_vtab_cursor base;
  SpoolTable::State* state;
  SpoolRow row;
  sqlite3_int64 rowid;
  bool at_end;
};

constexpr const char* kColumns =
    "CREATE TABLE spool_records(thread, kind, op, comm, seq, region, site, step, start_ns, duration_ns, bytes, peer, tag, datatype,"
    " reduction, mpi_ns, name, number)";

int advance(Cursor& cursor) {
  try {
    cursor.at_end = !cursor.state->source || !cursor.state->source->next(cursor.row);
    ++cursor.rowid;
    return SQLITE_OK;
  } catch (...) {  // no exception may cross SQLite's C frames
    cursor.state->failure = std::current_exception();
    cursor.at_end = true;
    return SQLITE_ERROR;
  }
}

void unless_zero(sqlite3_context* context, int64_t value) {
  if (value != 0) sqlite3_result_int64(context, value);
}

void if_set(sqlite3_context* context, const std::optional<int64_t>& value) {
  if (value) sqlite3_result_int64(context, *value);
}

int connect(sqlite3* db, void* state, int, const char* const*, sqlite3_vtab** table, char**) {
  const int code = sqlite3_declare_vtab(db, kColumns);
  if (code != SQLITE_OK) return code;
  *table = &(new Table{{}, static_cast<SpoolTable::State*>(state)})->base;
  return SQLITE_OK;
}

int disconnect(sqlite3_vtab* table) {
  delete reinterpret_cast<Table*>(table);
  return SQLITE_OK;
}

int best_index(sqlite3_vtab*, sqlite3_index_info* info) {
  info->estimatedCost = 1e9;
  return SQLITE_OK;
}

int open_cursor(sqlite3_vtab* table, sqlite3_vtab_cursor** cursor) {
  *cursor = &(new Cursor{{}, reinterpret_cast<Table*>(table)->state, {}, 0, true})->base;
  return SQLITE_OK;
}

int close_cursor(sqlite3_vtab_cursor* cursor) {
  delete reinterpret_cast<Cursor*>(cursor);
  return SQLITE_OK;
}

int filter(sqlite3_vtab_cursor* cursor, int, const char*, int, sqlite3_value**) { return advance(*reinterpret_cast<Cursor*>(cursor)); }
int next(sqlite3_vtab_cursor* cursor) { return advance(*reinterpret_cast<Cursor*>(cursor)); }
int eof(sqlite3_vtab_cursor* cursor) { return reinterpret_cast<Cursor*>(cursor)->at_end; }

int rowid(sqlite3_vtab_cursor* cursor, sqlite3_int64* id) {
  *id = reinterpret_cast<Cursor*>(cursor)->rowid;
  return SQLITE_OK;
}

int column(sqlite3_vtab_cursor* cursor, sqlite3_context* context, int index) {
  const SpoolRow& row = reinterpret_cast<Cursor*>(cursor)->row;
  switch (index) {  // in the order of kColumns; what sets nothing is NULL
    case 0:
      sqlite3_result_int64(context, row.thread);
      break;
    case 1:
      sqlite3_result_int64(context, row.kind);
      break;
    case 2:
      sqlite3_result_int64(context, row.op);
      break;
    case 3:
      unless_zero(context, row.comm);
      break;
    case 4:
      unless_zero(context, row.seq);
      break;
    case 5:
      sqlite3_result_int64(context, row.region);
      break;
    case 6:
      unless_zero(context, row.site);
      break;
    case 7:
      if_set(context, row.step);
      break;
    case 8:
      sqlite3_result_int64(context, row.start_ns);
      break;
    case 9:
      sqlite3_result_int64(context, row.duration_ns);
      break;
    case 10:
      sqlite3_result_int64(context, row.bytes);
      break;
    case 11:
      if_set(context, row.peer);
      break;
    case 12:
      if_set(context, row.tag);
      break;
    case 13:
      unless_zero(context, row.datatype);
      break;
    case 14:
      unless_zero(context, row.reduction);
      break;
    case 15:
      sqlite3_result_int64(context, row.mpi_ns);
      break;
    case 16:
      if (row.name) sqlite3_result_text(context, row.name->data(), static_cast<int>(row.name->size()), SQLITE_TRANSIENT);
      break;
    case 17:
      sqlite3_result_double(context, row.number);
      break;
    default:
      break;
  }
  return SQLITE_OK;
}

constexpr sqlite3_module make_module() {
  sqlite3_module module = {};  // xCreate stays NULL: the table is there by its name alone
  module.xConnect = connect;
  module.xBestIndex = best_index;
  module.xDisconnect = disconnect;
  module.xOpen = open_cursor;
  module.xClose = close_cursor;
  module.xFilter = filter;
  module.xNext = next;
  module.xEof = eof;
  module.xColumn = column;
  module.xRowid = rowid;
  return module;
}

constexpr sqlite3_module kModule = make_module();

}  // namespace

SpoolTable::SpoolTable(Statements& statements) : statements_(statements) {
  sqlite3* db = statements.db.getHandle();
  if (sqlite3_create_module(db, "spool_records", &kModule, &state_) != SQLITE_OK) throw SQLite::Exception(db);
}

int64_t SpoolTable::pull(RowSource& source, const char* sql, int64_t process) {
  SQLite::Statement& statement = statements_.prepared(sql);
  state_ = {&source, nullptr};
  try {
    statement.bind(1, process);
    const int64_t changed = statement.exec();
    statement.reset();
    state_ = {};
    return changed;
  } catch (const SQLite::Exception&) {
    statement.tryReset();
    if (const std::exception_ptr failure = std::exchange(state_, {}).failure) std::rethrow_exception(failure);
    throw;
  }
}

}  // namespace ddl::store
