// Chrome's trace event format (JSON), as many programs write it for chrome://tracing and Perfetto, built from its documentation. Unverified
// on a real file of another program.
//
//   ph X, or B and E    a range of a thread; names tell steps, phases and layers as those of NVTX do
//   pid, tid            a process is a rank: the number in its name ("rank 3", metadata event process_name), else its place in the order in
//                       which pids first appear
//   cat mpi, nccl       a call: args.comm, comm_size, seq, bytes, peer, tag where they are known
//   cat kernel, gpu_memcpy, gpu_memset, cuda_runtime   as in Kineto's traces (kineto.cpp), which are read better by `ddl import kineto`
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

namespace ddl::store {

namespace {

class ChromeFile : public JsonVisitor {
 public:
  ChromeFile(ImportedRun& run, const std::filesystem::path& path, uint64_t bytes)
      : run_(run), file_(path.filename().string()), bytes_(bytes) {}

  void finish() {
    if (open_ > 0) run_.losses().add({}, "abandoned_calls", open_, "ranges that begin and never end: they are left out");
  }
  /// PyTorch's profiler wrote it.
  bool is_kineto() const { return is_kineto_; }

 private:
  struct Open {
    std::string name, category;
    int64_t start_ns;
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
    if (phase != "X" && phase != "B" && phase != "E") return;
    const std::optional<int64_t> time_ns = event.decimal("ts", kMicrosecondsToNs);
    if (!time_ns) throw BadRecord{"an event without ts"};
    Thread& t = thread(event);
    if (phase == "B") {
      constexpr size_t kDeepest = 4096;
      if (t.open.size() == kDeepest) throw BadRecord{"too many nested ranges"};
      t.open.push_back({std::string(event.word("name")), std::string(event.word("cat")), *time_ns});
      ++open_;
    } else if (phase == "E") {
      if (t.open.empty()) return;  // it began before the trace
      const Open range = std::move(t.open.back());
      t.open.pop_back();
      --open_;
      add(t, range.name, range.category, range.start_ns, *time_ns - range.start_ns, event);
    } else {
      const std::optional<int64_t> duration_ns = event.decimal("dur", kMicrosecondsToNs);
      if (!duration_ns) throw BadRecord{"an event without dur"};
      add(t, event.word("name"), event.word("cat"), *time_ns, *duration_ns, event);
    }
  }

  void add(const Thread& t, std::string_view written, std::string_view category, int64_t start_ns, int64_t duration_ns,
           const JsonRecord& event) {
    if (category == "mpi" || category == "nccl") return add_call(t, written, start_ns, duration_ns, event);
    if (category == "cuda_runtime" || category == "cuda_driver") {
      if (const auto correlation = event.integer("args.correlation")) run_.launch(t.process, t.number, *correlation, start_ns, duration_ns);
      return;
    }
    if (category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset")
      return add_gpu(t, written, category, start_ns, duration_ns, event);
    const RangeName name = parse_range_name(written.data(), written.size(), nullptr);
    if (name.kind == 0) return;
    if (static_cast<ContextKind>(name.kind) != ContextKind::kStep) {
      run_.range(t.process, t.number, static_cast<ContextKind>(name.kind), {name.text, name.length}, start_ns, duration_ns);
      return;
    }
    int64_t number = next_step_[t.process];
    if (name.has_step && name.step <= INT32_MAX) number = static_cast<int64_t>(name.step);
    next_step_[t.process] = number + 1;
    run_.step(t.process, t.number, number, start_ns, duration_ns);
  }

  void add_call(const Thread& t, std::string_view name, int64_t start_ns, int64_t duration_ns, const JsonRecord& event) {
    ImportedOperation operation;
    operation.op = name;
    const CallClass call = class_of_call(name);
    operation.op_class = call.op_class;
    operation.nonblocking = call.nonblocking;
    operation.payload_bytes = event.integer("args.bytes").value_or(0);
    if (*operation.payload_bytes < 0) throw BadRecord{"args.bytes is negative"};
    operation.peer = event.integer("args.peer");
    operation.tag = event.integer("args.tag");
    const std::string_view comm = event.word("args.comm");
    const std::optional<int64_t> size = event.integer("args.comm_size");
    if (!comm.empty() && size && *size > 0 && *size <= kMaxRanks) {
      const bool of_nccl = name.starts_with("nccl");
      operation.communicator = run_.communicator(comm, comm, of_nccl ? CommunicatorOf::kNccl : CommunicatorOf::kProgram, *size, {});
      // What a call of MPI only posts runs until a request is completed, of which the trace says nothing: it is not an instance of a
      // collective.
      if (of_nccl || !call.nonblocking) operation.seq = event.integer("args.seq");
    }
    run_.call(t.process, t.number, operation, ImportedTiming::kCall, start_ns, duration_ns);
  }

  void add_gpu(const Thread& t, std::string_view name, std::string_view category, int64_t start_ns, int64_t duration_ns,
               const JsonRecord& event) {
    GpuActivity a;
    a.kind = category == "kernel" ? DeviceKind::kKernel : category == "gpu_memcpy" ? DeviceKind::kMemcpy : DeviceKind::kMemset;
    a.start_ns = start_ns;
    a.duration_ns = duration_ns;
    a.correlation = event.integer("args.correlation").value_or(0);
    a.device = event.integer("args.device").value_or(0);
    a.stream = event.integer("args.stream");
    if (a.kind != DeviceKind::kKernel) a.bytes = event.integer("args.bytes");
    const CopyName copy = parse_copy_name(name);
    const std::string shown = a.kind == DeviceKind::kMemcpy   ? fmt::format("[CUDA memcpy {}]", copy.kind.empty() ? "?" : copy.kind)
                              : a.kind == DeviceKind::kMemset ? "[CUDA memset]"
                                                              : std::string(name);
    a.name = shown;
    if (a.kind == DeviceKind::kMemcpy) a.copy = copy.kind.empty() ? "?" : std::string_view(copy.kind);
    a.source = copy.source;
    a.destination = copy.destination;
    run_.gpu(t.process, a);
  }

  ImportedRun& run_;
  std::string file_;
  uint64_t bytes_;
  std::map<std::string, size_t> processes_;
  std::map<std::string, Thread> threads_;
  std::map<size_t, int64_t> next_step_;
  std::string key_;
  uint64_t open_ = 0;
  bool is_kineto_ = false;
};

}  // namespace

void read_chrome(ImportedRun& run, const std::vector<std::filesystem::path>& files, const BytesRead& read) {
  uint64_t of_kineto = 0;
  for (const auto& path : files) {
    InputFile file(path, read);
    ChromeFile trace(run, path, file_bytes(path));
    read_json(file, kTraceEvents, trace);
    trace.finish();
    of_kineto += trace.is_kineto();
  }
  run.losses().add(
      {}, "other_format", of_kineto,
      "traces of PyTorch's profiler, read as Chrome's: ranks, process groups and operators are left out; see ddl import kineto");
}

}  // namespace ddl::store
