// Passes that analyze() alone calls.
#pragma once

#include <SQLiteCpp/Database.h>
#include <cstdint>
#include <map>

#include "analyzer/passes/background.h"
#include "analyzer/passes/catalog.h"
#include "analyzer/passes/ticker.h"

namespace ddl {

// ---- Who was late where background threads negotiate (specification.md J2, J3): what is reduced is what all ranks have ready, and the reduction begins
// when the last one is. So it shows no waiting; the cycles of coordination before it do.
//
// In each cycle a rank says how far it is: by the bits that it sets for tensors which are ready (table agreement), or by the bytes of the
// requests that it sends to rank 0. What a reduction needs is what the rank that was least far had by the cycle that led to it; a rank was ready
// for the reduction when it entered the first cycle in which it was as far, so that is late by a cycle at most. Ranks whose clocks are not the same
// are compared by cycle. Rank 0 sends no requests to itself: it is the late one if all others were ready earlier.
// Where a timeline of Horovod was recorded beside (table horovod_ready) that names the cycle, of rank 0 as well.
//
// What was not agreed on when the record ends is pending: of a job that hangs it tells who did not come.
//
// A rank waited as long as its training thread was blocked from its readiness to that of the last; the late one is to blame.
/// Fills tables negotiation and pending_negotiation, and adds to late and blame.
void analyze_negotiations(SQLite::Database& db, const Catalog& catalog, const std::map<int64_t, BackgroundProcess>& background);

// ---- Who is late because a message kept it waiting: lateness that is passed on is booked to where it began.
//
// A rank that computes longer makes its neighbours wait; they are late in turn and make theirs wait, in this step or the next, and soon
// every rank but one waits for another that is not to blame. So each row of blame walks up: from the late rank to the rank whose messages
// that one waited for most in the same step, as long as it waited at least half as long as the wait in question. Who waits for himself in
// the end (A for B, B for A) gets no pardon: the row stays where it was.
//
// Sums per step are enough for that, because lateness that comes back step after step is what findings are about; table message_blame keeps
// who waited for whom directly.
/// Needs `late` (blame.h) and `message_late` (below). Moves the rows of `late` to the ranks where the lateness
/// began and adds rows for the waits in messages.
void find_late_roots(SQLite::Database& db);

// ---- Pass 2: pairs sends with receives (message_match.h) and splits what it finds into waiting and the rest.
//
// Clocks: ranks of one host share a clock. Across hosts a wait is believed only if the sigma of the clocks is below a tenth of the median
// wait between those two hosts (as W2 for collectives), which takes a first pass over the events; else it is CLOCK_UNTRUSTED.
//
// Jobs that exchange no messages pay one look at the profile.
/// What the pass could not use; booked in table `loss` by the caller.
struct MessageLosses {
  int64_t unmatched = 0;                        ///< sends and receives whose other end could not be told for sure
  std::map<int64_t, int64_t> clock_violations;  ///< by world: receives that ended before the send began, across hosts
};

/// Fills `message`, `message_blame`, `message_part`, `call_wait` and `message_late`.
MessageLosses analyze_messages(SQLite::Database& db, const Catalog& catalog, const PassProgress& progress);

// ---- Where the time of GPUs went by the rules of Meta's Holistic Trace Analysis, for people who compare (specification.md "Breakdown by HTA").
//
// HTA looks at all GPU events of a rank, whatever their device, from the first begin to the last end: at neither edge of the window there
// is idling. What runs beside a kernel that computes counts as computing; everything else that is not idle is "non-compute". Its names tell
// kernels of collectives. Our own rules are in device_partition.h.
/// Fills table hta_part. One pass over the events of GPUs in the order of time, in constant memory.
void analyze_hta(SQLite::Database& db);

// ---- What several metrics read, gathered once for all of them: tables reported, counted, pipeline_model, batch_fit and mean_transfer.
/// Fills them; needs the tables of select_steady_steps() and select_steady_devices().
void gather_metric_inputs(SQLite::Database& db);

// ---- From which step on a job was slower or faster: change points (change_points.h) of the steady steps' times.
/// Fills `step_change`, one row per change; needs `steady_step`.
void find_step_changes(SQLite::Database& db);

}  // namespace ddl
