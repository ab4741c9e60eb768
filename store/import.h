// Traces of other tools as runs: `ddl import FORMAT FILES... -o job.ddl` makes the run.sqlite of a recording, except
// what the analyzer fills in.
//
// Files are streamed one after the other (store/import/imported_run.h says what is kept). An error in a file stops the
// import with an Error that names the file and the byte, and leaves nothing behind.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "store/ingest.h"

namespace ddl {

namespace store {
class ImportedRun;
}

/// Reads `files` into `run`. `read` is called with the bytes read since last time.
using ReadTraces = void (*)(store::ImportedRun& run, const std::vector<std::filesystem::path>& files,
                            const std::function<void(uint64_t bytes)>& read);

struct ImportFormat {
  const char* name;      ///< "kineto": the word after `ddl import`
  const char* sentence;  ///< what it is
  const char* files;     ///< typical file names, for the example: "worker*.json.gz"
  const char* endings;   ///< by which a folder's files are chosen: ".json .json.gz"; empty: all but .log and .txt
  ReadTraces read;
};
std::span<const ImportFormat> import_formats();

struct ImportOptions {
  std::filesystem::path output;                   ///< run.sqlite to be; must not exist
  bool one_clock = false;                         ///< all ranks ran on hosts whose clocks agree
  uint64_t most_events = 100'000'000;             ///< of all files; more are an Error
  std::function<void(const Progress&)> progress;  ///< as IngestOptions
  std::function<void(SQLite::Database&)> finish;  ///< as IngestOptions
};

struct ImportSummary {
  uint64_t ranks = 0;
  uint64_t events = 0;
  uint64_t losses = 0;  ///< rows of table loss
};

/// `paths`: files, and folders, whose files of the format are read in the order of their names. Throws Error: a file is
/// unreadable or not such a trace, a folder has none (kDataMissing); CannotWrite.
ImportSummary import_traces(const ImportFormat& format, const std::vector<std::filesystem::path>& paths,
                            const ImportOptions& options);

}  // namespace ddl
