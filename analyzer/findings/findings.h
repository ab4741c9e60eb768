// The words that findings share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/findings/finding.h"

namespace ddl {

/// What shares are over (specification.md J8): the mean steady step; of runs without steps the run.
double mean_step_ns(const FindingInput& input);
/// Ranks that there were, with those that left no record.
size_t world_size(const FindingInput& input);
/// Steps of the world whose events were kept.
double recorded_steps(const FindingInput& input);

/// "24.1 ms": three digits and the unit that suits.
std::string duration_text(double ns);
std::string duration_text(int64_t ns);
/// "2.5 MB", decimal.
std::string bytes_text(double bytes);
std::string rate_text(double bytes_per_second);  ///< "58.2 GB/s", decimal
/// "97 %", one digit after the point below 10 %.
std::string percent_text(double ratio);
/// "rank 1", "ranks 0, 2 and 3", "ranks 0, 1, 2 and 13 more".
std::string ranks_text(const std::vector<int64_t>& ranks);
/// "rank 3, which left no record", "one of ranks 3, 9 and 11, which left no record": those of `ranks` that left none
/// (specification.md J7); empty: all left one.
std::string missing_text(const FindingInput& input, const std::vector<int64_t>& ranks);
/// The same of the world.
std::string missing_text(const FindingInput& input);

/// The finding's saving, of mending ranks for which the others wait, becomes an upper bound where other ranks left no
/// record: one of these may come as late (specification.md J7). Where `ranks` themselves are in calls for long and not
/// known to wait, the evidence says that. `since` counts.
void bound_by_missing(const FindingInput& input, Finding& finding, const std::vector<int64_t>& ranks);
/// "rank 1 (host)", the host only if it is known.
std::string rank_on_host(const Catalog& catalog, int64_t world, int64_t rank);

}  // namespace ddl
