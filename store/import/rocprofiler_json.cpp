// JSON of rocprofv3 (--output-format json), built from its schema. Unverified on a real file.
//
//   rocprofiler-sdk-tool[process]
//     metadata                  pid, host, environment
//     agents                    CPUs and GPUs, by handle
//     strings.buffer_records    names of kinds and their operations, by their place; marker_api: texts of
//                               roctx, by correlation
//     kernel_symbols            names of kernels
//     buffer_records            kernel_dispatch, memory_copy, hip_api, rccl_api, marker_api; other lists are counted
//
// Read as a stream: names come before what they name. Times are ns since the host was booted: processes of one host
// have one clock. What is held in memory are those names, and a number for each marker.
#include <fmt/format.h>

#include <unordered_map>

#include "core/number.h"
#include "store/import/decimal.h"
#include "store/import/json_records.h"
#include "store/import/rocm_process.h"
#include "store/import/trace_database.h"

namespace ddl::store {

namespace {

constexpr size_t kMostRocmNames = 1 << 20, kMostRocmMarkers = 1 << 22, kMostRocmKinds = 1 << 12,
                 kMostRocmOperations = 1 << 14;

enum class RocmList { kNone, kDispatch, kCopy, kHip, kRccl, kMarker, kUnread };

class RocprofilerFile : public JsonVisitor {
 public:
  RocprofilerFile(RocmFiles& files, const std::filesystem::path& path)
      : files_(files), file_(path.filename().string()), bytes_(file_bytes(path)) {}

  bool any() const { return any_; }

  void finish() {
    for (auto& [number, process] : processes_) {
      ImportedProcess& told = files_.run.process(process.rocm.number());
      told.host = process.host.empty() ? fmt::format("host of {}", file_) : process.host;
      told.pid = process.pid;
      for (const auto& [handle, agent] : process.agents)
        if (process.used.contains(agent.number)) told.gpus[agent.number] = agent.name;
      process.hints.processes.push_back(process.rocm.number());
      process.hints.devices[process.rocm.number()] = process.used;
      files_.hints.push_back(std::move(process.hints));
    }
  }

 private:
  struct Agent {
    bool is_gpu = false;
    int64_t number = 0;
    std::string name;
  };
  struct Kind {
    std::string name;
    std::vector<std::string> operations;
  };
  struct Process {
    RocmProcess rocm;
    RankHints hints;
    std::string host;
    std::optional<int64_t> pid;
    std::map<std::string, Agent, std::less<>> agents;  ///< by handle
    std::map<size_t, std::string> handles;             ///< of agents, by their place
    std::vector<Kind> kinds;
    std::unordered_map<int64_t, std::string> kernels;
    std::unordered_map<int64_t, uint32_t> markers;  ///< by correlation: into names_
    std::set<int64_t> used;                         ///< numbers of GPUs
    int64_t key = 0;                                ///< of the last marker or kernel
  };

