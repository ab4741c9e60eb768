// Pass 2: pairs sends with receives (message_match.h) and splits what it finds into waiting and the rest.
//
// Clocks: ranks of one host share a clock. Across hosts a wait is believed only if the sigma of the clocks is below a tenth of the median
// wait between those two hosts (as W2 for collectives), which takes a first pass over the events; else it is CLOCK_UNTRUSTED.
//
// Jobs that exchange no messages pay one look at the profile.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>

#include "analyzer/passes/catalog.h"
#include "analyzer/passes/ticker.h"

namespace ddl {

/// What the pass could not use; booked in table `loss` by the caller.
struct MessageLosses {
  int64_t unmatched = 0;                        ///< sends and receives whose other end could not be told for sure
  std::map<int64_t, int64_t> clock_violations;  ///< by world: receives that ended before the send began, across hosts
};

/// Fills `message`, `message_blame`, `message_part`, `call_wait` and `message_late`.
MessageLosses analyze_messages(SQLite::Database& db, const Catalog& catalog, const PassProgress& progress);

}  // namespace ddl
