// The run's SQLite file: creates it, opens it, refuses others' files.
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
constexpr int kSchemaVersion = 15;               ///< as in schema.sql

/// Text of store/schema.sql.
extern const char* const kSchemaSql;

/// kRead: only after all of it was compared with its seal. kReadCompared: each page is, when it is read
/// (store/sealed_file.h); for who throws away what was computed where a page differs, which is an SQLite::Exception and
/// counts in damaged_reads(). kReadWrite: a draft, or a store that is being tampered with: nothing is compared, and
/// whoever is done seals it.
enum class Access { kRead, kReadCompared, kReadWrite };

/// Makes `path`, which must not exist, private to the user (0600) and never through a symlink, with all tables and
/// views and tuned for loading: nothing in it is safe until the connection is closed. `source_bytes`: the size of its
/// source, if known.
SQLite::Database create_store(const std::filesystem::path& path, uint64_t source_bytes = 0);

/// A store of ours that is to be made again: of an older schema, or with a content other than ddl's (store/seal.h):
/// flipped bits, truncated, or written by another program.
class DamagedStore : public Error {
 public:
  using Error::Error;
};

/// Opens a store that is finished; what is in it never changes, so nothing is locked and no journal looked for. Throws
/// with kDataMissing: no such file, no regular file, not SQLite, not ours, of a newer schema, DamagedStore.
SQLite::Database open_store(const std::filesystem::path& path, Access access = Access::kRead,
                            int application_id = kApplicationId);

/// The file as ATTACH takes it, which is then only read, as open_store() opened it before.
std::string as_attached(const std::filesystem::path& path);

/// Another read-only connection to the file of `db`, for another thread. Meanwhile `db` writes nothing and has no open
/// transaction. Throws SQLite::Exception.
SQLite::Database open_beside(const SQLite::Database& db);

/// The name of somebody else's SQLite file, for opening. Throws Error (kDataMissing) unless it, its journal and its log
/// are regular files.
std::string checked_database(const std::filesystem::path& path, NamedBy by);

}  // namespace ddl
