#include "cli/open_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include "analyzer/analyze.h"
#include "cli/progress_bar.h"
#include "core/error.h"
#include "store/database.h"
#include "store/ingest.h"
#include "store/run_directory.h"

namespace fs = std::filesystem;

namespace ddl::cli {
namespace {

void require_writable(const RunDirectory& run, const fs::path& path) {
  if (access(path.c_str(), W_OK) == 0) return;
  const std::string shown = shown_path(run.directory);
  throw Error(fmt::format("{} has to be read and analyzed first, and the result cannot be written there: no write permission", shown),
              fmt::format("copy it to a place of yours: cp -r {} /tmp/", shown));
}

void bring_up_to_date(const RunDirectory& run, bool analyze_again) {
  ProgressBar bar;
  const auto analyze_with_bar = [&](SQLite::Database& db) {
    analyze(db, [&](std::string_view what, double done) { bar.update(std::string(what), done); });
  };
  if (!is_ingested(run)) {
    require_writable(run, run.store.parent_path());
    // Analyzed before it takes its place: an epilogue may read the run while `ddl record` still does.
    ingest(run, {.output = {},
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
  require_writable(run, run.store);
  SQLite::Database db = open_store(run.store, Access::kReadWrite);
  analyze_with_bar(db);
}

Run open(const std::string& argument, bool analyze_again) {
  const RunDirectory run = argument.empty() ? find_run() : find_run(argument);
  bring_up_to_date(run, analyze_again);
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

Run open_run(const std::string& argument) { return open(argument, false); }

Run open_run_and_analyze(const std::string& argument) { return open(argument, true); }

}  // namespace ddl::cli
