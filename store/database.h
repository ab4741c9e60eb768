// The run's SQLite file: creating it, opening it, refusing what is not ours.
//
// Errors: everything here throws ddl::Error. A connection is used by one thread at a time.
#pragma once

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <string>

#include "core/error.h"
#include "core/regular_file.h"

namespace ddl {

constexpr int kApplicationId = 0x64646c31;       ///< "ddl1", as in schema.sql
constexpr int kPartsApplicationId = 0x64646c70;  ///< "ddlp": of a plan and the parts of an analysis (store/parts.h)
constexpr int kSchemaVersion = 14;               ///< as in schema.sql

/// Text of store/schema.sql.
extern const char* const kSchemaSql;

/// kRead: only after all of it was compared with its seal. kReadCompared: each page is, when it is read (store/sealed_file.h); for who throws away what
/// was computed where a page differs, which is an SQLite::Exception and counts in damaged_reads(). kReadWrite: a draft, or a store that is being tampered
/// with: nothing is compared, and whoever is done seals it.
enum class Access { kRead, kReadCompared, kReadWrite };

/// Makes `path`, which must not exist, private to the user (0600) and never through a symlink, with all tables and views and tuned for
/// loading: nothing in it is safe until the connection is closed. `source_bytes`: of what it is made of, as far as that is known.
SQLite::Database create_store(const std::filesystem::path& path, uint64_t source_bytes = 0);

/// A store of ours whose content is not what ddl wrote (store/seal.h): bits were flipped, it was cut, or another program wrote into it.
class DamagedStore : public Error {
 public:
  using Error::Error;
};

/// Opens a store that is finished; what is in it never changes, so nothing is locked and no journal looked for. Throws with kDataMissing: no such file,
/// no regular file, not SQLite, not ours, of a newer or older schema, DamagedStore.
SQLite::Database open_store(const std::filesystem::path& path, Access access = Access::kRead, int application_id = kApplicationId);

/// The file as ATTACH takes it, which is then only read, as open_store() opened it before.
std::string as_attached(const std::filesystem::path& path);

/// Another connection to the file that `db` is open on, which only reads, for another thread. `db` writes nothing while it is used, and has no
/// open transaction. Throws SQLite::Exception.
SQLite::Database open_beside(const SQLite::Database& db);

/// The name of an SQLite file of somebody else's, for opening. Throws Error (kDataMissing) where it, its journal or its log is not a regular file.
std::string checked_database(const std::filesystem::path& path, NamedBy by);

}  // namespace ddl
