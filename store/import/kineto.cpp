// Traces of PyTorch's profiler (libkineto's JSON), as of 2021 and as of today. Verified on the traces that HTA and the
// profiler's TensorBoard plugin are tested with.
//
//   times          us with up to three digits behind the point, since the Unix epoch, or since "baseTimeNanoseconds"
//   categories     kernel, gpu_memcpy, gpu_memset, cuda_sync, overhead on the device; cpu_op, user_annotation,
//                  python_function (of which nn.Module tells layers), cuda_runtime, cuda_driver on the host. In 2021:
//                  Kernel, Memcpy, Memset, Operator, Runtime
//                  nn.Module tells layers), cuda_runtime, cuda_driver on the host. In 2021: Kernel, Memcpy, Memset,
//                  Operator, Runtime
//   memory         instant events "[memory]" (profile_memory=True)
//   launch         "correlation" is the same in the call and in what it launched
//   steps          ranges named ProfilerStep#N. A profiler without a schedule marks none: then a step ends with the
//                  optimizer's (Optimizer.step#SGD.step) and begins where the last one ended, as under ddl record
//   rank           "distributedInfo" of the file; else a number in its name (worker3, rank-34)
//   collectives    kernels named after NCCL; newer traces say of them, or of the record_param_comms around their
//                  launch, group, elements and type, and since PyTorch 2.5 of messages the other rank ("Src Rank", "Dst
//                  Rank"); not of kernels that carry out several messages (batch_isend_irecv), which are launched
//                  behind those ranges. Older ones have the range nccl:all_reduce around the launch, with "Input Dims"
//                  and "Input type" if shapes were recorded; which ranks take part is then found by order
//                  (inferred_communicators.cpp)
//                  type, and since PyTorch 2.5 of messages the other rank ("Src Rank", "Dst Rank"); not of kernels that
//                  carry out several messages (batch_isend_irecv), which are launched behind those ranges. Older ones
//                  have the range nccl:all_reduce around the launch, with "Input Dims" and "Input type" if shapes were
//                  recorded; which ranks take part is then found by order (inferred_communicators.cpp)
//   old format     of PyTorch's profiler before Kineto, and of a PyTorch without it: no categories, processes "CPU
//                  functions" and "CUDA functions"; refused, since it has no steps and tells of no collective
//   Gloo           the ranges gloo:all_reduce of its threads are the collectives themselves, with "Input Dims" and
//                  "Input type" if shapes were recorded. They name no group: it is that of distributedInfo if there is
//                  one of Gloo, else not known. They are numbered by step and begin
//                  They name no group: it is that of distributedInfo if there is one of Gloo, else not known. They are
//                  numbered by step and begin
//   MPI            categories mpi and mpi_request, which only `ddl export chrome-json` writes
//                  (reports/trace/kineto.cpp)
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "core/error.h"
#include "core/names.h"
#include "core/number.h"
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

namespace fs = std::filesystem;

constexpr int64_t kUnixEra = 1'000'000'000'000'000'000;  // ns: later times count from 1970

enum class Category {
  kUnknown,
  kUnused,
  kKernel,
  kMemcpy,
  kMemset,
  kSync,
  kOverhead,
  kOperator,
  kAnnotation,
  kModule,
  kRuntime,
  kCall,
  kRequest,
  kCounters
};

Category category_of(std::string_view name) {
  static const std::unordered_map<std::string_view, Category> kCategories = {
      {"kernel", Category::kKernel},
      {"Kernel", Category::kKernel},
      {"gpu_memcpy", Category::kMemcpy},
      {"Memcpy", Category::kMemcpy},
      {"gpu_memset", Category::kMemset},
      {"Memset", Category::kMemset},
      {"cuda_sync", Category::kSync},
      {"overhead", Category::kOverhead},
      {"cpu_op", Category::kOperator},
      {"Operator", Category::kOperator},
      {"operator", Category::kOperator},
      {"user_annotation", Category::kAnnotation},
      {"python_function", Category::kModule},
      {"cuda_runtime", Category::kRuntime},
      {"cuda_driver", Category::kRuntime},
      {"Runtime", Category::kRuntime},
      {"runtime", Category::kRuntime},
      {"xpu_runtime", Category::kRuntime},
      {"xpu_driver", Category::kRuntime},
      {"mpi", Category::kCall},
      {"mpi_request", Category::kRequest},
      // What other events tell as well, the trace itself, and readings of counters.
      {"gpu_user_annotation", Category::kUnused},
      {"external_correlation", Category::kUnused},
      {"Trace", Category::kUnused},
      {"cuda_profiler_range", Category::kCounters},
      {"gpu_pm_counter", Category::kUnused}};
  const auto found = kCategories.find(name);
  return found == kCategories.end() ? Category::kUnknown : found->second;
}

