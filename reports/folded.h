// Folded stacks for flame graph tools: a line for each place in the program, "rank
// 3;step;forward;conv1;MPI_Allreduce;waiting 1234", in ns.
//
// For each rank the steps with kept events are summed, in the thread that marks them; without steps the whole run. A
// rank's lines add up to the duration of those steps (v_step), those that end in or below a call to exposed_ns, those
// that end in "waiting" to wait_ns. Unknown waiting has no line of its own: it stays in the call's.
//
// Where background threads communicate, no call shows where the training thread's time went: it is one line for each
// part of its steps: computing, "exposed transfer", "waiting" ("exposed communication" where the two are not told
// apart), "blocked" otherwise (idle_ns).
#pragma once

#include <cstdint>

#include "reports/csv.h"
#include "reports/run_view.h"

namespace ddl::reports {

struct FoldedSummary {
  int64_t ranks = 0;
  int64_t steps = 0;     ///< summed, over all ranks; 0: a job without steps
  int64_t left_out = 0;  ///< their events were not kept
};

/// Throws ddl::Error (kDataMissing) if the events of no step, or of no whole run, were kept.
FoldedSummary write_folded(const RunView& run, const Sink& sink);

}  // namespace ddl::reports
