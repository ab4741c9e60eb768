// What several metrics read, gathered once for all of them.
#pragma once

#include <SQLiteCpp/Database.h>

namespace ddl {

/// Makes three temporary tables:
///   reported       (world, step, name, total, ranks): sums over ranks of what they reported with ddl_value in each step, "samples" and
///                  "model_flops", and how many ranks did
///   counted        (world, rank, world_size, instructions, cycles, flops, time_ns, peak): of each process with a rank what the counters
///                  PAPI_TOT_INS, PAPI_TOT_CYC and PAPI_FP_OPS grew by in its steps, how long these took, and its
///                  ddl_value "peak_flops_per_second"; NULL: not counted, not said
///   pipeline_model (world, of_total, of_ideal): the bubble of the schedule (metrics.md B1 to B3), mean over the stages; no row: no
///   pipeline
void gather_metric_inputs(SQLite::Database& db);

}  // namespace ddl
