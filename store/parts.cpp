#include "store/parts.h"

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "store/database.h"
#include "store/draft.h"
#include "store/ingest/agreement.h"
#include "store/ingest/copied_rows.h"
#include "store/ingest/part_files.h"
#include "store/ingest/run_facts.h"
#include "store/ordered_work.h"

namespace ddl {

namespace {

using namespace store;
namespace fs = std::filesystem;

/// Where the parts begin and end among the processes: about equal in bytes.
std::vector<size_t> borders(const Plan& plan, unsigned parts) {
  uint64_t total = 0, before = 0;
  for (const PlannedProcess& process : plan.processes) total += process.bytes;
  std::vector<size_t> ends = {0};
  for (size_t i = 0; i < plan.processes.size(); before += plan.processes[i++].bytes) {
    // A process is in the part in which its middle lies.
    const auto part = static_cast<size_t>(static_cast<double>(2 * before + plan.processes[i].bytes) / 2 * parts /
                                          static_cast<double>(total));
    while (ends.size() <= std::min<size_t>(part, parts - 1)) ends.push_back(i);
  }
  ends.resize(parts + 1, plan.processes.size());
  return ends;
}

int64_t most(SQLite::Database& db, const char* table) {
  return db.execAndGet(fmt::format("SELECT coalesce(max(id), 0) FROM {}", table)).getInt64();
}

/// Nothing where something else has the folder's name, a link to a folder included.
std::vector<fs::path> in_parts_folder(const RunDirectory& run) {
  std::vector<fs::path> found;
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(parts_folder(run), error))) return found;
  for (fs::directory_iterator entry(parts_folder(run), error), end; !error && entry != end; entry.increment(error))
    found.push_back(entry->path());
  return found;
}

/// How many parts the division has of which all are there.
unsigned complete_division(const RunDirectory& run) {
  std::map<unsigned, std::set<unsigned>> there;
  for (const fs::path& file : in_parts_folder(run))
    if (const auto part = number_in(file.filename().string()); part && part->number <= part->of)
      there[part->of].insert(part->number);
  unsigned nearest = 0;
  for (const auto& [of, numbers] : there) {
    if (numbers.size() == of) return of;
    if (nearest == 0 || of - numbers.size() < nearest - there[nearest].size()) nearest = of;
  }
  if (nearest == 0)
    throw Error(fmt::format("{} has no parts", run.directory.string()), "make them: ddl analyze RUN --part K/N",
                ExitCode::kDataMissing);
  unsigned first = 1;
  while (there[nearest].contains(first)) ++first;
  throw Error(fmt::format("{} of {} parts of {} are missing, among them part {}", nearest - there[nearest].size(),
                          nearest, run.directory.string(), first),
              fmt::format("make it: ddl analyze {} --part {}/{}", run.directory.string(), first, nearest),
              ExitCode::kDataMissing);
}

}  // namespace

fs::path parts_folder(const RunDirectory& run) { return run.directory / "parts"; }
fs::path plan_file(const RunDirectory& run) { return parts_folder(run) / kPlanName; }
fs::path part_file(const RunDirectory& run, PartNumber part) {
  return parts_folder(run) / fmt::format("part-{}-of-{}.sqlite", part.number, part.of);
}

uint64_t prepare_parts(const RunDirectory& run, const IngestOptions& options) {
  Plan plan;
  plan.begun_at_ns = realtime_now_ns();  // before the first byte is read: what changes later is newer
  const std::vector<fs::path> spools = spools_of(run);
  plan.spools = files_of(spools);
  std::random_device random;
  plan.id = fmt::format("{:08x}{:08x}", random(), random());
  Reporter reporter(options.progress);
  const unsigned threads = threads_for(options.threads);
  const std::vector<Scan> scans = scan_all(spools, threads, plan.losses, reporter);
  Agreement agreed = agree(scans, threads, plan.losses, reporter);
  plan.epoch_realtime_ns = agreed.clocks.epoch_realtime_ns;
  plan.communicators = std::move(agreed.communicators);
  plan.operations = std::move(agreed.operations);
  std::map<std::string, uint64_t> places;
  for (const fs::path& spool : spools) places.emplace(spool.string(), places.size());

  remove_parts(run);
  make_parts_folder(run);
  Draft draft(plan_file(run));
  try {
    SQLite::Database db = create_parts_file(draft.path());
    SQLite::Transaction transaction(db);
    write_names(db);
    const std::vector<int64_t> hosts = write_hosts(db, scans, agreed.worlds.order, agreed.clocks);
    for (const size_t i : agreed.worlds.order) {
      plan.processes.push_back({places.at(scans[i].reader->path()), std::max<uint64_t>(1, scans[i].file_bytes),
                                scans[i].rank, scans[i].world_size, scans[i].became_other, hosts[i],
                                agreed.worlds.places[i], agreed.clocks.processes[i]});
    }
    keep(db, plan);
    transaction.commit();
  } catch (const SQLite::Exception& error) {
    throw CannotWrite(fmt::format("cannot write {}: {}", plan_file(run).string(), error.what()));
  }
  draft.finish();
  return plan.processes.size();
}