/// For the calls of a runtime only those that give work to a device, or wait for it, are ever asked for.
bool gives_work(std::string_view name) {
  for (const std::string_view part : {"Launch", "emcpy", "emset", "ynchronize", "StreamWait"})
    if (name.find(part) != std::string_view::npos) return true;
  return false;
}

/// As torch writes it; `type`: its DeviceType.
std::string device_name(int64_t type, int64_t number) {
  if (type == 0) return "cpu";
  return fmt::format("{}:{}",
                     type == 1    ? "cuda"
                     : type == 6  ? "hip"
                     : type == 12 ? "xpu"
                                  : fmt::format("device{}", type),
                     number);
}

constexpr std::string_view kTensorDims = "args.Input Dims", kTensorTypes = "args.Input type";

struct GlooRange {
  std::string_view range, op;
  OpClass op_class;
};
constexpr GlooRange kGlooRanges[] = {
    {"all_reduce", "gloo::allreduce", OpClass::kAllToAll}, {"broadcast", "gloo::broadcast", OpClass::kRootToAll},
    {"reduce", "gloo::reduce", OpClass::kAllToRoot},       {"all_gather", "gloo::allgather", OpClass::kAllToAll},
    {"gather", "gloo::gather", OpClass::kAllToRoot},       {"scatter", "gloo::scatter", OpClass::kRootToAll},
    {"all_to_all", "gloo::alltoall", OpClass::kAllToAll},  {"barrier", "gloo::barrier", OpClass::kBarrier}};

struct ProcessGroup {
  std::string name, label, backend;
  int64_t size = 0;
  std::vector<int64_t> ranks;
};

class KinetoFile : public JsonVisitor {
 public:
  KinetoFile(ImportedRun& run, UnreadEvents& unread, const fs::path& path, uint64_t bytes)
      : run_(run), unread_(unread) {
    ImportedProcess process;
    process.file = path.filename().string();
    process.file_bytes = bytes;
    process.host = host_in_trace_name(process.file);
    process_ = run.add_process(std::move(process));
  }

  /// For the profiler before Kineto: nothing but operators, without a category.
  bool is_old_format() const { return is_old_ && first_ns_ == INT64_MAX; }

  void finish() {
    ImportedProcess& p = run_.process(process_);
    if (!p.rank) p.rank = rank_in_trace_name(p.file);
    if (p.rank && *p.rank < 0) throw BadRecord{fmt::format("its rank {} is negative", *p.rank)};
    p.is_realtime = first_ns_ != INT64_MAX && p.base_ns + first_ns_ > kUnixEra;
    for (const auto& [number, name] : gpu_names_)
      if (used_gpus_.contains(number)) p.gpus[number] = name;
    if (!version_.empty()) p.facts.emplace_back("nccl", version_);
    add_steps_of_optimizer();
    add_gloo_calls();
  }

 private:
  void on_fact(const JsonField& fact) override;
  void on_record(const JsonRecord& event) override;
  bool wants_list(std::string_view path) const override { return path == kTensorDims || path == kTensorTypes; }

  void on_gpu(const JsonRecord& event, Category category, int64_t start_ns, int64_t duration_ns);
  void on_wait(const JsonRecord& event, const GpuActivity& wait);
  void on_memory(const JsonRecord& event);
  void on_counters(const JsonRecord& event, int64_t start_ns, int64_t duration_ns);
  void on_runtime(const JsonRecord& event, int64_t correlation, int64_t start_ns, int64_t duration_ns);
  void on_range(const JsonRecord& event, Category category, int64_t start_ns, int64_t duration_ns);
  void on_call(const JsonRecord& event, ImportedTiming timing, int64_t start_ns, int64_t duration_ns);
  void on_metadata(const JsonRecord& event);
  uint32_t thread_of(const JsonRecord& event);
  std::optional<ImportedOperation> collective_of(const JsonRecord& event);
  std::optional<ImportedOperation> kernel_of_nccl(const JsonRecord& event, std::string_view kernel);
  std::optional<ImportedOperation> launched_in(const JsonRecord& event, std::string_view range);
  uint32_t group_of(const JsonRecord& event, CommunicatorOf of);
  uint32_t pair_of(const JsonRecord& event, int64_t peer);
  bool keep_gloo(const JsonRecord& event, std::string_view range, int64_t start_ns, int64_t duration_ns);
  void add_gloo_calls();
  void add_steps_of_optimizer();

