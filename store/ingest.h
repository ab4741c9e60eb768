// From the spools of a run to its run.sqlite (schema.sql), except the analyzer's part.
//
// Memory is bounded by the numbers of ranges, call sites, communicators, steps and profile keys and by a few chunks
// (megabytes) of records. Events stream from the spool into SQLite; spools of less than a megabyte are read ahead, as
// many as there are threads. The same spools give the same tables, row for row, whenever and wherever they are read
// (only meta.ingested_at differs).
//
// The file is written under another name and renamed, so that readers see the old store or the whole new one.
// Unreadable data never stop the ingest: they become rows of table `loss`.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <filesystem>
#include <functional>

#include "store/run_directory.h"

namespace ddl {

struct Progress {
  const char* stage;    ///< "reading", "indexing": a word for people
  uint64_t done_bytes;  ///< of total_bytes; never goes back within a stage
  uint64_t total_bytes;
};

struct IngestOptions {
  std::filesystem::path output;  ///< empty: run.store
  /// called a few times per second of work from the calling thread; may throw to stop
  std::function<void(const Progress&)> progress;
  /// called with the filled store before it takes its place; may throw to stop
  std::function<void(SQLite::Database&)> finish;
  unsigned threads = 0;  ///< that read spools, the calling one included; 0: one for each core. The store is the same
};

struct IngestSummary {
  uint64_t processes = 0;
  uint64_t events = 0;
  uint64_t losses = 0;  ///< rows of table loss
};

/// Throws Error: no spools, or none readable (kDataMissing); the output is somebody else's file; CannotWrite.
IngestSummary ingest(const RunDirectory& run, const IngestOptions& options = {});

}  // namespace ddl
