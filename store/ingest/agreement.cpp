#include "store/ingest/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "core/error.h"
#include "store/ingest/align_clocks.h"
#include "store/ingest/run_facts.h"
#include "store/ingest/scan.h"
#include "store/ingest/spool_table.h"
#include "store/job.h"
#include "store/ordered_work.h"

namespace ddl::store {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kReportEveryBytes = 4 << 20;

}  // namespace

void Reporter::begin(const char* stage, uint64_t total_bytes) {
  now_ = {stage, 0, total_bytes};
  reported_ = 0;
  tell();
}

void Reporter::to(uint64_t done_bytes) {
  now_.done_bytes = std::min(std::max(done_bytes, now_.done_bytes), now_.total_bytes);
  if (now_.done_bytes - reported_ >= kReportEveryBytes || now_.done_bytes == now_.total_bytes) tell();
}

void Reporter::tell() {
  reported_ = now_.done_bytes;
  if (function_) function_(now_);
}

int64_t realtime_now_ns() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<fs::path> spools_of(const RunDirectory& run) {
  std::vector<fs::path> spools = run.spools();
  if (!spools.empty()) return spools;
  const Job job = read_job(run.job());
  if (const auto gloo = job.facts.find(kGlooFact);
      gloo != job.facts.end() && job.exit_code.value_or(0) == 0 && !job.signal) {
    throw Error(fmt::format("{} holds no spools: this job communicates through Gloo ({}), which was not recorded",
                            run.directory.string(), gloo->second),
                kGlooHint, ExitCode::kDataMissing);
  }
  if (job.exit_code.value_or(0) != 0 || job.signal)
    throw Error(
        fmt::format("{} holds no spools: the job failed before any process of it was recorded", run.directory.string()),
        "see the job's output", ExitCode::kDataMissing);
  throw Error(
      fmt::format("{} holds no spools", run.directory.string()),
      "the job recorded nothing: does it call MPI, and was libddl.so (libddl-mpich.so for MPICH) preloaded in it? try: "
      "ddl doctor",
      ExitCode::kDataMissing);
}

std::vector<Scan> scan_all(const std::vector<fs::path>& spools, unsigned threads, Losses& losses, Reporter& reporter) {
  reporter.begin("scanning", spools.size());
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
  settle_identities(scans, losses);
  return scans;
}

Agreement agree(const std::vector<Scan>& scans, unsigned threads, Losses& losses, Reporter& reporter) {
  std::vector<ClockEvidence> evidence;
  uint64_t total_bytes = 0;
  for (const Scan& scan : scans) {
    evidence.push_back(scan.clock);
    total_bytes += scan.file_bytes;
  }
  Agreement agreed;
  agreed.clocks = fit_clocks(evidence);
  std::vector<int64_t> start_ns;
  for (size_t i = 0; i < scans.size(); ++i)
    start_ns.push_back(agreed.clocks.processes[i].time_ns(scans[i].header.begin.ticks));
  agreed.worlds = find_worlds(scans, start_ns);
  const std::vector<size_t> hosts_of = number_hosts(scans, agreed.worlds.order);
  if (std::any_of(hosts_of.begin(), hosts_of.end(), [](size_t host) { return host > 0; })) {
    reporter.begin("aligning clocks", total_bytes);
    agreed.clocks = align_clocks(scans, agreed.worlds, std::move(agreed.clocks), losses, threads,
                                 [&](uint64_t bytes) { reporter.add(bytes); });
  }
  add_missing_ranks(agreed.worlds, losses);
  agreed.communicators = Communicators(scans, agreed.worlds);
  for (const size_t i : agreed.worlds.order) agreed.operations.learn(scans[i]);
  return agreed;
}

uint64_t load_processes(SQLite::Database& db, RunTables& tables, std::span<const PlacedProcess> processes,
                        unsigned threads, Reporter& reporter) {
  Statements statements(db);
  SpoolTable spool_table(statements);
  MadeRows made(db);
  uint64_t total_bytes = 0, done_bytes = 0, events = 0;
  for (const PlacedProcess& process : processes) total_bytes += process.scan->file_bytes;
  reporter.begin("reading", total_bytes);
  OrderedWork<Timeline> decoded(processes.size(), threads, kSpoolsAhead,
                                [&](size_t i) { return decode_spool(*processes[i].scan); });
  for (const PlacedProcess& process : processes) {
    events += load_process(statements, spool_table, made, tables, *process.scan, decoded.next(), process.process,
                           process.host, process.place, process.clock, [&](uint64_t bytes) { reporter.add(bytes); });
    reporter.to(done_bytes += process.scan->file_bytes);
  }
  return events;
}

void write_run(SQLite::Database& db, const RunDirectory& run, RunTables& tables, size_t spools, const Clocks& clocks,
               int64_t ingested_at_ns, IngestSummary& summary) {
  summary.events += tables.nccl.write(db, tables);
  tables.operations.write(db);
  join_horovod_timeline(db, run, clocks, tables.regions, tables.losses);
  tables.regions.write(db);
  tables.gpu_names.write(db);
  tables.communicators.write(db, tables.operations.ids());
  write_meta(db, run, spools, clocks, ingested_at_ns, tables.losses);
  write_stalls(db, run, clocks, tables.losses);
  summary.losses = tables.losses.write(db);
  summary.losses -= correct_ends(db);
  create_indices(db);
}

}  // namespace ddl::store
