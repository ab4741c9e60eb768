// SQLite. The journal is the classic one and not a write-ahead log: that needs memory which all writers share, so all
// of them on one node. A writer takes its turn at BEGIN IMMEDIATE: a transaction that begins by reading and then wants
// to write may find that it cannot, and would have to start again.
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/error.h"
#include "history/connection.h"
#include "store/database.h"

namespace ddl::history {
namespace {

constexpr int kHistoryId = 0x64646c68;  // "ddlh": PRAGMA application_id

class Sqlite : public Connection {
 public:
  Sqlite(const std::string& path, Access access) : path_(path) {
    // Also for reading: what a killed writer left is undone by whoever comes next, if it may. A file that may only be
    // read is opened for that.
    const int flags = SQLITE_OPEN_READWRITE | (access == Access::kWrite ? SQLITE_OPEN_CREATE : 0);
    const int code = sqlite3_open_v2(path.c_str(), &db_, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
    if (code != SQLITE_OK) {
      const std::string why = sqlite3_errstr(code);
      sqlite3_close(db_);
      throw Error(fmt::format("cannot open {}: {}", path, why));
    }
    sqlite3_busy_timeout(db_, kPatienceMs);
    try {
      script("BEGIN");  // one look at both: another writer may be making the schema
      const int id = std::stoi(*run("PRAGMA application_id", {})[0][0]);
      const bool empty = run("SELECT 1 FROM sqlite_master LIMIT 1", {}).empty();
      script("COMMIT");
      if (!empty && id != kHistoryId)
        throw Error(fmt::format("{} is an SQLite file, but not a history of ddl", path), "", ExitCode::kDataMissing);
    } catch (...) {
      sqlite3_close(db_);
      throw;
    }
  }
  ~Sqlite() override { sqlite3_close(db_); }
  Sqlite(const Sqlite&) = delete;

  std::vector<Cells> run(const std::string& sql, const Cells& values) override {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v2(db_, sql.c_str(), -1, &statement, nullptr));
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> owner(statement, sqlite3_finalize);
    for (size_t i = 0; i < values.size(); ++i) {
      const int index = sqlite3_bind_parameter_index(statement, fmt::format("${}", i + 1).c_str());
      if (index == 0) throw Error(fmt::format("{}: no ${}", sql, i + 1));
      check(values[i] ? sqlite3_bind_text(statement, index, values[i]->data(), static_cast<int>(values[i]->size()),
                                          SQLITE_TRANSIENT)
                      : sqlite3_bind_null(statement, index));
    }
    std::vector<Cells> rows;
    int code = SQLITE_OK;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
      Cells& row = rows.emplace_back();
      for (int column = 0; column < sqlite3_column_count(statement); ++column) row.push_back(cell(statement, column));
    }
    if (code != SQLITE_DONE) check(code);
    return rows;
  }

  void begin(bool) override { script("BEGIN IMMEDIATE"); }
  void commit() override { script("COMMIT"); }
  void rollback() noexcept override { sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr); }

  bool has_schema() override { return !run("SELECT 1 FROM sqlite_master WHERE name = 'ddl_schema'", {}).empty(); }
  void make_schema(const std::string& sql) override {
    script(sql + fmt::format("\nPRAGMA application_id = {};", kHistoryId));
  }

 private:
  void script(const std::string& sql) { check(sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr)); }

  static Cell cell(sqlite3_stmt* statement, int column) {
    switch (sqlite3_column_type(statement, column)) {
      case SQLITE_NULL:
        return std::nullopt;
      case SQLITE_FLOAT:
        return fmt::format("{}", sqlite3_column_double(statement, column));  // all digits that tell it
      default:
        return std::string(reinterpret_cast<const char*>(sqlite3_column_text(statement, column)),
                           static_cast<size_t>(sqlite3_column_bytes(statement, column)));
    }
  }

  void check(int code) {
    if (code == SQLITE_OK) return;
    const int what = code & 0xff;
    if (what == SQLITE_BUSY || what == SQLITE_LOCKED)
      throw Error(fmt::format("{} has been locked by other writers for {} s", path_, kPatienceMs / 1000),
                  "try again; on a network file system whose locks do not work, use PostgreSQL");
    if (what == SQLITE_NOTADB || what == SQLITE_CORRUPT)
      throw Error(fmt::format("{}: {}", path_, sqlite3_errmsg(db_)), "not a history, or damaged",
                  ExitCode::kDataMissing);
    throw Error(fmt::format("{}: {}", path_, sqlite3_errmsg(db_)));
  }

  std::string path_;
  sqlite3* db_ = nullptr;
};

}  // namespace

std::unique_ptr<Connection> open_sqlite(const std::string& path, Access access) {
  namespace fs = std::filesystem;
  const char* const kOtherPlace = "name a file in a folder that you may write to: --database FILE";
  std::error_code error;
  if (!fs::exists(path, error)) {
    if (access == Access::kRead)
      throw Error(fmt::format("there is no history yet: {}", path), "make it: ddl history add RUN...",
                  ExitCode::kDataMissing);
    if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) {
      fs::create_directories(folder, error);
      if (error) throw CannotWrite(fmt::format("cannot make {}: {}", folder.string(), error.message()), kOtherPlace);
    }
    // Nobody else's business, unless somebody made it beforehand with other rights.
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0) throw CannotWrite(fmt::format("cannot make {}: {}", path, std::strerror(errno)), kOtherPlace);
    close(fd);
  }
  checked_database(path, NamedBy::kUser);
  return std::make_unique<Sqlite>(path, access);
}

}  // namespace ddl::history
