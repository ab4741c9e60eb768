// Databases of rocprofv3 (rocpd, its default since ROCm 7.0), built from their schema. Unverified on a real file.
//
// The names of all tables end with the number of the session; a file that was merged has several.
//
//   rocpd_string, rocpd_info_category   names
//   rocpd_info_node, _process, _agent   hosts, processes with their environment, CPUs and GPUs
//   rocpd_info_kernel_symbol            names of kernels
//   rocpd_event                         of which kind a row is (category), and the number of the call that it
//                                       belongs to (stack_id)
//   rocpd_region                        calls of HIP, HSA, RCCL and roctx, whose texts are the message in
//                                       the event's extdata
//   rocpd_kernel_dispatch, _memory_copy what GPUs did
//
// Up to schema 3 rows have process, thread and times of their own; newer ones refer to rocpd_track and
// rocpd_timestamp. Times are ns since the host was booted: processes of one host have one clock. Names of kernels
// and other texts are held in memory.
#include <fmt/format.h>

#include <unordered_map>

#include "store/import/input_file.h"
#include "store/import/plain_data.h"
#include "store/import/rocm_process.h"
#include "store/import/trace_database.h"

namespace ddl::store {

namespace {

constexpr std::string_view kRocpdDispatches = "rocpd_kernel_dispatch", kRocpdCopies = "rocpd_memory_copy",
                           kRocpdRegions = "rocpd_region";
constexpr size_t kMostRocpdJsonBytes = 1 << 20;  // environment of a process, message of a marker

/// Texts of a JSON object, one by one. What is no object has none.
void each_text(const std::string& json, const std::function<void(std::string_view key, std::string_view value)>& take) {
  if (json.size() > kMostRocpdJsonBytes) return;
  PlainData data;
  try {
    const PlainData::Id root = read_json_document(json, data);
    if (!data.is_dict(root)) return;
    const std::vector<PlainData::Id>& members = data.members(root);
    for (size_t i = 0; i + 1 < members.size(); i += 2) take(data.text(members[i]), data.text(members[i + 1]));
  } catch (const BadData&) {  // what a newer version writes there
  }
}

/// One session of a file.
class RocpdSession {
 public:
  RocpdSession(RocmFiles& files, TraceDatabase& db, std::string file, uint64_t bytes, std::string suffix)
      : files_(files), db_(db), file_(std::move(file)), bytes_(bytes), suffix_(std::move(suffix)) {}

  void read() {
    each("rocpd_string", {"id", "string"},
         [&](const TraceRows& row) { strings_[row.integer(0)] = row.text(1).value_or(""); });
    each("rocpd_info_category", {"id", "name"},
         [&](const TraceRows& row) { categories_[row.integer(0)] = row.text(1).value_or(""); });
    each("rocpd_info_kernel_symbol", {"id", "display_name", "kernel_name"},
         [&](const TraceRows& row) { kernels_[row.integer(0)] = row.text(1).value_or(row.text(2).value_or("")); });
    each("rocpd_info_node", {"id", "hostname"},
         [&](const TraceRows& row) { hosts_[row.integer(0)] = row.text(1).value_or(""); });
    each("rocpd_info_process", {"id", "nid", "pid", "environment"}, [&](const TraceRows& row) { add_process(row); });
    each("rocpd_info_agent", {"id", "type", "type_index", "product_name", "name"}, [&](const TraceRows& row) {
      if (row.text(1) == "GPU")
        gpus_[row.integer(0)] = {row.maybe(2).value_or(0), row.text(3).value_or(row.text(4).value_or(""))};
    });
    add_regions();
    add_dispatches();
    add_copies();
    each("rocpd_pmc_event", {"id"}, [&](const TraceRows&) { files_.unread.add("rocpd_pmc_event"); });
    for (auto& [id, process] : processes_) {
      for (const auto& [agent, gpu] : gpus_)
        if (process.used.contains(gpu.number)) files_.run.process(process.rocm.number()).gpus[gpu.number] = gpu.name;
      process.hints.processes.push_back(process.rocm.number());
      process.hints.devices[process.rocm.number()] = process.used;
      files_.hints.push_back(std::move(process.hints));
    }
  }

