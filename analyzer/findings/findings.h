// The words that findings share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/findings/finding.h"

namespace ddl {

/// Steps of the world whose events were kept.
double recorded_steps(const FindingInput& input);

/// "24.1 ms": three digits and the unit that suits.
std::string duration_text(double ns);
std::string duration_text(int64_t ns);
/// "2.5 MB", decimal.
std::string bytes_text(double bytes);
/// "97 %", one digit after the point below 10 %.
std::string percent_text(double ratio);
/// "rank 1", "ranks 0, 2 and 3", "ranks 0, 1, 2 and 13 more".
std::string ranks_text(const std::vector<int64_t>& ranks);
/// "rank 1 (host)", the host only if it is known.
std::string rank_on_host(const Catalog& catalog, int64_t world, int64_t rank);

}  // namespace ddl
