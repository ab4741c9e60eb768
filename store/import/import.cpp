#include "store/import.h"

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "store/database.h"
#include "store/draft.h"
#include "store/import/formats.h"
#include "store/import/imported_run.h"
#include "store/import/input_file.h"

namespace ddl {

namespace {

namespace fs = std::filesystem;

constexpr ImportFormat kFormats[] = {
    {"kineto", "traces of PyTorch's profiler (Kineto), a file a rank: JSON", "worker*.pt.trace.json.gz",
     ".json .json.gz", store::read_kineto},
    {"nsys", "reports of Nsight Systems, exported with nsys export --type sqlite", "report*.sqlite", ".sqlite",
     store::read_nsys},
    {"rocm", "traces of AMD's profilers: databases of rocprofv3 (rocpd) and of RPD, JSON of rocprofv3", "*_results.db",
     ".db .rpd .json", store::read_rocm},
    {"nvprof", "traces of nvprof --print-gpu-trace --csv, a file a process", "nvprof.%p.csv", ".csv",
     store::read_nvprof},
    {"horovod", "the timeline of Horovod, which rank 0 writes", "timeline.json", ".json .json.gz", store::read_horovod},
    {"nccl-inspector", "JSON lines of NCCL's Inspector plugin, a file a process", "nccl-inspector-*/*.log",
     ".log .log.gz", store::read_nccl_inspector},
    {"flight-recorder", "dumps of PyTorch's flight recorder of a job that hangs, a file a rank: pickles or JSON",
     "nccl_trace_rank_*", "", store::read_flight_recorder},
    {"nccl-ras", "the answer of NCCL's RAS about a job that runs or hangs: text or JSON", "ras.txt", ".txt .json",
     store::read_nccl_ras},
    {"chakra", "Chakra execution traces with times, a file a rank: as ddl export chakra writes them", "ddl.*.et", ".et",
     store::read_chakra},
    {"chrome", "Chrome trace events (JSON), a process a rank: as ddl and many other programs write them", "trace.json",
     ".json .json.gz", store::read_chrome},
    {"pipedream", "CSV: layers of PipeDream's profiler, or operations of a what-if straggler analysis", "trace.csv",
     ".csv", store::read_pipedream},
};

bool is_of(const ImportFormat& format, const std::string& name) {
  std::string_view endings = format.endings;
  if (endings.empty()) return !name.ends_with(".log") && !name.ends_with(".txt");
  while (!endings.empty()) {
    const std::string_view ending = endings.substr(0, endings.find(' '));
    if (name.ends_with(ending)) return true;
    endings.remove_prefix(std::min(ending.size() + 1, endings.size()));
  }
  return false;
}

std::vector<fs::path> files_in(const ImportFormat& format, const std::vector<fs::path>& paths) {
  std::vector<fs::path> files;
  for (const fs::path& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<fs::path> inside;
    for (const auto& entry : fs::directory_iterator(path, error))
      if (entry.is_regular_file(error) && is_of(format, entry.path().filename().string()))
        inside.push_back(entry.path());
    if (error)
      throw Error(fmt::format("cannot read {}: {}", path.string(), error.message()),
                  "name the files, or a folder that you may read", ExitCode::kDataMissing);
    if (inside.empty())
      throw Error(fmt::format("{}: a folder without files of {}{}{}", path.string(), format.name,
                              *format.endings ? ": " : "", format.endings),
                  fmt::format("name the files, e.g. ddl import {} {}", format.name, format.files),
                  ExitCode::kDataMissing);
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

constexpr uint64_t kImportReportEveryBytes = 1 << 20;
constexpr int kSqliteInstructionsBetweenReports = 1 << 20;  // some hundredths of a second

/// While it lives, calls `report` as SQLite works: sorting and indexing can take minutes in one call. What it throws
/// ends that call, and is kept in `thrown`.
class SqliteReports {
 public:
  SqliteReports(SQLite::Database& db, std::function<void()> report, std::exception_ptr& thrown)
      : db_(db), report_(std::move(report)), thrown_(thrown) {
    const auto call = [](void* self) { return static_cast<SqliteReports*>(self)->call(); };
    sqlite3_progress_handler(db_.getHandle(), kSqliteInstructionsBetweenReports, call, this);
  }
  ~SqliteReports() { sqlite3_progress_handler(db_.getHandle(), 0, nullptr, nullptr); }
  SqliteReports(const SqliteReports&) = delete;
  SqliteReports& operator=(const SqliteReports&) = delete;

 private:
  int call() noexcept {
    try {
      report_();
    } catch (...) {
      thrown_ = std::current_exception();
    }
    return thrown_ ? 1 : 0;
  }
  SQLite::Database& db_;
  std::function<void()> report_;
  std::exception_ptr& thrown_;
};

}  // namespace

std::span<const ImportFormat> import_formats() { return kFormats; }

ImportSummary import_traces(const ImportFormat& format, const std::vector<fs::path>& paths,
                            const ImportOptions& options) {
  const std::vector<fs::path> files = files_in(format, paths);
  uint64_t total_bytes = 0, done_bytes = 0, reported = 0;
  for (const fs::path& file : files) total_bytes += store::file_bytes(file);
  const auto tell = [&](const char* stage, uint64_t done, uint64_t total) {
    if (options.progress) options.progress({stage, done, total});
  };
  std::optional<double> sorted_ratio;  // unset: still reading
  const auto tell_again = [&] {
    if (sorted_ratio) {
      tell("sorting", static_cast<uint64_t>(*sorted_ratio * 1000), 1000);
    } else {
      tell("reading", std::min(done_bytes, total_bytes), total_bytes);
    }
  };
  const auto read = [&](uint64_t bytes) {
    done_bytes += bytes;  // of a pipe the size is not known
    if (done_bytes - reported < kImportReportEveryBytes) return;
    reported = done_bytes;
    tell_again();
  };
  const auto now_ns = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  store::Draft draft(options.output);
  ImportSummary summary;
  std::exception_ptr stopped;
  try {
    SQLite::Database db = create_store(draft.path());
    SQLite::Transaction transaction(db);
    const std::string first = files.front().filename().string();
    store::ImportedRun run(db, format.name,
                           files.size() == 1 ? first : fmt::format("{} and {} more", first, files.size() - 1));
    run.fact("ingested_at", fmt::to_string(now_ns));
    if (options.one_clock) run.share_clock();
    run.limit_events(options.most_events);
    run.report_events(tell_again);
    {
      const SqliteReports reports(db, tell_again, stopped);
      format.read(run, files, read);
      sorted_ratio = 0;
      summary.events = run.finish([&](double ratio) {
        sorted_ratio = ratio;
        tell_again();
      });
    }
    transaction.commit();
    summary.ranks = static_cast<uint64_t>(db.execAndGet("SELECT count(*) FROM process").getInt64());
    summary.losses = static_cast<uint64_t>(db.execAndGet("SELECT count(*) FROM loss").getInt64());
    if (options.finish) options.finish(db);
  } catch (const SQLite::Exception& error) {
    if (stopped) std::rethrow_exception(stopped);
    if (error.getErrorCode() == SQLITE_ERROR)
      throw Error(fmt::format("cannot import {}: {}", files.front().string(), error.what()),
                  "check durations and sizes in the trace");  // sums beyond 64 bits
    throw CannotWrite(fmt::format("cannot write {}: {}", options.output.string(), error.what()));
  }
  draft.finish();
  return summary;
}

}  // namespace ddl
