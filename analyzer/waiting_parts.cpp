#include "analyzer/waiting_parts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "analyzer/query.h"

namespace ddl {

WaitingParts::WaitingParts(const std::vector<int64_t>& ranks) {
  for (const int64_t rank : ranks) part_[rank] = rank;
}

int64_t WaitingParts::lowest_of(int64_t rank) {
  for (int64_t lower = part_.at(rank); lower != rank; lower = part_.at(rank)) rank = part_.at(rank) = part_.at(lower);
  return rank;
}

void WaitingParts::join(int64_t rank, int64_t other) {
  known_ &= part_.contains(rank) && part_.contains(other);
  if (!known_) return;
  const int64_t one = lowest_of(rank), two = lowest_of(other);
  part_.at(std::max(one, two)) = std::min(one, two);
}

PartOfRank WaitingParts::parts() {
  if (!known_ || part_.size() < kLeastRanksInParts) return {};
  for (auto& [rank, of] : part_) of = lowest_of(rank);
  const bool all =
      std::all_of(part_.begin(), part_.end(), [&](const auto& p) { return p.second == part_.begin()->second; });
  return all ? PartOfRank() : part_;
}

PartOfRank parts_of_world(SQLite::Database& db, int64_t world, bool annotated) {
  Query lacking(db, "SELECT 1 FROM steady_world WHERE world = ? AND bounded");
  if (lacking.bind(world).next()) return {};
  std::vector<int64_t> ranks;
  Query recorded(db, "SELECT DISTINCT rank FROM process WHERE world = ? AND rank IS NOT NULL");
  for (recorded.bind(world); recorded.next();) ranks.push_back(recorded.integer(0));
  if (ranks.size() < kLeastRanksInParts) return {};
  const std::string used =
      annotated ? "SELECT DISTINCT l.comm FROM late l JOIN steady_number n ON n.world = l.world AND n.step = l.step"
                  " WHERE l.world = ?"
                : "SELECT DISTINCT comm FROM late WHERE world = ?";
  Query members(db, "SELECT u.comm, m.rank FROM (" + used +
                        ") u LEFT JOIN communicator_member m ON m.communicator = u.comm ORDER BY u.comm");
  WaitingParts parts(ranks);
  std::vector<int64_t> together;
  std::optional<int64_t> comm;
  for (members.bind(world); members.next();) {
    if (members.is_null(1)) return {};  // of messages, or whose members are not known
    if (comm != members.integer(0)) parts.join(std::exchange(together, {}));
    comm = members.integer(0);
    together.push_back(members.integer(1));
  }
  if (!comm) return {};  // nobody waited, or nobody knows
  parts.join(together);
  return parts.parts();
}

}  // namespace ddl
