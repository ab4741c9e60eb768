// Hangs as flight recorders show them: who waits for whom, and from where.

#include <map>
#include <tuple>

#include "analyzer/query.h"
#include "reports/format.h"
#include "reports/overview.h"

namespace ddl::reports {
namespace {

std::map<int64_t, std::map<std::string, std::vector<int64_t>>> parts_by_call(const RunView& run) {
  std::map<int64_t, std::map<std::string, std::vector<int64_t>>> parts;
  Query row(run.db, "SELECT call, part, rank FROM hang_member WHERE world = ? ORDER BY call, rank");
  row.bind(run.world);
  while (row.next()) parts[row.integer(0)][row.text(1)].push_back(row.integer(2));
  return parts;
}

std::string why_in_words(const std::string& why) {
  if (why == "missing") return "never entered it";
  if (why == "mismatch") return "entered another operation";
  if (why == "behind") return "stuck before it";
  if (why == "no dump") return "left no dump";
  return why == "left" ? "some completed it" : "all are in it";
}

Value text_or_absent(const std::string& text) {
  return text.empty() ? Value::absent(Unit::kText, "NOT_APPLICABLE") : Value::text(text);
}

}  // namespace

Table hang_table(const RunView& run) {
  Table table{"hang",
              "HANG, first causes first: who waits in which operation, and for whom",
              {{"depth", "depth", Unit::kCount, 6},
               {"op", "operation", Unit::kText},
               {"seq", "number", Unit::kCount},
               {"comm", "group", Unit::kText},
               {"axis", "axis", Unit::kText, 5},
               {"ranks_in", "in it", Unit::kText},
               {"ranks_awaited", "wait for", Unit::kText},
               {"why", "which", Unit::kText},
               {"since_ns", "enqueued at", Unit::kDuration, 3}},
              {},
              "",
              "No operation hangs, or the run has no dumps of flight recorders (ddl import flight-recorder)."};
  auto parts = parts_by_call(run);
  Query row(
      run.db,
      "SELECT h.call, h.depth, h.op, h.seq, c.label, a.axis, h.why, h.since_ns FROM hang_call h JOIN communicator c ON c.id = h.comm"
      " LEFT JOIN communicator_axis a ON a.communicator = c.id WHERE h.world = ? AND h.depth IS NOT NULL ORDER BY h.call");
  row.bind(run.world);
  while (row.next()) {
    auto& members = parts[row.integer(0)];
    const std::string why = row.text(6);
    const std::string part = why == "mismatch" ? "other" : why;
    table.rows.push_back({Value::count(row.integer(1)), Value::text(row.text(2)), cell(row, 3, Unit::kCount),
                          Value::text(row.text(4)), text_or_absent(row.text(5)),
                          text_or_absent(rank_list(members["in"])), text_or_absent(rank_list(members[part])),
                          Value::text(why_in_words(why)), cell(row, 7, Unit::kDuration)});
  }
  return table;
}

Table hang_stacks_table(const RunView& run) {
  Table table{"hang_stacks",
              "STACKS of a hang: what first causes did last, and what the others wait in, by equal stacks",
              {{"ranks", "ranks", Unit::kText},
               {"count", "count", Unit::kCount},
               {"role", "role", Unit::kText},
               {"op", "operation", Unit::kText},
               {"comm", "group", Unit::kText, 5},
               {"stack", "stack", Unit::kText}},
              {},
              "",
              "No stacks: the run has no dumps of flight recorders, or none of them holds stacks."};
  struct Group {
    std::vector<int64_t> ranks;
    int64_t first;
  };
  std::map<std::tuple<int, std::string, std::string, std::string>, Group> groups;
  Query row(
      run.db,
      "SELECT r.rank, r.fault IS NOT NULL, r.call IS NOT NULL, f.op, CASE WHEN f.op IN ('send', 'recv') THEN coalesce(a.axis, c.label) ELSE"
      " coalesce(a.axis, c.label) END, k.frames FROM hang_rank r LEFT JOIN flight_entry f ON f.id = r.entry LEFT JOIN communicator c ON"
      " c.id = f.comm LEFT JOIN communicator_axis a ON a.communicator = c.id LEFT JOIN flight_stack k ON k.id = f.stack"
      " WHERE r.world = ? ORDER BY r.rank");
  row.bind(run.world);
  bool any_stack = false;
  while (row.next()) {
    const int role = row.integer(1) != 0 ? 0 : row.integer(2) != 0 ? 1 : 2;
    any_stack |= !row.is_null(5);
    Group& group = groups[{role, row.text(3), row.text(4), row.text(5)}];
    if (group.ranks.empty()) group.first = row.integer(0);
    group.ranks.push_back(row.integer(0));
  }
  if (run.ranks == 0 || groups.empty()) return table;
  Query any(run.db, "SELECT 1 FROM hang_fault WHERE world = ? LIMIT 1");
  any.bind(run.world);
  if (!any.next()) return table;
  constexpr const char* kRoles[] = {"cause", "waits", "free"};
  for (const auto& [key, group] : groups) {
    const auto& [role, op, comm, stack] = key;
    table.rows.push_back({Value::text(rank_list(group.ranks)), Value::count(static_cast<int64_t>(group.ranks.size())),
                          Value::text(kRoles[role]), op.empty() ? Value::absent(Unit::kText) : Value::text(op),
                          text_or_absent(comm), stack.empty() ? Value::absent(Unit::kText) : Value::text(stack)});
  }
  if (!any_stack) table.note = "the dumps hold no stacks";
  return table;
}

}  // namespace ddl::reports
