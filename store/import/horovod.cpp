// The timeline of Horovod (store/import/horovod_timeline.h) as a run.
//
// Rows. Each rank that negotiation names becomes a rank of the run. An operation lasts on a rank from when its last
// tensor of the batch was ready there to the end, as rank 0 saw both. For operations that the cache answered only rank
// 0's part is known, from the begin of the operation.
//
// Steps. A tensor is reduced once in a step, so that a step ends where the name of a tensor comes back. The timeline
// does not say what the training thread does. It is taken to compute until it has handed over its last tensor of the
// step, and to wait in `synchronize` then until all are reduced, as Horovod's optimizers do: rows of an operation
// "synchronize" that completes the others. Where nobody knows who was ready, rank 0 is taken to wait from when the
// first rank was, since some rank does; how much of it is waiting is not known then. A rank has steps if at least half
// of them are known of it.

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "store/import/formats.h"
#include "store/import/horovod_timeline.h"
#include "store/import/imported_run.h"
#include "store/import/json_records.h"

namespace ddl::store {

namespace {

class TimelineReader : public HorovodTimeline {
 public:
  TimelineReader(ImportedRun& run, const std::filesystem::path& path, uint64_t bytes)
      : run_(run), file_(path.filename().string()), bytes_(bytes) {
    rank(0);
  }

  /// Rows need the communicator, and that its size: so they are made when the last rank has been seen.
  void finish() {
    close_round(open() == 0);
    write_steps();
    std::vector<int64_t> ranks;
    const int64_t size = ranks_.rbegin()->first + 1;
    for (int64_t r = 0; r < size; ++r) ranks.push_back(r);
    const uint32_t everybody = run_.communicator("horovod", "horovod", CommunicatorOf::kProgram, size, ranks);
    if (everybody != kEverybody) throw BadRecord{"another communicator came first"};
    for (const auto& [number, process] : ranks_) run_.process(process).world_size = size;
    if (open() > 0)
      run_.losses().add({}, "abandoned_calls", open(),
                        "operations that the timeline does not see ending: they are left out");
    if (cached_ > 0)
      run_.losses().add(
          {}, "negotiations", cached_,
          "operations whose ranks the timeline does not name, since the response cache answered (HOROVOD_CACHE_CAPACITY=0 switches "
          "it off): their waiting is not known");
  }

 private:
  static constexpr uint32_t kEverybody = 1;  ///< the one communicator there is

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

  void on_epoch(int64_t unix_ns) override {
    base_ns_ = unix_ns;
    for (const auto& [number, process] : ranks_) {
      run_.process(process).base_ns = base_ns_;
      run_.process(process).is_realtime = true;
    }
  }

  void on_rank(int64_t number) override { rank(number); }

  /// A tensor comes to the round that is open, or begins the next one if it came to that before.
  void on_negotiation(Tensor& tensor, std::string_view op, int64_t time_ns) override {
    if (op == "BROADCAST") return;
    if (round_ == 0 || tensor.round == round_) {
      close_round(true);
      ++round_;
      round_start_ns_ = ended_ns_.value_or(time_ns);
    }
    tensor.round = round_;
  }

  void on_activity(HorovodBatch&, const HorovodRange& range, int64_t end_ns) override {
    ImportedOperation operation;
    operation.op = range.name;
    operation.payload_bytes.reset();
    run_.call(rank(0), run_.thread(rank(0), "background", 0), operation, ImportedTiming::kCall, range.start_ns,
              end_ns - range.start_ns);
  }

  void on_batch(const std::shared_ptr<HorovodBatch>& batch) override {
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
      run_.call(rank(number), training(number), operation, ImportedTiming::kRequest, ready_ns,
                batch->end_ns - ready_ns);
    if (batch->round != 0 && batch->round == round_) {
      batches_.push_back(batch);
    } else {
      for (const auto& [number, ready_ns] : begin_ns) hidden(number, *batch);
      ended_ns_ = std::max(ended_ns_.value_or(INT64_MIN), batch->end_ns);
    }
  }

  uint32_t training(int64_t number) { return run_.thread(rank(number), "training", 0); }

  /// A layer that did not keep the training waiting: no time of it.
  void hidden(int64_t number, const HorovodBatch& batch) {
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
    std::stable_sort(batches_.begin(), batches_.end(),
                     [](const auto& a, const auto& b) { return a->end_ns < b->end_ns; });
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
          run_.step(process, training(number), static_cast<int64_t>(i), rounds_[i].start_ns,
                    rounds_[i].end_ns - rounds_[i].start_ns);
    }
  }

  ImportedRun& run_;
  std::string file_;
  uint64_t bytes_;
  int64_t base_ns_ = 0;
  std::map<int64_t, size_t> ranks_;  ///< number in the run
  size_t round_ = 0;                 ///< from 1
  int64_t round_start_ns_ = 0;
  std::optional<int64_t> ended_ns_;                     ///< of the operations before the round, the last end
  std::vector<std::shared_ptr<HorovodBatch>> batches_;  ///< of the round, whole
  std::vector<Round> rounds_;
  int64_t instances_ = 0;
  uint64_t cached_ = 0;
};

}  // namespace

void read_horovod(ImportedRun& run, const std::vector<std::filesystem::path>& files, const BytesRead& read) {
  if (files.size() > 1)
    throw Error("several files given: a Horovod timeline is one file",
                "rank 0 writes it for all ranks: ddl import horovod timeline.json", ExitCode::kUsage);
  InputFile file(files[0], read);
  TimelineReader timeline(run, files[0], file_bytes(files[0]));
  read_json(file, kTraceEvents, timeline);
  timeline.finish();
}

}  // namespace ddl::store
