// What concerns the run as a whole: hosts, fixed lists of names, meta, indices.
#pragma once

#include <SQLiteCpp/Database.h>
#include "store/ingest/contexts.h"

#include <cstdint>
#include <vector>

#include "store/ingest/clocks.h"
#include "store/ingest/losses.h"
#include "store/ingest/scan.h"
#include "store/run_directory.h"

namespace ddl::store {

/// Fills datatype and reduction.
void write_names(SQLite::Database& db);

/// Fills host. Returns host.id of each scan; ids are given in `order`.
std::vector<int64_t> write_hosts(SQLite::Database& db, const std::vector<Scan>& scans, const std::vector<size_t>& order,
                                 const Clocks& clocks);

/// Fills meta from job.json, the clocks and the processes that are in the store already. `spools`: files that were looked at.
void write_meta(SQLite::Database& db, const RunDirectory& run, size_t spools, const Clocks& clocks, int64_t ingested_at_ns, Losses& losses);

/// The index of events by process and time, for one who is about to insert them in just that order: each row then goes to its end, which
/// costs half of sorting them all afterwards.
void create_event_order(SQLite::Database& db);

/// The indices that the analyzer and the views need, those that are not there yet: for when everything is loaded.
void create_indices(SQLite::Database& db);

/// After the rows of processes and hosts, by which ranks are found: their host and process id.
/// A file that cannot be read is a loss.
void write_stalls(SQLite::Database& db, const RunDirectory& run, const Clocks& clocks, Losses& losses);

/// After the events and operations were written, before the regions are. Without a timeline nothing happens; one that cannot be read, and operations
/// without a call, are losses.
void join_horovod_timeline(SQLite::Database& db, const RunDirectory& run, const Clocks& clocks, Regions& regions, Losses& losses);

}  // namespace ddl::store
