// Who waited for whom (specification.md W10): the waiting in collectives, booked to the rank that entered last, or the
// root that was waited for; ties share evenly.
//
// Two outputs. Table `blame`: sums over the whole run; its total equals the waiting of all collectives to the
// nanosecond. Table `late`: one row per instance and late rank, from which findings look at single steps, after
// find_late_roots() has added what ranks waited for in messages.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/flat_map.h"
#include "analyzer/passes/catalog.h"
#include "analyzer/passes/instance.h"

namespace ddl {

/// A row of table `late`; message is 0 and instances 1.
struct LateRankRow {
  int64_t world;
  std::optional<int64_t> step;
  int64_t rank, ties, wait_ns, longest_ns, communicator;
};

class Blame {
 public:
  explicit Blame(const Catalog& catalog);

  /// `sigma_ns`: clock sigma of each wait. Appends the instance's rows to `rows`. Returns the number of the first of
  /// them, among all from 1, which is its rowid; 0: the instance has none.
  int64_t add(int64_t world, int64_t communicator, const Instance& instance, const Split& split, double sigma_ns,
              std::vector<LateRankRow>& rows);
  /// Fills table `blame`.
  void write(SQLite::Database& db);

 private:
  struct Sum {
    int64_t instances = 0;
    int64_t wait_ns = 0;
    double sigma_ns = 0;
  };
  uint32_t rank_of(const Member& member) { return rank_of_[static_cast<uint64_t>(member.process)]; }

  int64_t rows_ = 0;
  std::vector<std::pair<int64_t, int64_t>> ranks_;  ///< world and rank, ascending
  FlatMap<uint32_t> rank_of_;                       ///< place in them, by process.id
  FlatMap<Sum> sums_;                               ///< by the places of who was late and who waited, 32 bits each
};

}  // namespace ddl
