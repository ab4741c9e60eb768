// Stalls that `ddl record --stall` told of, and the stacks of their ranks.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/query.h"
#include "reports/format.h"
#include "reports/overview.h"
#include "store/stalls.h"

namespace ddl::reports {
namespace {

/// The stalls of the run's world that have stacks, each with its ranks.
std::map<int64_t, ToldStall> stalls_with_ranks(const RunView& run) {
  std::map<int64_t, ToldStall> stalls;
  Query row(
      run.db,
      "SELECT r.stall, r.rank, r.role, coalesce(r.state, ''), coalesce(r.python_why, ''), coalesce(r.c_why, '') FROM stall_rank r JOIN stall s"
      " ON s.id = r.stall WHERE s.world = ? AND s.kind = 'stall' ORDER BY r.stall, r.rank");
  row.bind(run.world);
  while (row.next()) {
    StalledRank rank;
    rank.rank = row.integer(1);
    rank.role = row.text(2);
    rank.state = row.text(3);
    rank.python_why = row.text(4);
    rank.c_why = row.text(5);
    stalls[row.integer(0)].ranks.push_back(std::move(rank));
  }
  Query stack(run.db,
              "SELECT stall, rank, language, thread, frames FROM stall_stack ORDER BY stall, rank, language, position");
  while (stack.next()) {
    const auto stall = stalls.find(stack.integer(0));
    if (stall == stalls.end()) continue;
    auto& ranks = stall->second.ranks;
    const int64_t number = stack.integer(1);
    const auto rank = std::lower_bound(ranks.begin(), ranks.end(), number,
                                       [](const StalledRank& r, int64_t n) { return r.rank < n; });
    if (rank != ranks.end() && rank->rank == number)
      rank->threads.push_back({stack.text(2), stack.text(3), stack.text(4)});
  }
  return stalls;
}

Value text_or_none(const std::string& text) {
  return text.empty() ? Value::absent(Unit::kText, "NOT_APPLICABLE") : Value::text(text);
}

}  // namespace

Table stalls_table(const RunView& run) {
  Table table{"stalls",
              "STALLS that ddl record reported while the job ran",
              {{"number", "number", Unit::kCount},
               {"kind", "kind", Unit::kText, 6},
               {"since_ns", "since", Unit::kDuration},
               {"lasted_ns", "for", Unit::kDuration},
               {"sentence", "report", Unit::kText},
               {"action", "--on-stall", Unit::kText, 3}},
              {},
              "",
              "No stall was reported while the job ran (ddl record --stall)."};
  Query row(run.db, R"(
    SELECT id, kind, since_ns,
           iif(kind = 'stall', max(0, coalesce(resumed_ns, job.end_ns, (SELECT max(end_ns) FROM process WHERE world = stall.world)) - since_ns), NULL),
           sentence, nullif(action, '')
    FROM stall
    LEFT JOIN (
      SELECT CAST(e.value AS INTEGER) - CAST(b.value AS INTEGER) AS end_ns, (SELECT max(world) FROM process) AS last_world
      FROM meta e, meta b
      WHERE e.key = 'ended_realtime_ns' AND b.key = 'epoch_realtime_ns') job ON job.last_world = stall.world
    WHERE world = ?
    ORDER BY id)");
  row.bind(run.world);
  while (row.next()) table.rows.push_back(cells(row, table));
  return table;
}

Table stacks_table(const RunView& run) {
  Table table{"stacks",
              "STACKS of ranks while the job stalled, by equal stacks",
              {{"stall", "stall", Unit::kCount, 5},
               {"ranks", "ranks", Unit::kText},
               {"count", "count", Unit::kCount, 4},
               {"role", "role", Unit::kText},
               {"state", "state", Unit::kText, 6},
               {"stack", "stack", Unit::kText},
               {"in_c", "below it, in C", Unit::kText, 3}},
              {},
              "",
              "No stacks: no stall was reported while the job ran (ddl record --stall)."};
  for (const auto& [number, stall] : stalls_with_ranks(run)) {
    std::map<int64_t, std::string> roles;
    for (const StalledRank& rank : stall.ranks) roles[rank.rank] = rank.role;
    for (const StackGroup& group : group_stacks(stall)) {
      const std::string& role = roles[group.ranks.front()];
      const bool same =
          std::all_of(group.ranks.begin(), group.ranks.end(), [&](int64_t rank) { return roles[rank] == role; });
      table.rows.push_back(
          {Value::count(number), Value::text(rank_list(group.ranks)),
           Value::count(static_cast<int64_t>(group.ranks.size())), Value::text(same ? role : "several"),
           text_or_none(group.state),
           Value::text(group.stack.empty() ? fmt::format("n/a ({})", group.why) : short_stack(group.stack, SIZE_MAX)),
           text_or_none(short_stack(group.inner, SIZE_MAX))});
    }
  }
  return table;
}

}  // namespace ddl::reports
