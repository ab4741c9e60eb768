// Rows from the file of a part into the store.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "store/ingest/contexts.h"

namespace ddl::store {

/// Ids of a part -> ids of the store, for columns of tables that are copied.
struct PartIds {
  std::vector<uint32_t> ops, gpu_names;
  Regions::Ids regions;
  int64_t events = 0, gpu_events = 0;  ///< to be added
};

/// The tables that have rows.
std::vector<std::string> filled_tables(SQLite::Database& db);

/// The rows of `tables`, in the order in which one process would have written them, from `file`, which was found whole.
/// `db` has no open transaction.
void copy_tables(SQLite::Database& db, const std::filesystem::path& file, const std::vector<std::string>& tables,
                 const PartIds& ids);

}  // namespace ddl::store
