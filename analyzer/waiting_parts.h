// Parts of a job whose ranks never wait for each other, as those of several jobs in one MPI_COMM_WORLD, which they
// share at start-up only: who is late in one of them keeps nobody of another one waiting. The report and the live view
// judge them apart (specification.md R8).
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace ddl {

/// By rank the lowest one that may wait for it, directly or through others. Empty: all may wait for each other, or it
/// is not known who does.
using PartOfRank = std::map<int64_t, int64_t>;

constexpr size_t kLeastRanksInParts = 4;  ///< of two and one, the one has nobody to wait for

/// Finds them from the communicators on which anybody waited, in about linear time.
class WaitingParts {
 public:
  explicit WaitingParts(const std::vector<int64_t>& ranks);
  /// They may wait for each other. If one of them is none of the ranks, all may.
  template <class Ranks>
  void join(const Ranks& members) {
    for (const int64_t rank : members) join(rank, members.front());
  }
  PartOfRank parts();

 private:
  void join(int64_t rank, int64_t other);
  int64_t lowest_of(int64_t rank);

  PartOfRank part_;  ///< each leads to a lower one, the lowest to itself
  bool known_ = true;
};

/// From table `late` of an analyzed run. `annotated`: the steady steps count, else the whole run. Empty where ranks
/// wait for messages, or left no record.
PartOfRank parts_of_world(SQLite::Database& db, int64_t world, bool annotated);

}  // namespace ddl
