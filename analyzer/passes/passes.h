// Passes that analyze() alone calls.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <functional>
#include <map>

#include "analyzer/passes/background.h"
#include "analyzer/passes/catalog.h"
#include "analyzer/passes/input_ranges.h"
#include "analyzer/passes/instance_events.h"
#include "analyzer/passes/layer_totals.h"

namespace ddl {

/// Told how far a pass is, 0 to 1.
using PassProgress = std::function<void(double done)>;

/// Tells a listener now and then, not for every event.
class Ticker {
 public:
  Ticker(const PassProgress& progress, int64_t total) : progress_(progress), total_(total) {}

  void add(int64_t events) {
    done_ += events;
    if (done_ < next_ || !progress_) return;
    next_ = done_ + kEvery;
    progress_(total_ > done_ ? static_cast<double>(done_) / static_cast<double>(total_) : 1.0);
  }

 private:
  static constexpr int64_t kEvery = 50'000;
  const PassProgress& progress_;
  int64_t total_;
  int64_t done_ = 0;
  int64_t next_ = kEvery;
};

// ---- Late ranks where background threads negotiate (specification.md J2, J3): tensors are reduced once all ranks have
// them ready. So the reduction shows no waiting; the cycles of coordination before it do.
//
// In each cycle a rank announces its progress: by the bits that it sets for tensors which are ready (table agreement),
// or by the bytes of the requests that it sends to rank 0. A reduction needs the progress that the least advanced rank
// had in the cycle that led to it; a rank was ready when it entered the first cycle in which it was as far, which is
// late by a cycle at most. Ranks with different clocks are compared by cycle. Rank 0 sends no requests to itself: it is
// the late one if all others were ready earlier. A barrier is reached as a reduction is, and so is what moves by
// messages or on communicators on which nobody negotiates (Adasum). A timeline of Horovod recorded beside (table
// horovod_ready) names the cycle, of rank 0 as well.
//
// Tensors not agreed on when the record ends are pending: in a job that hangs they name the ranks that did not come.
//
// A rank waited as long as its training thread was blocked from its readiness to that of the last; the late one is to
// blame.
/// Fills tables negotiation and pending_negotiation, and adds to late and blame.
void analyze_negotiations(SQLite::Database& db, const Catalog& catalog,
                          const std::map<int64_t, BackgroundProcess>& background);

// ---- Ranks that are late because a message kept them waiting: passed-on lateness is booked to where it began.
//
// A rank that computes longer makes its neighbours wait; they are late in turn and make theirs wait, in this step or
// the next, and soon every rank but one waits for another that is not to blame. So each row of blame walks up: from the
// late rank to the rank whose messages that one waited for most in the same step, as long as it waited at least half as
// long as the wait in question. In a cycle (A waits for B, B for A) the row stays where it was; in a run without steps,
// where sums over all of it have nothing but cycles (a server and its workers), each wait is looked at by itself: for
// whom the late rank waited in that time, if for half of it.
//
// Sums per step suffice, because findings are about lateness that recurs step after step; table message_blame keeps
// the direct waits.
/// Needs `late` (blame.h) and `message_late` (below). Moves the rows of `late` to the ranks where the lateness
/// began and adds rows for the waits in messages.
void find_late_roots(SQLite::Database& db);

// ---- Pass 2: pairs sends with receives (message_match.h) and splits their time into waiting and the rest.
//
// Clocks: ranks of one host share a clock. Across hosts a wait is believed only if the sigma of the clocks is below a
// tenth of the median wait between those two hosts (as W2 for collectives), which takes a first pass over the events;
// else it is CLOCK_UNTRUSTED.
//
// Jobs that exchange no messages pay one look at the profile.
/// What the pass could not use; booked in table `loss` by the caller.
struct MessageLosses {
  int64_t unmatched = 0;                        ///< sends and receives whose other end could not be told for sure
  std::map<int64_t, int64_t> clock_violations;  ///< by world: receives that ended before the send began, across hosts
};

/// Fills `message`, `message_blame`, `message_part`, `call_wait` and `message_late`.
MessageLosses analyze_messages(SQLite::Database& db, const Catalog& catalog, const PassProgress& progress);

// ---- The time of GPUs by the rules of Meta's Holistic Trace Analysis, for comparison
// (specification.md "Breakdown by HTA").
//
// HTA looks at all GPU events of a rank, whatever their device, from the first begin to the last end: neither edge of
// the window idles. Activities beside a kernel that computes count as computing; the rest that is not idle is
// "non-compute". Kernels of collectives are known by their names. Our own rules are in device_partition.h.
/// Fills table hta_part. One pass over the events of GPUs in the order of time, in constant memory.
void analyze_hta(SQLite::Database& db);

// ---- Inputs of several metrics, gathered once: tables reported, counted, pipeline_model, batch_fit and mean_transfer.
/// Fills them; needs the tables of select_steady_steps() and select_steady_devices().
void gather_metric_inputs(SQLite::Database& db);

// ---- From which step on a job was slower or faster: change points (change_points.h) of the steady steps' times.
/// Fills `step_change`, one row per change; needs `steady_step`.
void find_step_changes(SQLite::Database& db);

/// Fills hang_call, hang_member, hang_rank and hang_fault (analyzer/tables.sql) from flight_entry and flight_status.
/// Linear in entries, and in members of the calls that ranks sit in.
void find_hangs(SQLite::Database& db, const Catalog& catalog);

struct StepResults {
  int64_t repeated_steps = 0;  ///< steps whose number the process had used before: left out
  RegionWaits waits;           ///< in collectives that threads carried out
};

/// Needs `collective`, `call_wait` and `negotiation`. For processes in `background`, the parts of the training thread's
/// time (training_thread.h): nothing where that was not sampled. Fills `step_part`, `rank_part` and `tail`. `events`:
/// those that analyze_collectives() left. Reads `inputs`. `threads` as read_in_parallel() takes them
/// (analyzer/parallel_reads.h): ranges of processes are read at the same time.
StepResults analyze_steps(SQLite::Database& db, const Catalog& catalog,
                          const std::map<int64_t, BackgroundProcess>& background, const InstanceEvents& events,
                          InputRanges& inputs, const PassProgress& progress, unsigned threads);

/// What the pass could not use; booked in table `loss` by the caller.
struct CollectiveLosses {
  int64_t partial = 0;                          ///< instances of which not all members were recorded
  int64_t mismatched = 0;                       ///< instances whose members called different operations
  std::map<int64_t, int64_t> clock_violations;  ///< by world: members that left before the last one entered (n_ccv)
  int64_t bad_intervals = 0;                    ///< events that end before they begin
};

/// Fills `collective`, `blame`, `collective_group`, `late`, `reached`, `comm_step`, `wire` and `unsplit`. With several
/// `threads` one splits while the calling one writes; the rows of table `collective`, if all are held, then take the
/// place of the still untouched `events`.
CollectiveLosses analyze_collectives(SQLite::Database& db, const Catalog& catalog, InstanceEvents& events,
                                     const PassProgress& progress, unsigned threads);

/// Takes back what infer_steps() did.
void forget_inferred_steps(SQLite::Database& db);

/// Fills `inferred_steps`, `step`, `region` and `inferred_layer`, and sets event.step, event.region and gpu_event.step.
void infer_steps(SQLite::Database& db, const Catalog& catalog, const std::map<int64_t, BackgroundProcess>& background);

/// Holds a piece of a process's events at a time, and those of one of its steps. Returns how many steps have more of
/// them than that, so that they have no critical path.
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
