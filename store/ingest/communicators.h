// Communicators of all processes merged by (world, uid), numbered and labelled.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "store/ingest/operations.h"
#include "store/ingest/scan.h"
#include "store/ingest/worlds.h"

namespace ddl::store {

constexpr uint32_t kMaxCommIndex = 1u << 20;  ///< writers stop at 2^17: more is damage

inline void fields(Archive& a, RankRun& run) { a(run.first, run.stride, run.count); }

struct Communicator {
  int64_t world = 0;
  uint64_t uid = 0;
  std::string label;
  int32_t size = 0;
  uint32_t flags = 0;
  std::string creator;             ///< operation that made it; empty: predefined or unknown
  std::optional<uint64_t> parent;  ///< uid
  uint32_t split = 0;              ///< number of the split of its parent that made it, as all that this made; 0: none
  int32_t color = 0;
  std::vector<RankRun> runs;  ///< of the first member's group
  int32_t other_size = 0;     ///< the other group of an intercommunicator, if ranks of our world are in it
  std::vector<RankRun> other_runs;
  std::map<int32_t, int64_t> told;  ///< of NCCL: rank in it -> rank in the world, as each member says of itself
  std::string name;                 ///< given by the program, or the file's
  std::string topology;             ///< empty: none
  uint32_t first_index = 0;         ///< smallest index that a member gave it
  int64_t first_rank = 0;
  void archive(Archive& a) {
    a(world, uid, label, size, flags, creator, parent, split, color, runs, other_size, other_runs, told, name, topology,
      first_index, first_rank);
  }
};

/// Members' ranks in the world, by rank in the communicator (-1: of another world); empty if the description does not
/// add up, or names more than `max_members`.
std::vector<int64_t> members_of(uint32_t flags, int32_t size, const std::vector<RankRun>& runs, uint64_t max_members);

/// Gives all their labels. Predefined ones keep their names; then names that the program gave; then "MPI_Comm_split#2",
/// numbered in the order of creation. No two of a world have the same.
void label_communicators(std::vector<Communicator>& communicators);

class Communicators {
 public:
  Communicators() = default;
  Communicators(const std::vector<Scan>& scans, const Worlds& worlds);
  void archive(Archive& a) { a(communicators_, ids_, max_members_); }

  /// communicator.id by the process's own index. Throws std::out_of_range for one that none of the scans had.
  std::map<uint32_t, uint32_t> ids_of(const Scan& scan, int64_t world) const;
  const Communicator& operator[](uint32_t id) const { return communicators_[id - 1]; }

  /// Tables communicator and communicator_member. `op_ids`: op.id by name.
  void write(SQLite::Database& db, const std::map<std::string, uint32_t>& op_ids) const;

 private:
  std::vector<Communicator> communicators_;  ///< id - 1
  std::map<std::pair<int64_t, uint64_t>, uint32_t> ids_;
  uint64_t max_members_ = 0;
};

}  // namespace ddl::store
