// Reports of Nsight Systems as `nsys export --type sqlite` writes them, built from the documentation of their tables. Unverified on a real
// file.
//
// Every table may be absent, and columns have come and gone over the years: what is not there is left out. Times are ns since the session
// began. Processes are told by globalPid (vm, pid); their ranks by MPI_RANKS, else by the order in which the
// tables first name them (those of a file follow those of the files before it). StringIds, and the names of threads, are held in memory.
//
//   CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET, _SYNCHRONIZATION    what GPUs did; names in StringIds
//   CUPTI_ACTIVITY_KIND_RUNTIME                                       launches, by correlationId
//   NVTX_EVENTS                                                       ranges: 59 push/pop, 60 start/end
//   MPI_COLLECTIVES_EVENTS, MPI_P2P_EVENTS                            calls of MPI; they tell no number and no communicator
//   TARGET_INFO_GPU, TARGET_INFO_SYSTEM_ENV, TARGET_INFO_SESSION_START_TIME
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/range_names.h"
#include "core/regular_file.h"
#include "store/database.h"
#include "store/import/call_class.h"
#include "store/import/formats.h"
#include "store/import/imported_run.h"
#include "store/import/input_file.h"

namespace ddl::store {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kThreadBits = 24;  // globalTid = globalPid with the thread in its lowest bits
constexpr int64_t kPidMask = (int64_t{1} << 24) - 1;

constexpr const char* kNsysCopies[] = {"?", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
constexpr const char* kNsysMemories[] = {"pageable", "pinned", "device", "array", "managed", "device", "managed"};

template <size_t N>
const char* name_in(const char* const (&names)[N], std::optional<int64_t> code, const char* otherwise) {
  return code && *code >= 0 && static_cast<size_t>(*code) < N ? names[*code] : otherwise;
}

/// Rows of one table, and where in it we are.
class Rows {
 public:
  /// Columns that the table lacks are NULL.
  Rows(SQLite::Database& db, const std::string& table, const std::vector<std::string>& columns) : table_(table) {
    std::set<std::string> there;
    SQLite::Statement info(db, "SELECT name FROM pragma_table_info(?)");
    info.bind(1, table);
    while (info.executeStep()) there.insert(info.getColumn(0).getString());
    std::string list;
    for (const std::string& column : columns)
      list += (list.empty() ? "" : ", ") + (there.contains(column) ? fmt::format("\"{}\"", column) : "NULL");
    statement_.emplace(db, fmt::format("SELECT rowid, {} FROM \"{}\"", list, table));
  }
  bool next() { return statement_->executeStep(); }
  std::optional<int64_t> maybe(int column) const {
    const SQLite::Column value = statement_->getColumn(column + 1);
    if (value.isNull()) return std::nullopt;
    if (!value.isInteger()) throw BadRecord{fmt::format("{} is not a whole number", value.getName())};
    return value.getInt64();
  }
  int64_t integer(int column) const {
    const std::optional<int64_t> value = maybe(column);
    if (!value) throw BadRecord{fmt::format("{} is missing", statement_->getColumn(column + 1).getName())};
    return *value;
  }
  std::optional<std::string> text(int column) const {
    const SQLite::Column value = statement_->getColumn(column + 1);
    return value.isNull() ? std::nullopt : std::optional(value.getString());
  }
  std::string place() const { return fmt::format("table {}, row {}", table_, statement_->getColumn(0).getInt64()); }

 private:
  std::string table_;
  std::optional<SQLite::Statement> statement_;
};

class NsysFile {
 public:
  NsysFile(ImportedRun& run, const fs::path& path, uint64_t bytes)
      : run_(run), path_(path), bytes_(bytes), db_(checked_database(path, NamedBy::kUser), SQLite::OPEN_READONLY) {
    db_.exec("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON");
    // Views are somebody's program, which may never end.
    SQLite::Statement tables(db_, "SELECT name FROM sqlite_master WHERE type = 'table'");
    while (tables.executeStep()) tables_.insert(tables.getColumn(0).getString());
  }

  void read() {
    if (!tables_.contains("StringIds")) fail("there is no table StringIds: this is not a report of Nsight Systems");
    each("StringIds", {"id", "value"}, [&](const Rows& row) { strings_[row.integer(0)] = row.text(1).value_or(""); });
    each("TARGET_INFO_SYSTEM_ENV", {"name", "value"}, [&](const Rows& row) {
      if (row.text(0) == "Hostname") host_ = row.text(1);
    });
    each("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"}, [&](const Rows& row) { base_ns_ = in_range(row.maybe(0).value_or(0)); });
    each("TARGET_INFO_GPU", {"id", "name"}, [&](const Rows& row) { gpus_[row.integer(0)] = row.text(1).value_or(""); });
    each("MPI_RANKS", {"globalPid", "rank"},
         [&](const Rows& row) { run_.process(process(row.integer(0))).rank = rank_in(row.integer(1)); });
    each("ThreadNames", {"globalTid", "nameId"}, [&](const Rows& row) {
      const int64_t tid = row.integer(0);
      names_of_threads_[tid] = string(row.maybe(1)).value_or("");
    });
    each("NVTX_EVENTS", {"start", "end", "eventType", "globalTid", "text", "textId"}, [&](const Rows& row) { add_range(row); });
    each("CUPTI_ACTIVITY_KIND_RUNTIME", {"start", "end", "globalTid", "correlationId"}, [&](const Rows& row) {
      const auto [p, thread] = place(row.integer(2));
      if (const auto correlation = row.maybe(3)) run_.launch(p, thread, *correlation, start(row), span(row));
    });
    const std::vector<std::string> device = {"start",     "end",      "globalPid",     "deviceId",
                                             "contextId", "streamId", "correlationId", "graphNodeId"};
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), device.begin(), device.end());
      return more;
    };
    each("CUPTI_ACTIVITY_KIND_KERNEL", with({"demangledName", "shortName"}), [&](const Rows& row) {
      GpuActivity a = activity(row, DeviceKind::kKernel);
      std::string name = string(row.maybe(8)).value_or(string(row.maybe(9)).value_or("?"));
      a.name = name;
      run_.gpu(process(row.integer(2)), a);
    });
    each("CUPTI_ACTIVITY_KIND_MEMCPY", with({"bytes", "copyKind", "srcKind", "dstKind"}), [&](const Rows& row) {
      GpuActivity a = activity(row, DeviceKind::kMemcpy);
      a.bytes = row.maybe(8);
      a.copy = name_in(kNsysCopies, row.maybe(9), "?");
      a.source = name_in(kNsysMemories, row.maybe(10), "");
      a.destination = name_in(kNsysMemories, row.maybe(11), "");
      const std::string name = fmt::format("[CUDA memcpy {}]", a.copy);
      a.name = name;
      run_.gpu(process(row.integer(2)), a);
    });
    each("CUPTI_ACTIVITY_KIND_MEMSET", with({"bytes", "memKind"}), [&](const Rows& row) {
      GpuActivity a = activity(row, DeviceKind::kMemset);
      a.bytes = row.maybe(8);
      a.destination = name_in(kNsysMemories, row.maybe(9), "");
      a.name = "[CUDA memset]";
      run_.gpu(process(row.integer(2)), a);
    });
    each("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", device, [&](const Rows& row) {
      GpuActivity a = activity(row, DeviceKind::kSynchronize);
      a.device.reset();
      a.name = "[CUDA synchronisation]";
      run_.gpu(process(row.integer(2)), a);
    });
    each("MPI_COLLECTIVES_EVENTS", {"start", "end", "globalTid", "textId", "size"}, [&](const Rows& row) { add_call(row); });
    each("MPI_P2P_EVENTS", {"start", "end", "globalTid", "textId", "size", "tag"}, [&](const Rows& row) { add_call(row, row.maybe(5)); });
    for (const auto& [pid, number] : processes_) {
      ImportedProcess& p = run_.process(number);
      p.base_ns = base_ns_;
      p.is_realtime = base_ns_ != 0;
      p.host = host_;
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(fmt::format("{}, {}", path_.string(), what), "", ExitCode::kDataMissing);
  }

  void each(const std::string& table, const std::vector<std::string>& columns, const std::function<void(const Rows&)>& take) {
    if (!tables_.contains(table)) return;
    std::string place = fmt::format("table {}", table);
    try {
      Rows rows(db_, table, columns);
      while (rows.next()) {
        try {
          take(rows);
        } catch (const BadRecord& bad) {
          fail(fmt::format("{}: {}", rows.place(), bad.what));
        }
      }
    } catch (const SQLite::Exception& error) {
      fail(fmt::format("{}: {}", place, error.what()));
    }
  }

  static int64_t rank_in(int64_t rank) {
    if (rank < 0 || rank >= kMaxRanks) throw BadRecord{fmt::format("rank {}", rank)};
    return rank;
  }

  /// The difference of two is an int64_t.
  static int64_t in_range(int64_t time_ns) {
    constexpr int64_t kLatestTimeNs = 4'000'000'000'000'000'000;
    if (time_ns < -kLatestTimeNs || time_ns > kLatestTimeNs) throw BadRecord{"its time is out of range"};
    return time_ns;
  }
  // Columns 0 and 1 of everything that takes time.
  static int64_t start(const Rows& row) { return in_range(row.integer(0)); }
  static int64_t span(const Rows& row) { return in_range(row.integer(1)) - start(row); }

  std::optional<std::string> string(std::optional<int64_t> id) const {
    if (!id) return std::nullopt;
    const auto found = strings_.find(*id);
    return found == strings_.end() ? std::nullopt : std::optional(found->second);
  }

  /// `global`: globalPid, or globalTid, of which the lowest bits are the thread's.
  size_t process(int64_t global) {
    const int64_t id = global >> kThreadBits;
    const auto known = processes_.find(id);
    if (known != processes_.end()) return known->second;
    ImportedProcess process;
    process.file = processes_.empty() ? path_.filename().string() : fmt::format("{}, process {}", path_.filename().string(), id & kPidMask);
    process.file_bytes = processes_.empty() ? bytes_ : 0;
    process.pid = id & kPidMask;
    process.gpus = gpus_;
    return processes_[id] = run_.add_process(std::move(process));
  }

  std::pair<size_t, uint32_t> place(int64_t global_tid) {
    const size_t number = process(global_tid);
    const auto known = threads_.find(global_tid);
    if (known != threads_.end()) return {number, known->second};
    const uint32_t thread = run_.thread(number, fmt::to_string(global_tid), global_tid & kPidMask);
    if (const auto name = names_of_threads_.find(global_tid); name != names_of_threads_.end())
      run_.name_thread(number, thread, name->second);
    threads_[global_tid] = thread;
    return {number, thread};
  }

  static GpuActivity activity(const Rows& row, DeviceKind kind) {
    GpuActivity a;
    a.kind = kind;
    a.start_ns = start(row);
    a.duration_ns = span(row);
    a.device = row.maybe(3);
    a.context = row.maybe(4);
    a.stream = row.maybe(5);
    a.correlation = row.maybe(6).value_or(0);
    a.graph_node = row.maybe(7);
    if (a.graph_node == 0) a.graph_node.reset();
    return a;
  }

  void add_range(const Rows& row) {
    constexpr int64_t kPushPop = 59, kStartEnd = 60;
    const std::optional<int64_t> type = row.maybe(2);
    if ((type != kPushPop && type != kStartEnd) || !row.maybe(1)) return;
    const std::string written = row.text(4).value_or(string(row.maybe(5)).value_or(""));
    const auto [p, thread] = place(row.integer(3));
    const RangeName name = parse_range_name(written.data(), written.size(), nullptr);
    if (name.kind == 0) return;
    const auto kind = static_cast<ContextKind>(name.kind);
    if (kind != ContextKind::kStep) {
      const auto seq = name.numbers.has_seq ? std::optional(static_cast<int64_t>(name.numbers.seq)) : std::nullopt;
      run_.range(p, thread, kind, {name.text, name.length}, start(row), span(row), seq);
      return;
    }
    int64_t number = next_step_[p];
    if (name.has_step && name.step <= INT32_MAX) number = static_cast<int64_t>(name.step);
    next_step_[p] = number + 1;
    run_.step(p, thread, number, start(row), span(row));
  }

  void add_call(const Rows& row, std::optional<int64_t> tag = std::nullopt) {
    const std::string name = string(row.maybe(3)).value_or("MPI_?");
    const CallClass call = class_of_call(name);
    ImportedOperation operation;
    operation.op = name;
    operation.op_class = call.op_class;
    operation.nonblocking = call.nonblocking;
    operation.payload_bytes = std::max<int64_t>(0, row.maybe(4).value_or(0));
    operation.tag = tag;
    const auto [p, thread] = place(row.integer(2));
    run_.call(p, thread, operation, ImportedTiming::kCall, start(row), span(row));
  }

  ImportedRun& run_;
  fs::path path_;
  uint64_t bytes_;
  SQLite::Database db_;
  std::set<std::string> tables_;
  std::unordered_map<int64_t, std::string> strings_;
  std::map<int64_t, std::string> gpus_, names_of_threads_;
  std::map<int64_t, size_t> processes_;  ///< by globalPid without its lowest bits
  std::map<int64_t, uint32_t> threads_;  ///< by globalTid
  std::map<size_t, int64_t> next_step_;
  std::optional<std::string> host_;
  int64_t base_ns_ = 0;
};

}  // namespace

void read_nsys(ImportedRun& run, const std::vector<fs::path>& files, const BytesRead& read) {
  for (const fs::path& path : files) {
    InputFile(path, {});  // says why, if it cannot be opened
    const uint64_t bytes = file_bytes(path);
    try {
      NsysFile(run, path, bytes).read();
    } catch (const SQLite::Exception& error) {
      throw Error(fmt::format("{}, byte 0: {}", path.string(), error.what()), "export the report again: nsys export --type sqlite",
                  ExitCode::kDataMissing);
    }
    read(bytes);
  }
}

}  // namespace ddl::store
