// A straggler that is told without knowing who waited for whom: in nearly every step one rank computes longer than all
// others, and is inside MPI for as much less. Both are durations on one clock each, so that it holds where the clocks
// of hosts cannot be compared and the waiting in non-blocking collectives and messages is not known; and where
// something else, a slow network say, makes other ranks enter last more often.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/findings/finding.h"

namespace ddl {

struct LongerComputing {
  std::vector<int64_t> ranks;         ///< one, all of a host, or a few
  std::optional<int64_t> since_step;  ///< nothing: always
  size_t steps = 0;                   ///< that count
  size_t late_steps = 0;              ///< of those, it computed longest
  double compute_ns = 0;              ///< median over the steps
  double others_compute_ns = 0;       ///< median of the others' medians
  double less_in_mpi_ns = 0;          ///< than the others
  double saving_ns = 0;               ///< its lead over the next one
  bool is_stage = false;              ///< of a pipeline of two
};

enum class Suspects {
  kRanks,
  kHosts,
  kStages,    ///< of pipelines of two stages: half of the ranks, but one stage has more to do than the other
  kTogether,  ///< the few that compute longest, if they stand apart
};

/// The rank of which that is so in most steps of all, or of all since some step; or the host or stage with several
/// ranks, or the few ranks, of which it is so of all of them, against all others. Nothing if there is none.
std::optional<LongerComputing> find_longer_computing(const FindingInput& input, Suspects suspects);

/// The rank that computes longest in a run without steps, if it does so in most parts of it, and not at the begin or
/// the end alone. Parts are cut by each rank's own calls: where nobody waits for anybody until the end (an asynchronous
/// parameter server, locked windows), the others are ahead. Times are of the whole run, `steps` are its parts.
std::optional<LongerComputing> find_longer_in_run(const FindingInput& input);

}  // namespace ddl
