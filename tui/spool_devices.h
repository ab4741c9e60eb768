// GPU records in a running process's spool: launches, their outcome, the NCCL collective of a kernel. Joins both sides
// as they come, as the ingest does for a whole run (store/ingest/device.h, nccl_collectives.h).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/format.h"
#include "tui/job.h"

namespace ddl::tui {

/// Sizes of recent NCCL calls, the largest of any rank, by which collectives share a kernel.
class NcclSizes {
 public:
  void add(uint32_t comm, uint32_t sequence, int64_t payload_bytes);
  /// 0: not known.
  int64_t largest(uint32_t comm, uint32_t sequence) const;

 private:
  std::unordered_map<uint64_t, int64_t> largest_;
  std::deque<uint64_t> order_;
};

class SpoolDevices {
 public:
  /// `strings`: of the spool, by id.
  SpoolDevices(NcclSizes& sizes, const std::unordered_map<uint32_t, std::string>& strings)
      : sizes_(sizes), strings_(strings) {}

  /// A communicator of NCCL: `index` is the process's own, `comm` is in Job::communicators.
  void on_communicator(uint32_t index, uint32_t comm, int32_t comm_rank) { comms_[index] = {comm, comm_rank}; }
  void on_device_clock(const DeviceClockMeta& meta);
  void on_graph_node(const GraphNodeMeta& meta);
  /// From then on GPU work is unknown.
  void on_handed_over(uint64_t ticks) { until_ticks_ = ticks; }

  void take_launch(const Record& record);
  /// An enqueued collective. `op`: Job::operations.
  void take_call(const Record& record, uint32_t thread, uint32_t op, uint32_t layer);
  void take_group(const Record& record);
  void take(const DeviceRecord& record) { waiting_.push_back({record, false}); }
  /// Records before the next ones were left out.
  void leave_out() { left_out_ = true; }

  /// Hands finished work on to the rank, whose clock must have its place. Call it after reading all processes: the
  /// members tell a collective's size.
  void join(const Job& job, Rank& rank);

 private:
  struct Member {
    uint32_t comm = kNone;
    int32_t rank = -1;
  };
  struct Launch {
    uint64_t start_ticks = 0, duration_ticks = 0;
    uint32_t comm = kNoComm, sequence = kNoSequence;
  };
  struct Call {
    uint32_t op = kNone, thread = 0, layer = kNone;
    int32_t peer = -1;
    uint64_t bytes = 0;
  };
  using Key = std::pair<uint32_t, uint32_t>;  ///< the process's communicator, number
  struct Kernel {
    uint64_t start_ticks = 0, end_ticks = 0;
    bool is_captured = false;
  };
  struct Waiting {
    DeviceRecord record;
    bool again;  ///< its launch had not returned when it was first looked at
  };

  const GraphNodeMeta* captured(uint64_t node) const;
  DeviceClass class_of(uint32_t name);
  std::vector<Waiting> take_waiting(bool ended, const store::ProcessClock& clock);
  void answer(const DeviceRecord& record, RankDevices& to);
  void add_collectives(const Job& job, Rank& rank, const Key& first, uint32_t repetition, const Kernel& kernel);

  NcclSizes& sizes_;
  const std::unordered_map<uint32_t, std::string>& strings_;
  std::unordered_map<uint32_t, Member> comms_;
  std::vector<DeviceClockMeta> clocks_;
  std::unordered_map<uint64_t, GraphNodeMeta> nodes_;
  std::unordered_map<uint32_t, DeviceClass> classes_;  ///< by name
  std::unordered_map<uint32_t, Launch> launches_;      ///< by correlation
  std::deque<uint32_t> launch_order_;
  std::set<std::pair<uint64_t, uint32_t>> awaited_;  ///< launches without an answer: when, correlation
  std::map<Key, Call> calls_;
  std::deque<Key> call_order_;
  std::map<Key, uint64_t> groups_;
  std::map<std::pair<Key, uint64_t>, uint32_t> runs_;  ///< of a captured node for a collective, so far
  std::deque<Waiting> waiting_;                        ///< to be joined
  uint64_t until_ticks_ = UINT64_MAX;
  bool left_out_ = false;
  std::optional<uint64_t> first_ticks_;  ///< the end of the first record behind those that were left out
};

}  // namespace ddl::tui
