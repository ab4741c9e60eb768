// From which step on a job was slower or faster: change points (change_points.h) of the steady steps' times.
#pragma once

#include <SQLiteCpp/Database.h>

namespace ddl {

/// Makes temp.step_change(world, step, before_ns, after_ns), one row per change: the first step after it, means of the step times on both
/// sides up to the next change. Needs temp.steady_step.
void find_step_changes(SQLite::Database& db);

}  // namespace ddl
