#include "analyzer/passes/blame.h"

#include <algorithm>

#include "store/made_rows.h"

namespace ddl {

Blame::Blame(const Catalog& catalog) {
  for (const auto& [id, process] : catalog.processes) ranks_.emplace_back(process.world, process.rank);
  std::sort(ranks_.begin(), ranks_.end());
  ranks_.erase(std::unique(ranks_.begin(), ranks_.end()), ranks_.end());
  for (const auto& [id, process] : catalog.processes) {
    const auto place =
        std::lower_bound(ranks_.begin(), ranks_.end(), std::pair(process.world, process.rank)) - ranks_.begin();
    rank_of_[static_cast<uint64_t>(id)] = static_cast<uint32_t>(place);
  }
}

int64_t Blame::add(int64_t world, int64_t communicator, const Instance& instance, const Split& split, double sigma_ns,
                   std::vector<LateRankRow>& rows) {
  if (split.late.empty() || split.wait_ns.empty() || instance.members.size() < 2) return 0;
  const int64_t first = rows_ + 1;
  each_late(split, [&](size_t who, int64_t ties, int64_t longest_ns, const auto& share_ns_of) {
    const Member& late = instance.members[who];
    const uint64_t of_late = uint64_t{rank_of(late)} << 32;
    int64_t blamed_ns = 0;
    for (size_t i = 0; i < instance.members.size(); ++i) {
      constexpr size_t kFetched = 8;
      if (i + kFetched < instance.members.size()) sums_.fetch(of_late | rank_of(instance.members[i + kFetched]));
      const int64_t share_ns = share_ns_of(i);
      if (share_ns == 0) continue;
      blamed_ns += share_ns;
      Sum& sum = sums_[of_late | rank_of(instance.members[i])];
      ++sum.instances;
      sum.wait_ns += share_ns;
      sum.sigma_ns += sigma_ns / static_cast<double>(ties);
    }
    rows.push_back({world, late.step, late.rank, ties, blamed_ns, longest_ns, communicator});
    ++rows_;
  });
  return first;
}

void Blame::write(SQLite::Database& db) {
  const auto rows = sums_.take_sorted();  // when nearly all is held that a large run needs
  auto next = rows.begin();
  MadeRows(db).insert(
      "INSERT INTO blame (world, late, waiter, instances, wait_ns, sigma_ns) SELECT c0, c1, c2, c3, c4, c5 FROM made_rows",
      [&](MadeRow& row) {
        if (next == rows.end()) return false;
        const auto& [pair, sum] = *next++;
        const auto& [world, late] = ranks_[pair >> 32];
        row.set(world, late, ranks_[pair & UINT32_MAX].second, sum.instances, sum.wait_ns, sum.sigma_ns);
        return true;
      });
}

}  // namespace ddl
