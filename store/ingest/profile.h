// The profile tables of a process's threads, summed into the tables profile and range_profile.
#pragma once

#include "core/reader.h"
#include "store/ingest/process_load.h"
#include "store/insert.h"

namespace ddl::store {

/// Writes both tables for one process. Appends what was damaged to `skips`.
void load_profile(Statements& db, MadeRows& made, const SpoolReader& reader, ProcessTables& tables, std::vector<Skip>& skips);

}  // namespace ddl::store