 private:
  struct Process {
    RocmProcess rocm;
    RankHints hints;
    std::set<int64_t> used;  ///< numbers of GPUs
  };
  struct Gpu {
    int64_t number;
    std::string name;
  };

  std::string table(std::string_view name) const { return fmt::format("{}{}", name, suffix_); }

  void each(std::string_view name, const std::vector<std::string>& columns,
            const std::function<void(const TraceRows&)>& take) {
    db_.each(table(name), columns, take);
  }

  static std::string_view in(const std::unordered_map<int64_t, std::string>& texts, std::optional<int64_t> id) {
    const auto found = id ? texts.find(*id) : texts.end();
    return found == texts.end() ? std::string_view() : std::string_view(found->second);
  }

  void add_process(const TraceRows& row) {
    const auto host = hosts_.find(row.maybe(1).value_or(-1));
    Process& process = add_process(row.integer(0), row.maybe(2), host == hosts_.end() ? std::string() : host->second);
    each_text(row.text(3).value_or(""),
              [&](std::string_view name, std::string_view value) { process.hints.add_variable(name, value); });
  }
  Process& add_process(int64_t id, std::optional<int64_t> pid, const std::string& host) {
    const auto known = processes_.find(id);
    if (known != processes_.end()) return known->second;
    ImportedProcess told;
    told.file = processes_.empty() ? file_ : fmt::format("{}, process {}", file_, pid.value_or(id));
    told.file_bytes = processes_.empty() ? bytes_ : 0;
    told.pid = pid;
    told.host = host.empty() ? fmt::format("host of {}", file_) : host;
    return processes_.try_emplace(id, Process{{files_.run, files_.run.add_process(std::move(told))}, {}, {}})
        .first->second;
  }
  Process& process(int64_t id) { return add_process(id, id, ""); }

  /// SELECT of rows with their times and events: columns `own`, then begin, end, stack_id, category_id, extdata. `own`
  /// names columns of the table r, and of what rocpd_track says of its rows.
  void each_timed(std::string_view name, const std::vector<std::string>& own,
                  const std::function<void(const TraceRows&)>& take) {
    const std::string rows = table(name);
    if (!db_.has(rows)) return;
    const bool direct = db_.has(rows, "start");
    std::string list;
    for (const std::string& column : own) {
      const bool is_own = db_.has(rows, column);
      list += is_own                                             ? fmt::format(", r.\"{}\"", column)
              : !direct && db_.has(table("rocpd_track"), column) ? fmt::format(", t.\"{}\"", column)
                                                                 : ", NULL";
    }
    const std::string times = direct ? "r.start, r.\"end\"" : "b.value, e.value";
    const std::string joined =
        direct
            ? ""
            : fmt::format(
                  " LEFT JOIN \"{}\" t ON t.id = r.track_id LEFT JOIN \"{}\" b ON b.id = r.start_id LEFT JOIN \"{}\" e ON e.id = r.end_id",
                  table("rocpd_track"), table("rocpd_timestamp"), table("rocpd_timestamp"));
    db_.each_of(
        rows,
        fmt::format(
            "SELECT r.id{}, {}, v.stack_id, v.category_id, v.extdata FROM \"{}\" r LEFT JOIN \"{}\" v ON v.id = r.event_id{}",
            list, times, rows, table("rocpd_event"), joined),
        take);
  }

  static std::pair<int64_t, int64_t> times(const TraceRows& row, int column) {
    const int64_t start_ns = time_in_range(row.integer(column));
    return {start_ns, time_in_range(row.integer(column + 1)) - start_ns};
  }

