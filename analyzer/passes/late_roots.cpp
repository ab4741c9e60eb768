#include "analyzer/passes/passes.h"

#include <algorithm>
#include <cmath>
#include <functional>
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

constexpr double kPassedOn = 0.5;       // of a wait must have been waiting of the late rank itself
constexpr double kFollowsAtOnce = 0.1;  // of a wait: the next call follows no later

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

  /// Where a wait of `wait_ns` for `late` began; nothing: ranks waited for each other in a circle.
  std::optional<int64_t> root_of(int64_t late, int64_t wait_ns) const {
    std::set<int64_t> seen;
    for (int64_t rank = late; seen.insert(rank).second;) {
      const auto own = suffered.find(rank);
      if (own == suffered.end() || static_cast<double>(own->second.wait_ns) < kPassedOn * static_cast<double>(wait_ns))
        return rank;
      rank = own->second.main_culprit();
    }
    return std::nullopt;
  }
};

// by world and step; no step: outside all of them
using Steps = std::map<std::pair<int64_t, std::optional<int64_t>>, StepSpan>;

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

/// The waits in messages of a world that has no steps, one by one. Over a whole run a server waits for its workers
/// and they for it; at one moment nobody waits for who waits for him. And a few long waits must not drown in the
/// mean of many short ones.
class Moments {
 public:
  Moments(SQLite::Database& db, int64_t world) {
    Query processes(db, "SELECT id, rank FROM process WHERE world = ? AND rank IS NOT NULL");
    Query calls(db, R"(
      SELECT e.thread, o.class IN ('receive', 'probe', 'completion'), e.start_ns, e.start_ns + e.duration_ns, c.wait_ns, l.rank
      FROM event e
      JOIN op o ON o.id = e.op
      LEFT JOIN call_wait c ON c.event = e.id
      LEFT JOIN process l ON l.id = c.late AND l.world = ?2
      WHERE e.process = ?1 AND e.kind = 1
      ORDER BY e.start_ns)");
    processes.bind(world);
    while (processes.next()) {
      calls.bind(processes.integer(0), world);
      read(calls, waits_[processes.integer(1)]);
    }
  }

  /// All waiting, by the rank where it began. `root_of`: of what a rank waited for another, as sums tell it, if they
  /// do.
  std::vector<MessageBlame> blame(
      const std::function<std::optional<int64_t>(int64_t late, int64_t waiter)>& root_of_pair) const {
    std::map<std::pair<int64_t, int>, MessageBlame> sums;  // by rank, and by quarter octaves of the wait
    for (const auto& [waiter, own] : waits_) {
      std::map<int64_t, std::optional<int64_t>> roots;
      for (const Wait& wait : own) {
        const auto [root, is_new] = roots.try_emplace(wait.late);
        if (is_new) root->second = root_of_pair(wait.late, waiter);
        const int64_t wait_ns = wait.span.end_ns - wait.span.begin_ns,
                      late = root->second && wait.last == wait.late ? *root->second : root_of(wait);
        MessageBlame& sum = sums[{late, static_cast<int>(std::floor(4 * std::log2(static_cast<double>(wait_ns))))}];
        sum.late = late;
        ++sum.calls;
        sum.wait_ns += wait_ns;
      }
    }
    std::vector<MessageBlame> result;
    for (const auto& [key, sum] : sums) result.push_back(sum);
    return result;
  }

 private:
  struct Span {
    int64_t begin_ns, end_ns;
  };
  struct Wait {
    Span span;
    int64_t late;
    /// of those that it waited for one after the other: had the others come earlier, it would have waited
    /// for this one as long
    int64_t last;
    int64_t reach_ns;  ///< the latest end of this and all before: threads may wait at a time
  };

