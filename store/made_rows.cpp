#include "store/made_rows.h"

#include <SQLiteCpp/Exception.h>
#include <sqlite3.h>

#include "store/pulled_table.h"

namespace ddl {
namespace {

struct MadeTable {
  using State = MadeRows::State;
  using Row = MadeRow;

  static std::string columns() {
    std::string columns = "CREATE TABLE made_rows(c0";
    for (int i = 1; i < MadeRow::kMostColumns; ++i) columns += ", c" + std::to_string(i);
    return columns + ")";
  }
  static bool next(State& state, MadeRow& row) { return state.next != nullptr && (*state.next)(row); }
  static void column(sqlite3_context* context, const MadeRow& row, int index) {
    const MadeRow::Cell& cell = row.cell(index);
    switch (cell.type) {
      case MadeRow::Cell::Type::kInteger:
        return sqlite3_result_int64(context, cell.integer);
      case MadeRow::Cell::Type::kReal:
        return sqlite3_result_double(context, cell.real);
      case MadeRow::Cell::Type::kText:
        return sqlite3_result_text(context, cell.text, -1, SQLITE_STATIC);
      case MadeRow::Cell::Type::kBlob:
        return sqlite3_result_blob(context, cell.blob, cell.blob_bytes, SQLITE_STATIC);
      case MadeRow::Cell::Type::kNull:
        return;
    }
  }
};

}  // namespace

MadeRows::MadeRows(SQLite::Database& db) : db_(db) {
  if (sqlite3_create_module(db.getHandle(), "made_rows", &store::PulledTable<MadeTable>::kModule, &state_) != SQLITE_OK)
    throw SQLite::Exception(db.getHandle());
}

MadeRows::~MadeRows() {
  statements_.clear();
  sqlite3_create_module(db_.getHandle(), "made_rows", nullptr, nullptr);
}

void MadeRows::insert(std::string_view sql, const std::function<bool(MadeRow&)>& next) {
  auto at = statements_.find(sql);
  if (at == statements_.end()) at = statements_.try_emplace(std::string(sql), db_, std::string(sql)).first;
  SQLite::Statement& statement = at->second;
  state_ = {&next, nullptr};
  try {
    statement.exec();
    statement.reset();
    state_ = {};
  } catch (...) {
    statement.tryReset();
    if (const std::exception_ptr failure = std::exchange(state_, {}).failure) std::rethrow_exception(failure);
    throw;
  }
}

void RowBuffer::flush() {
  size_t next = 0;
  const size_t count = std::exchange(count_, 0);
  if (count == 0) return;
  rows_.insert(sql_, [&](MadeRow& row) {
    if (next == count) return false;
    row = held_[next++];
    return true;
  });
}

}  // namespace ddl
