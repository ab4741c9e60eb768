// What steps would be shorter by if ranks computed otherwise: the replay of `ddl model whatif`, for findings
// (specification.md J8).
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/models/replay_run.h"

namespace ddl::models {

/// By which a mean step of the replay is shorter with other durations; what is hidden behind computing
/// (RunReplay::hidden) takes no time.
double seconds_saved(const RunReplay& run, const std::vector<double>& durations);

struct ReplayedSaving {
  /// per step; time of non-blocking collectives behind computing (RunReplay::hidden) counts as none
  double seconds = 0;
  bool lower_bound = false;  ///< some transfers are upper bounds, so that more may be saved
  /// Where ranks left no record: what steps take longer than the replay, which waits for none of these, beyond what a
  /// typical step does; mean over the steps.
  double unexplained_s = 0;
};

/// If these ranks computed as the others do; a bound with any non-blocking transfers, since timelines of tensors
/// (Horovod's) have waits within waits, which are not replayed, and with calls whose waiting is not defined. Mean over
/// the replayed steady steps from `since` on; the last steps of long runs, as replay_run() says. Nothing: the steps
/// cannot be replayed (GPUs, background threads, events that were not kept, waiting that is not known), or come out
/// otherwise than they were, or there are no other ranks.
std::optional<ReplayedSaving> saving_without(SQLite::Database& db, int64_t world, const std::vector<int64_t>& ranks,
                                             std::optional<int64_t> since = {});

/// If each step's work in a layer were the same on all ranks that have it; a bound with non-blocking messages.
/// Nothing: as above.
std::optional<ReplayedSaving> saving_of_even_layer(SQLite::Database& db, int64_t world, const std::string& layer);

/// If there were twice as many samples in a step, for those of one; what is computed outside of forward, backward and
/// loading then counts for two, and so do transfers. A bound with any non-blocking transfers. Nothing: as above.
std::optional<ReplayedSaving> saving_of_twice_the_batch(SQLite::Database& db, int64_t world);

struct FusedSaving {
  double seconds = 0;  ///< per step
  /// a non-blocking transfer that nobody was seen to wait for went on behind the calls: less is saved if it ended late
  bool at_most = false;
};

/// If of a step's calls on each of the communicators the last one took the fused time, with the bytes of all, and the
/// others were not there. Nothing: as above.
std::optional<FusedSaving> saving_of_fused(SQLite::Database& db, int64_t world, const SmallCalls& calls);

}  // namespace ddl::models
