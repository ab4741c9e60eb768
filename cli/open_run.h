// From what the user typed to an analyzed run: finds it, ingests it if that has not been done since it was recorded, analyzes it.
#pragma once

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <functional>
#include <string>

#include "cli/options.h"
#include "cli/progress_bar.h"
#include "store/ingest.h"

namespace ddl::cli {

/// True for words that can only be meant as a run: something that exists, or a name that ends in .ddl or .sqlite.
bool looks_like_run(const std::string& word);

/// The shorter one of a path's absolute and relative names; never one that begins with a dash, as options do.
std::string shown_path(const std::filesystem::path& path);

struct Run {
  std::filesystem::path directory;
  std::string shown;    ///< its name as short as it can be typed here
  SQLite::Database db;  ///< read-only, or a copy of its own (cli/share.h)
};

/// Ingests if run.sqlite is absent or older than a spool (a bare, a killed or a still running job), analyzes if that has not been done, and
/// opens the result read-only. Progress goes to standard error if that is a terminal and it takes more than a second. "" = the newest *.ddl
/// here. Where the run cannot be written it is read into a temporary file, with a note. `threads` at most read and analyze; 0: one for each core
/// that this process may use. Throws ddl::Error.
Run open_run(const std::string& argument, unsigned threads = 0);

/// What `ask` says of the run that open_run() opens. Only what it reads of the store is compared with its seal: of a large one an eighth. Where that
/// differs, `ask` is asked once more, of the run made again; so it prints and writes nothing. Throws ddl::Error.
std::string ask_run(const std::string& argument, unsigned threads, const std::function<std::string(Run&)>& ask);

/// The run of option --demo, which shows ddl to somebody who has none yet: in share/ddl/demo beside the program. Throws ddl::Error
/// (usage) if `argument` names a run as well, (kDataMissing) if this copy of ddl was installed without it.
std::string demo_run(const std::string& argument);

/// As open_run(demo_run(argument)), but leaves nothing in the folder of the installation, also not as root.
Run open_demo(const std::string& argument, unsigned threads = 0);

/// As open_run(), but leaves the run as it is: what is not ingested or analyzed is read into a temporary file.
Run open_run_without_writing(const std::string& argument);

/// As open_run(), but computes the metrics and findings again, also when they are there.
Run open_run_and_analyze(const std::string& argument, unsigned threads = 0);

/// For an ingest that shows on `bar` how far it is. `bar` must outlive it.
IngestOptions options_with(ProgressBar& bar);
/// The analyzer, likewise.
std::function<void(SQLite::Database&)> analysis_with(ProgressBar& bar, unsigned threads);

// ---- Option --threads of the verbs that read and analyze a run.
void add_threads_option(VerbOptions& options);

/// As open_run() takes it. Throws Error (kUsage): none, or more than any machine has use for.
unsigned threads_of(const VerbOptions& options);

}  // namespace ddl::cli
