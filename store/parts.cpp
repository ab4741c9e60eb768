#include "store/parts.h"

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "store/archive.h"
#include "store/database.h"
#include "store/draft.h"
#include "store/ingest/agreement.h"
#include "store/ingest/run_facts.h"
#include "store/insert.h"
#include "store/ordered_work.h"

namespace ddl {

namespace {

using namespace store;
namespace fs = std::filesystem;

constexpr const char* kPlanName = "plan.sqlite";
constexpr const char* kPlanAgain = "make the plan, and then all parts: ddl analyze RUN --prepare";

struct ListedSpool {
  std::string name;
  uint64_t bytes = 0;
  int64_t changed_ns = 0;
  bool operator==(const ListedSpool&) const = default;
  void archive(Archive& a) { a(name, bytes, changed_ns); }
};

/// What the plan says of one process; process.id is its place.
struct PlannedProcess {
  uint64_t spool = 0;  ///< in Plan::spools
  uint64_t bytes = 0;
  int32_t rank = -1, world_size = 0;
  bool became_other = false;
  int64_t host = 0;
  Place place = {};
  ProcessClock clock = {};
  void archive(Archive& a) { a(spool, bytes, rank, world_size, became_other, host, place, clock); }
};

struct Plan {
  std::string id;
  int64_t begun_at_ns = 0;
  int64_t epoch_realtime_ns = 0;
  std::vector<ListedSpool> spools;
  std::vector<PlannedProcess> processes;
  Communicators communicators;
  Operations operations;
  Losses losses;
  void archive(Archive& a) { a(id, begun_at_ns, epoch_realtime_ns, spools, processes, communicators, operations, losses); }
};

/// What the rows of a part do not say.
struct PartState {
  std::string plan;  ///< its id
  unsigned number = 0, of = 0;
  uint64_t first = 0, processes = 0, events = 0;
  std::vector<std::string> tables;  ///< that have rows
  Operations operations;
  Regions regions;
  GpuNames gpu_names;
  NcclCollectives nccl;
  Losses losses;
  void archive(Archive& a) { a(plan, number, of, first, processes, events, tables, operations, regions, gpu_names, nccl, losses); }
};

std::vector<ListedSpool> files_of(const std::vector<fs::path>& spools) {
  std::vector<ListedSpool> files;
  for (const fs::path& spool : spools) {
    struct stat status {};
    stat(spool.c_str(), &status);
    files.push_back({spool.filename().string(), static_cast<uint64_t>(status.st_size),
                     int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec});
  }
  return files;
}

/// A file of the folder, while it is made: with the tables of a store.
SQLite::Database create_file(const fs::path& path) {
  SQLite::Database db = create_store(path);
  db.exec(fmt::format("PRAGMA application_id = {}; CREATE TABLE kept (kind TEXT PRIMARY KEY, version TEXT NOT NULL, content BLOB NOT NULL)",
                      kPartsApplicationId));
  return db;
}

template <class Kept>
void keep(SQLite::Database& db, const char* kind, Kept& kept) {
  Archive archive;
  archive(kept);
  const std::string& bytes = archive.bytes();
  Insert(db, "INSERT INTO kept VALUES (?, ?, ?)")
      .row(kind, DDL_VERSION, std::span(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

Error unusable(const fs::path& path, const std::string& why, const std::string& hint) {
  return Error(fmt::format("cannot use {}: {}", path.string(), why), hint, ExitCode::kDataMissing);
}

template <class Kept>
Kept read_kept(const fs::path& path, const char* kind, const std::string& hint) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(path, ignored))) throw unusable(path, "there is no such file", hint);
  try {
    SQLite::Database db = open_store(path, Access::kRead, kPartsApplicationId);
    SQLite::Statement row(db, "SELECT version, content FROM kept WHERE kind = ?");
    row.bind(1, kind);
    if (!row.executeStep()) throw unusable(path, fmt::format("it is not a {}", kind), hint);
    if (const std::string version = row.getColumn(0).getString(); version != DDL_VERSION)
      throw unusable(path, fmt::format("ddl {} made it, and this is {}", version, DDL_VERSION), hint);
    const SQLite::Column content = row.getColumn(1);
    Archive archive(std::string_view(static_cast<const char*>(content.getBlob()), static_cast<size_t>(content.getBytes())));
    Kept kept;
    archive(kept);
    return kept;
  } catch (const SQLite::Exception& error) {
    throw unusable(path, error.what(), hint);
  } catch (const Error& error) {
    throw Error(error.what(), hint, error.code());
  }
}

Plan read_plan(const RunDirectory& run) {
  Plan plan = read_kept<Plan>(plan_file(run), "plan", kPlanAgain);
  if (plan.spools != files_of(run.spools()))
    throw unusable(plan_file(run), "the run has changed since, or it is the plan of another run", kPlanAgain);
  return plan;
}

PartState read_part(const RunDirectory& run, PartNumber number, const Plan& plan) {
  const fs::path path = part_file(run, number);
  const std::string again = fmt::format("make it: ddl analyze {} --part {}/{}", run.directory.string(), number.number, number.of);
  PartState part = read_kept<PartState>(path, "part", again);
  if (part.plan != plan.id) throw unusable(path, "it was made by another plan", again);
  if (part.number != number.number || part.of != number.of)
    throw unusable(path, fmt::format("it is part {} of {}", part.number, part.of), again);
  return part;
}

/// Where the parts begin and end among the processes: about equal in bytes.
std::vector<size_t> borders(const Plan& plan, unsigned parts) {
  uint64_t total = 0, before = 0;
  for (const PlannedProcess& process : plan.processes) total += process.bytes;
  std::vector<size_t> ends = {0};
  for (size_t i = 0; i < plan.processes.size(); before += plan.processes[i++].bytes) {
    // A process is in the part in which its middle lies.
    const auto part =
        static_cast<size_t>(static_cast<double>(2 * before + plan.processes[i].bytes) / 2 * parts / static_cast<double>(total));
    while (ends.size() <= std::min<size_t>(part, parts - 1)) ends.push_back(i);
  }
  ends.resize(parts + 1, plan.processes.size());
  return ends;
}

void make_folder(const RunDirectory& run) {
  const fs::path folder = parts_folder(run);
  struct stat status {};
  if (mkdir(folder.c_str(), 0700) == 0) return;
  const int reason = errno;
  if (reason == EEXIST && lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return;
  throw CannotWrite(fmt::format("cannot write {}: {}", folder.string(), reason == EEXIST ? "something else is there" : strerror(reason)),
                    "parts lie in the run; where that cannot be written, ddl report reads it in one process");
}

/// Ids of a part -> ids of the store, for columns of tables that are copied.
struct Ids {
  std::vector<uint32_t> ops, gpu_names;
  Regions::Ids regions;
  int64_t events = 0, gpu_events = 0;  ///< to be added
};

bool are_equal(const std::vector<uint32_t>& ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != i) return false;
  }
  return true;
}

void look_up(sqlite3_context* context, int, sqlite3_value** id) {
  const auto& ids = *static_cast<const std::vector<uint32_t>*>(sqlite3_user_data(context));
  if (sqlite3_value_type(*id) == SQLITE_NULL) return;
  const auto at = static_cast<size_t>(sqlite3_value_int64(*id));
  if (at < ids.size())
    sqlite3_result_int64(context, ids[at]);
  else
    sqlite3_result_error(context, "a number that the part does not describe", -1);
}

/// What stands for a column of `table` of a part in the statement that copies it.
std::string copied(const std::string& table, const std::string& column, const Ids& ids) {
  const auto looked_up = [&](const char* function, const std::vector<uint32_t>& numbers) {
    return are_equal(numbers) ? column : fmt::format("{}({})", function, column);
  };
  const auto moved = [&](int64_t by) { return by == 0 ? column : fmt::format("{} + {}", column, by); };
  if (column == "op") return looked_up("op_of", ids.ops);
  if (column == "region") return looked_up("region_of", ids.regions.regions);
  if (column == "site") return looked_up("site_of", ids.regions.sites);
  if (table == "gpu_event" && column == "name") return looked_up("gpu_name_of", ids.gpu_names);
  if (table == "event" && column == "id") return moved(ids.events);
  if ((table == "gpu_event" && column == "id") || (table == "nccl_phase" && column == "gpu_event")) return moved(ids.gpu_events);
  return column;
}

/// Rows that the ingest writes in the order of ids, which is another one by the store's. By the numbers of the columns.
const char* order_of(const std::string& table) {
  if (table == "profile") return " ORDER BY 1, 2, 3, 4, 5, 6";
  if (table == "range_profile") return " ORDER BY 1, 2";
  if (table == "counter_profile") return " ORDER BY 1, 2, 3";
  return "";
}

std::set<std::string> tables_in(SQLite::Database& db) {
  std::set<std::string> names;
  SQLite::Statement row(db, "SELECT name FROM main.sqlite_master WHERE type = 'table'");
  while (row.executeStep()) names.insert(row.getColumn(0).getString());
  return names;
}

/// The rows of `tables`, in their order, from the file.
void copy_tables(SQLite::Database& db, const fs::path& file, const std::vector<std::string>& tables, const Ids& ids) {
  const std::pair<const char*, const std::vector<uint32_t>*> functions[] = {
      {"op_of", &ids.ops}, {"region_of", &ids.regions.regions}, {"site_of", &ids.regions.sites}, {"gpu_name_of", &ids.gpu_names}};
  for (const auto& [name, numbers] : functions) {
    sqlite3_create_function_v2(db.getHandle(), name, 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, const_cast<std::vector<uint32_t>*>(numbers),
                               look_up, nullptr, nullptr, nullptr);
  }
  SQLite::Statement attach(db, "ATTACH ? AS part");
  attach.bind(1, as_attached(file));
  attach.exec();
  SQLite::Transaction transaction(db);
  const std::set<std::string> known = tables_in(db);
  for (const std::string& table : tables) {
    if (!known.contains(table)) throw unusable(file, "it has a table that a store has not", kPlanAgain);
    std::string columns;
    bool as_they_are = true;
    SQLite::Statement column(db, fmt::format("SELECT name FROM pragma_table_info('{}')", table));
    while (column.executeStep()) {
      const std::string name = column.getColumn(0).getString();
      const std::string value = copied(table, name, ids);
      columns += (columns.empty() ? "" : ", ") + value;
      as_they_are = as_they_are && value == name;
    }
    // `*`: SQLite then copies rows as they lie. Links of a host are told by each of its processes.
    db.exec(fmt::format("INSERT {}INTO main.{} SELECT {} FROM part.{}{}", table == "nvlink" ? "OR IGNORE " : "", table,
                        as_they_are ? "*" : columns, table, as_they_are ? "" : order_of(table)));
  }
  transaction.commit();
  db.exec("DETACH part");
}

std::vector<std::string> filled_tables(SQLite::Database& db) {
  std::vector<std::string> filled;
  for (const std::string& table : tables_in(db)) {
    if (table != "kept" && db.execAndGet(fmt::format("SELECT EXISTS (SELECT 1 FROM {})", table)).getInt() != 0) filled.push_back(table);
  }
  return filled;
}

int64_t most(SQLite::Database& db, const char* table) {
  return db.execAndGet(fmt::format("SELECT coalesce(max(id), 0) FROM {}", table)).getInt64();
}

/// K and N in the name of a part; nothing: it is another file.
std::optional<PartNumber> number_in(const std::string& name) {
  static const std::regex kPart("part-([1-9][0-9]{0,5})-of-([1-9][0-9]{0,5})\\.sqlite");
  std::smatch match;
  if (!std::regex_match(name, match, kPart)) return std::nullopt;
  return PartNumber{static_cast<unsigned>(std::stoul(match[1])), static_cast<unsigned>(std::stoul(match[2]))};
}

/// How many parts the division has of which all are there.
unsigned complete_division(const RunDirectory& run) {
  std::map<unsigned, std::set<unsigned>> there;
  std::error_code error;
  for (fs::directory_iterator entry(parts_folder(run), error), end; !error && entry != end; entry.increment(error)) {
    if (const auto part = number_in(entry->path().filename().string()); part && part->number <= part->of)
      there[part->of].insert(part->number);
  }
  unsigned nearest = 0;
  for (const auto& [of, numbers] : there) {
    if (numbers.size() == of) return of;
    if (nearest == 0 || of - numbers.size() < nearest - there[nearest].size()) nearest = of;
  }
  if (nearest == 0)
    throw Error(fmt::format("{} has no parts", run.directory.string()), "make them: ddl analyze RUN --part K/N", ExitCode::kDataMissing);
  unsigned first = 1;
  while (there[nearest].contains(first)) ++first;
  throw Error(fmt::format("{} of {} parts of {} are missing: part {} is one", nearest - there[nearest].size(), nearest,
                          run.directory.string(), first),
              fmt::format("make it: ddl analyze {} --part {}/{}", run.directory.string(), first, nearest), ExitCode::kDataMissing);
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
  make_folder(run);
  Draft draft(plan_file(run));
  try {
    SQLite::Database db = create_file(draft.path());
    SQLite::Transaction transaction(db);
    write_names(db);
    const std::vector<int64_t> hosts = write_hosts(db, scans, agreed.worlds.order, agreed.clocks);
    for (const size_t i : agreed.worlds.order) {
      plan.processes.push_back({places.at(scans[i].reader->path()), std::max<uint64_t>(1, scans[i].file_bytes), scans[i].rank,
                                scans[i].world_size, scans[i].became_other, hosts[i], agreed.worlds.places[i], agreed.clocks.processes[i]});
    }
    keep(db, "plan", plan);
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
    placed.push_back({&scans[i], static_cast<int64_t>(first + i) + 1, processes[i].host, processes[i].place, processes[i].clock});

  Draft draft(part_file(run, number));
  try {
    SQLite::Database db = create_file(draft.path());
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
    keep(db, "part", state);
    transaction.commit();
  } catch (const SQLite::Exception& error) {
    throw CannotWrite(fmt::format("cannot write {}: {}", part_file(run, number).string(), error.what()));
  } catch (const std::out_of_range&) {
    throw unusable(plan_file(run), "a process has a communicator that it does not know: the run has changed since", kPlanAgain);
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
      if (part.first != processes) throw unusable(part_file(run, {number, of}), "it does not follow on the part before", kPlanAgain);
      processes += part.processes;
      summary.events += part.events;
      const Ids ids = {tables.operations.append(part.operations), tables.gpu_names.append(part.gpu_names),
                       tables.regions.append(part.regions), most(db, "event"), most(db, "gpu_event")};
      copy_tables(db, part_file(run, {number, of}), part.tables, ids);
      tables.nccl.append(std::move(part.nccl), ids.ops, ids.regions.regions, ids.regions.sites);
      tables.losses.append(part.losses);
      reporter.add(1);
    }
    if (processes != plan.processes.size()) throw unusable(plan_file(run), "it has processes that are in no part", kPlanAgain);
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
  std::error_code error, ignored;
  for (fs::directory_iterator entry(parts_folder(run), error), end; !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().filename().string();
    const size_t draft = name.find(".tmp.");
    name.resize(std::min(name.size(), draft));
    const std::string of_log = fs::path(name).replace_extension(".sqlite").string();
    const bool is_log = name.ends_with(".log") && (name == "merge.log" || number_in(of_log));
    if (is_log || number_in(name) || (name == kPlanName && draft != std::string::npos)) fs::remove(entry->path(), ignored);
  }
  fs::remove(plan_file(run), ignored);  // last: who waits for a merge looks for it
  fs::remove(parts_folder(run), ignored);
}

}  // namespace ddl
