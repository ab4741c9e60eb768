// The run's SQLite file: creating it, opening it, refusing what is not ours.
//
// Errors: everything here throws ddl::Error. A connection is used by one thread at a time.
#pragma once

#include <SQLiteCpp/Database.h>

#include <filesystem>

namespace ddl {

constexpr int kApplicationId = 0x64646c31;  ///< "ddl1", as in schema.sql
constexpr int kSchemaVersion = 10;          ///< as in schema.sql

/// Text of store/schema.sql.
extern const char* const kSchemaSql;

enum class Access { kRead, kReadWrite };

/// Makes `path`, which must not exist, private to the user (0600) and never through a symlink, with all tables and views and tuned for
/// loading: nothing in it is safe until the connection is closed.
SQLite::Database create_store(const std::filesystem::path& path);

/// Opens a store. Throws with kDataMissing: no such file, not SQLite, not ours, of a newer or older schema.
SQLite::Database open_store(const std::filesystem::path& path, Access access = Access::kRead);

}  // namespace ddl
