// The steady steps of a recorded MPI job as a replay: on each rank computing and calls alternate, one after the
// other; collectives and messages tie the ranks together by the analyzer's waiting. Steps follow one another
// without the time between them.
//
//   symmetric collectives   begin on all members together, when the last has come, and take their transfer time
//   broadcast, scatter      wait for the root to come; reduce, gather: the root waits for the others
//   non-blocking ones       begin when the last member has posted and take their shortest transfer, or where clocks do
//                           not say who posted last the shortest time under way (upper bounds: a completion while a
//                           rank computes is seen when it asks); the completing call waits for them
//                           last the shortest time under way (upper bounds: a completion while a rank computes is seen
//                           when it asks); the completing call waits for them
//   members without record  take no part; their collectives take the time of like ones whose members are all known,
//                           else the shortest of their like
//   messages                receives, or probes before them, wait for their send to begin; a send waits for its receive
//                           only where it was seen to; what stood while the other rank computed is no transfer
//   other calls             keep their time
// In the ideal job, computing before the same call of a step (operation, bytes, ordinal), or in the same place of it,
// is of one kind, whichever separates durations better; computing where no other rank computes is one more kind.
// Transfers of one operation, size of communicator and bytes are of one kind.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "analyzer/models/replay.h"

namespace ddl::models {

using Regions = std::unordered_set<int64_t>;  ///< region.id

/// Blocking collectives of one operation on some communicators with as many bytes, or fewer.
struct SmallCalls {
  int64_t op = 0, most_bytes = 0;
  std::map<int64_t, double> fused_s;  ///< by communicator: what one call in the place of all of a step would take
};

struct RunReplay {
  Replay replay;
  double recorded_step_s = 0;         ///< mean over ranks, of the steps that are replayed
  int64_t steps = 0;                  ///< the last ones, as many as kMostReplayedEvents hold
  int64_t left_out = 0;               ///< steady steps before them
  bool nonblocking = false;           ///< some transfers are upper bounds
  bool nonblocking_messages = false;  ///< some of these are messages
  /// Much of the time in calls is in some that may wait for other ranks, and for how long is not defined (one-sided).
  bool undefined_waits = false;
  /// non-blocking collectives that were nowhere the last of those that were seen to be over in one call
  std::vector<Replay::Op> hidden;
  /// non-blocking collectives that no rank was seen to wait for: their ends are unknown
  std::vector<Replay::Op> unawaited;
  struct SmallCall {
    Replay::Op op = 0;
    int64_t comm = 0;
  };
  std::vector<SmallCall> small;  ///< the requested calls, rank by rank in the order of time
  /// of each operation, the part of its computing within the requested ranges; empty: none were requested
  std::vector<double> within_s;
};

constexpr int64_t kMostReplayedEvents = 1'000'000;
/// A replay that is further from the recording than this says little.
constexpr double kFarFromRecorded = 0.05;

/// Replays the steady steps of an analyzed run, or the whole run where there are none. Throws ddl::Error
/// (kDataMissing): a job of GPUs or of background threads (background_process), whose ranks do not wait in their calls;
/// events that were not kept; or more than a hundredth of the time inside calls whose waiting is not known.
RunReplay replay_run(SQLite::Database& db, int64_t world, const Regions& within = {},
                     const std::optional<SmallCalls>& small = {});

Regions regions_of_layer(SQLite::Database& db, const std::string& layer);
/// What grows with the samples of a step: forward, backward, loading. Empty: the job does not mark both of the first
/// two.
Regions regions_of_samples(SQLite::Database& db);

/// The last steady steps whose kernels and copies, with their launches, are no more than kMostReplayedEvents;
/// ascending, none before `since`.
std::vector<int64_t> last_gpu_steps(SQLite::Database& db, int64_t world, std::optional<int64_t> since);

/// Pipeline stage by rank, if all ranks that were recorded are stages; else empty.
std::map<int64_t, int64_t> stages_of(SQLite::Database& db, int64_t world);

}  // namespace ddl::models
