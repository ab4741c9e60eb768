#include "store/ingest.h"

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>
#include <malloc.h>

#include <numeric>
#include <utility>

#include "store/database.h"
#include "store/draft.h"
#include "store/ingest/agreement.h"
#include "store/ingest/run_facts.h"
#include "store/ordered_work.h"

namespace ddl {

namespace {

using namespace store;
namespace fs = std::filesystem;

IngestSummary fill(SQLite::Database& db, const RunDirectory& run, size_t spools, const std::vector<Scan>& scans,
                   Losses losses, int64_t ingested_at_ns, unsigned threads, Reporter& reporter) {
  Agreement agreed = agree(scans, threads, losses, reporter);
  RunTables tables = {std::move(agreed.operations), {}, agreed.communicators, std::move(losses), {}, {}};
  SQLite::Transaction transaction(db);
  create_event_order(db);
  write_names(db);
  const std::vector<int64_t> hosts = write_hosts(db, scans, agreed.worlds.order, agreed.clocks);
  std::vector<PlacedProcess> processes;
  for (const size_t i : agreed.worlds.order) {
    processes.push_back({&scans[i], static_cast<int64_t>(processes.size()) + 1, hosts[i], agreed.worlds.places[i],
                         agreed.clocks.processes[i]});
  }
  IngestSummary summary = {processes.size(), load_processes(db, tables, processes, threads, reporter), 0};
  reporter.begin("indexing", 1);
  write_run(db, run, tables, spools, agreed.clocks, ingested_at_ns, summary);
  transaction.commit();
  reporter.to(1);
  return summary;
}

}  // namespace

IngestSummary ingest(const RunDirectory& run, const IngestOptions& options) {
  const int64_t ingested_at_ns = realtime_now_ns();  // before the first byte is read: what changes later is newer
  const fs::path output = options.output.empty() ? run.store : options.output;
  std::error_code ignored;
  try {
    if (fs::exists(output, ignored)) open_store(output);  // throws rather than replace what is not ours
  } catch (const DamagedStore&) {
  }
  const std::vector<fs::path> spools = spools_of(run);
  Reporter reporter(options.progress);
  Losses losses;
  const unsigned threads = threads_for(options.threads);
  std::vector<Scan> scans = scan_all(spools, threads, losses, reporter);
  Draft draft(output);
  IngestSummary summary;
  try {
    const auto add_bytes = [](uint64_t sum, const Scan& scan) { return sum + scan.file_bytes; };
    SQLite::Database db =
        create_store(draft.path(), std::accumulate(scans.begin(), scans.end(), uint64_t{0}, add_bytes));
    summary = fill(db, run, spools.size(), scans, std::move(losses), ingested_at_ns, threads, reporter);
    scans = std::vector<Scan>();  // of 16,384 ranks a hundred megabytes, which the analysis has a use for
    malloc_trim(0);               // also what helper threads allocated
    if (options.finish) options.finish(db);
  } catch (const SQLite::Exception& error) {
    throw CannotWrite(fmt::format("cannot write {}: {}", output.string(), error.what()));
  }
  draft.finish();
  return summary;
}

}  // namespace ddl
