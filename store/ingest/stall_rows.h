// What `ddl record` told of stalls, into tables stall, stall_rank and stall_stack.
#pragma once

#include <SQLiteCpp/Database.h>

#include "store/ingest/clocks.h"
#include "store/run_directory.h"

namespace ddl::store {

/// After the rows of processes and hosts, by which ranks are found: their host and process id.
void write_stalls(SQLite::Database& db, const RunDirectory& run, const Clocks& clocks);

}  // namespace ddl::store
