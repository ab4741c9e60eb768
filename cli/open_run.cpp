#include "cli/open_run.h"

#include <SQLiteCpp/Exception.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "analyzer/analyze.h"
#include "cli/progress_bar.h"
#include "cli/terminal.h"
#include "core/error.h"
#include "store/database.h"
#include "store/ingest.h"
#include "store/run_directory.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

void bring_up_to_date(const RunDirectory& run, bool fresh, bool analyze_again) {
  ProgressBar bar;
  const auto analyze_with_bar = [&](SQLite::Database& db) {
    analyze(db, [&](std::string_view what, double done) { bar.update(std::string(what), done); });
  };
  if (!fresh) {
    // Analyzed before it takes its place: an epilogue may read the run while `ddl record` still does.
    ingest(run, {.output = run.store,
                 .progress =
                     [&](const Progress& p) {
                       bar.update(p.stage, p.total_bytes == 0 ? 0 : static_cast<double>(p.done_bytes) / static_cast<double>(p.total_bytes));
                     },
                 .finish = analyze_with_bar});
    return;
  }
  if (!analyze_again) {
    SQLite::Database db = open_store(run.store, Access::kRead);
    if (is_analyzed(db)) return;
  }
  try {
    SQLite::Database db = open_store(run.store, Access::kReadWrite);
    analyze_with_bar(db);
  } catch (const SQLite::Exception& error) {
    const int code = error.getErrorCode();
    if (code != SQLITE_FULL && code != SQLITE_IOERR && code != SQLITE_READONLY && code != SQLITE_CANTOPEN) throw;
    throw CannotWrite(fmt::format("cannot write {}: {}", run.store.string(), error.what()));
  }
}

/// A folder for what nobody keeps, gone with this object. What is open in it stays readable.
class ScratchFolder {
 public:
  ScratchFolder() {
    const char* place = std::getenv("TMPDIR");
    std::string name = fmt::format("{}/ddl-XXXXXX", place != nullptr && *place != '\0' ? place : "/tmp");
    if (mkdtemp(name.data()) == nullptr)
      throw CannotWrite(fmt::format("cannot make {}: {}", name, std::strerror(errno)), "set TMPDIR to a place with room");
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// The run lies where nothing can be written: a full disk, an archive, somebody else's directory. It is read all the same, each time again.
Run open_aside(const RunDirectory& run, bool fresh, const std::string& why) {
  const ScratchFolder scratch;
  print_note(fmt::format("{}: it is read into {} for now", why, scratch.path().parent_path().string()));
  const RunDirectory aside = {run.directory, scratch.path() / "run.sqlite"};
  if (fresh) fs::copy_file(run.store, aside.store);
  bring_up_to_date(aside, fresh, true);
  return {.directory = run.directory, .shown = shown_path(run.directory), .db = open_store(aside.store, Access::kRead)};
}

Run open_analyzed(const std::string& argument, bool analyze_again) {
  const RunDirectory run = argument.empty() ? find_run() : find_run(argument);
  const bool fresh = is_ingested(run);
  try {
    bring_up_to_date(run, fresh, analyze_again);
  } catch (const CannotWrite& error) {
    return open_aside(run, fresh, error.what());
  }
  return {.directory = run.directory, .shown = shown_path(run.directory), .db = open_store(run.store, Access::kRead)};
}

}  // namespace

bool looks_like_run(const std::string& word) {
  std::error_code error;
  return word.ends_with(".ddl") || word.ends_with(".sqlite") || fs::exists(word, error);
}

std::string shown_path(const fs::path& path) {
  std::error_code error;
  std::string relative = fs::proximate(path, error).string();
  return error || relative.size() >= path.string().size() ? path.string() : relative;
}

Run open_run(const std::string& argument) { return open_analyzed(argument, false); }

Run open_run_and_analyze(const std::string& argument) { return open_analyzed(argument, true); }

}  // namespace ddl::cli