  struct OptimizerStep {
    int64_t start_ns, end_ns;
    uint32_t thread;
    std::string name;
  };
  struct GlooCall {
    int64_t start_ns, duration_ns;
    uint32_t thread;
    const GlooRange* range;
    std::optional<int64_t> bytes;
    uint32_t datatype;
  };

  ImportedRun& run_;
  UnreadEvents& unread_;
  size_t process_;
  int64_t first_ns_ = INT64_MAX;
  bool is_old_ = false;
  std::map<int64_t, ProcessGroup> groups_;  ///< of distributedInfo, by their place there
  int64_t gpu_at_ = 0, gpu_id_ = -1;
  std::map<int64_t, std::string> gpu_names_;
  std::set<int64_t> used_gpus_;
  std::string version_;
  std::vector<GlooCall> gloo_;                      ///< held until it is known which step each begins in
  std::vector<std::pair<int64_t, int64_t>> steps_;  ///< begin, number
  std::vector<OptimizerStep> optimizer_steps_;
  /// by what kernels say of them: a list of thousands of ranks is read once
  std::unordered_map<std::string, uint32_t> communicators_;
  std::string key_;          // of a communicator
  std::string key_of_last_;  ///< of the thread that was asked for last; empty: none was
  uint32_t last_thread_ = 0;
};

/// The numbers in a path: "distributedInfo.pg_config.0.ranks.5" has 0 and 5.
std::vector<int64_t> numbers_in(std::string_view path) {
  std::vector<int64_t> numbers;
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('.'));
    if (const auto number = number_in<int64_t>(part)) numbers.push_back(*number);
    path.remove_prefix(std::min(path.size(), part.size() + 1));
  }
  return numbers;
}

int64_t integer_of(const JsonField& fact) {
  const std::optional<int64_t> value = whole(fact.text);
  if (!value) throw BadRecord{fmt::format("{} is not a whole number that fits", fact.path)};
  return *value;
}

void KinetoFile::on_fact(const JsonField& fact) {
  ImportedProcess& p = run_.process(process_);
  const std::string_view path = fact.path;
  if (fact.kind == JsonKind::kNull) return;
  if (path == "distributedInfo.rank") {
    p.rank = integer_of(fact);
  } else if (path == "distributedInfo.world_size") {
    p.world_size = integer_of(fact);
    if (*p.world_size < 1 || *p.world_size > 1 << 24)
      throw BadRecord{fmt::format("distributedInfo.world_size {} is out of range", *p.world_size)};
  } else if (path == "distributedInfo.nccl_version") {
    version_ = fact.text;
  } else if (path == "baseTimeNanoseconds") {
    p.base_ns = integer_of(fact);
  } else if (path.starts_with("distributedInfo.pg_config.")) {
    const std::vector<int64_t> numbers = numbers_in(path);
    if (numbers.empty()) return;
    ProcessGroup& group = groups_[numbers[0]];
    if (path.ends_with(".pg_name")) group.name = fact.text;
    if (path.ends_with(".pg_desc")) group.label = fact.text;
    if (path.ends_with(".backend_config")) group.backend = fact.text;
    if (path.ends_with(".pg_size")) group.size = integer_of(fact);
    if (path.find(".ranks.") != std::string_view::npos && numbers.size() == 2) group.ranks.push_back(integer_of(fact));
  } else if (path.starts_with("deviceProperties.")) {
    const std::vector<int64_t> numbers = numbers_in(path);
    if (numbers.empty()) return;
    if (numbers[0] != gpu_at_) gpu_id_ = -1;
    gpu_at_ = numbers[0];
    if (path.ends_with(".id")) gpu_id_ = integer_of(fact);
    if (path.ends_with(".name")) gpu_names_[gpu_id_ >= 0 ? gpu_id_ : gpu_at_] = fact.text;
  }
}

