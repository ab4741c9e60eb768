// A run directory NAME.ddl: job.json, one *.spool a process, run.sqlite. The only interface between a job and the
// tools.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "store/database.h"

namespace ddl {

struct RunDirectory {
  std::filesystem::path directory;
  std::filesystem::path store;  ///< directory/run.sqlite, or the file named by the user

  std::filesystem::path job() const { return directory / "job.json"; }
  std::filesystem::path stalls() const { return directory / "stalls.jsonl"; }  ///< store/stalls.h
  /// Unix time, ns: when the watch of `ddl record` last saw the job run. Gone when `ddl record` has seen its end: left
  /// behind, both were killed.
  std::filesystem::path last_look() const { return directory / "last_look"; }
  std::filesystem::path horovod_timeline() const {
    return directory / "horovod_timeline.json";
  }  ///< written by the job, if it was asked to
  /// All *.spool files, sorted by name.
  std::vector<std::filesystem::path> spools() const;
  /// Newest change of job.json, stalls.jsonl, last_look, horovod_timeline.json or a spool, realtime ns; 0 without any.
  int64_t changed_realtime_ns() const;
};

/// The file's last change, realtime ns; nothing if it does not exist.
std::optional<int64_t> changed_ns(const std::filesystem::path& path);

/// The run that the user means: a run directory, or an SQLite file in one (or copied out of one); without argument the
/// newest *.ddl in the current directory. Throws Error (kDataMissing) with a hint when there is none. Does not look
/// whether run.sqlite exists.
RunDirectory find_run(const std::optional<std::string>& argument = std::nullopt);

/// The open store, if run.sqlite exists and covers the spools' present content. Nothing, or false: ingest() is due. A
/// job that was killed less than a minute before it was read counts as still running. Throws as open_store() if the
/// file is not ours to replace.
std::optional<SQLite::Database> open_if_ingested(const RunDirectory& run, Access access = Access::kRead);
bool is_ingested(const RunDirectory& run);

}  // namespace ddl
