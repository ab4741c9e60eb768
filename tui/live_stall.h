// A hanging job: who sits in which call, and who is missing there.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "analyzer/findings/stall_case.h"
#include "tui/snapshot.h"

namespace ddl::tui {

/// A limit for something normal: `least_ns`, or `times` its duration so far if that is more.
struct Patience {
  double least_ns = 0;
  double times = kHangTimes;
  double ns(double mean_ns) const { return std::max(least_ns, times * mean_ns); }
};

/// Nothing while the job runs. `window`: durations of calls so far.
std::optional<Stall> find_live_stall(const Job& job, const std::vector<CollectiveUse>& window,
                                     const Patience& patience);

/// A sentence about it: "rank 1 never entered MPI_Allreduce number 57 on MPI_COMM_WORLD: ranks 0, 2 sit in it for 31
/// s". `now_s`: Unix time; 0: unknown.
std::string stall_sentence(const Stall& stall, int64_t now_s);

/// How long no data has moved, if background threads go on coordinating; nothing if that is normal, or unknown.
struct NoData {
  double silent_ns = 0;
  bool at_least = false;  ///< since this program started
};
std::optional<NoData> find_no_data(const Job& job, const Patience& patience);

/// A training thread's last second, in jobs whose MPI calls come from a background thread
/// (specification.md J2), as ratios.
struct LastSecond {
  double busy = 0;  ///< on a CPU, or ready for one
  double spun = 0;  ///< of that, polling for another thread: the rest is computing
};
/// Nothing without recent samples of the thread.
std::optional<LastSecond> last_second(const Rank& rank, int64_t now_ns);

}  // namespace ddl::tui