uint32_t KinetoFile::thread_of(const JsonRecord& event) {
  const std::string_view pid = event.word("pid"), tid = event.word("tid");
  const bool is_last = key_of_last_.size() == pid.size() + 1 + tid.size() && key_of_last_.starts_with(pid) &&
                       key_of_last_.ends_with(tid) && key_of_last_[pid.size()] == '/';
  if (is_last) return last_thread_;
  key_of_last_.assign(pid).append("/").append(tid);
  return last_thread_ = run_.thread(process_, key_of_last_, whole(tid).value_or(0));
}

void KinetoFile::on_metadata(const JsonRecord& event) {
  if (event.word("name") != "thread_name") return;
  const std::string_view name = event.word("args.name");
  if (name.starts_with("stream ") || !whole(event.word("tid"))) return;
  run_.name_thread(process_, thread_of(event), name);
}

void KinetoFile::on_record(const JsonRecord& event) {
  const std::string_view phase = event.word("ph");
  if (phase == "M") on_metadata(event);
  if (phase == "i" && event.word("name") == "[memory]") on_memory(event);
  if (phase != "X") return;
  const Category category = category_of(event.word("cat"));
  if (category == Category::kUnused) return;
  if (category == Category::kUnknown) {
    is_old_ = is_old_ || event.word("pid") == "CPU functions" || event.word("pid") == "CUDA functions";
    unread_.add(event.word("cat"));
    return;
  }
  const std::optional<int64_t> start_ns = event.decimal("ts", kMicrosecondsToNs);
  const std::optional<int64_t> duration_ns = event.decimal("dur", kMicrosecondsToNs);
  if (!start_ns || !duration_ns) throw BadRecord{"an event without ts and dur"};
  first_ns_ = std::min(first_ns_, *start_ns);
  switch (category) {
    case Category::kRuntime:
      if (const std::optional<int64_t> correlation = event.integer("args.correlation");
          correlation && gives_work(event.word("name")))
        on_runtime(event, *correlation, *start_ns, *duration_ns);
      break;
    case Category::kOperator:
    case Category::kAnnotation:
    case Category::kModule:
      on_range(event, category, *start_ns, *duration_ns);
      break;
    case Category::kCall:
      on_call(event, ImportedTiming::kCall, *start_ns, *duration_ns);
      break;
    case Category::kRequest:
      on_call(event, ImportedTiming::kRequest, *start_ns, *duration_ns);
      break;
    case Category::kCounters:
      on_counters(event, *start_ns, *duration_ns);
      break;
    default:
      on_gpu(event, category, *start_ns, *duration_ns);
  }
}

/// Memory that an allocator gave or took back. Since PyTorch 1.13 or so with what it holds then; before, only by how
/// much that changed.
void KinetoFile::on_memory(const JsonRecord& event) {
  const std::optional<int64_t> time_ns = event.decimal("ts", kMicrosecondsToNs), bytes = event.integer("args.Bytes"),
                               type = event.integer("args.Device Type");
  if (!time_ns || !bytes || !type) return;
  const std::optional<int64_t> allocated = event.integer("args.Total Allocated"),
                               reserved = event.integer("args.Total Reserved");
  const std::string device = device_name(*type, event.integer("args.Device Id").value_or(-1));
  run_.value(process_, *time_ns, fmt::format("memory {} {}", allocated ? "allocated" : "change", device),
             allocated.value_or(*bytes));
  if (reserved) run_.value(process_, *time_ns, fmt::format("memory reserved {}", device), *reserved);
}

/// A kernel under CUPTI's profiler, which runs them one by one. All its numbers are counters; it does not tell the
/// launch.
void KinetoFile::on_counters(const JsonRecord& event, int64_t start_ns, int64_t duration_ns) {
  constexpr std::string_view kArguments = "args";
  for (const JsonField& field : event.fields()) {
    std::string_view name = field.path;
    if (field.outer != kArguments) {
      if (!name.starts_with("args.")) continue;
      name.remove_prefix(kArguments.size() + 1);
    }
    if (field.kind != JsonKind::kNumber) continue;
    std::string_view digits = field.text;
    const auto value = take_number<double>(digits);
    constexpr double kMost = 0x1p53;  // sums over ranges and kernels fit, too
    if (!value || !(std::abs(*value) < kMost)) throw BadRecord{fmt::format("{} is not a number that fits", name)};
    run_.kernel_counter(process_, name, start_ns, duration_ns, whole(field.text).value_or(std::llround(*value)));
  }
}

