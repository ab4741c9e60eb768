// Rule V (specification.md V): what bounds the job - waiting, transfer, the host, pipeline bubbles, or computing.
// Loading data is a bound of its own wherever ranges tell it, though rule V has it with the host: its cure is another
// one. Where there are GPUs, copies too: copies while nothing computes are neither collective nor idle. In runs without
// steps, the host's time until the first launch is apart from its later lateness.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddl {

constexpr double kBoundThreshold = 0.05;  ///< share of the step from which on something counts as the bound

/// One candidate: its share of the step, with the 95 % interval where there is one.
struct Share {
  std::string name;  ///< wait, transfer, host, start, input, copy, bubble; kNotSplit, which is not a candidate
  double value = 0;
  std::optional<double> lo = {}, hi = {};
  double unsplit = 0;  ///< transfer: the part of `value` that may be waiting as well
  /// the calls concerned
  std::string unsplit_what = "calls that only test (MPI_Test, MPI_Iprobe), whose waiting is not told apart";
  std::string bound = {};  ///< "at least", "at most": `value` is a bound (specification.md J7)
  std::string shown = {};  ///< on screens, where `value` is not what WHERE IT GOES shows under the name
  double polled = 0;       ///< wait: as much more may be in what counts as computing, in loops around MPI_Test
  double blocked = 0;      ///< the same, for collectives of the process's other threads (thread_waits.h)
};
/// Communication that cannot be split into waiting and transfer: any candidate might be larger by as much.
constexpr const char* kNotSplit = "not split";

struct Verdict {
  std::string name;  ///< that of the bound; compute; undecided; withheld; empty: no share is known
  std::string text;  ///< one line with the numbers and the threshold
};

/// `shares`: those that are known, of `whole` ("step", "run"). The largest above the threshold wins, unless another one
/// above it cannot be told from it, or what is not split decides.
Verdict decide(std::vector<Share> shares, const char* whole = "step");

/// Decides from the facts (facts.h), so from the numbers of WHERE IT GOES, and stores it in `meta`: verdict and
/// verdict.text; verdict.N for world N > 0. `doubt`: why the numbers are not to be trusted; then it is withheld. Ranks
/// that had no CPU for more than 5 % of the time (cpu_waits.h) are told of behind the shares, which contain that time.
void store_verdict(SQLite::Database& db, int64_t world, const std::string& doubt);

}  // namespace ddl
