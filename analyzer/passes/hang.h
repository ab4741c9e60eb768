// Who keeps whom from going on in a job whose flight recorders were dumped (docs/decisions/0027-who-hangs.md).
//
// A rank waits in its oldest open operation of each process group. Such a call waits for members that never enqueued it; for members that
// enqueued another operation in its place; else, where it is the first thing that a rank sits in, for members that enqueued it behind
// something that they sit in themselves, and for members without a dump. A call that some member completed waits for nobody: the others did
// come. Ranks and calls are a graph; what everybody waits for and waits for nobody is a first cause.
#pragma once

#include <SQLiteCpp/Database.h>

#include "analyzer/passes/catalog.h"

namespace ddl {

/// Fills hang_call, hang_member, hang_rank and hang_fault (analyzer/tables.sql) from flight_entry and flight_status. Linear in entries,
/// and in members of the calls that ranks sit in.
void find_hangs(SQLite::Database& db, const Catalog& catalog);

}  // namespace ddl
