// Traces of AMD's profilers, told apart by what is in them: databases of RPD and of rocprofv3 (rocpd), and
// rocprofv3's JSON.
#include <SQLiteCpp/Exception.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "store/import/input_file.h"
#include "store/import/rocm_process.h"
#include "store/import/trace_database.h"

namespace ddl::store {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDatabaseMagic = "SQLite format 3";

bool is_sqlite_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;  // what is taken from a pipe is gone
  InputFile file(path, {});
  return std::all_of(kDatabaseMagic.begin(), kDatabaseMagic.end(), [&](char c) { return file.take() == c; });
}

void read_database(RocmFiles& files, const fs::path& path, const BytesRead& read) {
  bool is_rpd = false, is_rocpd = false;
  {
    const TraceDatabase db(path);
    is_rpd = db.has("rocpd_op") || db.has("rocpd_api");
    is_rocpd = std::any_of(db.tables().begin(), db.tables().end(),
                           [](const std::string& table) { return table.starts_with("rocpd_kernel_dispatch"); });
    if (!is_rpd && !is_rocpd)
      db.fail("no table rocpd_op or rocpd_kernel_dispatch_...: not a database of RPD or rocprofv3");
  }
  is_rocpd ? read_rocpd(files, path, read) : read_rpd(files, path, read);
}

}  // namespace

void read_rocm(ImportedRun& run, const std::vector<fs::path>& paths, const BytesRead& read) {
  RocmFiles files{run, {}, 0, {}};
  for (const fs::path& path : paths) {
    try {
      is_sqlite_file(path) ? read_database(files, path, read) : read_rocprofiler_json(files, path, read);
    } catch (const SQLite::Exception& error) {
      throw Error(fmt::format("{}, byte 0: {}", path.string(), error.what()),
                  "copy the file again, after the job has ended", ExitCode::kDataMissing);
    }
  }
  files.unread.write(run.losses(), "activities of GPUs or rows of tables");
  run.losses().add(
      {}, "gpu_unread", files.of_nobody,
      "activities of GPUs that no call of a process is told for, of GPUs that several processes use: left out");
  if (rank_by_environment(run, files.hints)) return;
  RankHints all;
  for (const RankHints& hints : files.hints) {
    all.processes.insert(all.processes.end(), hints.processes.begin(), hints.processes.end());
    all.devices.insert(hints.devices.begin(), hints.devices.end());
  }
  const bool is_one_host = std::all_of(all.processes.begin(), all.processes.end(), [&](size_t process) {
    return run.process(process).host == run.process(all.processes.front()).host;
  });
  if (is_one_host) rank_by_device(run, all);
}

}  // namespace ddl::store
