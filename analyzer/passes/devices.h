// GPUs: tables gpu_part and gpu_layer_part, from gpu_event.
#pragma once

#include <SQLiteCpp/Database.h>

#include "analyzer/passes/catalog.h"
#include "analyzer/passes/ticker.h"

namespace ddl {

/// Holds the events of one process at a time.
void analyze_devices(SQLite::Database& db, const Catalog& catalog, const PassProgress& progress);

/// Makes temp.steady_gpu(world, process, device, ...): sums of gpu_part over the steady steps, or the whole run where there are none. Needs
/// temp.steady_number. idle_input_ns is NULL if the run names no range that loads data.
void select_steady_devices(SQLite::Database& db);

/// Makes temp.host_gpu(world, step, ns): how long threads of ranks were in calls that launch work on GPUs, or wait for it, in each step; no
/// row: none of its calls was recorded. One look at gpu_event, memory for the steps.
void sum_host_calls(SQLite::Database& db);

/// Makes temp.steady_wait(world, step, rank, duration_ns, compute_ns, wait_ns, exposed_ns): temp.steady_part, but where ranks wait longer
/// inside kernels of collectives than inside calls of MPI what their GPUs did: time that computed, exposed waiting, exposed collectives.
void select_steady_waits(SQLite::Database& db);

}  // namespace ddl