/// A call that gives work to a device, or waits for it. What it waited for the device tells (cuda_sync) in few traces
/// only.
void KinetoFile::on_runtime(const JsonRecord& event, int64_t correlation, int64_t start_ns, int64_t duration_ns) {
  const std::string_view name = event.word("name");
  run_.launch(process_, thread_of(event), correlation, start_ns, duration_ns,
              name.find("LaunchKernel") != std::string_view::npos);
  const size_t end = name.find("Synchronize");
  if (end == std::string_view::npos) return;
  GpuActivity wait;
  wait.kind = DeviceKind::kSynchronize;
  const std::string_view of = name.substr(0, end);
  wait.name = of.ends_with("Stream")  ? "[CUDA synchronisation: Stream Sync]"
              : of.ends_with("Event") ? "[CUDA synchronisation: Event Sync]"
                                      : "[CUDA synchronisation: Context Sync]";
  wait.start_ns = start_ns;
  wait.duration_ns = duration_ns;
  wait.correlation = correlation;
  wait.is_of_call = true;
  run_.gpu(process_, wait);
}

void KinetoFile::on_range(const JsonRecord& event, Category category, int64_t start_ns, int64_t duration_ns) {
  std::string_view written = event.word("name");
  if (category == Category::kModule) {
    if (!written.starts_with("nn.Module: ")) return;  // every other function of Python would be a level of its own
    written.remove_prefix(11);
    run_.range(process_, thread_of(event), ContextKind::kLayer, written, start_ns, duration_ns);
    return;
  }
  if (written.starts_with("## ") && written.ends_with(" ##") && written.size() > 6)
    written = written.substr(3, written.size() - 6);
  const RangeName name = parse_range_name(written.data(), written.size(), nullptr);
  auto kind = static_cast<ContextKind>(name.kind);
  if (name.kind == 0) return;
  if (kind == ContextKind::kStep) {
    if (!name.has_step) return;
    if (name.step > INT32_MAX) throw BadRecord{fmt::format("step {} is out of range", name.step)};
    run_.step(process_, thread_of(event), static_cast<int64_t>(name.step), start_ns, duration_ns);
    steps_.emplace_back(start_ns, static_cast<int64_t>(name.step));
    return;
  }
  if (keep_gloo(event, written, start_ns, duration_ns)) return;
  if (written.starts_with("Optimizer.step#"))
    optimizer_steps_.push_back({start_ns, start_ns + duration_ns, thread_of(event), std::string(written)});
  const bool of_framework =
      category == Category::kOperator || written.starts_with("nccl:") || written.starts_with("gloo:");
  if (kind == ContextKind::kLayer && of_framework) kind = ContextKind::kOperator;
  const std::optional<ImportedOperation> launches = launched_in(event, written);
  run_.range(process_, thread_of(event), kind, {name.text, name.length}, start_ns, duration_ns,
             event.integer("args.Sequence number"), launches ? &*launches : nullptr);
}

/// A collective of Gloo, which runs from the range's begin to its end.
bool KinetoFile::keep_gloo(const JsonRecord& event, std::string_view range, int64_t start_ns, int64_t duration_ns) {
  if (!range.starts_with("gloo:")) return false;
  const GlooRange* known = std::find_if(std::begin(kGlooRanges), std::end(kGlooRanges),
                                        [&](const GlooRange& r) { return r.range == range.substr(5); });
  if (known == std::end(kGlooRanges)) return false;
  GlooCall call = {start_ns, duration_ns, thread_of(event), known, std::nullopt, 0};
  const JsonField *dims = event.find(kTensorDims), *types = event.find(kTensorTypes);
  if (dims != nullptr && types != nullptr && dims->kind == JsonKind::kList && types->kind == JsonKind::kList) {
    const TorchTensors tensors = parse_tensors(dims->text, types->text);
    call.bytes = tensors.bytes;
    call.datatype = tensors.datatype;
  }
  if (known->op_class == OpClass::kBarrier) call.bytes = 0;
  gloo_.push_back(call);
  run_.process(process_).pid = event.integer("pid");  // which is the number of its first thread, too
  return true;
}

