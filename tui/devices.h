// The work of a running job's GPUs in a step, by the analyzer's rules (analyzer/passes/device_partition.h; devices.cpp
// there on waiting inside kernels): a kernel of a collective waits until the last member has begun its own, known if
// all members are seen and share one host's clock.
//
// CUPTI delivers GPU activities about a second late and in any order. A step is cut when every launch in it is
// answered. A launch without device work (a copy of nothing) is answered by work launched after the step, after some
// time. If nothing comes, the GPUs' work is unknown, and nothing replaces it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "tui/job.h"

namespace ddl::tui {

class Devices {
 public:
  /// Reads what is new. Call before steps are cut.
  void take(Job& job);

  /// GPU work of the rank's step may still come.
  static bool is_pending(const Job& job, const Rank& rank, const EndedStep& step);

  struct Cut {
    RankPart part;
    bool has_collectives = false;
    bool left_out = false;  ///< before the point at which this program joined the job
    bool is_known = false;  ///< false: `part` has the duration only
  };
  /// Mean over the rank's GPUs. Nothing: it has none.
  std::optional<Cut> cut(const Job& job, const Rank& rank, const EndedStep& step) const;

  /// Forgets what the rank's GPUs had finished by the step's end.
  static void drop(Rank& rank, const EndedStep& step);
  /// Forgets collectives that have all ended before.
  void forget_before(int64_t time_ns);
  /// Bounds what is kept of a rank whose steps do not end.
  static void bound(Rank& rank, size_t most);

 private:
  using Key = std::pair<uint32_t, uint64_t>;  ///< communicator, number
  struct Instance {
    std::map<std::pair<int32_t, int32_t>, int64_t> begins_ns;  ///< by rank, and rank on the communicator
    int64_t last_ns = INT64_MIN;
    int64_t end_ns = INT64_MIN;
    bool one_host = true;
    size_t domain = 0;
  };
  std::optional<int64_t> wait_ns(const Job& job, const DeviceWork& work, const Interval& kernel) const;

  std::map<Key, Instance> instances_;
  std::deque<Key> order_;  ///< of instances_, the oldest first
};

}  // namespace ddl::tui
