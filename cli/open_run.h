// From the user's words to an analyzed run: finds it, and ingests and analyzes it where that is outdated.
#pragma once

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <functional>
#include <string>

#include "cli/options.h"
#include "cli/progress_bar.h"
#include "store/ingest.h"

namespace ddl::cli {

/// True for words that can only mean a run: something that exists, or a name that ends in .ddl or .sqlite.
bool looks_like_run(const std::string& word);

/// The shorter of a path's absolute and relative names; never one that begins with a dash.
std::string shown_path(const std::filesystem::path& path);

struct Run {
  std::filesystem::path directory;
  std::string shown;    ///< the shortest name that works here
  SQLite::Database db;  ///< read-only, or a copy of its own (cli/share.h)
};

/// Ingests if run.sqlite is missing or older than a spool (a job without ddl record, killed, or running), analyzes if
/// needed, and opens the result read-only. Progress goes to standard error, on a terminal and after a second. "" = the
/// newest *.ddl here. A run that cannot be written is read into a temporary file, with a note. At most `threads` read
/// and analyze; 0: one for each core available to this process. Throws ddl::Error.
Run open_run(const std::string& argument, unsigned threads = 0);

/// What `ask` says of the run that open_run() opens. Only what it reads of the store is compared with its seal: of a
/// large one an eighth. Where that differs, `ask` is asked once more, of the run made again; so it prints and writes
/// nothing. Throws ddl::Error.
std::string ask_run(const std::string& argument, unsigned threads, const std::function<std::string(Run&)>& ask);

/// The run of option --demo, for users without a run: share/ddl/demo beside the program. Throws ddl::Error (usage) if
/// `argument` names a run as well, (kDataMissing) if ddl was installed without it.
std::string demo_run(const std::string& argument);

/// As open_run(demo_run(argument)), but writes nothing into the installation, even as root.
Run open_demo(const std::string& argument, unsigned threads = 0);

/// As open_run(), but leaves the run unchanged: ingests and analyzes into a temporary file if needed.
Run open_run_without_writing(const std::string& argument);

/// As open_run(), but always computes the metrics and findings again.
Run open_run_and_analyze(const std::string& argument, unsigned threads = 0);

/// Shows an ingest's progress on `bar`, which must outlive it.
IngestOptions options_with(ProgressBar& bar);
/// Shows the analyzer's progress, likewise.
std::function<void(SQLite::Database&)> analysis_with(ProgressBar& bar, unsigned threads);

// ---- Option --threads of verbs that read and analyze a run.
void add_threads_option(VerbOptions& options);

/// The value for open_run(). Throws Error (kUsage) if it is below 1 or absurdly large.
unsigned threads_of(const VerbOptions& options);

}  // namespace ddl::cli
