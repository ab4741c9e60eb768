#include "store/import/horovod_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "store/import/decimal.h"
#include "store/import/imported_run.h"
#include "store/import/input_file.h"

namespace ddl::store {
namespace {

constexpr std::string_view kNegotiate = "NEGOTIATE_";

constexpr HorovodOp kOps[] = {{"ALLREDUCE", OpClass::kAllToAll},     {"ADASUM", OpClass::kAllToAll},
                              {"ALLGATHER", OpClass::kAllToAll},     {"ALLTOALL", OpClass::kAllToAll},
                              {"REDUCESCATTER", OpClass::kAllToAll}, {"BROADCAST", OpClass::kRootToAll},
                              {"BARRIER", OpClass::kBarrier}};

std::optional<int64_t> bytes_of(std::string_view type) {
  static const std::map<std::string_view, int64_t> kBytes = {
      {"uint8", 1},    {"int8", 1},  {"bool", 1},    {"uint16", 2}, {"int16", 2},  {"float16", 2},
      {"bfloat16", 2}, {"int32", 4}, {"float32", 4}, {"int64", 8},  {"float64", 8}};
  const auto found = kBytes.find(type);
  return found == kBytes.end() ? std::nullopt : std::optional(found->second);
}

const HorovodOp* known_op(std::string_view name) {
  const auto known =
      std::find_if(std::begin(kOps), std::end(kOps), [&](const HorovodOp& op) { return op.name == name; });
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
  if (__builtin_mul_overflow(elements_of(end.word("args.shape")), *size, &bytes))
    throw BadRecord{"its shape is out of range"};
  return bytes;
}

template <typename Tensor>
void join(Tensor& tensor, const std::string& key, const std::shared_ptr<HorovodBatch>& batch) {
  tensor.batch = batch;
  batch->tensors.push_back(key);
}

}  // namespace

void HorovodTimeline::on_record(const JsonRecord& event) {
  const std::string_view phase = event.word("ph");
  const std::string key(event.word("pid"));
  if (phase == "M") {
    if (event.word("name") == "process_name") tensors_[key].name = event.word("args.name");
    if (const auto start_ns = event.decimal("args.start_time_since_epoch_in_micros", kMicrosecondsToNs))
      on_epoch(*start_ns);
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
    on_rank(*number);
    tensor.ready_ns.try_emplace(*number, *time_ns);
  } else {
    end(tensor, key, *time_ns, event);
  }
}

void HorovodTimeline::begin(Tensor& tensor, const std::string& key, std::string_view name, int64_t start_ns) {
  constexpr size_t kDeepest = 64;
  if (tensor.open.size() == kDeepest) throw BadRecord{"too many nested activities"};
  tensor.open.push_back({std::string(name), start_ns});
  if (tensor.open.size() > 1) {
    if (tensor.batch && tensor.open.size() == 2) begin_activity(tensor, key, name);
    return;
  }
  ++open_;
  if (name.starts_with(kNegotiate)) {
    tensor.ready_ns.clear();
    tensor.negotiated_ns = start_ns;
    on_negotiation(tensor, name.substr(kNegotiate.size()), start_ns);
    return;
  }
  const HorovodOp* op = known_op(name);
  if (op == nullptr) return;
  if (!gathering_ || gathering_->op != op) {
    gathering_ = std::make_shared<HorovodBatch>();
    gathering_->op = op;
  }
  join(tensor, key, gathering_);
}

/// The first activity of a tensor says which of the tensors that have begun are a batch: those in which it begins in a
/// row.
void HorovodTimeline::begin_activity(Tensor& tensor, const std::string& key, std::string_view name) {
  if (tensor.batch != gathering_) return;
  if (!starting_ || activity_ != name) {
    starting_ = std::make_shared<HorovodBatch>();
    starting_->op = gathering_->op;
    activity_ = name;
  }
  std::erase(gathering_->tensors, key);
  if (gathering_->tensors.empty()) gathering_.reset();
  join(tensor, key, starting_);
}

void HorovodTimeline::end(Tensor& tensor, const std::string& key, int64_t end_ns, const JsonRecord& event) {
  starting_.reset();
  if (tensor.open.empty()) return;  // its begin came before the timeline
  const HorovodRange range = tensor.open.back();
  tensor.open.pop_back();
  if (!tensor.open.empty()) {
    if (tensor.batch && tensor.batch->tensors.front() == key && tensor.open.size() == 1)
      on_activity(*tensor.batch, range, end_ns);
    return;
  }
  --open_;
  if (range.name.starts_with(kNegotiate)) return;
  const std::shared_ptr<HorovodBatch> batch = std::move(tensor.batch);
  tensor.batch.reset();
  if (!batch) return;
  if (batch == gathering_) gathering_.reset();
  if (batch->label.empty()) batch->label = tensor.name.empty() ? key : tensor.name;
  batch->start_ns = std::min(batch->start_ns, range.start_ns);
  batch->end_ns = std::max(batch->end_ns, end_ns);
  batch->round = std::max(batch->round, batch->op->op_class == OpClass::kRootToAll ? 0 : tensor.round);
  const std::optional<int64_t> bytes = payload_of(event);
  if (!bytes) batch->bytes.reset();
  if (batch->bytes && __builtin_add_overflow(*batch->bytes, *bytes, &*batch->bytes))
    throw BadRecord{"its shape is out of range"};
  for (const auto& [number, ready_ns] : tensor.ready_ns) {
    int64_t& last_ns = batch->ready_ns.try_emplace(number, ready_ns).first->second;
    last_ns = std::max(last_ns, ready_ns);
  }
  batch->negotiated_ns = std::max(batch->negotiated_ns, tensor.negotiated_ns.value_or(INT64_MIN));
  tensor.ready_ns.clear();
  tensor.negotiated_ns.reset();
  if (++batch->ended < batch->tensors.size()) return;
  if (batch->tensors.size() > 1) batch->label += fmt::format(" and {} more", batch->tensors.size() - 1);
  on_batch(batch);
}

}  // namespace ddl::store
