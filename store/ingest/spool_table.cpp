#include "store/ingest/spool_table.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <sqlite3.h>

#include <utility>

#include "store/pulled_table.h"

namespace ddl::store {

namespace {

void unless_zero(sqlite3_context* context, int64_t value) {
  if (value != 0) sqlite3_result_int64(context, value);
}

void if_set(sqlite3_context* context, const std::optional<int64_t>& value) {
  if (value) sqlite3_result_int64(context, *value);
}

struct SpoolRecords {
  using State = SpoolTable::State;
  using Row = SpoolRow;

  static std::string columns() {
    return "CREATE TABLE spool_records(thread, kind, op, comm, seq, region, site, step, start_ns, duration_ns, bytes, peer, tag, datatype,"
           " reduction, mpi_ns, name, number)";
  }
  static bool next(State& state, SpoolRow& row) { return state.source && state.source->next(row); }
  static void column(sqlite3_context* context, const SpoolRow& row, int index);
};

void SpoolRecords::column(sqlite3_context* context, const SpoolRow& row, int index) {
  switch (index) {  // in the order of columns()
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
      if (row.name)
        sqlite3_result_text(context, row.name->data(), static_cast<int>(row.name->size()), SQLITE_TRANSIENT);
      break;
    case 17:
      sqlite3_result_double(context, row.number);
      break;
    default:
      break;
  }
}

}  // namespace

SpoolTable::SpoolTable(Statements& statements) : statements_(statements) {
  sqlite3* db = statements.db.getHandle();
  if (sqlite3_create_module(db, "spool_records", &PulledTable<SpoolRecords>::kModule, &state_) != SQLITE_OK)
    throw SQLite::Exception(db);
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
