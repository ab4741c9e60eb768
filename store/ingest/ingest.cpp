#include "store/ingest.h"

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "store/database.h"
#include "store/draft.h"
#include "store/ingest/align_clocks.h"
#include "store/ingest/communicators.h"
#include "store/ingest/identity.h"
#include "store/ingest/joined_timeline.h"
#include "store/ingest/process_load.h"
#include "store/ingest/run_facts.h"
#include "store/ingest/scan.h"
#include "store/ingest/spool_table.h"
#include "store/ingest/stall_rows.h"
#include "store/ingest/worlds.h"
#include "store/job.h"
#include "store/ordered_work.h"

namespace ddl {

namespace {

using namespace store;
namespace fs = std::filesystem;

constexpr uint64_t kReportEveryBytes = 4 << 20;

class Reporter {
 public:
  explicit Reporter(const std::function<void(const Progress&)>& function) : function_(function) {}

  void begin(const char* stage, uint64_t total_bytes) {
    now_ = {stage, 0, total_bytes};
    reported_ = 0;
    tell();
  }
  void add(uint64_t bytes) { to(now_.done_bytes + bytes); }
  void to(uint64_t done_bytes) {
    now_.done_bytes = std::min(std::max(done_bytes, now_.done_bytes), now_.total_bytes);
    if (now_.done_bytes - reported_ >= kReportEveryBytes || now_.done_bytes == now_.total_bytes) tell();
  }

 private:
  void tell() {
    reported_ = now_.done_bytes;
    if (function_) function_(now_);
  }

  const std::function<void(const Progress&)>& function_;
  Progress now_ = {"", 0, 0};
  uint64_t reported_ = 0;
};

std::vector<Scan> scan_all(const std::vector<fs::path>& spools, unsigned threads, Losses& losses, Reporter& reporter) {
  std::vector<Scan> scans;
  std::exception_ptr first_error;
  OrderedWork<Scan> work(spools.size(), threads, kSpoolsAhead, [&](size_t i) { return scan_spool(spools[i]); });
  for (const fs::path& spool : spools) {
    try {
      scans.push_back(work.next());
    } catch (const Error& error) {
      if (!first_error) first_error = std::current_exception();
      std::error_code ignored;
      const std::uintmax_t bytes = fs::file_size(spool, ignored);
      losses.add({}, "torn_spool", ignored ? 1 : std::max<uint64_t>(bytes, 1),
                 fmt::format("bytes of a spool that is not used: {}", error.what()));
    }
    reporter.add(1);
  }
  if (scans.empty() && first_error) std::rethrow_exception(first_error);
  return scans;
}

int64_t realtime_now_ns() { return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count(); }

IngestSummary fill(SQLite::Database& db, const RunDirectory& run, size_t spools, const std::vector<Scan>& scans, Losses losses,
                   int64_t ingested_at_ns, unsigned threads, Reporter& reporter) {
  std::vector<ClockEvidence> evidence;
  uint64_t total_bytes = 0;
  for (const Scan& scan : scans) {
    evidence.push_back(scan.clock);
    total_bytes += scan.file_bytes;
  }
  Clocks clocks = fit_clocks(evidence);
  std::vector<int64_t> start_ns;
  for (size_t i = 0; i < scans.size(); ++i) start_ns.push_back(clocks.processes[i].time_ns(scans[i].header.begin.ticks));
  const Worlds worlds = find_worlds(scans, start_ns);
  const std::vector<size_t> hosts_of = number_hosts(scans, worlds.order);
  if (std::any_of(hosts_of.begin(), hosts_of.end(), [](size_t host) { return host > 0; })) {
    reporter.begin("aligning clocks", total_bytes);
    clocks = align_clocks(scans, worlds, std::move(clocks), losses, threads, [&](uint64_t bytes) { reporter.add(bytes); });
  }
  add_missing_ranks(worlds, losses);
  const Communicators communicators(scans, worlds);
  RunTables tables = {{}, {}, communicators, std::move(losses), {}, {}};
  for (const size_t i : worlds.order) tables.operations.learn(scans[i]);

  SQLite::Transaction transaction(db);
  Statements statements(db);
  SpoolTable spool_table(statements);
  create_event_order(db);
  write_names(db);
  const std::vector<int64_t> hosts = write_hosts(db, scans, worlds.order, clocks);
  IngestSummary summary;
  reporter.begin("reading", total_bytes);
  uint64_t done_bytes = 0;
  OrderedWork<Timeline> decoded(worlds.order.size(), threads, kSpoolsAhead,
                                [&](size_t place) { return decode_spool(scans[worlds.order[place]]); });
  for (const size_t i : worlds.order) {
    ++summary.processes;
    summary.events += load_process(statements, spool_table, tables, scans[i], decoded.next(), static_cast<int64_t>(summary.processes),
                                   hosts[i], worlds.places[i], clocks.processes[i], [&](uint64_t bytes) { reporter.add(bytes); });
    reporter.to(done_bytes += scans[i].file_bytes);
  }
  reporter.begin("indexing", 1);
  summary.events += tables.nccl.write(db, tables);
  tables.operations.write(db);
  join_horovod_timeline(db, run, clocks, tables.regions, tables.losses);
  tables.regions.write(db);
  tables.gpu_names.write(db);
  communicators.write(db, tables.operations.ids());
  write_meta(db, run, spools, clocks, ingested_at_ns, tables.losses);
  write_stalls(db, run, clocks, tables.losses);
  summary.losses = tables.losses.write(db);
  create_indices(db);
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
  const std::vector<fs::path> spools = run.spools();
  if (spools.empty()) {
    const Job job = read_job(run.job());
    if (const auto gloo = job.facts.find(kGlooFact); gloo != job.facts.end() && job.exit_code.value_or(0) == 0 && !job.signal) {
      throw Error(fmt::format("{} holds no spools: this job talks by Gloo ({}), of which nothing is recorded", run.directory.string(),
                              gloo->second),
                  kGlooHint, ExitCode::kDataMissing);
    }
    if (job.exit_code.value_or(0) != 0 || job.signal)
      throw Error(fmt::format("{} holds no spools: the job failed before any process of it was recorded", run.directory.string()),
                  "see what it printed", ExitCode::kDataMissing);
    throw Error(fmt::format("{} holds no spools", run.directory.string()),
                "the job recorded nothing: does it call MPI, and was libddl.so (libddl-mpich.so for MPICH) preloaded in it? try: "
                "ddl doctor",
                ExitCode::kDataMissing);
  }
  Reporter reporter(options.progress);
  Losses losses;
  reporter.begin("scanning", spools.size());
  const unsigned threads = threads_for(options.threads);
  std::vector<Scan> scans = scan_all(spools, threads, losses, reporter);
  settle_identities(scans, losses);
  Draft draft(output);
  IngestSummary summary;
  try {
    const auto add_bytes = [](uint64_t sum, const Scan& scan) { return sum + scan.file_bytes; };
    SQLite::Database db = create_store(draft.path(), std::accumulate(scans.begin(), scans.end(), uint64_t{0}, add_bytes));
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
