// What the GPUs of a running job did in a step, by the analyzer's law (analyzer/passes/device_partition.h, and what devices.cpp there says of
// waiting inside kernels): a kernel of a collective waits until the last member has begun its own, known where all members are seen and
// their clocks are one host's.
//
// CUPTI hands over what GPUs did about a second late and in any order. A step is cut when every launch that was made in it is answered. A
// launch that never gives a device anything (a copy of nothing) is answered by what was launched after the step, once there was time for
// it to come. Where nothing comes, what GPUs did is not known, and nothing stands in for it.
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
  /// Takes in what has come. Call before steps are cut.
  void take(Job& job);

  /// What GPUs did in the rank's step may still come.
  static bool is_pending(const Job& job, const Rank& rank, const EndedStep& step);

  struct Cut {
    RankPart part;
    bool has_collectives = false;
    bool left_out = false;  ///< it was before what was read when the job was joined
    bool is_known = false;  ///< false: `part` has the duration, and nothing else
  };
  /// Mean over its GPUs. Nothing: it has none.
  std::optional<Cut> cut(const Job& job, const Rank& rank, const EndedStep& step) const;

  /// Forgets what the rank's GPUs had ended when the step did.
  static void drop(Rank& rank, const EndedStep& step);
  /// Forgets collectives that all ended before.
  void forget_before(int64_t time_ns);
  /// Keeps at most so much of a rank whose steps do not end.
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
