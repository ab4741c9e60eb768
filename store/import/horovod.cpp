// The timeline of Horovod (HOROVOD_TIMELINE), built from its documentation and the program text that writes it. Unverified on a real file.
//
// Rank 0 writes it, as Chrome trace events. Each tensor is a "process" there, named by a metadata event; its events nest:
//
//   NEGOTIATE_ALLREDUCE   from the first rank that is ready to the last; inside, an instant event named after each rank when it
//                         became ready
//   ALLREDUCE             the operation, with activities inside (QUEUE, NCCL_ALLREDUCE, MEMCPY_IN_FUSION_BUFFER, ...); its end
//                         tells type and shape of the tensor
//
// Each rank that was told to be ready becomes a rank of the run, with one row for each operation, from being ready to the end of it, as
// rank 0 saw both. Operations whose negotiation was answered from Horovod's cache show no ranks: they are known of rank 0 alone.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "store/import/decimal.h"
#include "store/import/formats.h"
#include "store/import/imported_run.h"
#include "store/import/json_records.h"

namespace ddl::store {

namespace {

constexpr std::string_view kNegotiate = "NEGOTIATE_";

struct KnownOp {
  std::string_view name;
  OpClass op_class;
};
constexpr KnownOp kOps[] = {{"ALLREDUCE", OpClass::kAllToAll}, {"ADASUM", OpClass::kAllToAll},        {"ALLGATHER", OpClass::kAllToAll},
                            {"ALLTOALL", OpClass::kAllToAll},  {"REDUCESCATTER", OpClass::kAllToAll}, {"BROADCAST", OpClass::kRootToAll},
                            {"BARRIER", OpClass::kBarrier}};

int64_t bytes_of(std::string_view type) {
  static const std::map<std::string_view, int64_t> kBytes = {{"uint8", 1},   {"int8", 1},    {"bool", 1},     {"uint16", 2},
                                                             {"int16", 2},   {"float16", 2}, {"bfloat16", 2}, {"int32", 4},
                                                             {"float32", 4}, {"int64", 8},   {"float64", 8}};
  const auto found = kBytes.find(type);
  return found == kBytes.end() ? 0 : found->second;
}

/// "[512, 3]" is 1536, "[]" is 1.
int64_t elements_of(std::string_view shape) {
  int64_t elements = 1, number = 0;
  bool digits = false;
  for (const char c : shape) {
    if (c >= '0' && c <= '9') {
      digits = true;
      if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, c - '0', &number))
        throw BadRecord{"its shape is out of range"};
    } else if (digits) {
      if (__builtin_mul_overflow(elements, number, &elements)) throw BadRecord{"its shape is out of range"};
      number = 0;
      digits = false;
    }
  }
  return elements;
}

class Timeline : public JsonVisitor {
 public:
  Timeline(ImportedRun& run, const std::filesystem::path& path, uint64_t bytes)
      : run_(run), file_(path.filename().string()), bytes_(bytes) {
    rank(0);
  }

  /// Rows need the communicator, and that its size: so they are made when the last rank has been seen.
  void finish() {
    std::vector<int64_t> ranks;
    const int64_t size = ranks_.rbegin()->first + 1;
    for (int64_t r = 0; r < size; ++r) ranks.push_back(r);
    const uint32_t everybody = run_.communicator("horovod", "horovod", CommunicatorOf::kProgram, size, ranks);
    if (everybody != kEverybody) throw BadRecord{"another communicator came first"};
    for (const auto& [number, process] : ranks_) run_.process(process).world_size = size;
    if (open_ > 0) run_.losses().add({}, "abandoned_calls", open_, "operations that the timeline does not see ending: they are left out");
  }

 private:
  static constexpr uint32_t kEverybody = 1;  ///< the one communicator there is

  struct Range {
    std::string name;
    int64_t start_ns;
  };
  struct Tensor {
    std::string name;
    std::vector<Range> open;
    std::map<int64_t, int64_t> ready_ns;  ///< by rank
  };

  size_t rank(int64_t number) {
    const auto known = ranks_.find(number);
    if (known != ranks_.end()) return known->second;
    ImportedProcess process;
    process.file = file_;
    process.file_bytes = number == 0 ? bytes_ : 0;
    process.rank = number;
    process.host = "unknown, by the clock of rank 0";
    process.base_ns = base_ns_;
    process.is_realtime = base_ns_ != 0;
    return ranks_[number] = run_.add_process(std::move(process));
  }

