// Databases of ROCm's RPD (rocmProfileData, runTracer.sh), schemas 1 to 3, as its documentation describes them.
//
//   rocpd_string, rocpd_ustring    texts; the latter, from schema 3 on, those of arguments
//   rocpd_api                      calls, by process and thread. UserMarker is a range of roctx or NVTX, whose
//                                  text is its arguments
//   rocpd_op                       what GPUs did: opType says what, description which kernel
//   rocpd_api_ops                  which call gave which of them
//   rocpd_copyapi                  bytes and direction of copies, by call
//
// A file may hold several processes. Times are ns of the host's clock. A queue is a stream here: which stream of HIP an
// activity is of is not told of all. The processes of one file have its clock; their ranks are those of their GPUs, if
// each has one of its own, else the order in which they first appear. Texts of rocpd_string are held in memory.
#include <fmt/format.h>

#include <unordered_map>

#include "store/import/input_file.h"
#include "store/import/rocm_process.h"
#include "store/import/trace_database.h"

namespace ddl::store {

namespace {

class RpdFile {
 public:
  RpdFile(RocmFiles& files, const std::filesystem::path& path)
      : files_(files), file_(path.filename().string()), bytes_(file_bytes(path)), db_(path) {}

  void read() {
    db_.each("rocpd_string", {"id", "string"},
             [&](const TraceRows& row) { strings_[row.integer(0)] = row.text(1).value_or(""); });
    const bool own_arguments = db_.has("rocpd_ustring");
    const std::string arguments = own_arguments ? "rocpd_ustring" : "rocpd_string";
    if (db_.has("rocpd_api") && db_.has(arguments)) {
      db_.each_of(
          "rocpd_api",
          fmt::format(
              "SELECT a.id, a.pid, a.tid, a.start, a.\"end\", a.apiName_id, s.string FROM rocpd_api a"
              " LEFT JOIN {} s ON s.id = a.args_id AND a.apiName_id IN (SELECT id FROM rocpd_string WHERE string = 'UserMarker')",
              arguments),
          [&](const TraceRows& row) { add_call(row); });
    }
    if (db_.has("rocpd_op")) {
      const bool linked = db_.has("rocpd_api_ops") && db_.has("rocpd_api"), copies = linked && db_.has("rocpd_copyapi");
      db_.each_of(
          "rocpd_op",
          fmt::format(
              "SELECT o.id, o.gpuId, o.queueId, o.start, o.\"end\", o.description_id, o.opType_id, {} FROM rocpd_op o{}",
              !linked  ? "NULL, NULL, NULL, NULL"
              : copies ? "a.id, a.pid, c.size, c.kind"
                       : "a.id, a.pid, NULL, NULL",
              !linked
                  ? ""
                  : fmt::format(
                        " LEFT JOIN (SELECT op_id, min(api_id) AS api_id FROM rocpd_api_ops GROUP BY op_id) l ON l.op_id ="
                        " o.id LEFT JOIN rocpd_api a ON a.id = l.api_id{}",
                        copies ? " LEFT JOIN rocpd_copyapi c ON c.api_ptr_id = a.id" : "")),
          [&](const TraceRows& row) { add_activity(row); });
    }
    for (const char* table : {"rocpd_monitor", "rocpd_counter"}) {
      uint64_t rows = 0;
      db_.each(table, {"id"}, [&](const TraceRows&) { ++rows; });
      if (rows > 0) files_.unread.add(table, rows);
    }
    RankHints hints;
    for (const auto& [pid, process] : processes_) {
      hints.processes.push_back(process.number());
      files_.run.process(process.number()).host = fmt::format("host of {}", file_);  // one file has one clock
    }
    hints.devices = std::move(devices_);
    if (!hints.processes.empty()) files_.hints.push_back(std::move(hints));
  }

 private:
  std::string_view string(std::optional<int64_t> id) const {
    const auto found = id ? strings_.find(*id) : strings_.end();
    return found == strings_.end() ? std::string_view() : std::string_view(found->second);
  }

  RocmProcess& process(int64_t pid) {
    const auto known = processes_.find(pid);
    if (known != processes_.end()) return known->second;
    ImportedProcess told;
    told.file = processes_.empty() ? file_ : fmt::format("{}, process {}", file_, pid);
    told.file_bytes = processes_.empty() ? bytes_ : 0;
    told.pid = pid;
    return processes_.try_emplace(pid, files_.run, files_.run.add_process(std::move(told))).first->second;
  }

  void add_call(const TraceRows& row) {
    const int64_t start_ns = time_in_range(row.integer(2)), end_ns = time_in_range(row.integer(3));
    const std::string_view name = string(row.maybe(4));
    if (name == "UserMarker") {
      const std::string text = row.text(5).value_or("");
      if (end_ns != start_ns) process(row.integer(0)).range(row.integer(1), text, start_ns, end_ns - start_ns);
    } else if (rocm_gives_work(name)) {
      process(row.integer(0)).launch(row.integer(1), row.number(), start_ns, end_ns - start_ns);
    }
  }

  void add_activity(const TraceRows& row) {
    GpuActivity a;
    a.device = row.integer(0);
    a.stream = row.maybe(1);
    a.start_ns = time_in_range(row.integer(2));
    a.duration_ns = time_in_range(row.integer(3)) - a.start_ns;
    a.correlation = row.maybe(6).value_or(0);
    const std::string_view description = string(row.maybe(4)), type = string(row.maybe(5));
    // Those of profilers that lost the call: of the only process, or of the one that alone used this GPU so far.
    const std::optional<int64_t> pid = row.maybe(7);
    RocmProcess* of = pid ? &process(*pid) : processes_.size() == 1 ? &processes_.begin()->second : nullptr;
    if (of == nullptr)
      if (const auto user = users_.find(*a.device); user != users_.end()) of = user->second;
    if (of == nullptr) {
      ++files_.of_nobody;
      return;
    }
    if (pid) {
      const auto [user, is_new] = users_.try_emplace(*a.device, of);
      if (!is_new && user->second != of) user->second = nullptr;
    }
    devices_[of->number()].insert(*a.device);
    if (type.starts_with("Copy") || type.starts_with("Memcpy")) {
      std::string_view direction = rocm_copy_direction(type);
      if (direction.empty()) direction = rocm_copy_direction(description);
      if (direction.empty()) direction = rocm_copy_direction(row.integer_if_any(9).value_or(-1));
      a.bytes = row.integer_if_any(8);
      of->copy(direction, a);
    } else if (type == "FillBuffer" || type == "Memset") {
      a.bytes = row.integer_if_any(8);
      of->fill(a);
    } else if (type == "KernelExecution" || type == "Kernel" || type == "ConcurrentKernel" || !description.empty()) {
      of->kernel(description, a);
    } else {
      files_.unread.add(type);
    }
  }

  RocmFiles& files_;
  std::string file_;
  uint64_t bytes_;
  TraceDatabase db_;
  std::unordered_map<int64_t, std::string> strings_;
  std::map<int64_t, RocmProcess> processes_;     ///< by pid
  std::map<int64_t, RocmProcess*> users_;        ///< by GPU; null: several processes use it
  std::map<size_t, std::set<int64_t>> devices_;  ///< by process
};

}  // namespace

void read_rpd(RocmFiles& files, const std::filesystem::path& path, const BytesRead& read) {
  RpdFile(files, path).read();
  read(file_bytes(path));
}

}  // namespace ddl::store
