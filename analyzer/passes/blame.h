// Who waited for whom (specification.md W10): the waiting in symmetric collectives, booked to the rank that entered last; ties share
// evenly.
//
// Two outputs. Table `blame`: sums over the whole run; its total equals the waiting of all symmetric collectives to the nanosecond.
// Table `late`: one row per instance and late rank, from which findings look at single steps, after find_late_roots() has added what ranks
// waited for in messages.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

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
  /// `sigma_ns`: clock sigma of each wait. Appends the instance's rows to `rows`. Returns the number of the first of them, among all from 1, which
  /// is its rowid; 0: the instance has none.
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
  int64_t rows_ = 0;
  struct Pair {
    int64_t world, late, waiter;
    bool operator==(const Pair&) const = default;
  };
  struct HashOfPair {
    size_t operator()(const Pair& pair) const {
      uint64_t hash = static_cast<uint64_t>(pair.world);
      for (const int64_t rank : {pair.late, pair.waiter}) hash = (hash ^ static_cast<uint64_t>(rank)) * 0x9e3779b97f4a7c15u ^ hash >> 31;
      return static_cast<size_t>(hash);
    }
  };
  std::unordered_map<Pair, Sum, HashOfPair> sums_;
};

}  // namespace ddl
