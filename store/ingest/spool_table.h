// The SQLite virtual table `spool_records`: rows that C++ makes one at a time, so that events enter the store with
// INSERT INTO ... SELECT.
//
// Why: one prepared INSERT per event binds and steps through SQLite's interface 17 times a row and reaches 1 M rows/s
// on a core; pulling rows from a virtual table keeps the whole loop inside SQLite's machine and doubles that (SQLite
// 3.40, 10 columns: 1.0 against 2.2 M rows/s).
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "store/insert.h"

namespace ddl::store {

/// One row. Unset optionals and zero ids are NULL. Columns have the members' names.
struct SpoolRow {
  int64_t thread = 0;
  int64_t kind = 0;
  int64_t op = 0;
  int64_t comm = 0;  ///< 0: NULL
  int64_t seq = 0;   ///< 0: NULL
  int64_t region = 0;
  int64_t site = 0;  ///< 0: NULL
  std::optional<int64_t> step;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  int64_t bytes = 0;
  std::optional<int64_t> peer;
  std::optional<int64_t> tag;
  int64_t datatype = 0;   ///< 0: NULL
  int64_t reduction = 0;  ///< 0: NULL
  int64_t mpi_ns = 0;
  const std::string* name = nullptr;
  double number = 0;  ///< NaN: NULL
};

class RowSource {
 public:
  virtual ~RowSource() = default;
  /// Fills `row`; false at the end. May throw.
  virtual bool next(SpoolRow& row) = 0;
};

class SpoolTable {
 public:
  /// Registers the table with the connection of `statements`, which must not outlive this object's last pull().
  explicit SpoolTable(Statements& statements);
  SpoolTable(const SpoolTable&) = delete;
  SpoolTable& operator=(const SpoolTable&) = delete;

  /// Runs `sql`, a literal: a statement that reads spool_records once from begin to end. `process` binds ?1. Returns
  /// the number of changed rows. Rethrows the source's exceptions.
  int64_t pull(RowSource& source, const char* sql, int64_t process);

  struct State {
    RowSource* source = nullptr;
    std::exception_ptr failure;
  };

 private:
  Statements& statements_;
  State state_;
};

}  // namespace ddl::store
