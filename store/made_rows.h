// The SQLite virtual table `made_rows`: rows that C++ makes one at a time, so that they enter the store by one
// statement,
//   INSERT INTO t (a, b) SELECT c0, c1 FROM made_rows
// A prepared INSERT that is bound and run for each row takes twice as long (store/ingest/spool_table.h).
#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <array>
#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddl {

/// Text that outlives the statement it is bound to, such as a literal: not copied. Null: NULL.
struct Lasting {
  const char* text;
};

/// The values of c0, c1, ...
class MadeRow {
 public:
  static constexpr int kMostColumns = 24;

  /// From c0 on. Text is Lasting: it outlives the statement. So do the bytes of a blob.
  template <typename... Values>
  void set(const Values&... values) {
    static_assert(sizeof...(Values) <= kMostColumns);
    size_t column = 0;
    (set_one(cells_[column++], values), ...);
  }

  struct Cell {
    enum class Type : uint8_t { kNull, kInteger, kReal, kText, kBlob } type = Type::kNull;
    int32_t blob_bytes = 0;
    union {
      int64_t integer = 0;
      double real;
      const char* text;
      const unsigned char* blob;
    };
  };
  const Cell& cell(int column) const { return cells_[static_cast<size_t>(column)]; }

 private:
  static void set_one(Cell& cell, std::integral auto value) {
    cell.type = Cell::Type::kInteger;
    cell.integer = static_cast<int64_t>(value);
  }
  static void set_one(Cell& cell, double value) {
    cell.type = Cell::Type::kReal;
    cell.real = value;
  }
  static void set_one(Cell& cell, const Lasting& value) {
    cell.type = value.text == nullptr ? Cell::Type::kNull : Cell::Type::kText;
    cell.text = value.text;
  }
  static void set_one(Cell& cell, std::span<const unsigned char> bytes) {
    cell.type = Cell::Type::kBlob;
    cell.blob = bytes.data();
    cell.blob_bytes = static_cast<int32_t>(bytes.size());
  }
  template <typename Value>
  static void set_one(Cell& cell, const std::optional<Value>& value) {
    if (value) {
      set_one(cell, *value);
    } else {
      cell.type = Cell::Type::kNull;
    }
  }
  static void set_one(Cell& cell, std::nullopt_t) { cell.type = Cell::Type::kNull; }

  std::array<Cell, kMostColumns> cells_;
};

class MadeRows {
 public:
  /// Registers the table with the connection, for the lifetime of this object.
  explicit MadeRows(SQLite::Database& db);
  ~MadeRows();
  MadeRows(const MadeRows&) = delete;
  MadeRows& operator=(const MadeRows&) = delete;

  /// Runs `sql`, which reads made_rows once, and keeps it prepared. `next` sets the next row; false: the end. Rethrows
  /// its exceptions, else throws SQLite::Exception.
  void insert(std::string_view sql, const std::function<bool(MadeRow&)>& next);
  /// One row for each of `items`: `set(row, item)`.
  template <typename Items, typename Set>
  void insert_each(std::string_view sql, const Items& items, const Set& set) {
    auto at = items.begin();
    if (at == items.end()) return;
    insert(sql, [&](MadeRow& row) {
      if (at == items.end()) return false;
      set(row, *at++);
      return true;
    });
  }

  struct State {
    const std::function<bool(MadeRow&)>* next = nullptr;
    std::exception_ptr failure;
  };

 private:
  SQLite::Database& db_;
  std::map<std::string, SQLite::Statement, std::less<>> statements_;  ///< by their text
  State state_;
};

/// Rows of one table between those of others: inserted some hundred at a time, in order.
class RowBuffer {
 public:
  /// `sql` as for MadeRows::insert(). Unflushed rows are lost.
  RowBuffer(MadeRows& rows, std::string sql) : rows_(rows), sql_(std::move(sql)), held_(kHeld) {}

  template <typename... Values>
  void row(const Values&... values) {
    held_[count_++].set(values...);
    if (count_ == kHeld) flush();
  }
  void flush();

 private:
  static constexpr size_t kHeld = 512;
  MadeRows& rows_;
  const std::string sql_;
  std::vector<MadeRow> held_;
  size_t count_ = 0;
};

}  // namespace ddl
