// Who was late where background threads negotiate (specification.md J2, J3): what is reduced is what all ranks have ready, and the reduction begins
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
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>

#include "analyzer/passes/background.h"
#include "analyzer/passes/catalog.h"

namespace ddl {

/// Fills tables negotiation and pending_negotiation, and adds to late and blame.
void analyze_negotiations(SQLite::Database& db, const Catalog& catalog, const std::map<int64_t, BackgroundProcess>& background);

}  // namespace ddl
