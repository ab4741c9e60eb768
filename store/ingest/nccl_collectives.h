// NCCL's collectives as carried out on the device: one row of table event (kind 4) and of nccl_collective for each
// execution by a rank, however many sources saw it.
//
// The host's call (our wrappers, or NCCL's profiler instead) describes the operation; its time comes from the kernel
// that CUPTI saw launched for it, else from the timers of NCCL's profiler. The key of an instance is (communicator,
// number), equal on all ranks without a message; its members are told apart by process and rank on the communicator,
// since a process may have several, one per GPU. A captured collective has one call and runs with every launch of its
// graph: the k-th time after the first has k * 2^32 added to its number.
//
// Collectives of one group may share a kernel, in proportion to S, the size of the whole operation, which for some is
// known only from another rank: so rows are written after all processes have been read.
#pragma once

#include <SQLiteCpp/Database.h>

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/archive.h"

namespace ddl::store {

struct RunTables;
struct Timeline;
class RecordStream;
class ProcessTables;

/// S of nccl-tests, from the largest payload of any rank.
int64_t nccl_whole_size(std::string_view op, int64_t largest_payload, int64_t ranks);

/// Where the shares of collectives in one kernel end, by size: the last one is the total. Equal if nothing moves.
std::vector<int64_t> nccl_share_ends(const std::vector<int64_t>& sizes);

class NcclCollectives {
 public:
  /// For one process whose gpu_events are in the store.
  void read(SQLite::Database& db, RunTables& run, RecordStream& stream, const Timeline& timeline,
            ProcessTables& tables);
  /// All; returns their number.
  uint64_t write(SQLite::Database& db, const RunTables& run) const;
  /// Those of the next processes; operations, regions and sites by their numbers there.
  void append(NcclCollectives part, const std::vector<uint32_t>& ops, const std::vector<uint32_t>& regions,
              const std::vector<uint32_t>& sites);
  void archive(Archive& a) { a(executions_, largest_payload_); }

 private:
  /// One rank's part of an instance: communicator.id, rank on it (-1: unknown; a process may have several), number.
  struct Key {
    uint32_t comm = 0;
    int32_t comm_rank = -1;
    uint32_t number = 0;
    auto operator<=>(const Key&) const = default;
    void archive(Archive& a) { a(comm, comm_rank, number); }
    Key plus(uint32_t i) const { return {comm, comm_rank, number + i}; }
  };
  struct Call {
    uint32_t op = 0;
    uint32_t thread = 0;
    uint32_t region = 0;
    uint32_t site = 0;
    std::optional<int64_t> step;
    int64_t payload_bytes = 0;
    std::optional<int64_t> root;
    int64_t datatype = 0, reduction = 0;
    std::string method;  ///< "RING SIMPLE"; empty: unknown
    uint32_t channels = 0;
    std::optional<int64_t> tag;
    void archive(Archive& a) {
      a(op, thread, region, site, step, payload_bytes, root, datatype, reduction, method, channels, tag);
    }
  };
  /// One kernel, or one of NCCL's timings, with the calls that it carried out.
  struct Execution {
    int64_t process = 0;
    Key first;
    uint64_t repetition = 0;  ///< of a captured one: the number of earlier runs
    int64_t start_ns = 0, duration_ns = 0;
    std::optional<int64_t> step;
    bool timed_by_nccl = false;
    std::vector<Call> calls;
    std::optional<int64_t> initial_sync_ns = {}, final_sync_ns = {};
    void archive(Archive& a) {
      a(process, first, repetition, start_ns, duration_ns, step, timed_by_nccl, calls, initial_sync_ns, final_sync_ns);
    }
  };
  using Calls = std::map<Key, Call>;

  static Calls read_calls(RecordStream& stream, const Timeline& timeline, ProcessTables& tables,
                          std::map<Key, uint64_t>& groups);
  void add_kernels(SQLite::Database& db, RunTables& run, const ProcessTables& tables, const Calls& calls,
                   const std::map<Key, uint64_t>& groups);
  void add_timers(SQLite::Database& db, const ProcessTables& tables, const Calls& calls);

  std::vector<Execution> executions_;
  std::map<std::pair<uint32_t, uint32_t>, int64_t> largest_payload_;  ///< of any rank, by communicator and number
};

}  // namespace ddl::store
