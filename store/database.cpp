#include "store/database.h"

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Transaction.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"

namespace ddl {

namespace {

Error refused(const std::filesystem::path& path, const std::string& why, const std::string& hint) {
  return Error(fmt::format("cannot read {}: {}", path.string(), why), hint, ExitCode::kDataMissing);
}

int pragma(SQLite::Database& db, const char* name) { return db.execAndGet(fmt::format("PRAGMA {}", name)).getInt(); }

}  // namespace

SQLite::Database create_store(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) {
    const int reason = errno;
    throw CannotWrite(fmt::format("cannot write {}: {}", path.string(), strerror(reason)));
  }
  close(fd);
  try {
    SQLite::Database db(path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_NOFOLLOW | SQLite::OPEN_NOMUTEX);
    // The file is thrown away if anything fails, so nothing needs to be undone or to survive a power cut. Pages of 8 KiB: millions of
    // rows are written and sorted faster by a tenth than with 4.
    db.exec(
        "PRAGMA page_size = 8192; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;"
        " PRAGMA cache_size = -65536;");
    // One transaction: else each of the hundred statements writes, and reads again, what the earlier ones made.
    SQLite::Transaction transaction(db);
    db.exec(kSchemaSql);
    transaction.commit();
    return db;
  } catch (const SQLite::Exception& error) {
    throw CannotWrite(fmt::format("cannot write {}: {}", path.string(), error.what()));
  }
}

SQLite::Database open_store(const std::filesystem::path& path, Access access) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    throw refused(path, "no such file", "record a job first: ddl record -- mpirun -np 2 ./train");
  try {
    const int mode = access == Access::kRead ? SQLite::OPEN_READONLY : SQLite::OPEN_READWRITE;
    SQLite::Database db(path.string(), mode | SQLite::OPEN_NOMUTEX, 10000);
    if (pragma(db, "application_id") != kApplicationId) {
      throw refused(path, "an SQLite file, but not one of ddl's", "name a run directory (NAME.ddl) or the run.sqlite in it");
    }
    const int version = pragma(db, "user_version");
    if (version > kSchemaVersion) {
      throw refused(path, fmt::format("its schema {} is newer than this program's {}", version, kSchemaVersion),
                    "use a later ddl, or delete the file and let this one make it again from the spools");
    }
    if (version < kSchemaVersion) {
      throw refused(path, fmt::format("its schema {} is older than this program's {}", version, kSchemaVersion),
                    "delete the file; it is made again from the spools. An imported run has none: import it again");
    }
    return db;
  } catch (const SQLite::Exception& error) {
    throw refused(path, error.what(),
                  error.getErrorCode() == SQLITE_NOTADB ? "delete the file if it should be a run's; it is made again from the spools" : "");
  }
}

}  // namespace ddl
