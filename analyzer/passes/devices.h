// GPUs: tables gpu_part, gpu_layer_part and critical_path, from gpu_event.
#pragma once

#include <SQLiteCpp/Database.h>

#include "analyzer/passes/catalog.h"
#include "analyzer/passes/ticker.h"

namespace ddl {

/// Holds a piece of a process's events at a time, and those of one of its steps. Returns how many steps have more of them than that, so that
/// they have no critical path.
int64_t analyze_devices(SQLite::Database& db, const Catalog& catalog, const PassProgress& progress);

/// Fills `steady_gpu`; needs `steady_number`.
void select_steady_devices(SQLite::Database& db);

/// Fills `rank_resource` and steady_world.waits_by; needs `steady_part` and `steady_gpu`.
void select_resources(SQLite::Database& db);

/// Fills `host_gpu`. One look at gpu_event, memory for the steps and the launches of one process.
void sum_host_calls(SQLite::Database& db);

/// Fills `kernel_time`. One look at gpu_event, memory for the names.
void sum_kernel_classes(SQLite::Database& db);

/// Fills `steady_wait`; needs `steady_part`, `steady_number` and steady_world.waits_by.
void select_steady_waits(SQLite::Database& db);

}  // namespace ddl
