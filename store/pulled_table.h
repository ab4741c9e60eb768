// A SQLite virtual table whose rows C++ makes one at a time, for statements that read it once from begin to end:
//
//   struct Rows {
//     using State = ...;  // what the table is made of, with a std::exception_ptr `failure`
//     using Row = ...;
//     static std::string columns();                               // "CREATE TABLE name(a, b)"
//     static bool next(State&, Row&);                             // false at the end; may throw
//     static void column(sqlite3_context*, const Row&, int index);  // what sets nothing is NULL
//   };
//   sqlite3_create_module(db, "name", &PulledTable<Rows>::kModule, &state)
//
// What next() throws is kept in State::failure, for whoever runs the statement.
#pragma once

#include <sqlite3.h>

#include <exception>

namespace ddl::store {

template <class Rows>
class PulledTable {
  using State = typename Rows::State;

  struct Table {
    sqlite3_vtab base;  // first: SQLite sees only this
    State* state;
  };
  struct Cursor {
    sqlite3_vtab_cursor base;
    State* state;
    typename Rows::Row row;
    sqlite3_int64 rowid;
    bool at_end;
  };
  static Cursor& of(sqlite3_vtab_cursor* cursor) { return *reinterpret_cast<Cursor*>(cursor); }

  static int advance(sqlite3_vtab_cursor* at) {
    Cursor& cursor = of(at);
    try {
      cursor.at_end = !Rows::next(*cursor.state, cursor.row);
      ++cursor.rowid;
      return SQLITE_OK;
    } catch (...) {  // no exception may cross SQLite's C frames
      cursor.state->failure = std::current_exception();
      cursor.at_end = true;
      return SQLITE_ERROR;
    }
  }

  static int connect(sqlite3* db, void* state, int, const char* const*, sqlite3_vtab** table, char**) {
    const int code = sqlite3_declare_vtab(db, Rows::columns().c_str());
    if (code == SQLITE_OK) *table = &(new Table{{}, static_cast<State*>(state)})->base;
    return code;
  }
  static int disconnect(sqlite3_vtab* table) {
    delete reinterpret_cast<Table*>(table);
    return SQLITE_OK;
  }
  static int best_index(sqlite3_vtab*, sqlite3_index_info* info) {
    info->estimatedCost = 1e9;
    return SQLITE_OK;
  }
  static int open(sqlite3_vtab* table, sqlite3_vtab_cursor** cursor) {
    *cursor = &(new Cursor{{}, reinterpret_cast<Table*>(table)->state, {}, 0, true})->base;
    return SQLITE_OK;
  }
  static int close(sqlite3_vtab_cursor* cursor) {
    delete &of(cursor);
    return SQLITE_OK;
  }
  static int filter(sqlite3_vtab_cursor* cursor, int, const char*, int, sqlite3_value**) { return advance(cursor); }
  static int eof(sqlite3_vtab_cursor* cursor) { return of(cursor).at_end ? 1 : 0; }
  static int column(sqlite3_vtab_cursor* cursor, sqlite3_context* context, int index) {
    Rows::column(context, of(cursor).row, index);
    return SQLITE_OK;
  }
  static int rowid(sqlite3_vtab_cursor* cursor, sqlite3_int64* id) {
    *id = of(cursor).rowid;
    return SQLITE_OK;
  }

  static constexpr sqlite3_module module() {
    sqlite3_module module = {};  // xCreate stays NULL: the table is there by its name alone
    module.xConnect = connect;
    module.xBestIndex = best_index;
    module.xDisconnect = disconnect;
    module.xOpen = open;
    module.xClose = close;
    module.xFilter = filter;
    module.xNext = advance;
    module.xEof = eof;
    module.xColumn = column;
    module.xRowid = rowid;
    return module;
  }

 public:
  static const sqlite3_module kModule;
};

template <class Rows>
constexpr sqlite3_module PulledTable<Rows>::kModule = PulledTable<Rows>::module();

}  // namespace ddl::store