  static void read(Query& calls, std::vector<Wait>& own) {
    struct Series {
      std::vector<size_t> waits;
      int64_t leave_ns = 0;
    };
    std::map<int64_t, Series> series;  // by thread
    int64_t reach_ns = INT64_MIN;
    while (calls.next()) {
      Series& now = series[calls.integer(0)];
      const int64_t begin_ns = calls.integer(2), wait_ns = calls.is_null(5) ? 0 : calls.integer(4);
      const bool only_receives = calls.integer(1) != 0;
      // Who sends something in between makes others wait for the first as well.
      if (!now.waits.empty()) {
        const Span& before = own[now.waits.back()].span;
        const bool at_once = static_cast<double>(begin_ns - now.leave_ns) <=
                             kFollowsAtOnce * static_cast<double>(before.end_ns - before.begin_ns);
        if (!only_receives || !at_once) now.waits.clear();
      }
      now.leave_ns = calls.integer(3);
      if (wait_ns <= 0) continue;
      const int64_t late = calls.integer(5), end_ns = begin_ns + wait_ns;
      own.push_back({{begin_ns, end_ns}, late, late, reach_ns = std::max(reach_ns, end_ns)});
      for (const size_t before : now.waits) own[before].last = late;
      if (only_receives) now.waits.push_back(own.size() - 1);
    }
  }

  int64_t root_of(const Wait& wait) const {
    const double least_ns = kPassedOn * static_cast<double>(wait.span.end_ns - wait.span.begin_ns);
    std::set<int64_t> seen;  // clocks that are off a little may still make a circle
    std::vector<Span> spans{wait.span};
    int64_t rank = wait.last;
    while (seen.insert(rank).second) {
      std::map<int64_t, std::vector<Span>> awaited;
      for (const Span& span : spans) add_waits(rank, span, awaited);
      int64_t longest_ns = 0, next = rank;
      for (const auto& [late, own] : awaited) {
        int64_t sum_ns = 0;
        for (const Span& span : own) sum_ns += span.end_ns - span.begin_ns;
        if (sum_ns > longest_ns) longest_ns = sum_ns, next = late;
      }
      if (longest_ns == 0 || static_cast<double>(longest_ns) < least_ns) return rank;
      spans = std::move(awaited.at(next));
      rank = next;
    }
    return wait.last;
  }

  void add_waits(int64_t rank, const Span& span, std::map<int64_t, std::vector<Span>>& awaited) const {
    const auto own = waits_.find(rank);
    if (own == waits_.end()) return;
    auto wait = std::upper_bound(own->second.begin(), own->second.end(), span.begin_ns,
                                 [](int64_t at_ns, const Wait& w) { return at_ns < w.reach_ns; });
    for (; wait != own->second.end() && wait->span.begin_ns < span.end_ns; ++wait) {
      const Span both{std::max(span.begin_ns, wait->span.begin_ns), std::min(span.end_ns, wait->span.end_ns)};
      if (both.begin_ns < both.end_ns) awaited[wait->last].push_back(both);
    }
  }

  std::unordered_map<int64_t, std::vector<Wait>> waits_;  ///< by rank, in the order of time
};

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
    const std::optional<int64_t> root = step->root_of(rows.integer(3), waits_ns.at(key()));
    if (root && *root != rows.integer(3)) moved.emplace_back(rows.integer(0), *root);
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
  Query insert(
      db,
      "INSERT INTO late (world, step, rank, ties, wait_ns, longest_ns, instances, message) VALUES (?, ?, ?, 1, ?, ?, ?, 1)");
  Query any_step(db, "SELECT 1 FROM step s JOIN process p ON p.id = s.process WHERE p.world = ? LIMIT 1");
  for (const auto& [key, step] : steps) {
    const auto& [world, number] = key;
    const auto book = [&insert, world = world, number = number](int64_t root, const MessageBlame& blame) {
      insert.run(world, number, root, blame.wait_ns, blame.wait_ns / blame.calls, blame.calls);
    };
    if (!number && !any_step.bind(world).next()) {
      const auto root_of = [&step = step](int64_t late, int64_t waiter) {
        const auto blame = step.blame.find({late, waiter});
        return blame == step.blame.end() ? std::optional(late) : step.root_of(late, blame->second.wait_ns);
      };
      for (const MessageBlame& blame : Moments(db, world).blame(root_of)) book(blame.late, blame);
      continue;
    }
    for (const auto& [ends, blame] : step.blame)
      book(step.root_of(blame.late, blame.wait_ns).value_or(blame.late), blame);
  }
}

}  // namespace ddl
