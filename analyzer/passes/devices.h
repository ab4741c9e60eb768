// GPUs: tables gpu_part and gpu_layer_part, from gpu_event.
#pragma once

#include <SQLiteCpp/Database.h>

#include "analyzer/passes/catalog.h"
#include "analyzer/passes/ticker.h"

namespace ddl {

/// Holds the events of one process at a time.
void analyze_devices(SQLite::Database& db, const Catalog& catalog, const PassProgress& progress);

/// Makes temp.steady_gpu(world, process, device, ...): sums of gpu_part over the steady steps, or the whole run where there are none. Needs
/// temp.steady_number.
void select_steady_devices(SQLite::Database& db);

}  // namespace ddl
