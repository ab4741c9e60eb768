#include "analyzer/passes/blame.h"

#include <algorithm>
#include <tuple>

#include "analyzer/query.h"

namespace ddl {

int64_t Blame::add(int64_t world, int64_t communicator, const Instance& instance, const Split& split, double sigma_ns,
                   std::vector<LateRankRow>& rows) {
  if (split.late.empty() || split.wait_ns.empty() || instance.members.size() < 2) return 0;
  const auto ties = static_cast<int64_t>(split.late.size());
  const int64_t longest_ns = *std::max_element(split.wait_ns.begin(), split.wait_ns.end());
  for (int64_t part = 0; part < ties; ++part) {
    const Member& late = instance.members[split.late[static_cast<size_t>(part)]];
    int64_t blamed_ns = 0;
    for (size_t i = 0; i < instance.members.size(); ++i) {
      const int64_t share_ns = share_of(split.wait_ns[i], ties, part);
      if (share_ns == 0) continue;
      blamed_ns += share_ns;
      Sum& sum = sums_[{world, late.rank, instance.members[i].rank}];
      ++sum.instances;
      sum.wait_ns += share_ns;
      sum.sigma_ns += sigma_ns / static_cast<double>(ties);
    }
    rows.push_back({world, late.step, late.rank, ties, blamed_ns, longest_ns, communicator});
  }
  rows_ += ties;
  return rows_ - ties + 1;
}

void Blame::write(SQLite::Database& db) {
  Query insert(db, "INSERT INTO blame (world, late, waiter, instances, wait_ns, sigma_ns) VALUES (?, ?, ?, ?, ?, ?)");
  std::vector<const std::pair<const Pair, Sum>*> in_order;
  in_order.reserve(sums_.size());
  for (const auto& one : sums_) in_order.push_back(&one);
  std::sort(in_order.begin(), in_order.end(), [](const auto* a, const auto* b) {
    return std::tie(a->first.world, a->first.late, a->first.waiter) < std::tie(b->first.world, b->first.late, b->first.waiter);
  });
  for (const auto* one : in_order)
    insert.run(one->first.world, one->first.late, one->first.waiter, one->second.instances, one->second.wait_ns, one->second.sigma_ns);
  sums_ = {};
}

}  // namespace ddl
