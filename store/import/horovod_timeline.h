// The timeline of Horovod (HOROVOD_TIMELINE), as 0.28.1 writes it over MPI, for `ddl import horovod` and for runs of
// `ddl record --horovod-timeline`.
//
// Rank 0 writes it, as Chrome trace events. Each tensor is a "process" there, named by a metadata event; its events
// nest:
//
//   NEGOTIATE_ALLREDUCE   from the first rank that is ready to the last; inside, an instant event named after each
//                         rank when it became ready - unless the response cache answered, which counts ranks
//                         without asking who they are
//                         became ready - unless the response cache answered, which counts ranks without
//                         asking who they are
//   ALLREDUCE             the operation, with activities inside (MEMCPY_IN_FUSION_BUFFER, MPI_ALLREDUCE,
//                         QUEUE, NCCL_ALLREDUCE, ...); its end tells type and shape of the tensor, those of
//                         broadcasts excepted
//
// Batches. Fused tensors repeat the events of their common operation: all begin, then each activity begins and ends in
// all of them. Such a batch is one operation here, with the bytes of all. The first activity tells which tensors belong
// together, since that of one batch may begin (a thread waits for the GPU) when the next batch has begun.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/format.h"
#include "store/import/json_records.h"

namespace ddl::store {

/// An operation known to Horovod, by its name in the timeline.
struct HorovodOp {
  std::string_view name;
  OpClass op_class;
};

/// Tensors reduced by one operation. Times: ns since the timeline began, on rank 0's clock.
struct HorovodBatch {
  const HorovodOp* op = nullptr;
  std::vector<std::string> tensors;  ///< keys; activities are reported for the first one
  std::string label;                 ///< name of the tensor that ended first, and the number of the others
  size_t ended = 0;
  int64_t start_ns = INT64_MAX, end_ns = 0;
  std::optional<int64_t> bytes = 0;     ///< of all; unset: unknown
  std::map<int64_t, int64_t> ready_ns;  ///< by rank: its last tensor; empty: the response cache answered
  /// begin of the last tensor's negotiation, when its first rank was ready; INT64_MIN: not seen
  int64_t negotiated_ns = INT64_MIN;
  size_t round = 0;  ///< the latest of its tensors'; 0: none had one
};

/// Something with a begin and an end inside of a tensor's events.
struct HorovodRange {
  std::string name;
  int64_t start_ns;
};

/// Reads records of the timeline and reports the resulting operations. Throws BadRecord.
class HorovodTimeline : public JsonVisitor {
 public:
  void on_fact(const JsonField&) override {}
  void on_record(const JsonRecord& event) override;

  /// Operations in progress, negotiations included.
  uint64_t open() const { return open_; }

 protected:
  struct Tensor {
    std::string name;
    std::vector<HorovodRange> open;
    std::map<int64_t, int64_t> ready_ns;   ///< by rank
    std::optional<int64_t> negotiated_ns;  ///< begin of the negotiation
    size_t round = 0;                      ///< the last one that it came in, if on_negotiation() counts them
    std::shared_ptr<HorovodBatch> batch;   ///< of the operation that is open
  };

  /// Unix time at which the timeline began. May come more than once.
  virtual void on_epoch(int64_t unix_ns) = 0;
  /// A rank named in negotiation.
  virtual void on_rank(int64_t) {}
  virtual void on_negotiation(Tensor&, std::string_view, int64_t) {}
  /// Work of rank 0's background thread, or its device, for an incomplete batch.
  virtual void on_activity(HorovodBatch& batch, const HorovodRange& range, int64_t end_ns) = 0;
  /// All its tensors have ended.
  virtual void on_batch(const std::shared_ptr<HorovodBatch>& batch) = 0;

 private:
  void begin(Tensor& tensor, const std::string& key, std::string_view name, int64_t start_ns);
  void begin_activity(Tensor& tensor, const std::string& key, std::string_view name);
  void end(Tensor& tensor, const std::string& key, int64_t end_ns, const JsonRecord& event);

  std::map<std::string, Tensor> tensors_;
  std::shared_ptr<HorovodBatch> gathering_;  ///< tensors that have begun, one after the other, without an activity
  std::shared_ptr<HorovodBatch> starting_;   ///< tensors of it in which the same activity has begun
  std::string activity_;
  uint64_t open_ = 0;
};

}  // namespace ddl::store
