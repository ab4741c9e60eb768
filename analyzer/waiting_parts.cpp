#include "analyzer/waiting_parts.h"

#include <algorithm>
#include <set>

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
  std::set<int64_t> steps, comms;
  Query steady(db, "SELECT step FROM steady_number WHERE world = ?");
  for (steady.bind(world); steady.next();) steps.insert(steady.integer(0));
  Query late(db, "SELECT comm, step FROM late WHERE world = ?");
  for (late.bind(world); late.next();) {
    if (annotated && (late.is_null(1) || !steps.contains(late.integer(1)))) continue;
    if (late.is_null(0)) return {};  // whom messages keep waiting is not known
    comms.insert(late.integer(0));
  }
  if (comms.empty()) return {};  // nobody waited, or nobody knows
  WaitingParts parts(ranks);
  Query members(db, "SELECT rank FROM communicator_member WHERE communicator = ?");
  for (const int64_t comm : comms) {
    std::vector<int64_t> together;
    for (members.bind(comm); members.next();) {
      if (members.is_null(0)) return {};
      together.push_back(members.integer(0));
    }
    if (together.empty()) return {};  // its members are not known
    parts.join(together);
  }
  return parts.parts();
}

}  // namespace ddl
