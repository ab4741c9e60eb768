// Where the events of each process lie, for reading them one process after the other without an index.
//
// A recorded run has them process by process, and of a process with one thread in the order of their start: its index leads from each to a jump
// into the table, which takes longer than reading the row.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <string>

#include "analyzer/query.h"

namespace ddl {

class ProcessEvents {
 public:
  explicit ProcessEvents(SQLite::Database& db)
      : in_order_(is_in_order(db)), first_(db, "SELECT id FROM event WHERE process >= ? AND kind < 3 ORDER BY process, start_ns LIMIT 1") {}

  /// Can all events of a process be had by one range of ids, and by start?
  bool in_order() const { return in_order_; }
  /// A condition on `event e` with parameters ?1 and ?2, and the order by start.
  std::string condition() const { return in_order_ ? "e.id >= ?1 AND e.id < ?2" : "e.process = ?1 AND ?2 = ?2"; }
  std::string order() const { return in_order_ ? "e.id" : "e.start_ns"; }
  struct Parameters {
    int64_t first, second;
  };
  Parameters of(int64_t process) {
    if (!in_order_) return {process, 0};
    if (process != next_) begin_ = first_from(process);
    next_ = process + 1;
    const int64_t begin = begin_;
    begin_ = first_from(next_);
    return {begin, begin_};
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
  Query first_;
  int64_t next_ = INT64_MIN, begin_ = 0;  ///< the process that begins with that event
};

}  // namespace ddl
