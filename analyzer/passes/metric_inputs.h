// What several metrics read, gathered once for all of them: tables reported, counted, pipeline_model, batch_fit and mean_transfer.
#pragma once

#include <SQLiteCpp/Database.h>

namespace ddl {

/// Fills them; needs the tables of select_steady_steps() and select_steady_devices().
void gather_metric_inputs(SQLite::Database& db);

}  // namespace ddl
