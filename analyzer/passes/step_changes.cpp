#include "analyzer/passes/passes.h"

#include <map>
#include <vector>

#include "analyzer/change_points.h"
#include "analyzer/query.h"

namespace ddl {

void find_step_changes(SQLite::Database& db) {
  struct Times {
    std::vector<int64_t> steps;
    std::vector<double> ns;
  };
  std::map<int64_t, Times> worlds;
  Query rows(db, "SELECT world, step, longest_ns FROM steady_step WHERE annotated ORDER BY world, step");
  while (rows.next()) {
    Times& times = worlds[rows.integer(0)];
    times.steps.push_back(rows.integer(1));
    times.ns.push_back(rows.real(2));
  }
  Query insert(db, "INSERT INTO step_change (world, step, before_ns, after_ns) VALUES (?, ?, ?, ?)");
  for (const auto& [world, times] : worlds) {
    for (const ChangePoint& change : change_points(times.ns))
      insert.run(world, times.steps[change.first], change.before, change.after);
  }
}

}  // namespace ddl
