#include "store/database.h"

#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Transaction.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <string.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <mutex>
#include <string_view>

#include "store/seal.h"
#include "store/sealed_file.h"

namespace ddl {

namespace {

Error refused(const std::filesystem::path& path, const std::string& why, const std::string& hint) {
  return Error(fmt::format("cannot read {}: {}", path.string(), why), hint, ExitCode::kDataMissing);
}

/// By its first bytes: a file that was cut behind them, or to nothing.
bool was_a_store(const std::filesystem::path& path) {
  constexpr size_t kIdAt = 68;
  char bytes[kIdAt + 4] = {};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(bytes, sizeof bytes)) return file.gcount() == 0;
  int32_t id = 0;
  for (size_t i = kIdAt; i < sizeof bytes; ++i) id = id << 8 | static_cast<unsigned char>(bytes[i]);
  return std::string_view(bytes, 16) == std::string_view("SQLite format 3", 16) && id == kApplicationId;
}

/// As SQLite takes names with parameters behind them.
std::string uri_of(const std::filesystem::path& path) {
  std::string uri = "file:";
  for (const char c : path.string()) {
    const bool plain = isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-' ||
                       (c == '/' && !uri.ends_with('/'));
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri + "?immutable=1";
}

constexpr int kReadOnly = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;

constexpr uint64_t kLargeBytes = uint64_t{32} << 20;

/// SQLite counts what it allocates, under one lock for all threads, unless it is told before its first use
/// that nobody asks.
[[maybe_unused]] const int kAllocationsCounted = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);

/// Tables and views without a row. SQLite takes 5 ms for the hundred statements that make them and 1 ms to copy what
/// they made, so that who makes a second store copies those of the first.
class Schemas {
 public:
  void write(SQLite::Database& db, int page_bytes) {
    const std::lock_guard lock(mutex_);
    if (const auto made = by_page_bytes_.find(page_bytes); made != by_page_bytes_.end()) {
      SQLite::Backup(db, made->second).executeStep();
      return;
    }
    // One transaction: else each of the statements writes, and reads again, what the earlier ones made.
    SQLite::Transaction transaction(db);
    db.exec(kSchemaSql);
    transaction.commit();
    SQLite::Database copy(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_NOMUTEX);
    SQLite::Backup(copy, db).executeStep();
    by_page_bytes_.emplace(page_bytes, std::move(copy));
  }

 private:
  std::mutex mutex_;
  std::map<int, SQLite::Database> by_page_bytes_;
};

int pragma(SQLite::Database& db, const char* name) { return db.execAndGet(fmt::format("PRAGMA {}", name)).getInt(); }

}  // namespace

SQLite::Database create_store(const std::filesystem::path& path, uint64_t source_bytes) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) {
    const int reason = errno;
    throw CannotWrite(fmt::format("cannot write {}: {}", path.string(), strerror(reason)));
  }
  close(fd);
  try {
    // Names of what is attached may be URIs; that of the store, which begins with a slash, is none.
    SQLite::Database db(std::filesystem::absolute(path).string(),
                        SQLite::OPEN_READWRITE | SQLite::OPEN_NOFOLLOW | SQLite::OPEN_NOMUTEX | SQLite::OPEN_URI);
    // The file is thrown away if anything fails, so nothing needs to be undone or to survive a power cut. Pages of 8
    // KiB: millions of rows are written and sorted faster by a tenth than with 4. Of 32 KiB another twelfth; but each
    // of the tables has a page.
    const int page_bytes = source_bytes < kLargeBytes ? 8192 : 32768;
    db.exec(fmt::format(
        "PRAGMA page_size = {}; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;"
        " PRAGMA cache_size = -65536;",
        page_bytes));
    static Schemas schemas;
    schemas.write(db, page_bytes);
    return db;
  } catch (const SQLite::Exception& error) {
    throw CannotWrite(fmt::format("cannot write {}: {}", path.string(), error.what()));
  }
}

std::string as_attached(const std::filesystem::path& path) { return uri_of(path); }

SQLite::Database open_store(const std::filesystem::path& path, Access access, int application_id) {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored)))
    throw refused(path, "no such file", "record a job first: ddl record -- mpirun -np 2 ./train");
  const Seal seal = access == Access::kRead           ? check_seal(path)
                    : access == Access::kReadCompared ? glance_at_seal(path)
                                                      : Seal::kWhole;
  const auto damaged = [&](const char* why) {
    return DamagedStore(
        fmt::format("cannot read {}: {}", path.string(), why),
        "an imported run: import it again; a recorded one: its spools are gone, from which it would be made again",
        ExitCode::kDataMissing);
  };
  constexpr const char* kCut = "it is damaged: it was cut off, or another program wrote into it";
  constexpr const char* kDiffers = "it is damaged: its content is not what ddl wrote";
  if (seal == Seal::kBroken) throw damaged(kDiffers);
  const uint64_t damaged_before = damaged_reads();
  try {
    // One without a seal is looked at as it is, for the message.
    const bool compared = access == Access::kReadCompared && seal == Seal::kWhole;
    SQLite::Database db = access == Access::kReadWrite
                              ? SQLite::Database(path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_NOMUTEX, 10000)
                              : SQLite::Database(uri_of(path), kReadOnly, 0, compared ? sealed_files() : "");
    if (pragma(db, "application_id") != application_id) {
      if (seal == Seal::kNone && was_a_store(path)) throw damaged(kCut);
      throw refused(path, "an SQLite file, but not one of ddl's",
                    "name a run directory (NAME.ddl) or the run.sqlite in it");
    }
    const int version = pragma(db, "user_version");
    if (version > kSchemaVersion) {
      throw refused(path, fmt::format("its schema {} is newer than this program's {}", version, kSchemaVersion),
                    "use a later ddl, or delete the file and let this one make it again from the spools");
    }
    if (version < kSchemaVersion) {
      throw damaged(fmt::format("its schema {} is older than this program's {}", version, kSchemaVersion).c_str());
    }
    if (seal == Seal::kNone) throw damaged(kCut);
    return db;
  } catch (const SQLite::Exception& error) {
    if (damaged_reads() != damaged_before) throw damaged(kDiffers);
    if (seal == Seal::kNone && was_a_store(path)) throw damaged(kCut);
    throw refused(path, error.what(),
                  error.getErrorCode() == SQLITE_NOTADB
                      ? "a run is a directory that ddl record made, or the SQLite file in it"
                      : "");
  }
}

SQLite::Database open_beside(const SQLite::Database& db) {
  const sqlite3_vfs* files = nullptr;  // as they are compared there
  sqlite3_file_control(db.getHandle(), "main", SQLITE_FCNTL_VFS_POINTER, &files);
  SQLite::Database beside(uri_of(sqlite3_db_filename(db.getHandle(), "main")), kReadOnly, 0,
                          files == nullptr ? "" : files->zName);
  beside.exec("PRAGMA cache_size = -16384");
  return beside;
}

std::string checked_database(const std::filesystem::path& path, NamedBy by) {
  for (const char* suffix : {"", "-journal", "-wal", "-shm"}) {
    const std::string file = path.string() + suffix;
    const std::string why = why_no_file(file, *suffix == '\0' ? by : NamedBy::kFolder);
    std::error_code ignored;
    if (!why.empty() || std::filesystem::is_fifo(file, ignored))
      throw refused(file, why.empty() ? "a FIFO, not a file" : why, "remove it");
  }
  return path.string();
}

}  // namespace ddl
