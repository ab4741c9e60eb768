#include "analyzer/passes/blame.h"

#include <algorithm>

namespace ddl {
namespace {

SQLite::Database& with_late_table(SQLite::Database& db) {
  db.exec(
      "CREATE TEMP TABLE late ("
      "  world INTEGER NOT NULL,"
      "  step INTEGER,"                 // of the late rank
      "  rank INTEGER NOT NULL,"        // entered last
      "  ties INTEGER NOT NULL,"        // ranks that entered last together
      "  wait_ns INTEGER NOT NULL,"     // the others' waiting, this rank's share of it
      "  longest_ns INTEGER NOT NULL,"  // longest wait of one rank in the instance
      "  instances INTEGER NOT NULL,"   // that the row stands for
      "  message INTEGER NOT NULL)");   // 1: calls that waited for messages, 0: collectives
  return db;
}

}  // namespace

Blame::Blame(SQLite::Database& db) : db_(db), insert_late_(with_late_table(db), "INSERT INTO temp.late VALUES (?, ?, ?, ?, ?, ?, 1, 0)") {}

void Blame::add(int64_t world, const Instance& instance, const Split& split, double sigma_ns) {
  if (split.late.empty() || split.wait_ns.empty() || instance.members.size() < 2) return;
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
    insert_late_.run(world, late.step, late.rank, ties, blamed_ns, longest_ns);
  }
}

void Blame::write() {
  Query insert(db_, "INSERT INTO blame (world, late, waiter, instances, wait_ns, sigma_ns) VALUES (?, ?, ?, ?, ?, ?)");
  for (const auto& [key, sum] : sums_)
    insert.run(std::get<0>(key), std::get<1>(key), std::get<2>(key), sum.instances, sum.wait_ns, sum.sigma_ns);
}

}  // namespace ddl
