#include "store/ingest/run_facts.h"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/error.h"
#include "core/names.h"
#include "core/number.h"
#include "core/regular_file.h"
#include "store/database.h"
#include "store/ingest/align_clocks.h"
#include "store/insert.h"
#include "store/job.h"
#include "store/text.h"

namespace ddl::store {
namespace {

std::optional<int64_t> last_look_ns(const RunDirectory& run) {
  constexpr size_t kMostBytes = 64;
  try {
    const std::string text = read_regular_file(run.last_look().string(), NamedBy::kFolder, kMostBytes);
    std::string_view number = text;
    return take_number<int64_t>(number);
  } catch (const Error&) {
    return std::nullopt;  // none, or nothing that we wrote: the run can be read without it
  }
}

}  // namespace

void write_names(SQLite::Database& db) {
  Insert datatype(db, "INSERT INTO datatype VALUES (?, ?)");
  for (const NamedCode& named : kDatatypeNames) datatype.row(named.code, named.name);
  Insert reduction(db, "INSERT INTO reduction VALUES (?, ?)");
  for (const NamedCode& named : kReductionNames) reduction.row(named.code, named.name);
}

std::vector<int64_t> write_hosts(SQLite::Database& db, const std::vector<Scan>& scans, const std::vector<size_t>& order,
                                 const Clocks& clocks) {
  // A host whose processes use several clocks is described by its TSC.
  const std::vector<size_t> numbers = number_hosts(scans, order);
  std::vector<std::optional<size_t>> speaker;
  for (const size_t i : order) {
    speaker.resize(std::max(speaker.size(), numbers[i] + 1));
    std::optional<size_t>& s = speaker[numbers[i]];
    if (!s || (scans[*s].clock.kind != ClockKind::kTsc && scans[i].clock.kind == ClockKind::kTsc)) s = i;
  }
  Insert insert(db, "INSERT INTO host VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  int64_t id = 0;
  for (const std::optional<size_t> i : speaker) {
    const ProcessClock& clock = clocks.processes[*i];
    const ClockDomain& domain = clocks.domains[clock.domain];
    insert.row(++id, scans[*i].host, scans[*i].boot_id, scans[*i].clock.kind == ClockKind::kTsc ? "tsc" : "monotonic",
               1e9 / clock.line.ns_per_tick, clock.line.residual_ns, clock.offset_at_zero_ns(),
               domain.sigma_ns ? std::optional((1 / clock.pace - 1) * 1e6) : std::nullopt, domain.sigma_ns,
               name_of(domain.method));
  }
  std::vector<int64_t> hosts;
  for (const size_t number : numbers) hosts.push_back(static_cast<int64_t>(number) + 1);
  return hosts;
}

void write_meta(SQLite::Database& db, const RunDirectory& run, size_t spools, const Clocks& clocks,
                int64_t ingested_at_ns, Losses& losses) {
  const Job job = read_job(run.job());
  if (!job.problem.empty()) losses.add({}, "job_file", 1, job.problem);
  std::map<std::string, std::optional<std::string>> facts(job.facts.begin(), job.facts.end());
  facts["schema_version"] = fmt::to_string(kSchemaVersion);
  facts["epoch_realtime_ns"] = fmt::to_string(clocks.epoch_realtime_ns);
  facts["ingested_at"] = fmt::to_string(ingested_at_ns);
  facts["spools"] = fmt::to_string(spools);
  facts["duration_ns"] = db.execAndGet("SELECT coalesce(max(end_ns), 0) FROM process").getString();
  if (!job.command.empty()) {
    std::string command;
    for (const std::string& argument : job.command)
      command.append(command.empty() ? "" : " ").append(shell_quoted(argument));
    facts["command"] = command;
  }
  // What the processes say with one voice, where job.json does not know: it knows no step, and bare
  // LD_PRELOAD jobs have none.
  SQLite::Statement told(
      db,
      "SELECT key, max(value) FROM process_fact WHERE key IN ('job_id', 'job_step_id') GROUP BY key HAVING count(DISTINCT value) = 1");
  while (told.executeStep()) facts.try_emplace(told.getColumn(0).getString(), told.getColumn(1).getString());
  const auto number = [&](const char* key, const std::optional<int64_t>& value) {
    if (value) facts[key] = fmt::to_string(*value);
  };
  number("started_realtime_ns", job.started_realtime_ns);
  number("ended_realtime_ns", job.ended_realtime_ns);
  if (!job.ended_realtime_ns) number("last_look_realtime_ns", last_look_ns(run));
  number("exit_code", job.exit_code);
  number("signal", job.signal);
  Insert insert(db, "INSERT INTO meta VALUES (?, ?)");
  for (const auto& [key, value] : facts) insert.row(key, value);
}

void create_event_order(SQLite::Database& db) {
  db.exec("CREATE INDEX IF NOT EXISTS event_process ON event(process, start_ns)");
}

int64_t correct_ends(SQLite::Database& db) {
  SQLite::Statement corrected(db, R"(
    UPDATE process SET ended = 'finalized', abort_code = NULL
    WHERE ended <> 'finalized'
      AND (SELECT e.op FROM event e WHERE e.process = process.id AND e.kind = 1 ORDER BY e.start_ns DESC LIMIT 1)
          = (SELECT o.id FROM op o WHERE o.name = 'MPI_Finalize')
    RETURNING world, rank)");
  SQLite::Statement killed(db, "DELETE FROM loss WHERE kind = 'killed' AND world = ? AND rank IS ?");
  int64_t removed = 0;
  while (corrected.executeStep()) {
    killed.bind(1, corrected.getColumn(0).getInt64());
    if (corrected.getColumn(1).isNull())
      killed.bind(2);
    else
      killed.bind(2, corrected.getColumn(1).getInt64());
    removed += killed.exec();
    killed.reset();
  }
  return removed;
}

void create_indices(SQLite::Database& db) {
  create_event_order(db);
  db.exec(
      // seq first: sorting compares the first column fast, and in most jobs nearly all rows are of one communicator.
      "CREATE INDEX event_instance ON event(seq, comm) WHERE seq IS NOT NULL;"
      "CREATE INDEX gpu_event_process ON gpu_event(process, start_ns);"
      "CREATE INDEX stream_wait_process ON stream_wait(process, correlation);"
      "CREATE INDEX flight_entry_instance ON flight_entry(comm, seq);"
      "CREATE INDEX open_call_process ON open_call(process);"
      "CREATE INDEX step_process ON step(process, step);"
      "CREATE INDEX profile_process ON profile(process, op);"
      "CREATE INDEX range_profile_process ON range_profile(process, region);"
      "CREATE INDEX region_parent ON region(parent);");
}

}  // namespace ddl::store
