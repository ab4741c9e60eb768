// What all processes must agree on before the first row is written: identities, the time axis, communicators, names of
// operations. One process may find it for others (store/parts.h).
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "store/ingest.h"
#include "store/ingest/clocks.h"
#include "store/ingest/communicators.h"
#include "store/ingest/losses.h"
#include "store/ingest/process_load.h"
#include "store/ingest/worlds.h"

namespace ddl::store {

/// Reports progress to IngestOptions::progress now and then.
class Reporter {
 public:
  explicit Reporter(const std::function<void(const Progress&)>& function) : function_(function) {}

  void begin(const char* stage, uint64_t total_bytes);
  void add(uint64_t bytes) { to(now_.done_bytes + bytes); }
  void to(uint64_t done_bytes);

 private:
  void tell();

  const std::function<void(const Progress&)>& function_;
  Progress now_ = {"", 0, 0};
  uint64_t reported_ = 0;
};

int64_t realtime_now_ns();

/// The spools of the run. Throws Error (kDataMissing) with the reason if there are none.
std::vector<std::filesystem::path> spools_of(const RunDirectory& run);

/// All readable `spools`, with identities settled. Throws Error if none is readable.
std::vector<Scan> scan_all(const std::vector<std::filesystem::path>& spools, unsigned threads, Losses& losses,
                           Reporter& reporter);

struct Agreement {
  Clocks clocks;  ///< of all scans
  Worlds worlds;
  Communicators communicators;
  Operations operations;
};
Agreement agree(const std::vector<Scan>& scans, unsigned threads, Losses& losses, Reporter& reporter);

/// A process with what was agreed on.
struct PlacedProcess {
  const Scan* scan;
  int64_t process;  ///< process.id
  int64_t host;     ///< host.id
  Place place;
  ProcessClock clock;
};
/// Loads them in order; returns the number of events.
uint64_t load_processes(SQLite::Database& db, RunTables& tables, std::span<const PlacedProcess> processes,
                        unsigned threads, Reporter& reporter);

/// The last stage, after all processes: names, facts of the whole run, indices. Of `clocks` only the axis's begin
/// counts.
void write_run(SQLite::Database& db, const RunDirectory& run, RunTables& tables, size_t spools, const Clocks& clocks,
               int64_t ingested_at_ns, IngestSummary& summary);

}  // namespace ddl::store
