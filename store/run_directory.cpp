#include "store/run_directory.h"

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "core/error.h"
#include "store/database.h"

namespace ddl {

namespace {

namespace fs = std::filesystem;

// memory that a live process writes into reaches the file's time stamp within half a minute
constexpr int64_t kSettleNs = 60'000'000'000;
const char* const kRecordHint = "record a job first: ddl record -- mpirun -np 2 ./train";

RunDirectory in_directory(const fs::path& directory) { return {directory, directory / "run.sqlite"}; }

std::optional<RunDirectory> newest_run(const fs::path& parent) {
  std::optional<RunDirectory> newest;
  int64_t newest_ns = -1;
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().extension() != ".ddl" || !entry->is_directory(ignored)) continue;
    const RunDirectory run = in_directory(entry->path());
    const int64_t changed = std::max(run.changed_realtime_ns(), int64_t{0});
    const bool later =
        changed > newest_ns || (changed == newest_ns && run.directory.filename() > newest->directory.filename());
    if (!newest || later) {
      newest = run;
      newest_ns = changed;
    }
  }
  return newest;
}

}  // namespace

std::optional<int64_t> changed_ns(const fs::path& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

std::vector<fs::path> RunDirectory::spools() const {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".spool") found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

int64_t RunDirectory::changed_realtime_ns() const {
  int64_t newest = 0;
  for (const fs::path& file : {job(), stalls(), last_look(), horovod_timeline()})
    newest = std::max(newest, changed_ns(file).value_or(0));
  for (const fs::path& spool : spools()) newest = std::max(newest, changed_ns(spool).value_or(0));
  return newest;
}

RunDirectory find_run(const std::optional<std::string>& argument) {
  if (!argument) {
    if (const auto run = newest_run(".")) return *run;
    throw Error("there is no run directory (*.ddl) here", kRecordHint, ExitCode::kDataMissing);
  }
  const fs::path path = *argument;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status))
    throw Error(fmt::format("there is no {}", path.string()), kRecordHint, ExitCode::kDataMissing);
  if (fs::is_directory(status)) {
    RunDirectory run = in_directory(path);
    const bool has_store = fs::exists(fs::symlink_status(run.store, error));
    if (!has_store && !fs::exists(run.job(), error) && run.spools().empty()) {
      const auto inside = newest_run(path);
      throw Error(fmt::format("{} is not a run directory: no spools, no run.sqlite", path.string()),
                  inside ? fmt::format("did you mean {}?", inside->directory.string()) : kRecordHint,
                  ExitCode::kDataMissing);
    }
    return run;
  }
  if (path.extension() == ".spool") {
    throw Error(fmt::format("{} is the spool of one process, not a run", path.string()),
                fmt::format("name its directory: {}", fs::absolute(path).parent_path().string()), ExitCode::kUsage);
  }
  // the user may name a link; what it names is the store
  const fs::path file = fs::is_symlink(path, error) ? fs::canonical(path) : path;
  return {file.has_parent_path() ? file.parent_path() : fs::path("."), file};
}

bool is_ingested(const RunDirectory& run) { return open_if_ingested(run).has_value(); }

std::optional<SQLite::Database> open_if_ingested(const RunDirectory& run, Access access) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(run.store, error))) return std::nullopt;
  SQLite::Database db = open_store(run.store, access);
  const size_t spools = run.spools().size();
  if (spools == 0) return db;  // a store that was copied out of its directory
  try {
    SQLite::Statement query(
        db,
        "SELECT (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'ingested_at'), (SELECT count(*) FROM process WHERE ended = 'lost'), "
        "(SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'spools')");
    if (!query.executeStep() || query.getColumn(0).isNull()) return std::nullopt;
    // Spools that were fetched from another host later may carry any time stamp.
    if (!query.getColumn(2).isNull() && static_cast<uint64_t>(query.getColumn(2).getInt64()) < spools)
      return std::nullopt;
    const int64_t ingested_at = query.getColumn(0).getInt64();
    const bool may_have_run_on = query.getColumn(1).getInt64() > 0;
    if (ingested_at < run.changed_realtime_ns() + (may_have_run_on ? kSettleNs : 0)) return std::nullopt;
  } catch (const SQLite::Exception&) {
    if (access == Access::kReadCompared) throw;  // a page that differs
    return std::nullopt;                         // ours, but not whole
  }
  return db;
}

}  // namespace ddl
