// What `ddl record` told of stalls, into tables stall, stall_rank and stall_stack.
#pragma once

#include <SQLiteCpp/Database.h>

#include "store/ingest/clocks.h"
#include "store/ingest/losses.h"
#include "store/run_directory.h"

namespace ddl::store {

/// After the rows of processes and hosts, by which ranks are found: their host and process id.
/// A file that cannot be read is a loss.
void write_stalls(SQLite::Database& db, const RunDirectory& run, const Clocks& clocks, Losses& losses);

}  // namespace ddl::store
