// Tables about the whole run: hosts, fixed lists of names, meta, indices.
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

/// Fills meta from job.json, the clocks and the stored processes. `spools`: files that were looked at.
void write_meta(SQLite::Database& db, const RunDirectory& run, size_t spools, const Clocks& clocks,
                int64_t ingested_at_ns, Losses& losses);

/// The index of events by process and time, for insertion in just that order: each row then goes to its end, at half
/// the cost of sorting all afterwards.
void create_event_order(SQLite::Database& db);

/// A process that left MPI_Finalize by its record ended in it: where its header says otherwise a bit was flipped. Takes
/// back what `process` and `loss` say of its end; returns how many rows that took from `loss`. After all of them,
/// events and operations.
int64_t correct_ends(SQLite::Database& db);

/// The missing indices of the analyzer and the views: for when everything is loaded.
void create_indices(SQLite::Database& db);

/// After the rows of processes and hosts, by which ranks are found: their host and process id. An
/// unreadable file is a loss.
void write_stalls(SQLite::Database& db, const RunDirectory& run, const Clocks& clocks, Losses& losses);

/// After events and operations, before regions. Does nothing without a timeline; an unreadable one, and operations
/// without a call, are losses.
void join_horovod_timeline(SQLite::Database& db, const RunDirectory& run, const Clocks& clocks, Regions& regions,
                           Losses& losses);

}  // namespace ddl::store
