#include "analyzer/name_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr const char* kKernelEvents =
    "SELECT n.name, g.step, g.duration_ns FROM gpu_event g JOIN gpu_name n ON n.id = g.name JOIN process p ON p.id = g.process"
    " WHERE g.kind IN (1, 2, 3) AND p.world = ?1";

/// Ranges of one kind. One inside another of the same name, as in recursion, counts as well.
std::string range_events(const char* kind) {
  return fmt::format(
      "SELECT r.name, e.step, e.duration_ns FROM range_event e JOIN region r ON r.id = e.region JOIN process p ON p.id = e.process"
      " WHERE r.kind = '{}' AND p.world = ?1",
      kind);
}

std::string events(NamesOf of) {
  return of == NamesOf::kKernels ? kKernelEvents : range_events(of == NamesOf::kOperators ? "operator" : "layer");
}

int64_t steps_with(SQLite::Database& db, NamesOf of, int64_t world) {
  Query row(db, fmt::format("SELECT count(DISTINCT step) FROM ({})", events(of)));
  row.bind(world);
  return row.next() ? row.integer(0) : 0;
}

std::map<std::string, NameChange::Side> sums(SQLite::Database& db, NamesOf of, int64_t world,
                                             std::optional<int64_t> steps) {
  std::map<std::string, NameChange::Side> all;
  Query rows(db, fmt::format("SELECT name, count(*), total(duration_ns) FROM ({}) WHERE {} GROUP BY name", events(of),
                             steps ? "step IS NOT NULL" : "TRUE"));
  rows.bind(world);
  const auto in_one = static_cast<double>(steps.value_or(1));
  while (rows.next()) all[rows.text(0)] = {rows.real(1) / in_one, rows.real(2) / in_one};
  return all;
}

}  // namespace

NameDiff compare_names(NamesOf of, SQLite::Database& before, int64_t world_before, SQLite::Database& after,
                       int64_t world_after) {
  NameDiff diff;
  diff.steps_before = steps_with(before, of, world_before);
  diff.steps_after = steps_with(after, of, world_after);
  diff.per_step = diff.steps_before > 0 && diff.steps_after > 0;
  const auto divisor = [&](int64_t steps) { return diff.per_step ? std::optional(steps) : std::nullopt; };
  std::map<std::string, NameChange> names;
  for (const auto& [name, side] : sums(before, of, world_before, divisor(diff.steps_before))) names[name].before = side;
  for (const auto& [name, side] : sums(after, of, world_after, divisor(diff.steps_after))) names[name].after = side;
  for (auto& [name, change] : names) {
    change.name = name;
    diff.names.push_back(std::move(change));
  }
  std::stable_sort(diff.names.begin(), diff.names.end(), [](const NameChange& a, const NameChange& b) {
    return std::abs(a.change_ns()) > std::abs(b.change_ns());
  });
  return diff;
}

}  // namespace ddl
