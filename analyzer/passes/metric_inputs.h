// What several metrics read, gathered once for all of them: temporary tables.
//
//   reported        (world, step, name, total, ranks): sums over ranks of what they reported with ddl_value in each step, "samples" and
//                   "model_flops", and how many ranks did
//   counted         (world, rank, world_size, instructions, instruction_steps, cycles, flops, time_ns, peak): of each process with a rank
//                   what the counters PAPI_TOT_INS (read in so many steps), PAPI_TOT_CYC and PAPI_FP_OPS grew by in its steps, how long
//                   these took, and its ddl_value "peak_flops_per_second"; NULL: not counted, not said
//   pipeline_model  (world, of_total, of_ideal): the bubble of the schedule (metrics.md B1 to B3), mean over the stages; no row: there is
//                   no pipeline
//   batch_fit       (world, per_sample_ns, fixed_ns): the line of a rank's computing over its samples in a steady step (metrics.md G6), by
//                   least squares of the distances from each rank's own means; no row: no rank had steps of different sizes
//   mean_transfer   (world, xfer_ns, why): exposed transfer of a steady step, mean over ranks, or over GPUs where those tell more
#pragma once

#include <SQLiteCpp/Database.h>

namespace ddl {

/// Makes them; needs the tables of select_steady_steps() and select_steady_devices().
void gather_metric_inputs(SQLite::Database& db);

}  // namespace ddl