/// Among several optimizers the one that stepped first counts.
void KinetoFile::add_steps_of_optimizer() {
  constexpr size_t kFewest = 3;  // fewer are a look at a part of one
  if (!steps_.empty()) return;
  std::sort(optimizer_steps_.begin(), optimizer_steps_.end(),
            [](const OptimizerStep& a, const OptimizerStep& b) { return a.start_ns < b.start_ns; });
  std::erase_if(optimizer_steps_,
                [first = optimizer_steps_.empty() ? OptimizerStep() : optimizer_steps_.front()](
                    const OptimizerStep& step) { return step.name != first.name || step.thread != first.thread; });
  if (optimizer_steps_.size() < kFewest) return;
  int64_t begin_ns = first_ns_;
  for (const OptimizerStep& step : optimizer_steps_) {
    const auto number = static_cast<int64_t>(steps_.size());
    run_.step(process_, step.thread, number, begin_ns, step.end_ns - begin_ns);
    steps_.emplace_back(begin_ns, number);
    begin_ns = step.end_ns;
  }
}

void KinetoFile::add_gloo_calls() {
  if (gloo_.empty()) return;
  run_.call_in_background();
  const ProcessGroup* of_gloo = nullptr;
  size_t groups = 0;
  for (const auto& [place, group] : groups_) {
    if (!group.backend.empty() && group.backend.find("gloo") == std::string::npos) continue;
    ++groups;
    of_gloo = &group;
  }
  const bool is_known =
      groups == 1 && of_gloo->size > 0 && static_cast<int64_t>(of_gloo->ranks.size()) == of_gloo->size;
  const uint32_t communicator = is_known ? run_.communicator(of_gloo->name, of_gloo->label, CommunicatorOf::kProgram,
                                                             of_gloo->size, of_gloo->ranks)
                                         : 0;
  std::sort(steps_.begin(), steps_.end());
  std::stable_sort(gloo_.begin(), gloo_.end(),
                   [](const GlooCall& a, const GlooCall& b) { return a.start_ns < b.start_ns; });
  constexpr int64_t kMostInStep = 1 << 20;
  int64_t number = 0, step = -1;
  size_t next = 0;
  for (const GlooCall& call : gloo_) {
    for (; next < steps_.size() && steps_[next].first <= call.start_ns; ++next) {
      step = steps_[next].second;
      number = 0;
    }
    ImportedOperation operation;
    operation.op = call.range->op;
    operation.op_class = call.range->op_class;
    operation.communicator = communicator;
    if (communicator != 0 && ++number < kMostInStep) operation.seq = (step + 1) * kMostInStep + number;
    operation.payload_bytes = call.bytes;
    operation.datatype = call.datatype;
    run_.call(process_, call.thread, operation, ImportedTiming::kCall, call.start_ns, call.duration_ns);
  }
}

void KinetoFile::on_gpu(const JsonRecord& event, Category category, int64_t start_ns, int64_t duration_ns) {
  const std::string_view name = event.word("name");
  GpuActivity a;
  a.name = name;
  a.start_ns = start_ns;
  a.duration_ns = duration_ns;
  a.correlation = event.integer("args.correlation").value_or(0);
  if (category == Category::kOverhead) {
    a.kind = DeviceKind::kOverhead;
    const std::string overhead = fmt::format("[CUPTI overhead: {}]", name);
    a.name = overhead;
    return run_.gpu(process_, a);
  }
  a.stream = event.integer("args.stream");
  if (a.stream && *a.stream < 0) a.stream.reset();
  if (category == Category::kSync) {
    a.kind = DeviceKind::kSynchronize;
    const std::string sync = fmt::format("[CUDA synchronisation: {}]", name);
    a.name = sync;
    if (a.stream) on_wait(event, a);
    return run_.gpu(process_, a);
  }
  a.device = event.integer("args.device");
  if (!a.device) a.device = event.integer("pid");
  a.context = event.integer("args.context");
  if (a.device) used_gpus_.insert(*a.device);
  if (category == Category::kKernel) {
    a.graph_node = event.integer("args.graph node id");
    if (a.graph_node == 0) a.graph_node.reset();
    const std::optional<ImportedOperation> collective = kernel_of_nccl(event, name);
    run_.gpu(process_, a, collective ? &*collective : nullptr);
    return;
  }
  a.bytes = event.integer("args.bytes");
  const CopyName copy = parse_copy_name(name);
  a.kind = category == Category::kMemcpy ? DeviceKind::kMemcpy : DeviceKind::kMemset;
  a.copy = copy.kind;
  a.source = copy.source;
  a.destination = copy.destination;
  const std::string shown = category == Category::kMemcpy
                                ? fmt::format("[CUDA memcpy {}]", copy.kind.empty() ? "?" : copy.kind)
                                : "[CUDA memset]";
  a.name = shown;
  if (category == Category::kMemcpy && a.copy.empty()) a.copy = "?";
  run_.gpu(process_, a);
}

