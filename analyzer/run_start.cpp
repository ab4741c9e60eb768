#include "analyzer/run_start.h"

#include "analyzer/query.h"

namespace ddl {

double run_start_ns(SQLite::Database& db, int64_t world) {
  Query row(
      db,
      "SELECT avg(max(0, coalesce(launch_ns, begin_ns) - begin_ns)) FROM (SELECT g.launch_ns, coalesce(p.init_ns, p.start_ns) AS begin_ns,"
      " min(g.start_ns) FROM gpu_event g JOIN process p ON p.id = g.process WHERE p.world = ? AND g.kind IN (1, 2, 3)"
      " GROUP BY g.process, g.device)");
  row.bind(world);
  return row.next() ? row.maybe_real(0).value_or(0) : 0;
}

}  // namespace ddl