  static bool take(std::string_view& path, std::string_view prefix) {
    if (!path.starts_with(prefix)) return false;
    path.remove_prefix(prefix.size());
    return true;
  }
  static std::optional<size_t> take_number(std::string_view& path) {
    const auto number = ddl::take_number<size_t>(path);
    if (number) take(path, ".");
    return number;
  }
  /// Takes all of the path up to what lies in a process.
  bool take_process(std::string_view& path) {
    if (!take(path, "rocprofiler-sdk-tool.")) return false;
    place_ = take_number(path).value_or(0);  // the first versions had one process and no array
    return true;
  }
  Process& process() {
    const auto known = processes_.find(place_);
    if (known != processes_.end()) return known->second;
    ImportedProcess told;
    told.file = processes_.empty() ? file_ : fmt::format("{}, process {}", file_, place_ + 1);
    told.file_bytes = processes_.empty() ? bytes_ : 0;
    Process made{{files_.run, files_.run.add_process(std::move(told))}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
    return processes_.try_emplace(place_, std::move(made)).first->second;
  }

  bool begins_records(std::string_view path) override {
    if (!take_process(path)) return false;
    any_ = true;
    list_ = RocmList::kNone;
    if (take(path, "callback_records.")) {
      list_ = RocmList::kUnread;
    } else if (take(path, "buffer_records.")) {
      list_ = path == "kernel_dispatch" || path == "kernel_dispatches" ? RocmList::kDispatch
              : path == "memory_copy" || path == "memory_copies"       ? RocmList::kCopy
              : path == "hip_api"                                      ? RocmList::kHip
              : path == "rccl_api"                                     ? RocmList::kRccl
              : path == "marker_api"                                   ? RocmList::kMarker
                                                                       : RocmList::kUnread;
    }
    list_name_ = path;
    // Calls of the host of other libraries are no activities, and no launches.
    if (list_ == RocmList::kUnread && list_name_.ends_with("_api")) list_name_.clear();
    return list_ != RocmList::kNone;
  }

  void on_fact(const JsonField& fact) override {
    std::string_view path = fact.path;
    if (!take_process(path)) return;
    any_ = true;
    if (take(path, "metadata.")) {
      Process& p = process();
      if (path == "pid") p.pid = whole(fact.text);
      if (path == "node.hostname") p.host = fact.text;
      if (take(path, "config.environment.") || take(path, "environment.")) p.hints.add_variable(path, fact.text);
    } else if (take(path, "agents.")) {
      add_agent(path, fact);
    } else if (take(path, "strings.buffer_records.")) {
      add_kind(path, fact);
    } else if (take(path, "strings.marker_api.")) {
      if (!take_number(path)) return;
      Process& p = process();
      if (path == "key") p.key = whole(fact.text).value_or(0);
      if (path == "value") {
        if (p.markers.size() == kMostRocmMarkers)
          throw BadRecord{fmt::format("more than {} markers", kMostRocmMarkers)};
        p.markers[p.key] = name(std::string(fact.text));
      }
    } else if (take(path, "kernel_symbols.")) {
      if (!take_number(path)) return;
      Process& p = process();
      if (path == "kernel_id") p.key = whole(fact.text).value_or(0);
      if (path != "formatted_kernel_name" && path != "kernel_name") return;
      if (p.kernels.size() == kMostRocmNames) throw BadRecord{fmt::format("more than {} kernels", kMostRocmNames)};
      if (path == "formatted_kernel_name") p.kernels[p.key] = fact.text;
      if (path == "kernel_name") p.kernels.try_emplace(p.key, fact.text);
    }
  }

  void add_agent(std::string_view path, const JsonField& fact) {
    const std::optional<size_t> place = take_number(path);
    if (!place) return;
    Process& p = process();
    if (p.handles.size() == kMostRocmKinds) throw BadRecord{fmt::format("more than {} agents", kMostRocmKinds)};
    if (path == "id.handle") p.handles[*place] = fact.text;
    const auto handle = p.handles.find(*place);
    if (handle == p.handles.end()) return;
    Agent& agent = p.agents[handle->second];
    if (path == "type") agent.is_gpu = fact.text == "2" || fact.text == "GPU";
    if (path == "logical_node_type_id") agent.number = whole(fact.text).value_or(0);
    if (path == "product_name" && !fact.text.empty()) agent.name = fact.text;
    if (path == "name" && agent.name.empty()) agent.name = fact.text;
  }

  void add_kind(std::string_view path, const JsonField& fact) {
    const std::optional<size_t> place = take_number(path);
    if (!place || *place >= kMostRocmKinds) return;
    Process& p = process();
    if (p.kinds.size() <= *place) p.kinds.resize(*place + 1);
    Kind& kind = p.kinds[*place];
    if (path == "kind") kind.name = fact.text;
    if (!take(path, "operations.")) return;
    const std::optional<size_t> operation = take_number(path);
    if (!operation || *operation >= kMostRocmOperations) return;
    if (kind.operations.size() <= *operation) kind.operations.resize(*operation + 1);
    kind.operations[*operation] = fact.text;
  }

  uint32_t name(const std::string& text) {
    if (names_.size() == kMostRocmNames && !numbers_.contains(text))
      throw BadRecord{fmt::format("more than {} different markers", kMostRocmNames)};
    const auto [entry, is_new] = numbers_.try_emplace(text, static_cast<uint32_t>(names_.size()));
    if (is_new) names_.push_back(&entry->first);
    return entry->second;
  }

  void on_record(const JsonRecord& record) override {
    if (list_ == RocmList::kUnread) {
      if (!list_name_.empty()) files_.unread.add(list_name_);
      return;
    }
    const std::optional<int64_t> start_ns = record.integer("start_timestamp"), end_ns = record.integer("end_timestamp");
    if (!start_ns || !end_ns) throw BadRecord{"an event without start_timestamp and end_timestamp"};
    const int64_t start = time_in_range(*start_ns), duration = time_in_range(*end_ns) - start;
    const int64_t correlation = record.integer("correlation_id.internal").value_or(0),
                  tid = record.integer("thread_id").value_or(0);
    Process& p = process();
    switch (list_) {
      case RocmList::kDispatch:
      case RocmList::kCopy: {
        GpuActivity a;
        a.start_ns = start;
        a.duration_ns = duration;
        a.correlation = correlation;
        a.stream = record.integer("stream_id.handle");
        if (list_ == RocmList::kDispatch) {
          if (!a.stream) a.stream = record.integer("dispatch_info.queue_id.handle");
          use(p, record.word("dispatch_info.agent_id.handle"), a);
          const auto kernel = p.kernels.find(record.integer("dispatch_info.kernel_id").value_or(-1));
          p.rocm.kernel(kernel == p.kernels.end() ? std::string_view() : std::string_view(kernel->second), a);
        } else {
          const std::string_view direction = rocm_copy_direction(operation(p, record));
          use(p, record.word(direction == "HtoD" ? "dst_agent_id.handle" : "src_agent_id.handle"), a);
          a.bytes = record.integer("bytes");
          p.rocm.copy(direction, a);
        }
        break;
      }
      case RocmList::kHip:
        if (rocm_gives_work(operation(p, record))) p.rocm.launch(tid, correlation, start, duration);
        break;
      case RocmList::kRccl:
        p.rocm.rccl_call(tid, operation(p, record), start, duration);
        break;
      default:
        if (const auto marker = p.markers.find(correlation); marker != p.markers.end() && duration > 0)
          p.rocm.range(tid, *names_[marker->second], start, duration);
    }
  }

  static void use(Process& p, std::string_view handle, GpuActivity& a) {
    const auto agent = p.agents.find(handle);
    if (agent == p.agents.end() || !agent->second.is_gpu) return;
    a.device = agent->second.number;
    p.used.insert(*a.device);
  }

  static std::string_view operation(const Process& p, const JsonRecord& record) {
    const int64_t kind = record.integer("kind").value_or(-1), operation = record.integer("operation").value_or(-1);
    if (kind < 0 || operation < 0 || static_cast<size_t>(kind) >= p.kinds.size()) return {};
    const std::vector<std::string>& all = p.kinds[static_cast<size_t>(kind)].operations;
    return static_cast<size_t>(operation) < all.size() ? std::string_view(all[static_cast<size_t>(operation)])
                                                       : std::string_view();
  }

  RocmFiles& files_;
  std::string file_;
  uint64_t bytes_;
  size_t place_ = 0;
  bool any_ = false;
  RocmList list_ = RocmList::kNone;
  std::string list_name_;
  std::map<size_t, Process> processes_;
  std::unordered_map<std::string, uint32_t> numbers_;
  std::vector<const std::string*> names_;  ///< of markers
};

}  // namespace

void read_rocprofiler_json(RocmFiles& files, const std::filesystem::path& path, const BytesRead& read) {
  InputFile file(path, read);
  RocprofilerFile trace(files, path);
  read_json(file, trace);
  if (!trace.any()) file.fail(0, "neither JSON of rocprofv3 (rocprofiler-sdk-tool) nor a database of RPD or rocprofv3");
  trace.finish();
}

}  // namespace ddl::store