/// For a stream. Which recording of the event was meant Kineto has found out.
void KinetoFile::on_wait(const JsonRecord& event, const GpuActivity& wait) {
  const std::optional<int64_t> context = event.integer("args.context"),
                               on_stream = event.integer("args.wait_on_stream"),
                               recorded = event.integer("args.wait_on_cuda_event_record_corr_id");
  if (!context || !on_stream || !recorded || *on_stream < 0 || *recorded <= 0 || *recorded >= wait.correlation) return;
  run_.stream_wait(process_, {*context, *wait.stream, wait.correlation,
                              event.integer("args.wait_on_context").value_or(*context), *on_stream, *recorded});
}

void KinetoFile::on_call(const JsonRecord& event, ImportedTiming timing, int64_t start_ns, int64_t duration_ns) {
  ImportedOperation operation;
  operation.op = event.word("name");
  const CallClass call = class_of_call(operation.op);
  operation.op_class = call.op_class;
  operation.nonblocking = call.nonblocking;
  operation.payload_bytes = event.integer("args.bytes").value_or(0);
  if (*operation.payload_bytes < 0) throw BadRecord{"args.bytes is negative"};
  operation.peer = event.integer("args.peer");
  operation.tag = event.integer("args.tag");
  operation.communicator = group_of(event, CommunicatorOf::kProgram);
  if (operation.communicator != 0) operation.seq = event.integer("args.seq");
  run_.call(process_, thread_of(event), operation, timing, start_ns, duration_ns);
}

/// The communicator of a kernel, or call; 0 if the trace does not tell.
uint32_t KinetoFile::group_of(const JsonRecord& event, CommunicatorOf of) {
  const std::string_view name = event.word("args.Process Group Name");
  const std::optional<int64_t> size = event.integer("args.Group size");
  if (name.empty() || !size || *size < 1 || *size > 1 << 24) return 0;
  std::string_view label = event.word("args.Process Group Description");
  const std::string_view list = event.word("args.Process Group Ranks");
  key_.assign(of == CommunicatorOf::kNccl ? "n|" : "p|")
      .append(name)
      .append("|")
      .append(fmt::format_int(*size).c_str())
      .append("|")
      .append(list);
  const auto known = communicators_.find(key_);
  if (known != communicators_.end()) return known->second;
  std::vector<int64_t> ranks = parse_ranks(list);
  for (const auto& [place, group] : groups_) {
    if (group.name != name) continue;
    if (static_cast<int64_t>(ranks.size()) != *size) ranks = group.ranks;
    if (label.empty()) label = group.label;
  }
  if (static_cast<int64_t>(ranks.size()) != *size) ranks.clear();
  return communicators_[key_] = run_.communicator(name, label, of, *size, ranks);
}

/// The two ranks of a message in a larger group, as a communicator of their own, which torch makes of them, too; 0: the
/// trace does not tell them, or the group has no others.
uint32_t KinetoFile::pair_of(const JsonRecord& event, int64_t peer) {
  const std::optional<int64_t> size = event.integer("args.Group size");
  const ImportedProcess& p = run_.process(process_);
  const std::optional<int64_t> own = p.rank ? p.rank : rank_in_trace_name(p.file);
  if (!own || !size || *size <= 2 || peer < 0 || peer >= kMaxRanks || peer == *own) return 0;
  const std::string_view name = event.word("args.Process Group Name"),
                         said = event.word("args.Process Group Description");
  const auto [first, second] = std::minmax(*own, peer);
  key_.assign("2|").append(name).append("|").append(fmt::format_int(peer).c_str());
  const auto known = communicators_.find(key_);
  if (known != communicators_.end()) return known->second;
  std::string_view label = said.empty() ? name : said;
  for (const auto& [place, group] : groups_)
    if (said.empty() && group.name == name && !group.label.empty()) label = group.label;
  return communicators_[key_] = run_.communicator(fmt::format("{} {}-{}", name, first, second),
                                                  fmt::format("{} {}-{}", label, first, second), CommunicatorOf::kNccl,
                                                  2, {first, second});
}

