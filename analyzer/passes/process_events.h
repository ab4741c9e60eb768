// Where the events of each process lie, for reading them one process after the other without an index.
//
// A recorded run has them process by process, and of a process with one thread in the order of their start: its index
// leads from each to a jump into the table, which takes longer than reading the row.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <string>

#include "analyzer/query.h"

namespace ddl {

class ProcessEvents {
 public:
  explicit ProcessEvents(SQLite::Database& db)
      : in_order_(is_in_order(db)),
        first_(db, "SELECT id FROM event WHERE process >= ? AND kind < 3 ORDER BY process, start_ns LIMIT 1"),
        first_since_(
            db, "SELECT id FROM event WHERE process = ? AND start_ns >= ? AND kind < 3 ORDER BY start_ns LIMIT 1") {}

  /// Can all events of a process be had by one range of ids, and by start? Else they come in no order.
  bool in_order() const { return in_order_; }
  /// `event e`, to be joined.
  std::string table() const { return in_order_ ? "event e NOT INDEXED" : "event e"; }
  /// A condition on it with parameters ?1 and ?2.
  std::string condition() const { return in_order_ ? "e.id >= ?1 AND e.id < ?2" : "e.process = ?1 AND ?2 = ?2"; }
  struct Parameters {
    int64_t first, second;
  };
  /// Those that began at `since_ns` or later, and of processes out of order all others too.
  Parameters of(int64_t process, int64_t since_ns = INT64_MIN) {
    if (!in_order_) return {process, 0};
    if (process != next_) begin_ = first_from(process);
    next_ = process + 1;
    const int64_t begin = begin_;
    begin_ = first_from(next_);
    if (since_ns == INT64_MIN) return {begin, begin_};
    return {first_since_.bind(process, since_ns).next() ? first_since_.integer(0) : begin_, begin_};
  }

 private:
  static bool is_in_order(SQLite::Database& db) {
    Query row(db,
              "SELECT NOT EXISTS (SELECT 1 FROM thread GROUP BY process HAVING count(*) > 1)"
              " AND NOT EXISTS (SELECT 1 FROM process WHERE ended = 'imported')");
    return row.next() && row.integer(0) != 0;
  }
  int64_t first_from(int64_t process) { return first_.bind(process).next() ? first_.integer(0) : INT64_MAX; }

  const bool in_order_;
  Query first_, first_since_;
  int64_t next_ = INT64_MIN, begin_ = 0;  ///< the process that begins with that event
};

}  // namespace ddl