  void on_fact(const JsonField&) override {}

  void on_record(const JsonRecord& event) override {
    const std::string_view phase = event.word("ph");
    const std::string key(event.word("pid"));
    if (phase == "M") {
      if (event.word("name") == "process_name") tensors_[key].name = event.word("args.name");
      if (const auto start_ns = event.decimal("args.start_time_since_epoch_in_micros", kMicrosecondsToNs)) {
        base_ns_ = *start_ns;
        for (const auto& [number, process] : ranks_) {
          run_.process(process).base_ns = base_ns_;
          run_.process(process).is_realtime = true;
        }
      }
      return;
    }
    if (phase != "B" && phase != "E" && phase != "X") return;
    const std::optional<int64_t> time_ns = event.decimal("ts", kMicrosecondsToNs);
    if (!time_ns) throw BadRecord{"an event without ts"};
    Tensor& tensor = tensors_[key];
    const std::string_view name = event.word("name");
    if (phase == "B") {
      constexpr size_t kDeepest = 64;
      if (tensor.open.size() == kDeepest) throw BadRecord{"too many activities inside each other"};
      if (tensor.open.empty()) ++open_;
      tensor.open.push_back({std::string(name), *time_ns});
    } else if (phase == "X") {
      const std::optional<int64_t> number = whole(name);
      const bool negotiates = !tensor.open.empty() && tensor.open.front().name.starts_with(kNegotiate);
      if (!negotiates || !number) return;
      if (*number < 0 || *number >= kMaxRanks) throw BadRecord{fmt::format("rank {} is ready", *number)};
      rank(*number);
      tensor.ready_ns.try_emplace(*number, *time_ns);
    } else {
      end(tensor, key, *time_ns, event);
    }
  }

  void end(Tensor& tensor, const std::string& key, int64_t end_ns, const JsonRecord& event) {
    if (tensor.open.empty()) return;  // its begin came before the timeline
    const Range range = tensor.open.back();
    tensor.open.pop_back();
    const std::string& shown = tensor.name.empty() ? key : tensor.name;
    if (!tensor.open.empty()) {
      run_.range(rank(0), run_.thread(rank(0), key, 0), ContextKind::kOperator, range.name, range.start_ns, end_ns - range.start_ns);
      return;
    }
    --open_;
    if (range.name.starts_with(kNegotiate)) return;
    const auto known = std::find_if(std::begin(kOps), std::end(kOps), [&](const KnownOp& op) { return op.name == range.name; });
    if (known != std::end(kOps)) {
      ImportedOperation operation;
      operation.op = known->name;
      operation.op_class = known->op_class;
      operation.communicator = kEverybody;
      operation.seq = ++instances_;
      const int64_t size = bytes_of(event.word("args.dtype"));
      int64_t bytes = 0;
      if (__builtin_mul_overflow(elements_of(event.word("args.shape")), size, &bytes)) throw BadRecord{"its shape is out of range"};
      operation.payload_bytes = bytes;
      tensor.ready_ns.try_emplace(0, range.start_ns);
      for (const auto& [number, ready_ns] : tensor.ready_ns) {
        const size_t process = rank(number);
        const uint32_t thread = run_.thread(process, key, 0);
        run_.range(process, thread, ContextKind::kLayer, shown, ready_ns, end_ns - ready_ns);
        run_.call(process, thread, operation, ImportedTiming::kRequest, ready_ns, end_ns - ready_ns);
      }
    }
    tensor.ready_ns.clear();
  }

  ImportedRun& run_;
  std::string file_;
  uint64_t bytes_;
  int64_t base_ns_ = 0;
  std::map<int64_t, size_t> ranks_;  ///< number in the run
  std::map<std::string, Tensor> tensors_;
  int64_t instances_ = 0;
  uint64_t open_ = 0;
};

}  // namespace

void read_horovod(ImportedRun& run, const std::vector<std::filesystem::path>& files, const BytesRead& read) {
  if (files.size() > 1)
    throw Error("a timeline of Horovod is one file", "rank 0 writes it for all ranks: ddl import horovod timeline.json", ExitCode::kUsage);
  InputFile file(files[0], read);
  Timeline timeline(run, files[0], file_bytes(files[0]));
  read_json(file, kTraceEvents, timeline);
  timeline.finish();
}

}  // namespace ddl::store
