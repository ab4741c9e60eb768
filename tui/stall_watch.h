// Does the job make progress? `ddl record --stall` asks this of a running job now and then, and is answered once when
// it stalls, and once when it goes on.
//
// A stall: no rank has finished a call, a step or a range for the limit. Anything that a rank finishes is progress, so
// a long evaluation on one rank is no stall; that the others wait beyond the limit is then reported once, as what it
// is: rank X still makes progress. Calls by which background threads only coordinate are not progress
// (docs/decisions/0027). Pure: looks at no clock, file or process.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tui/job.h"

namespace ddl::tui {

struct StallNews {
  enum class Kind { kStall, kWaiting, kResumed };
  Kind kind = Kind::kStall;
  /// "no rank has finished a call or a step for 5m 3s, since 12:00:01: rank 1 never entered ..."
  std::string sentence;
  std::string call;                       ///< that ranks wait in; empty: none
  std::vector<int64_t> waiting, missing;  ///< sorted; ranks in both wait for each other
  /// on the job's axis: when any rank last finished something; kWaiting: when the call was entered
  int64_t since_ns = 0;
};

class StallWatch {
 public:
  explicit StallWatch(int64_t limit_ns) : limit_ns_(limit_ns) {}

  /// Nothing while all is well, for a job of one rank, for an ended one, and for what was reported before. `job.now_ns`
  /// and `wall_clock_s` are the time.
  std::optional<StallNews> look(const Job& job);

 private:
  int64_t limit_ns_;
  uint32_t generation_ = 0;                  ///< Job's
  std::optional<int64_t> stalled_since_ns_;  ///< of the reported stall, while it lasts
  std::map<int32_t, uint64_t> stalled_at_;   ///< Rank::finished_ticks then, by rank
  std::string told_waiting_;                 ///< call and ranks of the last reported waiting
};

/// "MPI_Recv on MPI_COMM_WORLD" or "MPI_Allreduce number 7 on MPI_COMM_WORLD"; empty: the rank sits in no recorded
/// call.
std::string call_phrase(const Job& job, const Rank& rank);

/// Drops the material of steps: the watch needs only the ranks' places.
void forget_events(Job& job);

}  // namespace ddl::tui
