#include "analyzer/passes/passes.h"

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr double kPassedOn = 0.5;  // of a wait must have been waiting of the late rank itself

/// What one rank waited for in messages within a step.
struct Suffered {
  int64_t wait_ns = 0;
  std::map<int64_t, int64_t> by_late;

  int64_t main_culprit() const {
    auto worst = by_late.begin();
    for (auto late = by_late.begin(); late != by_late.end(); ++late) {
      if (late->second > worst->second) worst = late;
    }
    return worst->first;
  }
};

struct MessageBlame {
  int64_t late = 0;
  int64_t waiter = 0;
  int64_t calls = 0;
  int64_t wait_ns = 0;
};

struct StepSpan {
  std::unordered_map<int64_t, Suffered> suffered;             // by rank
  std::map<std::pair<int64_t, int64_t>, MessageBlame> blame;  // by late and waiter

  /// Where a wait of `wait_ns` for `late` began.
  int64_t root_of(int64_t late, int64_t wait_ns) const {
    std::set<int64_t> seen;
    for (int64_t rank = late; seen.insert(rank).second;) {
      const auto own = suffered.find(rank);
      if (own == suffered.end() || static_cast<double>(own->second.wait_ns) < kPassedOn * static_cast<double>(wait_ns)) return rank;
      rank = own->second.main_culprit();
    }
    return late;
  }
};

using Steps = std::map<std::pair<int64_t, std::optional<int64_t>>, StepSpan>;  // by world and step; no step: outside all of them

Steps read_messages(SQLite::Database& db) {
  Steps steps;
  Query rows(db, "SELECT world, late_step, late, step, waiter, calls, wait_ns FROM message_late");
  while (rows.next()) {
    const int64_t world = rows.integer(0), late = rows.integer(2), waiter = rows.integer(4);
    Suffered& suffered = steps[{world, rows.maybe_integer(3)}].suffered[waiter];
    suffered.wait_ns += rows.integer(6);
    suffered.by_late[late] += rows.integer(6);
    MessageBlame& blame = steps[{world, rows.maybe_integer(1)}].blame[{late, waiter}];
    blame.late = late;
    blame.waiter = waiter;
    blame.calls += rows.integer(5);
    blame.wait_ns += rows.integer(6);
  }
  return steps;
}

/// Collectives: of a rank that entered last it counts how long the others waited for it in the whole step.
void move_collectives(SQLite::Database& db, const Steps& steps) {
  std::map<std::tuple<int64_t, std::optional<int64_t>, int64_t>, int64_t> waits_ns;  // by world, step, late rank
  Query rows(db, "SELECT rowid, world, step, rank, longest_ns FROM late");
  const auto step_of = [&]() -> const StepSpan* {
    const auto step = steps.find({rows.integer(1), rows.maybe_integer(2)});
    return step == steps.end() || !step->second.suffered.contains(rows.integer(3)) ? nullptr : &step->second;
  };
  const auto key = [&] { return std::tuple(rows.integer(1), rows.maybe_integer(2), rows.integer(3)); };
  while (rows.next()) {
    if (step_of() != nullptr) waits_ns[key()] += rows.integer(4);
  }
  if (waits_ns.empty()) return;
  std::vector<std::pair<int64_t, int64_t>> moved;  // rowid, to
  rows.reset();
  while (rows.next()) {
    const StepSpan* step = step_of();
    if (step == nullptr) continue;
    const int64_t root = step->root_of(rows.integer(3), waits_ns.at(key()));
    if (root != rows.integer(3)) moved.emplace_back(rows.integer(0), root);
  }
  rows.reset();
  Query update(db, "UPDATE late SET rank = ?2 WHERE rowid = ?1");
  for (const auto& [row, root] : moved) update.run(row, root);
}

}  // namespace

void find_late_roots(SQLite::Database& db) {
  const Steps steps = read_messages(db);
  if (steps.empty()) return;
  move_collectives(db, steps);
  Query insert(db, "INSERT INTO late (world, step, rank, ties, wait_ns, longest_ns, instances, message) VALUES (?, ?, ?, 1, ?, ?, ?, 1)");
  for (const auto& [key, step] : steps) {
    for (const auto& [ends, blame] : step.blame) {
      insert.run(key.first, key.second, step.root_of(blame.late, blame.wait_ns), blame.wait_ns, blame.wait_ns / blame.calls, blame.calls);
    }
  }
}

}  // namespace ddl
