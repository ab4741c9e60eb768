#include "cli/open_run.h"

#include <SQLiteCpp/Exception.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include "analyzer/analyze.h"
#include "cli/scratch_folder.h"
#include "cli/terminal.h"
#include "core/error.h"
#include "store/database.h"
#include "store/draft.h"
#include "store/ordered_work.h"
#include "store/run_directory.h"
#include "store/sealed_file.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

/// Makes `target` of the spools, or of the store with its metrics computed again. A store never changes once it has its
/// name: what reads it goes on reading the old one.
void bring_up_to_date(const RunDirectory& run, const fs::path& target, bool fresh, unsigned threads) {
  ProgressBar bar;
  if (!fresh) {
    IngestOptions options = options_with(bar);
    options.output = target;
    // before it takes its place: an epilogue may read the run while `ddl record` still does
    options.finish = analysis_with(bar, threads);
    options.threads = threads;
    ingest(run, options);
    return;
  }
  const auto cannot_write = [&](const char* why) {
    return CannotWrite(fmt::format("cannot write {}: {}", target.string(), why));
  };
  store::Draft draft(target);
  std::error_code error;
  fs::copy_file(run.store, draft.path(), error);
  if (error) throw cannot_write(error.message().c_str());
  try {
    SQLite::Database db = open_store(draft.path(), Access::kReadWrite);
    db.exec(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -65536");
    analysis_with(bar, threads)(db);
  } catch (const SQLite::Exception& failed) {
    const int code = failed.getErrorCode();
    if (code != SQLITE_FULL && code != SQLITE_IOERR && code != SQLITE_READONLY && code != SQLITE_CANTOPEN) throw;
    throw cannot_write(failed.what());
  }
  draft.finish();
}

Run run_of(const RunDirectory& run, SQLite::Database db) {
  return {.directory = run.directory, .shown = shown_path(run.directory), .db = std::move(db)};
}

/// Into a folder that is gone afterwards: the open store stays readable.
Run read_aside(const RunDirectory& run, bool fresh, const ScratchFolder& scratch, unsigned threads) {
  const fs::path store = scratch.path() / "run.sqlite";
  bring_up_to_date(run, store, fresh, threads);
  return run_of(run, open_store(store));
}

/// The run lies where nothing can be written: a full disk, an archive, somebody else's directory. It is read all the
/// same, each time again.
Run open_aside(const RunDirectory& run, bool fresh, const std::string& why, unsigned threads) {
  const ScratchFolder scratch;
  print_note(fmt::format("{}: reading the run into {} for this command", why, scratch.path().parent_path().string()));
  return read_aside(run, fresh, scratch, threads);
}

/// Nothing: there is none, or one that is to be made again.
std::optional<SQLite::Database> open_usable(const RunDirectory& run) {
  try {
    return open_if_ingested(run);
  } catch (const DamagedStore& damaged) {
    if (run.spools().empty()) throw;
    print_note(fmt::format("{}: rebuilding it from the spools", damaged.what()));
    return std::nullopt;
  }
}

RunDirectory find_argument(const std::string& argument) { return argument.empty() ? find_run() : find_run(argument); }

Run open_analyzed(const std::string& argument, bool analyze_again, unsigned threads) {
  const RunDirectory run = find_argument(argument);
  std::optional<SQLite::Database> db = open_usable(run);
  if (db && !analyze_again && is_analyzed(*db)) return run_of(run, std::move(*db));
  const bool fresh = db.has_value();
  db.reset();
  try {
    bring_up_to_date(run, run.store, fresh, threads);
  } catch (const CannotWrite& error) {
    return open_aside(run, fresh, error.what(), threads);
  }
  return run_of(run, open_store(run.store));
}

}  // namespace

IngestOptions options_with(ProgressBar& bar) {
  IngestOptions options;
  options.progress = [&bar](const Progress& p) {
    bar.update(p.stage,
               p.total_bytes == 0 ? 0 : static_cast<double>(p.done_bytes) / static_cast<double>(p.total_bytes));
  };
  return options;
}

std::function<void(SQLite::Database&)> analysis_with(ProgressBar& bar, unsigned threads) {
  return [&bar, threads](SQLite::Database& db) {
    analyze(
        db, [&](std::string_view what, double done) { bar.update(std::string(what), done); },
        store::threads_for(threads));
  };
}

bool looks_like_run(const std::string& word) {
  std::error_code error;
  return word.ends_with(".ddl") || word.ends_with(".sqlite") || fs::exists(word, error);
}

std::string shown_path(const fs::path& path) {
  std::error_code error;
  std::string relative = fs::proximate(path, error).string();
  if (error || relative.size() >= path.string().size()) relative = path.string();
  return relative.starts_with('-') ? "./" + relative : relative;
}

Run open_run(const std::string& argument, unsigned threads) { return open_analyzed(argument, false, threads); }

std::string ask_run(const std::string& argument, unsigned threads, const std::function<std::string(Run&)>& ask) {
  const uint64_t damaged = damaged_reads();
  try {
    const RunDirectory found = find_argument(argument);
    if (std::optional<SQLite::Database> db = open_if_ingested(found, Access::kReadCompared); db && is_analyzed(*db)) {
      Run run = run_of(found, std::move(*db));
      std::string answer = ask(run);
      if (damaged_reads() == damaged) return answer;
    }
  } catch (const DamagedStore&) {  // open_run() says so
  } catch (const std::exception&) {
    if (damaged_reads() == damaged) throw;
  }
  Run run = open_run(argument, threads);
  return ask(run);
}

Run open_run_and_analyze(const std::string& argument, unsigned threads) {
  return open_analyzed(argument, true, threads);
}

Run open_run_without_writing(const std::string& argument) {
  const RunDirectory run = find_run(argument);
  std::optional<SQLite::Database> db = open_usable(run);
  if (db && is_analyzed(*db)) return run_of(run, std::move(*db));
  return read_aside(run, db.has_value(), ScratchFolder(), 0);
}

std::string demo_run(const std::string& argument) {
  if (!argument.empty())
    throw Error("--demo and RUN exclude each other", fmt::format("leave {} out", argument), ExitCode::kUsage);
  fs::path path =
      fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "share" / "ddl" / "demo" / "train.ddl";
  if (!fs::exists(path))
    throw Error(fmt::format("the demo run is missing: {}", path.string()),
                "this ddl was installed without it: tools/demo records one", ExitCode::kDataMissing);
  return path;
}

Run open_demo(const std::string& argument, unsigned threads) {
  return read_aside(find_run(demo_run(argument)), false, ScratchFolder(), threads);
}

void add_threads_option(VerbOptions& options) {
  options.add()("threads", takes<int64_t>("N"),
                "threads for reading and analyzing the run (default: one for each core); the results are the same");
}

unsigned threads_of(const VerbOptions& options) {
  constexpr int64_t kMost = 1024;
  const int64_t threads = options.maybe<int64_t>("threads").value_or(0);
  if (options.has("threads") && (threads < 1 || threads > kMost))
    throw Error(fmt::format("--threads {}: not a number of threads", threads), fmt::format("1 to {}", kMost),
                ExitCode::kUsage);
  return static_cast<unsigned>(threads);
}

}  // namespace ddl::cli
