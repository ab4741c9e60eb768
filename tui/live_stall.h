// A job that hangs: who sits in which call, and who is missing there.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "analyzer/findings/stall_case.h"
#include "tui/snapshot.h"

namespace ddl::tui {

/// How long something may take and the job still be well: `least_ns`, or `times` what it took until now if that is more.
struct Patience {
  double least_ns = 0;
  double times = kHangTimes;
  double ns(double mean_ns) const { return std::max(least_ns, times * mean_ns); }
};

/// Nothing while the job runs. `window`: what calls took until now.
std::optional<Stall> find_live_stall(const Job& job, const std::vector<CollectiveUse>& window, const Patience& patience);

/// What to say of it: "rank 1 never entered MPI_Allreduce number 57 on MPI_COMM_WORLD: ranks 0, 2 sit in it for 31 s".
/// `now_s`: Unix time, 0: not known.
std::string stall_sentence(const Stall& stall, int64_t now_s);

/// For how long no data has moved, of a job whose background threads go on coordinating; nothing if it is not unusually long, or not known.
struct NoData {
  double silent_ns = 0;
  bool at_least = false;  ///< since this program looks
};
std::optional<NoData> find_no_data(const Job& job, const Patience& patience);

/// What a training thread did in its last second, of jobs whose MPI calls come from a background thread (specification.md J2). Ratios of that second.
struct LastSecond {
  double busy = 0;  ///< on a CPU, or ready for one
  double spun = 0;  ///< of that, polling for another thread: what is left is computing
};
/// Nothing if no samples of the thread came lately.
std::optional<LastSecond> last_second(const Rank& rank, int64_t now_ns);

}  // namespace ddl::tui
