// Chrome's trace event format (JSON), as many programs write it for chrome://tracing and Perfetto, built from its
// documentation. Unverified on a real file of another program.
//
//   ph X, or B and E    a range of a thread; names tell steps, phases and layers as those of NVTX do; args may be
//                       in B, in E or in both
//   ph b, n, e          asynchronous ranges, which belong to no thread (of old: S, T, p, F): counted, but not read
//   pid, tid            a process is a rank: the number in its name ("rank 3", metadata event process_name), else its
//                       place in the order in which pids first appear
//   cat mpi, nccl       a call: args.comm, comm_size, seq, bytes, peer, tag where they are known
//   cat kernel, gpu_memcpy, gpu_memset, cuda_runtime   as in Kineto's traces (kineto.cpp), which are read better by
//                                                      `ddl import kineto`
#include <fmt/format.h>

#include <map>

#include "core/range_names.h"
#include "store/import/call_class.h"
#include "store/import/decimal.h"
#include "store/import/formats.h"
#include "store/import/imported_run.h"
#include "store/import/json_records.h"
#include "store/import/kernel_names.h"
#include "store/import/rank_hints.h"
#include "store/import/unread_events.h"

namespace ddl::store {

namespace {

class ChromeFile : public JsonVisitor {
 public:
  ChromeFile(ImportedRun& run, UnreadEvents& unread, const std::filesystem::path& path, uint64_t bytes)
      : run_(run), unread_(unread), file_(path.filename().string()), bytes_(bytes) {}

  void finish() {
    if (open_ > 0)
      run_.losses().add({}, "abandoned_calls", open_, "ranges that begin and never end: they are left out");
    run_.losses().add({}, "unbalanced_ranges", unbegun_, "range ends without a begin in the trace: they are left out");
  }
  /// PyTorch's profiler wrote it.
  bool is_kineto() const { return is_kineto_; }

 private:
  /// What is used of an event's args.
  struct Arguments {
    std::string comm;
    std::optional<int64_t> comm_size, seq, bytes, peer, tag, correlation, device, stream;
  };
  struct Open {
    std::string name, category;
    int64_t start_ns;
    Arguments arguments;
  };
  struct Thread {
    size_t process;
    uint32_t number;
    std::vector<Open> open;
  };

  size_t process(const std::string& pid) {
    const auto known = processes_.find(pid);
    if (known != processes_.end()) return known->second;
    ImportedProcess process;
    process.file = processes_.empty() ? file_ : fmt::format("{}, process {}", file_, pid);
    process.file_bytes = processes_.empty() ? bytes_ : 0;
    process.pid = whole(pid);
    process.host = fmt::format("host of {}", file_);  // one file has one clock
    return processes_[pid] = run_.add_process(std::move(process));
  }

  Thread& thread(const JsonRecord& event) {
    const std::string pid(event.word("pid"));
    const std::string_view tid = event.word("tid");
    key_.assign(pid).append("/").append(tid);
    const auto known = threads_.find(key_);
    if (known != threads_.end()) return known->second;
    const size_t number = process(pid);
    return threads_.emplace(key_, Thread{number, run_.thread(number, key_, whole(tid).value_or(0)), {}}).first->second;
  }

  void on_fact(const JsonField& fact) override {
    for (const std::string_view only_kineto : {"schemaVersion", "deviceProperties.", "distributedInfo."})
      is_kineto_ = is_kineto_ || fact.path.starts_with(only_kineto);
  }

  void on_record(const JsonRecord& event) override {
    const std::string_view phase = event.word("ph");
    if (phase == "M") {
      const std::string name(event.word("args.name").substr(0, 256));
      if (event.word("name") == "process_name")
        if (const std::optional<int64_t> rank = rank_in_process_name(name))
          run_.process(process(std::string(event.word("pid")))).rank = *rank;
      if (event.word("name") == "thread_name") run_.name_thread(thread(event).process, thread(event).number, name);
      return;
    }
    if (phase.size() == 1 && std::string_view("bneSTpF").find(phase) != std::string_view::npos) unread_.add(phase);
    if (phase != "X" && phase != "B" && phase != "E") return;
    const std::optional<int64_t> time_ns = event.decimal("ts", kMicrosecondsToNs);
    if (!time_ns) throw BadRecord{"an event without ts"};
    Thread& t = thread(event);
    if (phase == "B") {
      constexpr size_t kDeepest = 4096;
      if (t.open.size() == kDeepest) throw BadRecord{"too many nested ranges"};
      Open range{std::string(event.word("name")), std::string(event.word("cat")), *time_ns, {}};
      add_arguments(range.arguments, range.category, event);
      t.open.push_back(std::move(range));
      ++open_;
    } else if (phase == "E") {
      if (t.open.empty()) {
        ++unbegun_;
        return;
      }
      Open range = std::move(t.open.back());
      t.open.pop_back();
      --open_;
      add_arguments(range.arguments, range.category, event);
      add(t, range.name, range.category, range.start_ns, *time_ns - range.start_ns, range.arguments);
    } else {
      const std::optional<int64_t> duration_ns = event.decimal("dur", kMicrosecondsToNs);
      if (!duration_ns) throw BadRecord{"an event without dur"};
      Arguments arguments;
      add_arguments(arguments, event.word("cat"), event);
      add(t, event.word("name"), event.word("cat"), *time_ns, *duration_ns, arguments);
    }
  }

  static bool is_call(std::string_view category) { return category == "mpi" || category == "nccl"; }
  static bool is_launch(std::string_view category) { return category == "cuda_runtime" || category == "cuda_driver"; }
  static bool is_gpu(std::string_view category) {
    return category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset";
  }

