// Reports of Nsight Systems as `nsys export --type sqlite` writes them, built from the documentation of their tables;
// tried on an export of 2024.5 (tests/import/public_traces_test.cpp).
//
// Every table may be absent, and columns have come and gone over the years: what is not there is left out. Times are ns
// since the session began. Processes are told by globalPid (vm, pid). Their ranks are those of MPI_RANKS; else those of
// the launcher's variables in the environment that nsys was started in, if each file has one process and each tells
// another rank; else, of the processes of one file, those of their GPUs, if each has one of its own; else the order in
// which the tables first name them (those of a file follow those of the files before it). StringIds, and the names of
// threads, are held in memory.
//
//   CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET, _SYNCHRONIZATION    what GPUs did; names in StringIds
//   CUPTI_ACTIVITY_KIND_RUNTIME                                       launches, by correlationId
//   NVTX_EVENTS                                                       ranges: 59 push/pop, 60 start/end
//   CUPTI_ACTIVITY_KIND_GRAPH_TRACE                                   graphs as a whole, without what ran in them
//   MPI_COLLECTIVES_EVENTS, MPI_P2P_EVENTS                            calls of MPI, with bytes and tag. Not read: commHandle, a value of its
//                                                                     process, and the ranks in that communicator
//                                                                     (remoteRank, rootRank)
//   MPI_START_WAIT_EVENTS, MPI_OTHER_EVENTS                           more calls of MPI; a wait has a row for each of its requests
//   TARGET_INFO_GPU, TARGET_INFO_SYSTEM_ENV, TARGET_INFO_SESSION_START_TIME, META_DATA_CAPTURE (the environment)
//
// Kernels of NCCL tell by their names what they carry out; which belong together is found by order
// (inferred_communicators.cpp).
#include <SQLiteCpp/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/range_names.h"
#include "store/import/call_class.h"
#include "store/import/formats.h"
#include "store/import/imported_run.h"
#include "store/import/input_file.h"
#include "store/import/nccl_operation.h"
#include "store/import/rank_hints.h"
#include "store/import/trace_database.h"
#include "store/import/unread_events.h"

