// Pass 1: puts the collectives together from the ranks' events and splits every one into waiting and transfer (specification.md "Waiting").
//
// Events come in the order of instances (instance_events.h); the members of one go through split_waiting() and on to the blame, the groups and
// table `collective`.
//
// Clocks: members on one host share a clock. Across hosts the max-start estimate is used on a communicator only if the offset's sigma is
// below a tenth of the median wait found with it (W2), which takes a first pass over the events of those communicators.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>

#include "analyzer/passes/catalog.h"
#include "analyzer/passes/instance_events.h"
#include "analyzer/passes/ticker.h"

namespace ddl {

/// What the pass could not use; booked in table `loss` by the caller.
struct CollectiveLosses {
  int64_t partial = 0;                          ///< instances of which not all members were recorded
  int64_t mismatched = 0;                       ///< instances whose members called different operations
  std::map<int64_t, int64_t> clock_violations;  ///< by world: members that left before the last one entered (n_ccv)
  int64_t bad_intervals = 0;                    ///< events that end before they begin
};

/// Fills `collective`, `blame`, `collective_group`, `late`, `reached`, `comm_step`, `wire` and `unsplit`. With several `threads` one splits while
/// the calling one writes. In the place of `events`, which nothing was taken of yet, there are then the rows of table `collective`, if all are held.
CollectiveLosses analyze_collectives(SQLite::Database& db, const Catalog& catalog, InstanceEvents& events, const PassProgress& progress,
                                     unsigned threads);

}  // namespace ddl
