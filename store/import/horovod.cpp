// The timeline of Horovod (HOROVOD_TIMELINE), as 0.28.1 writes it over MPI.
//
// Rank 0 writes it, as Chrome trace events. Each tensor is a "process" there, named by a metadata event; its events nest:
//
//   NEGOTIATE_ALLREDUCE   from the first rank that is ready to the last; inside, an instant event named after each rank when it
//                         became ready - unless the response cache answered, which counts ranks without asking who they are
//   ALLREDUCE             the operation, with activities inside (MEMCPY_IN_FUSION_BUFFER, MPI_ALLREDUCE, QUEUE, NCCL_ALLREDUCE, ...); its
//                         end tells type and shape of the tensor, those of broadcasts excepted
//
// Batches. Tensors that were fused repeat the events of the one operation that they share: all begin, and then each activity begins and ends in
// all of them. Such a batch is one operation here, with the bytes of all. Which tensors belong together tells the first activity,
// because that of one batch may begin (a thread waits for the GPU) when the next batch has begun.
//
// Rows. Each rank that negotiation names becomes a rank of the run. An operation lasts on a rank from when its last tensor of the batch was
// ready there to the end, as rank 0 saw both. For operations that the cache answered only rank 0's part is known, from the begin of the operation.
//
// Steps. A tensor is reduced once in a step, so that a step ends where the name of a tensor comes back. The timeline does not say what the
// training thread does. It is taken to compute until it has handed over its last tensor of the step, and to wait in `synchronize` then
// until all are reduced, as Horovod's optimizers do: rows of an operation "synchronize" that completes the others. Where nobody knows who was
// ready, rank 0 is taken to wait from when the first rank was, since some rank does; how much of it is waiting is not known then. A rank has
// steps if at least half of them are known of it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
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

std::optional<int64_t> bytes_of(std::string_view type) {
  static const std::map<std::string_view, int64_t> kBytes = {{"uint8", 1},   {"int8", 1},    {"bool", 1},     {"uint16", 2},
                                                             {"int16", 2},   {"float16", 2}, {"bfloat16", 2}, {"int32", 4},
                                                             {"float32", 4}, {"int64", 8},   {"float64", 8}};
  const auto found = kBytes.find(type);
  return found == kBytes.end() ? std::nullopt : std::optional(found->second);
}

const KnownOp* known_op(std::string_view name) {
  const auto known = std::find_if(std::begin(kOps), std::end(kOps), [&](const KnownOp& op) { return op.name == name; });
  return known == std::end(kOps) ? nullptr : known;
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

/// For a tensor, as its end tells it; unset: it does not.
std::optional<int64_t> payload_of(const JsonRecord& end) {
  const std::optional<int64_t> size = bytes_of(end.word("args.dtype"));
  if (!size) return std::nullopt;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements_of(end.word("args.shape")), *size, &bytes)) throw BadRecord{"its shape is out of range"};
  return bytes;
}

/// Tensors that are reduced by one operation.
struct Batch {
  const KnownOp* op = nullptr;
  std::vector<std::string> tensors;  ///< keys; of the first one the activities are told
  std::string label;
  size_t ended = 0;
  int64_t start_ns = INT64_MAX, end_ns = 0;
  std::optional<int64_t> bytes = 0;
  std::map<int64_t, int64_t> ready_ns;  ///< by rank: its last tensor
  int64_t negotiated_ns = INT64_MIN;    ///< the last tensor's negotiation began: its first rank was ready; INT64_MIN: not seen
  size_t round = 0;
};

class Timeline : public JsonVisitor {
 public:
  Timeline(ImportedRun& run, const std::filesystem::path& path, uint64_t bytes)
      : run_(run), file_(path.filename().string()), bytes_(bytes) {
    rank(0);
  }

  /// Rows need the communicator, and that its size: so they are made when the last rank has been seen.
  void finish() {
    close_round(open_ == 0);
    write_steps();
    std::vector<int64_t> ranks;
    const int64_t size = ranks_.rbegin()->first + 1;
    for (int64_t r = 0; r < size; ++r) ranks.push_back(r);
    const uint32_t everybody = run_.communicator("horovod", "horovod", CommunicatorOf::kProgram, size, ranks);
    if (everybody != kEverybody) throw BadRecord{"another communicator came first"};
    for (const auto& [number, process] : ranks_) run_.process(process).world_size = size;
    if (open_ > 0) run_.losses().add({}, "abandoned_calls", open_, "operations that the timeline does not see ending: they are left out");
    if (cached_ > 0)
      run_.losses().add(
          {}, "negotiations", cached_,
          "operations whose ranks the timeline does not name, since the response cache answered (HOROVOD_CACHE_CAPACITY=0 switches "
          "it off): their waiting is not known");
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
    std::map<int64_t, int64_t> ready_ns;   ///< by rank
    std::optional<int64_t> negotiated_ns;  ///< begin of the negotiation
    size_t round = 0;                      ///< the last one that it came in
    std::shared_ptr<Batch> batch;          ///< of the operation that is open
  };
  struct Round {
    int64_t start_ns, end_ns;
    std::set<int64_t> ranks;  ///< whose readiness is known
  };

