// Who waited for whom (specification.md W10): the waiting in symmetric collectives, booked to the rank that entered last; ties share
// evenly.
//
// Two outputs. Table `blame`: sums over the whole run; its total equals the waiting of all symmetric collectives to the nanosecond.
// Table `late`: one row per instance and late rank, from which findings look at single steps, after find_late_roots() has added what ranks
// waited for in messages.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <tuple>

#include "analyzer/passes/instance.h"
#include "analyzer/query.h"

namespace ddl {

class Blame {
 public:
  explicit Blame(SQLite::Database& db);

  /// `sigma_ns`: clock sigma of each wait. Returns the rowid of the first row in `late`; 0: the instance has none.
  int64_t add(int64_t world, int64_t communicator, const Instance& instance, const Split& split, double sigma_ns);
  /// Fills table `blame`.
  void write();

 private:
  struct Sum {
    int64_t instances = 0;
    int64_t wait_ns = 0;
    double sigma_ns = 0;
  };
  SQLite::Database& db_;
  Query insert_late_;
  std::map<std::tuple<int64_t, int64_t, int64_t>, Sum> sums_;  ///< world, late, waiter
};

}  // namespace ddl
