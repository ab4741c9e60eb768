#include "analyzer/passes/blame.h"

#include <algorithm>

namespace ddl {

Blame::Blame(SQLite::Database& db)
    : db_(db),
      insert_late_(
          db,
          "INSERT INTO late (world, step, rank, ties, wait_ns, longest_ns, instances, comm, message) VALUES (?, ?, ?, ?, ?, ?, 1, ?, 0)") {}

int64_t Blame::add(int64_t world, int64_t communicator, const Instance& instance, const Split& split, double sigma_ns) {
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
    insert_late_.run(world, late.step, late.rank, ties, blamed_ns, longest_ns, communicator);
  }
  return db_.getLastInsertRowid() - ties + 1;
}

void Blame::write() {
  Query insert(db_, "INSERT INTO blame (world, late, waiter, instances, wait_ns, sigma_ns) VALUES (?, ?, ?, ?, ?, ?)");
  for (const auto& [key, sum] : sums_)
    insert.run(std::get<0>(key), std::get<1>(key), std::get<2>(key), sum.instances, sum.wait_ns, sum.sigma_ns);
}

}  // namespace ddl
