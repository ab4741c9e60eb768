// Pass 3: where the time of every step, and of every process's whole run, went (partition.h).
//
// Events are streamed process by process in the order of their start and handed to the steps they overlap; a step is closed as soon as an
// event starts behind it. The whole run is cut in slices of bounded size for the same purpose, so that memory does not grow with the run.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>

#include "analyzer/passes/background.h"
#include "analyzer/passes/catalog.h"
#include "analyzer/passes/input_ranges.h"
#include "analyzer/passes/instance_events.h"
#include "analyzer/passes/layer_totals.h"
#include "analyzer/passes/ticker.h"

namespace ddl {

struct StepResults {
  int64_t repeated_steps = 0;  ///< steps whose number the process had used before: left out
  RegionWaits waits;           ///< in collectives that threads carried out
};

/// Needs `collective`, `call_wait` and `negotiation`. For processes in `background` where the training thread's time went (training_thread.h):
/// nothing where that was not sampled. Fills `step_part`, `rank_part` and `tail`.
/// `events`: what analyze_collectives() left. Reads `inputs`. `threads` as read_in_parallel() takes them (analyzer/parallel_reads.h): ranges of processes are read
/// at the same time.
StepResults analyze_steps(SQLite::Database& db, const Catalog& catalog, const std::map<int64_t, BackgroundProcess>& background,
                          const InstanceEvents& events, InputRanges& inputs, const PassProgress& progress, unsigned threads);

}  // namespace ddl