/// What the trace says of a collective by its metadata.
std::optional<ImportedOperation> KinetoFile::collective_of(const JsonRecord& event) {
  const std::string_view said = event.word("args.Collective name");
  const TorchCollective* known = said.empty() ? nullptr : find_torch_collective(said);
  if (known == nullptr) return std::nullopt;
  ImportedOperation operation;
  operation.op = known->op;
  operation.op_class = known->op_class;
  operation.communicator = group_of(event, CommunicatorOf::kNccl);
  if (operation.communicator == 0) return std::nullopt;
  if (known->op_class == OpClass::kDeviceMessage) {
    operation.peer = event.integer(operation.op == "ncclSend" ? "args.Dst Rank" : "args.Src Rank");
    if (const uint32_t pair = operation.peer ? pair_of(event, *operation.peer) : 0; pair != 0)
      operation.communicator = pair;
  }
  const TorchType type = find_torch_type(event.word("args.dtype"));
  operation.datatype = type.code;
  const std::optional<int64_t> elements = event.integer("args.In msg nelems");
  int64_t bytes = 0;
  if (elements.value_or(0) < 0 || __builtin_mul_overflow(elements.value_or(0), type.bytes, &bytes))
    throw BadRecord{"In msg nelems is out of range"};
  operation.payload_bytes = elements && (type.bytes > 0 || *elements == 0) ? std::optional(bytes) : std::nullopt;
  return operation;
}

std::optional<ImportedOperation> KinetoFile::kernel_of_nccl(const JsonRecord& event, std::string_view kernel) {
  std::optional<ImportedOperation> operation = collective_of(event);
  const NcclKernel parts = parse_nccl_kernel(kernel);
  if (!operation) {
    // One that tells a collective or group that ddl does not know is not a matter of inference.
    if (!parts.is_nccl || event.find("args.Collective name") != nullptr) return std::nullopt;
    operation.emplace();
    operation->payload_bytes.reset();
    if (parts.collective != nullptr) {
      operation->op = parts.collective->op;
      operation->op_class = parts.collective->op_class;
    }
  }
  operation->algorithm = parts.algorithm;
  operation->protocol = parts.protocol;
  return operation;
}

/// What the kernels of NCCL carry out that are launched in a range.
std::optional<ImportedOperation> KinetoFile::launched_in(const JsonRecord& event, std::string_view range) {
  if (range == "record_param_comms") return collective_of(event);
  const TorchCollective* known = find_torch_range(range);
  if (known == nullptr) return std::nullopt;
  ImportedOperation operation;
  operation.op = known->op;
  operation.op_class = known->op_class;
  operation.payload_bytes.reset();
  // The shapes that torch gives a scatter are those of what each rank gets.
  if (operation.op == "ncclScatter") return operation;
  const JsonField *dims = event.find(kTensorDims), *types = event.find(kTensorTypes);
  if (dims == nullptr || types == nullptr || dims->kind != JsonKind::kList || types->kind != JsonKind::kList)
    return operation;
  const TorchTensors tensors = parse_tensors(dims->text, types->text);
  operation.payload_bytes = tensors.bytes;
  operation.datatype = tensors.datatype;
  return operation;
}

}  // namespace

void read_kineto(ImportedRun& run, const std::vector<fs::path>& files, const BytesRead& read) {
  UnreadEvents unread;
  for (const fs::path& path : files) {
    InputFile file(path, read);
    KinetoFile trace(run, unread, path, file_bytes(path));
    read_json(file, kTraceEvents, trace);
    if (trace.is_old_format()) {
      throw Error(
          fmt::format(
              "{} is in the format of PyTorch's profiler before Kineto: functions without steps, ranks or collectives",
              path.filename().string()),
          "torch.autograd.profiler writes it, and torch.profiler where torch.profiler.kineto_available() is False: trace with a "
          "PyTorch that has Kineto, or mark steps with ddl_annotate.py and ddl record",
          ExitCode::kDataMissing);
    }
    try {
      trace.finish();
    } catch (const BadRecord& bad) {
      file.fail(0, bad.what);
    }
  }
  unread.write(run.losses(), "events of categories");
}

}  // namespace ddl::store