  /// Those that the event has replace what is known: where B and E both have one, E's counts. Args that the category
  /// does not use may have any type.
  static void add_arguments(Arguments& known, std::string_view category, const JsonRecord& event) {
    const auto take = [&](std::optional<int64_t>& value, std::string_view path) {
      if (const std::optional<int64_t> told = event.integer(path)) value = told;
    };
    if (is_call(category)) {
      if (const std::string_view comm = event.word("args.comm"); !comm.empty()) known.comm = comm;
      take(known.comm_size, "args.comm_size");
      take(known.seq, "args.seq");
      take(known.peer, "args.peer");
      take(known.tag, "args.tag");
    }
    if (is_launch(category) || is_gpu(category)) take(known.correlation, "args.correlation");
    if (is_gpu(category)) {
      take(known.device, "args.device");
      take(known.stream, "args.stream");
    }
    if (is_call(category) || (is_gpu(category) && category != "kernel")) take(known.bytes, "args.bytes");
  }

  void add(const Thread& t, std::string_view written, std::string_view category, int64_t start_ns, int64_t duration_ns,
           const Arguments& arguments) {
    if (is_call(category)) return add_call(t, written, start_ns, duration_ns, arguments);
    if (is_launch(category)) {
      if (arguments.correlation) run_.launch(t.process, t.number, *arguments.correlation, start_ns, duration_ns);
      return;
    }
    if (is_gpu(category)) return add_gpu(t, written, category, start_ns, duration_ns, arguments);
    const RangeName name = parse_range_name(written.data(), written.size(), nullptr);
    if (name.kind == 0) return;
    if (static_cast<ContextKind>(name.kind) != ContextKind::kStep) {
      run_.range(t.process, t.number, static_cast<ContextKind>(name.kind), {name.text, name.length}, start_ns,
                 duration_ns);
      return;
    }
    int64_t number = next_step_[t.process];
    if (name.has_step && name.step <= INT32_MAX) number = static_cast<int64_t>(name.step);
    next_step_[t.process] = number + 1;
    run_.step(t.process, t.number, number, start_ns, duration_ns);
  }

  void add_call(const Thread& t, std::string_view name, int64_t start_ns, int64_t duration_ns,
                const Arguments& arguments) {
    ImportedOperation operation;
    operation.op = name;
    const CallClass call = class_of_call(name);
    operation.op_class = call.op_class;
    operation.nonblocking = call.nonblocking;
    operation.payload_bytes = arguments.bytes.value_or(0);
    if (*operation.payload_bytes < 0) throw BadRecord{"args.bytes is negative"};
    operation.peer = arguments.peer;
    operation.tag = arguments.tag;
    const std::string& comm = arguments.comm;
    const std::optional<int64_t> size = arguments.comm_size;
    if (!comm.empty() && size && *size > 0 && *size <= kMaxRanks) {
      const bool of_nccl = name.starts_with("nccl");
      operation.communicator =
          run_.communicator(comm, comm, of_nccl ? CommunicatorOf::kNccl : CommunicatorOf::kProgram, *size, {});
      // What a call of MPI only posts runs until a request is completed, of which the trace says nothing: it is not an
      // instance of a collective.
      if (of_nccl || !call.nonblocking) operation.seq = arguments.seq;
    }
    run_.call(t.process, t.number, operation, ImportedTiming::kCall, start_ns, duration_ns);
  }

  void add_gpu(const Thread& t, std::string_view name, std::string_view category, int64_t start_ns, int64_t duration_ns,
               const Arguments& arguments) {
    GpuActivity a;
    a.kind = category == "kernel"       ? DeviceKind::kKernel
             : category == "gpu_memcpy" ? DeviceKind::kMemcpy
                                        : DeviceKind::kMemset;
    a.start_ns = start_ns;
    a.duration_ns = duration_ns;
    a.correlation = arguments.correlation.value_or(0);
    a.device = arguments.device.value_or(0);
    a.stream = arguments.stream;
    a.bytes = arguments.bytes;
    const CopyName copy = parse_copy_name(name);
    const std::string shown = a.kind == DeviceKind::kMemcpy
                                  ? fmt::format("[CUDA memcpy {}]", copy.kind.empty() ? "?" : copy.kind)
                              : a.kind == DeviceKind::kMemset ? "[CUDA memset]"
                                                              : std::string(name);
    a.name = shown;
    if (a.kind == DeviceKind::kMemcpy) a.copy = copy.kind.empty() ? "?" : std::string_view(copy.kind);
    a.source = copy.source;
    a.destination = copy.destination;
    run_.gpu(t.process, a);
  }

  ImportedRun& run_;
  UnreadEvents& unread_;
  std::string file_;
  uint64_t bytes_;
  std::map<std::string, size_t> processes_;
  std::map<std::string, Thread> threads_;
  std::map<size_t, int64_t> next_step_;
  std::string key_;
  uint64_t open_ = 0, unbegun_ = 0;
  bool is_kineto_ = false;
};

}  // namespace

void read_chrome(ImportedRun& run, const std::vector<std::filesystem::path>& files, const BytesRead& read) {
  UnreadEvents unread;
  uint64_t of_kineto = 0;
  for (const auto& path : files) {
    InputFile file(path, read);
    ChromeFile trace(run, unread, path, file_bytes(path));
    read_json(file, kTraceEvents, trace);
    trace.finish();
    of_kineto += trace.is_kineto();
  }
  unread.write(run.losses(), "events of phases");
  run.losses().add(
      {}, "other_format", of_kineto,
      "traces of PyTorch's profiler, read as Chrome's: ranks, process groups and operators are left out; see ddl import kineto");
}

}  // namespace ddl::store