  void add_regions() {
    each_timed(kRocpdRegions, {"pid", "tid", "name_id"}, [&](const TraceRows& row) {
      const auto [start_ns, duration_ns] = times(row, 3);
      const std::optional<int64_t> category = row.maybe(6);
      const std::string_view name = in(strings_, row.maybe(2)),
                             kind = in(categories_.empty() ? strings_ : categories_, category);
      Process& of = process(row.integer(0));
      const int64_t tid = row.maybe(1).value_or(0);
      if (kind.starts_with("MARKER_CORE")) {
        each_text(row.text(7).value_or(""),
                  [&, start = start_ns, duration = duration_ns](std::string_view key, std::string_view value) {
                    if (key == "message") of.rocm.range(tid, value, start, duration);
                  });
      } else if (kind.starts_with("RCCL")) {
        of.rocm.rccl_call(tid, name, start_ns, duration_ns);
      } else if (kind.starts_with("HIP") && rocm_gives_work(name)) {
        if (const std::optional<int64_t> number = row.maybe(5)) of.rocm.launch(tid, *number, start_ns, duration_ns);
      }
    });
  }

  GpuActivity activity(const TraceRows& row, std::optional<int64_t> agent, Process& of, int first) const {
    GpuActivity a;
    const auto [start_ns, duration_ns] = times(row, first);
    a.start_ns = start_ns;
    a.duration_ns = duration_ns;
    a.correlation = row.maybe(first + 2).value_or(0);
    const auto gpu = agent ? gpus_.find(*agent) : gpus_.end();
    if (gpu != gpus_.end()) a.device = gpu->second.number;
    if (a.device) of.used.insert(*a.device);
    return a;
  }

  void add_dispatches() {
    each_timed(kRocpdDispatches, {"pid", "agent_id", "kernel_id", "stream_id", "queue_id"}, [&](const TraceRows& row) {
      Process& of = process(row.integer(0));
      GpuActivity a = activity(row, row.maybe(1), of, 5);
      a.stream = row.maybe(3);
      if (!a.stream) a.stream = row.maybe(4);
      of.rocm.kernel(in(kernels_, row.maybe(2)), a);
    });
  }

  void add_copies() {
    each_timed(kRocpdCopies, {"pid", "name_id", "dst_agent_id", "src_agent_id", "size", "stream_id", "queue_id"},
               [&](const TraceRows& row) {
                 Process& of = process(row.integer(0));
                 const std::string_view direction = rocm_copy_direction(in(strings_, row.maybe(1)));
                 GpuActivity a = activity(row, direction == "HtoD" ? row.maybe(2) : row.maybe(3), of, 7);
                 a.bytes = row.maybe(4);
                 a.stream = row.maybe(5);
                 if (!a.stream) a.stream = row.maybe(6);
                 of.rocm.copy(direction, a);
               });
  }

  RocmFiles& files_;
  TraceDatabase& db_;
  std::string file_;
  uint64_t bytes_;
  std::string suffix_;
  std::unordered_map<int64_t, std::string> strings_, categories_, kernels_;
  std::map<int64_t, std::string> hosts_;
  std::map<int64_t, Gpu> gpus_;           ///< by agent
  std::map<int64_t, Process> processes_;  ///< by rocpd_info_process.id
};

}  // namespace

void read_rocpd(RocmFiles& files, const std::filesystem::path& path, const BytesRead& read) {
  TraceDatabase db(path);
  uint64_t bytes = file_bytes(path);
  const uint64_t all_bytes = bytes;
  std::string name = path.filename().string();
  int sessions = 0;
  for (const std::string& table : db.tables()) {
    if (!table.starts_with(kRocpdDispatches)) continue;
    const std::string file = ++sessions == 1 ? name : fmt::format("{}, session {}", name, sessions);
    RocpdSession(files, db, file, bytes, table.substr(kRocpdDispatches.size())).read();
    bytes = 0;
  }
  read(all_bytes);
}

}  // namespace ddl::store