bool is_prepared(const RunDirectory& run) {
  try {
    read_plan(run);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void make_part(const RunDirectory& run, PartNumber number, const IngestOptions& options) {
  Plan plan = read_plan(run);
  const std::vector<size_t> ends = borders(plan, number.of);
  const size_t first = ends[number.number - 1], count = ends[number.number] - first;
  const auto processes = std::span(plan.processes).subspan(first, count);
  const unsigned threads = threads_for(options.threads);
  Reporter reporter(options.progress);
  reporter.begin("scanning", count);
  std::vector<Scan> scans;
  OrderedWork<Scan> work(count, threads, kSpoolsAhead,
                         [&](size_t i) { return scan_spool(run.directory / plan.spools.at(processes[i].spool).name); });
  for (const PlannedProcess& process : processes) {
    Scan& scan = scans.emplace_back(work.next());
    scan.rank = process.rank;
    scan.world_size = process.world_size;
    scan.became_other = process.became_other;
    reporter.add(1);
  }
  std::vector<PlacedProcess> placed;
  for (size_t i = 0; i < count; ++i)
    placed.push_back(
        {&scans[i], static_cast<int64_t>(first + i) + 1, processes[i].host, processes[i].place, processes[i].clock});

  Draft draft(part_file(run, number));
  try {
    SQLite::Database db = create_parts_file(draft.path());
    SQLite::Transaction transaction(db);
    RunTables tables = {std::move(plan.operations), {}, plan.communicators, {}, {}, {}};
    PartState state;
    state.events = load_processes(db, tables, placed, threads, reporter);
    state.plan = plan.id;
    state.number = number.number;
    state.of = number.of;
    state.first = first;
    state.processes = count;
    state.tables = filled_tables(db);
    state.operations = std::move(tables.operations);
    state.regions = std::move(tables.regions);
    state.gpu_names = std::move(tables.gpu_names);
    state.nccl = std::move(tables.nccl);
    state.losses = std::move(tables.losses);
    keep(db, state);
    transaction.commit();
  } catch (const SQLite::Exception& error) {
    throw CannotWrite(fmt::format("cannot write {}: {}", part_file(run, number).string(), error.what()));
  } catch (const std::out_of_range&) {
    throw unusable(plan_file(run), "a process has a communicator that it does not know: the run has changed since");
  }
  draft.finish();
}

std::vector<unsigned> missing_parts(const RunDirectory& run, unsigned of) {
  const Plan plan = read_plan(run);
  std::vector<unsigned> missing;
  for (unsigned number = 1; number <= of; ++number) {
    try {
      read_part(run, {number, of}, plan);
    } catch (const Error&) {
      missing.push_back(number);
    }
  }
  return missing;
}

unsigned parts_made(const RunDirectory& run, unsigned of) {
  unsigned made = 0;
  std::error_code ignored;
  for (unsigned number = 1; number <= of; ++number) made += fs::exists(part_file(run, {number, of}), ignored) ? 1 : 0;
  return made;
}

IngestSummary merge_parts(const RunDirectory& run, const IngestOptions& options) {
  Plan plan = read_plan(run);
  const unsigned of = complete_division(run);
  const fs::path output = options.output.empty() ? run.store : options.output;
  std::error_code ignored;
  try {
    if (fs::exists(output, ignored)) open_store(output);  // throws rather than replace what is not ours
  } catch (const DamagedStore&) {
  }
  uint64_t bytes = 0;
  for (const PlannedProcess& process : plan.processes) bytes += process.bytes;
  Reporter reporter(options.progress);
  Draft draft(output);
  IngestSummary summary = {plan.processes.size(), 0, 0};
  try {
    SQLite::Database db = create_store(draft.path(), bytes);
    RunTables tables = {std::move(plan.operations), {}, plan.communicators, std::move(plan.losses), {}, {}};
    create_event_order(db);
    reporter.begin("merging", of);
    copy_tables(db, plan_file(run), {"datatype", "reduction", "host"}, {});
    uint64_t processes = 0;
    for (unsigned number = 1; number <= of; ++number) {
      PartState part = read_part(run, {number, of}, plan);
      if (part.first != processes)
        throw unusable(part_file(run, {number, of}), "it does not follow on the part before");
      processes += part.processes;
      summary.events += part.events;
      const PartIds ids = {tables.operations.append(part.operations), tables.gpu_names.append(part.gpu_names),
                           tables.regions.append(part.regions), most(db, "event"), most(db, "gpu_event")};
      copy_tables(db, part_file(run, {number, of}), part.tables, ids);
      tables.nccl.append(std::move(part.nccl), ids.ops, ids.regions.regions, ids.regions.sites);
      tables.losses.append(part.losses);
      reporter.add(1);
    }
    if (processes != plan.processes.size()) throw unusable(plan_file(run), "it has processes that are in no part");
    reporter.begin("indexing", 1);
    Clocks clocks;
    clocks.epoch_realtime_ns = plan.epoch_realtime_ns;
    SQLite::Transaction transaction(db);
    write_run(db, run, tables, plan.spools.size(), clocks, plan.begun_at_ns, summary);
    transaction.commit();
    reporter.to(1);
    if (options.finish) options.finish(db);
  } catch (const SQLite::Exception& error) {
    throw CannotWrite(fmt::format("cannot write {}: {}", output.string(), error.what()));
  }
  draft.finish();
  return summary;
}

void remove_parts(const RunDirectory& run) {
  std::error_code ignored;
  for (const fs::path& file : in_parts_folder(run)) {
    std::string name = file.filename().string();
    const size_t draft = name.find(".tmp.");
    name.resize(std::min(name.size(), draft));
    const std::string of_log = fs::path(name).replace_extension(".sqlite").string();
    const bool is_log = name.ends_with(".log") && (name == "merge.log" || number_in(of_log));
    if (is_log || number_in(name) || (name == kPlanName && draft != std::string::npos)) fs::remove(file, ignored);
  }
  if (!fs::is_directory(fs::symlink_status(parts_folder(run), ignored))) return;
  fs::remove(plan_file(run), ignored);  // last: who waits for a merge looks for it
  fs::remove(parts_folder(run), ignored);
}

}  // namespace ddl
