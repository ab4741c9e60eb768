// Collectives by operation, communicator and size, with their bandwidths (specification.md "Bandwidths").
//
// One time per instance: the mean over the members where all do the same (nccl-tests' default), the longest one where
// they do not (rooted operations, Alltoallv and w). A group's bandwidth is S over the median of those times.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <optional>

#include "analyzer/passes/catalog.h"
#include "analyzer/passes/instance.h"
#include "analyzer/statistics.h"

namespace ddl {

/// The instance's transfer time for its group's bandwidth. `split` must be known.
double transfer_time_ns(const Instance& instance, const Split& split);

class CollectiveGroups {
 public:
  /// Sizes beyond this many are booked together under bytes NULL: a run that never uses a size twice must not cost
  /// memory per instance.
  static constexpr size_t kMaxGroups = 20'000;

  /// `sigma_ns`: clock sigma of each wait.
  void add(const CommunicatorInfo& communicator, int64_t op, const Instance& instance, std::optional<int64_t> bytes,
           const Split& split, double sigma_ns);
  /// An upper bound of its transfer, which `bound` tells, of one that was added without its waits.
  void add_bound(const CommunicatorInfo& communicator, int64_t op, const Instance& instance,
                 std::optional<int64_t> bytes, const Split& bound);
  /// Fills tables `collective_group` and `group_transfer`.
  void write(SQLite::Database& db, const Catalog& catalog) const;

 private:
  struct Key {
    int64_t communicator;
    int64_t op;
    int64_t bytes;  ///< -1: not known
    auto operator<=>(const Key&) const = default;
  };
  struct Group {
    int64_t instances = 0;
    int64_t step_instances = 0;
    int64_t calls = 0;
    int64_t time_ns = 0;
    int64_t min_ns = INT64_MAX;
    int64_t max_ns = 0;
    int64_t split_calls = 0;
    int64_t wait_ns = 0;
    int64_t xfer_ns = 0;
    std::optional<int64_t> min_duration_wait_ns, completion_ns;
    double sigma_ns = 0;
    WaitMethod method = WaitMethod::kNone;
    Why why = Why::kNone;
    bool nonblocking = false;
    MedianSketch xfer_times, raw_times, longest_times;  ///< of complete instances
    MedianSketch partial_times;                         ///< of the others, as raw_times
    MedianSketch bounded_times;                         ///< of those of them whose waiting is bounded, as xfer_times
  };
  Group& group_of(const CommunicatorInfo& communicator, int64_t op, std::optional<int64_t> bytes);

  std::map<Key, Group> groups_;
};

}  // namespace ddl