namespace ddl::store {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kThreadBits = 24;  // globalTid = globalPid with the thread in its lowest bits
constexpr int64_t kPidMask = (int64_t{1} << 24) - 1;

constexpr const char* kNsysCopies[] = {"?",    "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                       "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
constexpr const char* kNsysMemories[] = {"pageable", "pinned", "device", "array", "managed", "device", "managed"};

template <size_t N>
const char* name_in(const char* const (&names)[N], std::optional<int64_t> code, const char* otherwise) {
  return code && *code >= 0 && static_cast<size_t>(*code) < N ? names[*code] : otherwise;
}

class NsysFile {
 public:
  NsysFile(ImportedRun& run, UnreadEvents& unread, const fs::path& path, uint64_t bytes)
      : run_(run), unread_(unread), path_(path), bytes_(bytes), db_(path) {}

  void read() {
    if (!db_.has("StringIds")) db_.fail("no table StringIds: not a report of Nsight Systems");
    each("StringIds", {"id", "value"},
         [&](const TraceRows& row) { strings_[row.integer(0)] = row.text(1).value_or(""); });
    each("TARGET_INFO_SYSTEM_ENV", {"name", "value"}, [&](const TraceRows& row) {
      if (row.text(0) == "Hostname") host_ = row.text(1);
    });
    each("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"},
         [&](const TraceRows& row) { base_ns_ = time_in_range(row.maybe(0).value_or(0)); });
    each("TARGET_INFO_GPU", {"id", "name"},
         [&](const TraceRows& row) { gpus_[row.integer(0)] = row.text(1).value_or(""); });
    each("MPI_RANKS", {"globalTid", "globalPid", "rank"}, [&](const TraceRows& row) {
      const std::optional<int64_t> thread = row.maybe(0);
      run_.process(process(thread ? *thread : row.integer(1))).rank = rank_in(row.integer(2));
      has_ranks_ = true;
    });
    each("META_DATA_CAPTURE", {"name", "value"}, [&](const TraceRows& row) {
      if (row.text(0).value_or("").ends_with(":ENVIRONMENT_VARIABLE")) add_variable(row.text(1).value_or(""));
    });
    each("ThreadNames", {"globalTid", "nameId"}, [&](const TraceRows& row) {
      const int64_t tid = row.integer(0);
      names_of_threads_[tid] = string(row.maybe(1)).value_or("");
    });
    each("NVTX_EVENTS", {"start", "end", "eventType", "globalTid", "text", "textId"},
         [&](const TraceRows& row) { add_range(row); });
    each("CUPTI_ACTIVITY_KIND_RUNTIME", {"start", "end", "globalTid", "correlationId"}, [&](const TraceRows& row) {
      const auto [p, thread] = place(row.integer(2));
      if (const auto correlation = row.maybe(3)) run_.launch(p, thread, *correlation, start(row), span(row));
    });
    const std::vector<std::string> device = {"start",     "end",      "globalPid",     "deviceId",
                                             "contextId", "streamId", "correlationId", "graphNodeId"};
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), device.begin(), device.end());
      return more;
    };
    each("CUPTI_ACTIVITY_KIND_KERNEL", with({"demangledName", "shortName"}), [&](const TraceRows& row) {
      GpuActivity a = activity(row, DeviceKind::kKernel);
      const std::string name = string(row.maybe(8)).value_or(string(row.maybe(9)).value_or("?"));
      a.name = name;
      const std::optional<ImportedOperation> collective = operation_of(parse_nccl_kernel(name));
      run_.gpu(of_gpu(row), a, collective ? &*collective : nullptr);
    });
    each("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", with({"graphId"}), [&](const TraceRows& row) {
      GpuActivity a = activity(row, DeviceKind::kKernel);
      const std::string name = fmt::format("[CUDA graph {}]", row.maybe(8).value_or(0));
      a.name = name;
      run_.gpu(of_gpu(row), a);
      ++whole_graphs_;
    });
    each("CUPTI_ACTIVITY_KIND_MEMCPY", with({"bytes", "copyKind", "srcKind", "dstKind"}), [&](const TraceRows& row) {
      GpuActivity a = activity(row, DeviceKind::kMemcpy);
      a.bytes = row.maybe(8);
      a.copy = name_in(kNsysCopies, row.maybe(9), "?");
      a.source = name_in(kNsysMemories, row.maybe(10), "");
      a.destination = name_in(kNsysMemories, row.maybe(11), "");
      const std::string name = fmt::format("[CUDA memcpy {}]", a.copy);
      a.name = name;
      run_.gpu(of_gpu(row), a);
    });
    each("CUPTI_ACTIVITY_KIND_MEMSET", with({"bytes", "memKind"}), [&](const TraceRows& row) {
      GpuActivity a = activity(row, DeviceKind::kMemset);
      a.bytes = row.maybe(8);
      a.destination = name_in(kNsysMemories, row.maybe(9), "");
      a.name = "[CUDA memset]";
      run_.gpu(of_gpu(row), a);
    });
    each("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", device, [&](const TraceRows& row) {
      GpuActivity a = activity(row, DeviceKind::kSynchronize);
      a.device.reset();
      a.name = "[CUDA synchronisation]";
      run_.gpu(of_gpu(row), a);
    });
    each("MPI_COLLECTIVES_EVENTS", {"start", "end", "globalTid", "textId", "size"},
         [&](const TraceRows& row) { add_call(row); });
    each("MPI_P2P_EVENTS", {"start", "end", "globalTid", "textId", "size", "tag"},
         [&](const TraceRows& row) { add_call(row, row.maybe(5)); });
    const std::vector<std::string> call = {"start", "end", "globalTid", "textId", "size"};
    db_.each_distinct("MPI_START_WAIT_EVENTS", call, 3, [&](const TraceRows& row) { add_call(row); });
    each("MPI_OTHER_EVENTS", call, [&](const TraceRows& row) { add_call(row); });
    for (const auto& [pid, number] : processes_) {
      ImportedProcess& p = run_.process(number);
      p.base_ns = base_ns_;
      p.is_realtime = base_ns_ != 0;
      p.host = host_.value_or(fmt::format("host of {}", path_.filename().string()));  // one file has one clock
      hints_.processes.push_back(number);
    }
    run_.losses().add(
        {}, "whole_graphs", whole_graphs_,
        fmt::format(
            "CUDA graphs in {} that were traced as a whole: what ran in them counts as computing, and is told by nsys "
            "profile --cuda-graph-trace=node",
            path_.filename().string()));
    run_.losses().add(
        {}, "abandoned_calls", open_calls_,
        fmt::format(
            "calls of MPI in {} that begin and never end, as in a job that was killed inside them: they are left out",
            path_.filename().string()));
    run_.losses().add(
        {}, "abandoned_calls", open_ranges_,
        fmt::format("NVTX ranges in {} that begin and never end: they are left out", path_.filename().string()));
    count_unread();
  }

  /// Somebody said who is which rank.
  bool has_ranks() const { return has_ranks_; }
  const RankHints& hints() const { return hints_; }

 private:
  void each(const std::string& table, const std::vector<std::string>& columns,
            const std::function<void(const TraceRows&)>& take) {
    db_.each(table, columns, take);
  }

  /// Tables that are not read: activities of devices, MPI, and UCX, whose calls are made inside those of MPI mostly.
  void count_unread() {
    static const std::set<std::string_view> kRead = {
        "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUPTI_ACTIVITY_KIND_RUNTIME",
        "MPI_RANKS", "MPI_COLLECTIVES_EVENTS", "MPI_P2P_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS",
        // neither work of a device nor a launch nor a call
        "CUPTI_ACTIVITY_KIND_OVERHEAD", "CUPTI_ACTIVITY_KIND_CUDA_EVENT", "UCP_WORKERS"};
    static constexpr std::string_view kOfInterest[] = {"CUPTI_ACTIVITY_KIND_", "MPI_", "UCP_"};
    for (const std::string& table : db_.tables()) {
      const bool is_of_interest = std::any_of(std::begin(kOfInterest), std::end(kOfInterest),
                                              [&](std::string_view begin) { return table.starts_with(begin); });
      if (!is_of_interest || kRead.contains(table)) continue;
      uint64_t rows = 0;
      each(table, {"start"}, [&](const TraceRows&) { ++rows; });
      if (rows > 0) unread_.add(table, rows);
    }
  }

  /// NAME="value", of the process that nsys started.
  void add_variable(std::string_view variable) {
    const size_t equals = variable.find('=');
    if (equals == std::string_view::npos) return;
    hints_.add_variable(variable.substr(0, equals), variable.substr(equals + 1));
  }

  static int64_t rank_in(int64_t rank) {
    if (rank < 0 || rank >= kMaxRanks) throw BadRecord{fmt::format("rank {}", rank)};
    return rank;
  }

  // Columns 0 and 1 of everything that takes time.
  static int64_t start(const TraceRows& row) { return time_in_range(row.integer(0)); }
  static int64_t span(const TraceRows& row) { return time_in_range(row.integer(1)) - start(row); }

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
    process.file = processes_.empty() ? path_.filename().string()
                                      : fmt::format("{}, process {}", path_.filename().string(), id & kPidMask);
    process.file_bytes = processes_.empty() ? bytes_ : 0;
    process.pid = id & kPidMask;
    process.gpus = gpus_;
    return processes_[id] = run_.add_process(std::move(process));
  }

  /// The process of a row of `device`. Exports of 2019 do not tell it.
  size_t of_gpu(const TraceRows& row) {
    const std::optional<int64_t> global = row.maybe(2);
    if (!global && processes_.size() > 1)
      throw BadRecord{"it does not name its process (globalPid), and the report has several"};
    const size_t number = global ? process(*global) : processes_.empty() ? process(0) : processes_.begin()->second;
    if (const std::optional<int64_t> device = row.maybe(3)) hints_.devices[number].insert(*device);
    return number;
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

  static GpuActivity activity(const TraceRows& row, DeviceKind kind) {
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

  void add_range(const TraceRows& row) {
    constexpr int64_t kPushPop = 59, kStartEnd = 60;
    const std::optional<int64_t> type = row.maybe(2);
    if (type != kPushPop && type != kStartEnd) return;
    if (!row.maybe(1)) {
      ++open_ranges_;
      return;
    }
    const std::string written = row.text(4).value_or(string(row.maybe(5)).value_or(""));
    const auto [p, thread] = place(row.integer(3));
    const RangeName name = parse_range_name(written.data(), written.size(), nullptr);
    if (name.kind == 0) return;
    auto kind = static_cast<ContextKind>(name.kind);
    if (kind != ContextKind::kStep) {
      const auto seq = name.numbers.has_seq ? std::optional(static_cast<int64_t>(name.numbers.seq)) : std::nullopt;
      // NCCL marks its own calls.
      const TorchCollective* call = find_torch_collective_of(written);
      if (call != nullptr && kind == ContextKind::kLayer) kind = ContextKind::kOperator;
      run_.range(p, thread, kind, {name.text, name.length}, start(row), span(row), seq);
      return;
    }
    int64_t number = next_step_[p];
    if (name.has_step && name.step <= INT32_MAX) number = static_cast<int64_t>(name.step);
    next_step_[p] = number + 1;
    run_.step(p, thread, number, start(row), span(row));
  }

  void add_call(const TraceRows& row, std::optional<int64_t> tag = std::nullopt) {
    if (!row.maybe(1)) {
      ++open_calls_;
      return;
    }
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
  UnreadEvents& unread_;
  fs::path path_;
  uint64_t bytes_;
  TraceDatabase db_;
  RankHints hints_;
  bool has_ranks_ = false;
  uint64_t whole_graphs_ = 0, open_calls_ = 0, open_ranges_ = 0;
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
  UnreadEvents unread;
  std::vector<RankHints> hints;
  bool has_ranks = false;
  for (const fs::path& path : files) {
    InputFile(path, {});  // says why, if it cannot be opened
    const uint64_t bytes = file_bytes(path);
    try {
      NsysFile file(run, unread, path, bytes);
      file.read();
      has_ranks = has_ranks || file.has_ranks();
      hints.push_back(file.hints());
    } catch (const SQLite::Exception& error) {
      throw Error(fmt::format("{}, byte 0: {}", path.string(), error.what()),
                  "export the report again: nsys export --type sqlite", ExitCode::kDataMissing);
    }
    read(bytes);
  }
  unread.write(run.losses(), "rows of tables");
  if (has_ranks || hints.empty()) return;
  if (!rank_by_environment(run, hints) && hints.size() == 1) rank_by_device(run, hints.front());
}

}  // namespace ddl::store
