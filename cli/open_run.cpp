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

void bring_up_to_date(const RunDirectory& run, bool analyze_again) {
  ProgressBar bar;
  const bool fresh = is_ingested(run);
  if (!fresh) {
    if (access(run.store.parent_path().c_str(), W_OK) != 0)
      throw Error(
          fmt::format("{} has not been read yet, and its results cannot be written there: no write permission", shown_path(run.directory)),
          fmt::format("copy it to a place of yours first: cp -r {} /tmp/", shown_path(run.directory)));
    ingest(run, {.output = {}, .progress = [&](const Progress& p) {
                   bar.update(p.stage, p.total_bytes == 0 ? 0 : static_cast<double>(p.done_bytes) / static_cast<double>(p.total_bytes));
                 }});
  }
  if (fresh && !analyze_again) {
    SQLite::Database db = open_store(run.store, Access::kRead);
    if (is_analyzed(db)) return;
  }
  SQLite::Database db = open_store(run.store, Access::kReadWrite);
  analyze(db, [&](std::string_view what, double done) { bar.update(std::string(what), done); });
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
