// From which step on a job was slower or faster: change points (change_points.h) of the steady steps' times.
#pragma once

#include <SQLiteCpp/Database.h>

namespace ddl {

/// Fills `step_change`, one row per change; needs `steady_step`.
void find_step_changes(SQLite::Database& db);

}  // namespace ddl