  size_t rank(int64_t number) {
    const auto known = ranks_.find(number);
    if (known != ranks_.end()) return known->second;
    ImportedProcess process;
    process.file = file_;
    process.file_bytes = number == 0 ? bytes_ : 0;
    process.rank = number;
    process.host = "host unknown";  // times are by the clock of rank 0
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
      begin(tensor, key, name, *time_ns);
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

  void begin(Tensor& tensor, const std::string& key, std::string_view name, int64_t start_ns) {
    constexpr size_t kDeepest = 64;
    if (tensor.open.size() == kDeepest) throw BadRecord{"too many activities inside each other"};
    tensor.open.push_back({std::string(name), start_ns});
    if (tensor.open.size() > 1) {
      if (tensor.batch && tensor.open.size() == 2) begin_activity(tensor, key, name);
      return;
    }
    ++open_;
    if (name.starts_with(kNegotiate)) {
      tensor.ready_ns.clear();
      tensor.negotiated_ns = start_ns;
      if (name.substr(kNegotiate.size()) != "BROADCAST") come(tensor, start_ns);
      return;
    }
    const KnownOp* op = known_op(name);
    if (op == nullptr) return;
    if (!gathering_ || gathering_->op != op) {
      gathering_ = std::make_shared<Batch>();
      gathering_->op = op;
    }
    join(tensor, key, gathering_);
  }

  /// A tensor comes to the round that is open, or begins the next one if it came to that before.
  void come(Tensor& tensor, int64_t time_ns) {
    if (round_ == 0 || tensor.round == round_) {
      close_round(true);
      ++round_;
      round_start_ns_ = ended_ns_.value_or(time_ns);
    }
    tensor.round = round_;
  }

  static void join(Tensor& tensor, const std::string& key, const std::shared_ptr<Batch>& batch) {
    tensor.batch = batch;
    batch->tensors.push_back(key);
  }

  /// The first activity of a tensor says which of the tensors that have begun are a batch: those in which it begins in a row.
  void begin_activity(Tensor& tensor, const std::string& key, std::string_view name) {
    if (tensor.batch != gathering_) return;
    if (!starting_ || activity_ != name) {
      starting_ = std::make_shared<Batch>();
      starting_->op = gathering_->op;
      activity_ = name;
    }
    std::erase(gathering_->tensors, key);
    if (gathering_->tensors.empty()) gathering_.reset();
    join(tensor, key, starting_);
  }

  void end(Tensor& tensor, const std::string& key, int64_t end_ns, const JsonRecord& event) {
    starting_.reset();
    if (tensor.open.empty()) return;  // its begin came before the timeline
    const Range range = tensor.open.back();
    tensor.open.pop_back();
    if (!tensor.open.empty()) {
      if (tensor.batch && tensor.batch->tensors.front() == key && tensor.open.size() == 1) activity(range, end_ns);
      return;
    }
    --open_;
    if (range.name.starts_with(kNegotiate)) return;
    const std::shared_ptr<Batch> batch = std::move(tensor.batch);
    tensor.batch.reset();
    if (!batch) return;
    if (batch == gathering_) gathering_.reset();
    if (batch->label.empty()) batch->label = tensor.name.empty() ? key : tensor.name;
    batch->start_ns = std::min(batch->start_ns, range.start_ns);
    batch->end_ns = std::max(batch->end_ns, end_ns);
    batch->round = std::max(batch->round, batch->op->op_class == OpClass::kRootToAll ? 0 : tensor.round);
    const std::optional<int64_t> bytes = payload_of(event);
    if (!bytes) batch->bytes.reset();
    if (batch->bytes && __builtin_add_overflow(*batch->bytes, *bytes, &*batch->bytes)) throw BadRecord{"its shape is out of range"};
    for (const auto& [number, ready_ns] : tensor.ready_ns) {
      int64_t& last_ns = batch->ready_ns.try_emplace(number, ready_ns).first->second;
      last_ns = std::max(last_ns, ready_ns);
    }
    batch->negotiated_ns = std::max(batch->negotiated_ns, tensor.negotiated_ns.value_or(INT64_MIN));
    tensor.ready_ns.clear();
    tensor.negotiated_ns.reset();
    if (++batch->ended == batch->tensors.size()) complete(batch);
  }

  /// What rank 0's background thread, or its device, did for a batch.
  void activity(const Range& range, int64_t end_ns) {
    ImportedOperation operation;
    operation.op = range.name;
    operation.payload_bytes.reset();
    run_.call(rank(0), run_.thread(rank(0), "background", 0), operation, ImportedTiming::kCall, range.start_ns, end_ns - range.start_ns);
  }

  void complete(const std::shared_ptr<Batch>& batch) {
    if (batch->tensors.size() > 1) batch->label += fmt::format(" and {} more", batch->tensors.size() - 1);
    if (batch->ready_ns.empty()) ++cached_;
    ImportedOperation operation;
    operation.op = batch->op->name;
    operation.op_class = batch->op->op_class;
    operation.communicator = kEverybody;
    operation.seq = ++instances_;
    operation.payload_bytes = batch->bytes;
    operation.layer = batch->label;
    std::map<int64_t, int64_t> begin_ns = batch->ready_ns;
    begin_ns.try_emplace(0, batch->start_ns);
    for (const auto& [number, ready_ns] : begin_ns)
      run_.call(rank(number), training(number), operation, ImportedTiming::kRequest, ready_ns, batch->end_ns - ready_ns);
    if (batch->round != 0 && batch->round == round_) {
      batches_.push_back(batch);
    } else {
      for (const auto& [number, ready_ns] : begin_ns) hidden(number, *batch);
      ended_ns_ = std::max(ended_ns_.value_or(INT64_MIN), batch->end_ns);
    }
  }

  uint32_t training(int64_t number) { return run_.thread(rank(number), "training", 0); }

  /// A layer that did not keep the training waiting: no time of it.
  void hidden(int64_t number, const Batch& batch) {
    run_.range(rank(number), training(number), ContextKind::kLayer, batch.label, batch.end_ns - 1, 0);
  }

  /// All of a step came: from its last tensor on a rank waits for one batch after the other.
  void close_round(bool is_whole) {
    if (batches_.empty()) return;
    std::map<int64_t, int64_t> last_ready_ns;
    for (const auto& batch : batches_)
      for (const auto& [number, ready_ns] : batch->ready_ns) {
        int64_t& last_ns = last_ready_ns.try_emplace(number, ready_ns).first->second;
        last_ns = std::max(last_ns, ready_ns);
      }
    Round round{round_start_ns_, INT64_MIN, {}};
    for (const auto& [number, ns] : last_ready_ns) round.ranks.insert(number);
    std::stable_sort(batches_.begin(), batches_.end(), [](const auto& a, const auto& b) { return a->end_ns < b->end_ns; });
    round.end_ns = batches_.back()->end_ns;
    if (!last_ready_ns.contains(0)) {
      int64_t& from_ns = last_ready_ns[0] = INT64_MIN;
      for (const auto& batch : batches_)
        from_ns = std::max(from_ns, batch->negotiated_ns == INT64_MIN ? batch->start_ns : batch->negotiated_ns);
    }
    for (const auto& [number, ready_ns] : last_ready_ns) {
      int64_t from_ns = ready_ns;
      for (const auto& batch : batches_) {
        if (number != 0 && !batch->ready_ns.contains(number)) continue;
        if (batch->end_ns <= from_ns) {
          hidden(number, *batch);
          continue;
        }
        ImportedOperation operation;
        operation.op = "synchronize";
        operation.op_class = OpClass::kCompletion;
        run_.range(rank(number), training(number), ContextKind::kLayer, batch->label, from_ns, batch->end_ns - from_ns);
        run_.call(rank(number), training(number), operation, ImportedTiming::kCall, from_ns, batch->end_ns - from_ns);
        from_ns = batch->end_ns;
      }
    }
    if (is_whole) rounds_.push_back(round);
    ended_ns_ = std::max(ended_ns_.value_or(INT64_MIN), round.end_ns);
    batches_.clear();
  }

  void write_steps() {
    if (rounds_.size() < 2) return;  // nothing came back: there is no telling what a step is
    for (const auto& [number, process] : ranks_) {
      const auto has = [number = number](const Round& round) { return round.ranks.contains(number); };
      const auto known = static_cast<size_t>(std::count_if(rounds_.begin(), rounds_.end(), has));
      if (number != 0 && known * 2 < rounds_.size()) continue;
      for (size_t i = 0; i < rounds_.size(); ++i)
        if (number == 0 || has(rounds_[i]))
          run_.step(process, training(number), static_cast<int64_t>(i), rounds_[i].start_ns, rounds_[i].end_ns - rounds_[i].start_ns);
    }
  }

  ImportedRun& run_;
  std::string file_;
  uint64_t bytes_;
  int64_t base_ns_ = 0;
  std::map<int64_t, size_t> ranks_;  ///< number in the run
  std::map<std::string, Tensor> tensors_;
  std::shared_ptr<Batch> gathering_;  ///< tensors that have begun, one after the other, without an activity
  std::shared_ptr<Batch> starting_;   ///< tensors of it in which the same activity has begun
  std::string activity_;
  size_t round_ = 0;  ///< from 1
  int64_t round_start_ns_ = 0;
  std::optional<int64_t> ended_ns_;              ///< of the operations before the round, the last end
  std::vector<std::shared_ptr<Batch>> batches_;  ///< of the round, whole
  std::vector<Round> rounds_;
  int64_t instances_ = 0;
  uint64_t open_ = 0, cached_ = 0;
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
