// Does the job still get on? The watch of `ddl record --stall` asks this of a running job every now and then, and is answered once when it does not,
// and once when it does again.
//
// A stall is that no rank has finished a call, a step or a range for the limit: what any rank finishes is progress of the job, so that a long
// evaluation on one rank is none. There the others wait for longer than the limit all the same, which is told once, as what it is: rank X still makes progress.
// Calls by which background threads only coordinate are not progress (docs/decisions/0027). Pure: no clock, no file, no process is looked at.
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
  std::string sentence;  ///< "no rank has finished a call or a step for 5m 3s, since 12:00:01: rank 1 never entered ..."
  std::string call;      ///< that ranks wait in; empty: no collective
  std::vector<int64_t> waiting, missing;
  int64_t since_ns = 0;  ///< on the job's axis: the last thing that any rank finished; kWaiting: when the call was entered
};

class StallWatch {
 public:
  explicit StallWatch(int64_t limit_ns) : limit_ns_(limit_ns) {}

  /// Nothing while all is well, of a job of one rank, of one that has ended, and of what was told before. `job.now_ns` and `wall_clock_s` say when.
  std::optional<StallNews> look(const Job& job);

 private:
  int64_t limit_ns_;
  std::optional<int64_t> stalled_since_ns_;  ///< of the stall that was told and has not ended
  std::map<int32_t, uint64_t> stalled_at_;   ///< Rank::finished_ticks then, by rank
  std::string told_waiting_;                 ///< call and ranks of the waiting that was told last
};

/// "MPI_Recv on MPI_COMM_WORLD" or "MPI_Allreduce number 7 on MPI_COMM_WORLD"; empty: the rank sits in no recorded call.
std::string call_phrase(const Job& job, const Rank& rank);

/// Drops what steps would be made of: the watch needs only where ranks are.
void forget_events(Job& job);

}  // namespace ddl::tui
